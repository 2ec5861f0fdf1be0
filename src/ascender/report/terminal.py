"""A report's table on a terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from ascender.report.strings import in_language
from ascender.report.table import Cell, Table

BASELINE = "baseline"  # the code of a row's first cell: what the other rows are measured by


def rich_table(
    table: Table, lang: str = "en", title: str = "", leave_out: Collection[str] = (),
    width: int | None = None, styles: Mapping[str, str] | None = None,
) -> RichTable:  # fmt: skip
    """Numbers on the right, words on the left; a table wider than `width` has its rows as columns.
    `styles` are by a cell's code or text."""
    kept = [i for i, c in enumerate(table.columns) if c.name not in leave_out]
    headings = [Text(table.headings(lang)[i]) for i in kept]
    rows = [[_text(row[i], lang, styles or {}) for i in kept] for row in table.rows]
    left = [table.columns[i].words for i in kept]
    turned = width is not None and _least_width(headings, rows) > width
    if turned:
        headings, *rows = (list(line) for line in zip(headings, *rows, strict=True))
        left = [i == 0 for i in range(len(headings))]
    result = RichTable(
        title=Text(title or in_language(table.title, lang)), box=box.SIMPLE_HEAD,
        header_style="bold", title_justify="left", title_style="bold",
    )  # fmt: skip
    for heading, words in zip(headings, left, strict=True):
        result.add_column(heading, justify="left" if words else "right")
    for i, row in enumerate(rows):
        dim = not turned and table.rows[i][0].code == BASELINE
        result.add_row(*row, style="dim" if dim else None)
    return result


def _text(cell: Cell, lang: str, styles: Mapping[str, str]) -> Text:
    text = in_language(cell.pair, lang)
    return Text(text, style=styles.get(cell.code) or styles.get(text, ""))


def _least_width(headings: Sequence[Text], rows: Sequence[Sequence[Text]]) -> int:
    """With a word a line in the headings; below it words are cut."""
    return 1 + sum(
        3 + max(*(len(w) for w in str(heading).split() or [""]), *(len(row[i]) for row in rows))
        for i, heading in enumerate(headings)
    )
