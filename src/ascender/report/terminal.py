"""A report's table on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from ascender.report.strings import in_language
from ascender.report.table import Table

BASELINE = "baseline"  # the code of a row's first cell: what the other rows are measured by


def rich_table(
    table: Table, lang: str = "en", title: str = "", leave_out: Collection[str] = (),
    width: int | None = None, styles: Mapping[str, str] | None = None,
) -> RichTable:  # fmt: skip
    """Numbers on the right, words on the left; a table wider than `width` has its rows as columns.
    `styles` are by a cell's text."""
    kept = [i for i, c in enumerate(table.columns) if c.name not in leave_out]
    headings = [table.headings(lang)[i] for i in kept]
    rows = [[row[i] for i in kept] for row in table.texts(lang)]
    left = [table.columns[i].words for i in kept]
    if width is not None and _least_width(headings, rows) > width:
        headings, *rows = (list(line) for line in zip(headings, *rows, strict=True))
        left = [i == 0 for i in range(len(headings))]
    made = RichTable(
        title=Text(title or in_language(table.title, lang)), box=box.SIMPLE_HEAD,
        header_style="bold", title_justify="left", title_style="bold",
    )  # fmt: skip
    for heading, words in zip(headings, left, strict=True):
        made.add_column(Text(heading), justify="left" if words else "right")
    dim = [row[0].code == BASELINE for row in table.rows]
    for i, row in enumerate(rows):
        cells = [Text(text, style=(styles or {}).get(text, "")) for text in row]
        made.add_row(*cells, style="dim" if len(dim) == len(rows) and dim[i] else None)
    return made


def _least_width(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """With a word a line in the headings; below it words are cut."""
    return 1 + sum(
        3 + max(*(len(word) for word in heading.split() or [""]), *(len(row[i]) for row in rows))
        for i, heading in enumerate(headings)
    )
