"""A document as Markdown that GitHub shows and pandoc reads: numbers of sections, tables and
figures are written out, citations stay [@key]."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ascender.lab.paper.document import (
    AppendixStart,
    Block,
    Bullets,
    Document,
    FigureBlock,
    Formula,
    Heading,
    PageBreak,
    Paragraph,
    Quote,
    Span,
    Style,
    TableBlock,
    Text,
)
from ascender.lab.paper.strings import PAPER
from ascender.report.strings import in_language
from ascender.report.table import Cell, markdown_text

STARTS = re.compile(r"^(?=[#>+-]|\d+[.)])")  # of a line: would be a heading, a list or a quote
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
WIDE = 30  # characters from which a column gets its share of the page in a DOCX

Numbers = Mapping[str, str]  # by label


def markdown(document: Document, lang: str) -> str:
    """The whole file."""
    numbers = numbered(document)
    lines = [f"# {_inline(document.title, lang, numbers)}", ""]
    if document.authors:
        lines += [", ".join(map(_plain, document.authors)), ""]
    lines += [f"**{PAPER.text('latex.abstractname', lang)}**", ""]
    lines += _lines(document.abstract, lang, numbers, [0, 0, 0])
    lines += _lines(document.blocks, lang, numbers, [0, 0, 0])
    lines += [f"## {PAPER.text('latex.refname', lang)}", "", "::: {#refs}", ":::", ""]
    return "\n".join(lines)


def numbered(document: Document) -> dict[str, str]:
    """Label → number, as LaTeX would count."""
    numbers: dict[str, str] = {}
    at, tables, formulas, appendix = [0, 0, 0], 0, 0, False
    for block in document.every:
        if isinstance(block, AppendixStart):
            at, appendix = [0, 0, 0], True
        elif isinstance(block, Heading):
            numbers[block.label] = _section(at, block.level, appendix)
        elif isinstance(block, TableBlock):
            tables += 1
            numbers[block.name] = str(tables)
        elif isinstance(block, FigureBlock):
            numbers[block.label] = block.number
        elif isinstance(block, Formula):
            formulas += 1
            numbers[block.label] = str(formulas)
    return numbers


def _section(at: list[int], level: int, appendix: bool) -> str:
    """The next number: 2.1, or in an appendix B.1."""
    at[level - 1] += 1
    at[level:] = [0] * (len(at) - level)
    first = LETTERS[at[0] - 1] if appendix and at[0] else str(at[0])
    return ".".join([first, *map(str, at[1:level])])


def _lines(blocks: tuple[Block, ...], lang: str, numbers: Numbers, at: list[int]) -> Iterator[str]:
    appendix = False
    for block in blocks:
        if isinstance(block, AppendixStart):
            at[:], appendix = [0, 0, 0], True
        elif isinstance(block, Heading):
            number = _section(at, block.level, appendix)
            yield f"{'#' * (block.level + 1)} {number} {_inline(block.text, lang, numbers)}"
            yield ""
        elif not isinstance(block, PageBreak):
            yield from WRITERS[type(block)](block, lang, numbers)
            yield ""


def _paragraph(block: Paragraph, lang: str, numbers: Numbers) -> Iterator[str]:
    yield STARTS.sub(r"\\", _inline(block.text, lang, numbers))


def _formula(block: Formula, lang: str, numbers: Numbers) -> Iterator[str]:
    yield from ("$$", block.latex, "$$")


def _bullets(block: Bullets, lang: str, numbers: Numbers) -> Iterator[str]:
    for i, item in enumerate(block.items, 1):
        yield f"{f'{i}.' if block.numbered else '-'} {_inline(item, lang, numbers)}"


def _quote(block: Quote, lang: str, numbers: Numbers) -> Iterator[str]:
    yield f"> {_inline(block.text, lang, numbers)}"


def _table(block: TableBlock, lang: str, numbers: Numbers) -> Iterator[str]:
    title = f"**{PAPER.text('latex.tablename', lang)} {numbers[block.name]}. "
    title += f"{_inline(block.heading, lang, numbers).rstrip('.')}.**"
    notes = [_plain(in_language(note, lang)) for note in block.table.notes]
    author = [_inline(block.author, lang, numbers)] if block.author else []
    yield " ".join(filter(None, [title, *notes, *author]))
    yield ""
    yield from _grid(block, lang, numbers)


def _grid(block: TableBlock, lang: str, numbers: Numbers) -> Iterator[str]:
    """A pipe table; the dashes give pandoc the shares of the columns."""
    table = block.table
    lines = [table.headings(lang), *table.texts(lang)]
    shares = [max(3, *(min(WIDE, len(line[i])) for line in lines)) for i in range(len(lines[0]))]
    yield f"| {' | '.join(map(_plain, lines[0]))} |"
    rules = ["-" * n if c.words else "-" * n + ":"
             for n, c in zip(shares, table.columns, strict=True)]  # fmt: skip
    yield f"| {' | '.join(rules)} |"
    for row in table.rows:
        cells = (block.cell(row, c) for c in range(len(row)))
        yield f"| {' | '.join(_cell(cell, lang, numbers) for cell in cells)} |"


def _cell(cell: Cell | Text, lang: str, numbers: Numbers) -> str:
    if isinstance(cell, Text):
        return re.sub(r"(?<!\\)\|", r"\\|", _inline(cell, lang, numbers))
    return _plain(in_language(cell.pair, lang))


def _figure(block: FigureBlock, lang: str, numbers: Numbers) -> Iterator[str]:
    name = f"{PAPER.text('latex.figurename', lang)} {block.number}"
    said = [_inline(t, lang, numbers) for t in (block.caption, block.author) if t is not None]
    yield f"![{name}]({block.picture(lang, '.png')})\\"
    yield f"**{name}.** {' '.join(said)}"


WRITERS: Mapping[type, Callable[[Any, str, Numbers], Iterator[str]]] = {
    Paragraph: _paragraph, Formula: _formula, Bullets: _bullets, Quote: _quote,
    TableBlock: _table, FigureBlock: _figure,
}  # fmt: skip


# --- text


def _inline(text: Text, lang: str, numbers: Numbers) -> str:
    return "".join(STYLES[span.style](span, numbers) for span in text.spans(lang))


def _plain(text: str) -> str:
    """With every sign escaped that GitHub or pandoc would read: also $, ~, ^ and @.

    >>> print(_plain("a_b: $5 ~ 2^3 <b>"))
    a\\_b: \\$5 \\~ 2\\^3 &lt;b&gt;
    """
    return re.sub(r"([$~^@])", r"\\\1", markdown_text(text))


def _code(span: Span, numbers: Numbers) -> str:
    ticks = "``" if "`" in span.text else "`"
    return f"{ticks}{span.text}{ticks}"


STYLES: Mapping[Style, Callable[[Span, Numbers], str]] = {
    "words": lambda span, numbers: _plain(span.text),
    "math": lambda span, numbers: f"${span.text}$",
    "code": _code,
    "strong": lambda span, numbers: f"**{_plain(span.text)}**",
    "cite": lambda span, numbers: f"[{span.text}]",
    "ref": lambda span, numbers: numbers[span.text],
    "verdict": lambda span, numbers: f"**\\[{_plain(span.text)}\\]**",
}
