"""Reports of the lab: one folder that needs nothing else.

OUT/index.html                          the page, no network
OUT/tables/NAME.md .csv .tex            Korean: NAME.ko.md, NAME.ko.tex
OUT/figures/NAME.svg .png .pdf
OUT/methods.md                          the statistical checklist, filled in
OUT/trials.jsonl.gz suite.json          the records: `ascender lab report OUT` makes it again
"""

from ascender.lab.reports.bundle_report import bundle_report, documents_in, fill
from ascender.lab.reports.source import read
from ascender.lab.reports.suite_report import report
from ascender.lab.reports.suite_results import SuiteResults

__all__ = ["SuiteResults", "bundle_report", "documents_in", "fill", "read", "report"]
