"""The strings of lab and insight reports, in English and Korean."""

from __future__ import annotations

from ascender.lab.reports.figure_strings import FIGURE_STRINGS
from ascender.lab.reports.table_strings import TABLE_STRINGS
from ascender.lab.reports.text_strings import TEXT_STRINGS
from ascender.report.strings import Strings

STRINGS = Strings(TABLE_STRINGS | FIGURE_STRINGS | TEXT_STRINGS)
