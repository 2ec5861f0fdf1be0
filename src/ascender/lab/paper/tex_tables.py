r"""Tables of a document as LaTeX, in their place, with the title and the notes as caption: short
ones unbroken, long ones as longtable (tex_layout.py says how they fit the page)."""

from __future__ import annotations

from collections.abc import Iterator

from ascender.lab.paper.document import TableBlock, Text
from ascender.lab.paper.strings import PAPER
from ascender.lab.paper.tex_layout import GAP, Layout, layouts, lines
from ascender.lab.paper.tex_text import inline, plain
from ascender.report.strings import in_language
from ascender.report.table import Cell

TOGETHER = 34  # lines up to which a table stays on one page
TURN, TURNED_BACK = r"\begin{landscape}\LTcapwidth=\linewidth", r"\end{landscape}"
MANY = 1.4  # lines a row
SIZE = {8: r"\footnotesize", 7: r"\scriptsize"}


def table_lines(block: TableBlock, lang: str) -> list[str]:
    """A table, or its parts."""
    parts = layouts(block.table, lang)
    said: list[str] = []
    for i, part in enumerate(parts):
        short = lines(block.table, part, lang) <= TOGETHER
        own = (_tabular if short else _longtable)(block, part, lang, i, len(parts))
        said += [TURN, *own, TURNED_BACK] if part.turned else own
    return said


def _form(block: TableBlock, part: Layout) -> str:
    """The columns: words to the left, numbers to the right."""
    given = zip(part.columns, part.widths, strict=True)
    return "".join(
        rf"{'L' if block.table.columns[c].words else 'R'}{{{width}pt}}" for c, width in given
    )


def _heading(block: TableBlock, part: Layout, lang: str) -> str:
    columns = [block.table.columns[c] for c in part.columns]
    return " & ".join(plain(in_language(c.heading, lang)) for c in columns) + r" \\"


def _tabular(block: TableBlock, part: Layout, lang: str, i: int, n: int) -> list[str]:
    """A short table: in its place and unbroken."""
    return [
        rf"\medskip\noindent\begin{{minipage}}{{\linewidth}}\centering{SIZE[part.size]}",
        rf"\setlength{{\tabcolsep}}{{{GAP / 2}pt}}",
        _caption(block, lang, i, n, r"\captionof{table}", r"\captionof*{table}"),
        rf"\begin{{tabular}}{{@{{}}{_form(block, part)}@{{}}}}",
        r"\toprule", _heading(block, part, lang), r"\midrule", *_rows(block, part, lang),
        r"\bottomrule", r"\end{tabular}", r"\end{minipage}\par\medskip", "",
    ]  # fmt: skip


def _longtable(block: TableBlock, part: Layout, lang: str, i: int, n: int) -> list[str]:
    heading = _heading(block, part, lang) + "*"
    continued = plain(PAPER.text("continued", lang))
    reset = r"\addtocounter{table}{-1}" if i else ""  # longtable counts every one
    return [
        "{" + SIZE[part.size],
        rf"\setlength{{\tabcolsep}}{{{GAP / 2}pt}}",
        rf"\begin{{longtable}}{{@{{}}{_form(block, part)}@{{}}}}",
        _caption(block, lang, i, n, r"\caption", r"\caption*") + rf"{reset} \\*",
        r"\toprule", heading, r"\midrule", r"\endfirsthead",
        rf"\multicolumn{{{len(part.columns)}}}{{@{{}}l}}{{\emph{{{continued}}}}} \\*",
        r"\toprule", heading, r"\midrule", r"\endhead", r"\bottomrule", r"\endfoot",
        *_rows(block, part, lang),
        r"\end{longtable}", "}", "",
    ]  # fmt: skip


def _caption(block: TableBlock, lang: str, i: int, n: int, first: str, later: str) -> str:
    """Title and notes; the parts of a table are one table with one number."""
    if i:
        said = PAPER.text("table_part", lang, label=rf"\ref{{{block.name}}}", i=i + 1, n=n)
        return rf"{later}{{{said}}}"
    title = rf"\textbf{{{inline(block.heading, lang).rstrip('.')}.}}"
    if n > 1:
        title += " " + PAPER.text("first_part", lang, n=n)
    notes = [plain(in_language(note, lang), breaks=False) for note in block.table.notes]
    author = [inline(block.author, lang)] if block.author else []
    said = " ".join(filter(None, [title, *notes, *author]))
    return rf"{first}{{{said}}}\label{{{block.name}}}"


def _rows(block: TableBlock, part: Layout, lang: str) -> Iterator[str]:
    """A small space where the first column changes, and between all rows where many have several
    lines; the first and the last rows of a long table are not left alone on a page."""
    table, first = block.table, part.columns[0]
    grouped = len({row[first].text for row in table.rows}) < len(table.rows)
    last, spaced = len(table.rows) - 1, lines(table, part, lang) > MANY * len(table.rows)
    for n, row in enumerate(table.rows):
        if n and (spaced or (grouped and row[first].text != table.rows[n - 1][first].text)):
            yield r"\addlinespace[2pt]"
        end = r" \\*" if n < 2 or n >= last - 2 else r" \\"
        yield " & ".join(_cell(block.cell(row, c), lang) for c in part.columns) + end


def _cell(cell: Cell | Text, lang: str) -> str:
    """The text of a cell; of one with numbers the parts in brackets stay together."""
    if isinstance(cell, Text):
        return inline(cell, lang)
    text = in_language(cell.pair, lang)
    if not cell.data:
        return plain(text)
    pieces = text.split(" ")
    return "".join(
        plain(piece, breaks=False) + ("" if i == len(pieces) - 1 else _space(pieces, i))
        for i, piece in enumerate(pieces)
    )


def _space(pieces: list[str], i: int) -> str:
    """A space that may be broken only in front of a bracket or of ±, and in words."""
    after = pieces[i + 1]
    return " " if after[:1] in "[(±" or not any(ch.isdigit() for ch in after) else "~"
