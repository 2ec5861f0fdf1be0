r"""A document as data: blocks in order, each with its text in English and Korean.

Text is made of a pair of sentences with a little markup, and of fields:

    $…$  mathematics (LaTeX)      `…`  code      **…**  strong
    [@key]  or  [@key; @key]  a citation      [#label]  the number of a table, figure or section
    {name}  a field: a number or a name as a table's Cell (report.table), or text

A number is always a Cell: its text, the keys of its trials and its values in full. What a sentence
says in digits of its own must be a constant of the method (facts.py), so that the build can refuse
a number that is not in the rows. latex.py and markdown.py write documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Literal, NamedTuple

from ascender.report.strings import LANGUAGES, Pair, same
from ascender.report.table import Cell, Table

Style = Literal["words", "math", "code", "strong", "cite", "ref", "verdict"]
MARKUP = re.compile(
    r"\$(?P<math>[^$]+)\$|`(?P<code>[^`]+)`|\*\*(?P<strong>.+?)\*\*"
    r"|\[(?P<cite>@[^\]]+)\]|\[#(?P<ref>[^\]]+)\]"
)
HOLE = "\ue000"  # a character that no sentence has: where a field stands while markup is read


class Span(NamedTuple):
    """Characters in one style; `cell`: the number or name that they print."""

    text: str
    style: Style = "words"
    cell: Cell | None = None


Spans = tuple[Span, ...]


class Text(NamedTuple):
    """A sentence in both languages."""

    en: Spans
    ko: Spans

    def spans(self, lang: str) -> Spans:
        return self[LANGUAGES.index(lang)]

    def plain(self, lang: str) -> str:
        """Without markup."""
        return "".join(span.text for span in self.spans(lang))


Field = Cell | Text | Pair | str


def text(pair: Pair | str, /, **fields: Field) -> Text:
    """A sentence from a template in both languages, or in one that serves for both.

    >>> text("The margin is {m} ($m$), see [@holm1979].", m=Cell("0.01", data={"margin": 0.01})).en
    (Span(text='The margin is ', style='words', cell=None), Span(text='0.01', style='words', \
cell=Cell(text='0.01', keys=(), data={'margin': 0.01}, ko='', code='')), Span(text=' (', \
style='words', cell=None), Span(text='m', style='math', cell=None), Span(text='), see ', \
style='words', cell=None), Span(text='@holm1979', style='cite', cell=None), Span(text='.', \
style='words', cell=None))
    """
    en, ko = same(pair) if isinstance(pair, str) else pair
    return Text(tuple(_spans(en, fields, 0)), tuple(_spans(ko, fields, 1)))


def marked_up(pair: Pair) -> Text:
    """Text with markup and without fields: braces stand for themselves."""
    en, ko = (side.replace("{", "{{").replace("}", "}}") for side in pair)
    return text((en, ko))


def joined_text(*texts: Text, joint: str = " ") -> Text:
    """Texts one after the other."""
    sides: list[list[Span]] = [[], []]
    for i, one in enumerate(texts):
        for side, spans in zip(sides, one, strict=True):
            side += ([Span(joint)] if i and joint else []) + list(spans)
    return Text(tuple(sides[0]), tuple(sides[1]))


def words(pair: Pair | str) -> Text:
    """Text as it is: no markup, no fields."""
    en, ko = same(pair) if isinstance(pair, str) else pair
    return Text((Span(en),), (Span(ko),))


def verdict_text(pair: Pair) -> Text:
    """A verdict beside an author's sentence; LaTeX has a macro for it, which may be redefined."""
    return Text((Span(pair[0], "verdict"),), (Span(pair[1], "verdict"),))


def cell_text(cell: Cell) -> Text:
    """A number or a name alone."""
    en, ko = cell.pair
    return Text((Span(en, cell=cell),), (Span(ko, cell=cell),))


def _spans(template: str, fields: dict[str, Field], side: int) -> Iterator[Span]:
    """Literal text with a hole for each field, its markup, then the fields into the holes."""
    literal, names = "", []
    for before, name, _, _ in Formatter().parse(template):
        literal += before
        if name is not None:
            names.append(name)
            literal += HOLE
    rest = iter(names)
    at = 0
    for match in MARKUP.finditer(literal):
        yield from _filled(literal[at : match.start()], "words", rest, fields, side)
        style = str(match.lastgroup)
        yield from _filled(match[style], style, rest, fields, side)  # type: ignore[arg-type]
        at = match.end()
    yield from _filled(literal[at:], "words", rest, fields, side)


def _filled(
    literal: str, style: Style, names: Iterator[str], fields: dict[str, Field], side: int
) -> Iterator[Span]:
    for i, piece in enumerate(literal.split(HOLE)):
        if i:
            yield from _field(fields[next(names)], style, side)
        if piece:
            yield Span(piece, style)


def _field(value: Field, style: Style, side: int) -> Iterator[Span]:
    if isinstance(value, Cell):
        yield Span(value.pair[side], style, value)
    elif isinstance(value, Text):
        yield from value[side]
    else:
        yield Span(value if isinstance(value, str) else value[side], style)


# --- blocks


@dataclass(frozen=True)
class Heading:
    """Level 1 is a section; `label` is what [#label] refers to."""

    level: int
    text: Text
    label: str = ""


@dataclass(frozen=True)
class Paragraph:
    """`author`: the author's own words, whose numbers are listed and not refused."""

    text: Text
    author: bool = False


@dataclass(frozen=True)
class Formula:
    """A displayed formula, LaTeX; `label` is what [#label] refers to."""

    latex: str
    label: str = ""


@dataclass(frozen=True)
class Bullets:
    """A list, with numbers where `numbered`; `author`: of the author's own words."""

    items: tuple[Text, ...]
    numbered: bool = False
    author: bool = False


@dataclass(frozen=True)
class Quote:
    """A paragraph set apart."""

    text: Text
    author: bool = False


@dataclass(frozen=True)
class TableBlock:
    """A table. `caption`: by default the title of the table; its notes stand below it.

    label     unique in the document; by default tab:NAME
    authored  columns with the author's own words
    marked    columns whose cells have markup
    author    the author's own caption, below ours
    """

    table: Table
    label: str = ""
    caption: Text | None = None
    authored: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    author: Text | None = None

    def cell(self, row: Sequence[Cell], c: int) -> Cell | Text:
        """A cell, as text where it has markup."""
        return marked_up(row[c].pair) if self.table.columns[c].name in self.marked else row[c]

    @property
    def name(self) -> str:
        return self.label or f"tab:{self.table.name}"

    @property
    def heading(self) -> Text:
        return self.caption or words(self.table.title)


@dataclass(frozen=True)
class FigureBlock:
    """A figure: `path` without its suffix, relative to the document's folder; in Korean the same
    with .ko where `translated`. `number` as the captions say it, such as 2 or 2b; `author`: the
    author's own caption, below ours."""

    path: Path
    caption: Text
    label: str
    number: str
    author: Text | None = None
    translated: bool = True

    def picture(self, lang: str, suffix: str) -> str:
        """The path of its file in one language."""
        name = f"{self.path.name}{'.ko' if self.translated and lang == 'ko' else ''}{suffix}"
        return self.path.with_name(name).as_posix()


@dataclass(frozen=True)
class AppendixStart:
    """What follows is appendices: level 1 is A, B, …"""


@dataclass(frozen=True)
class PageBreak:
    pass


Block = (
    Heading | Paragraph | Formula | Bullets | Quote | TableBlock | FigureBlock | AppendixStart
    | PageBreak
)  # fmt: skip


@dataclass(frozen=True)
class Document:
    """A title, its authors, an abstract and the body."""

    title: Text
    authors: tuple[str, ...]
    abstract: tuple[Block, ...]
    blocks: tuple[Block, ...]

    @property
    def every(self) -> tuple[Block, ...]:
        return (*self.abstract, *self.blocks)

    def tables(self) -> list[TableBlock]:
        return [block for block in self.every if isinstance(block, TableBlock)]

    def figures(self) -> list[FigureBlock]:
        return [block for block in self.every if isinstance(block, FigureBlock)]


def labels_of(blocks: Iterable[Block]) -> list[str]:
    """Every label, in order."""
    found = []
    for block in blocks:
        if isinstance(block, TableBlock):
            found.append(block.name)
        elif isinstance(block, Heading | FigureBlock | Formula) and block.label:
            found.append(block.label)
    return found


def texts_of(block: Block) -> list[Text]:
    """The sentences of a block; of a table its caption and notes."""
    if isinstance(block, Heading | Paragraph | Quote):
        return [block.text]
    if isinstance(block, Bullets):
        return list(block.items)
    if isinstance(block, TableBlock):
        return [block.heading, *map(words, block.table.notes)]
    if isinstance(block, FigureBlock):
        return [block.caption]
    return []


def captions_of_author(block: Block) -> list[Text]:
    """The author's own captions."""
    own = block.author if isinstance(block, TableBlock | FigureBlock) else None
    return [] if own is None else [own]


def _spans_of(blocks: Iterable[Block], style: Style) -> Iterator[Span]:
    for block in blocks:
        for one in (*texts_of(block), *captions_of_author(block)):
            yield from (span for span in one.en + one.ko if span.style == style)


def referred(blocks: Iterable[Block]) -> list[str]:
    """The labels that sentences refer to, each once, in order."""
    return list(dict.fromkeys(span.text for span in _spans_of(blocks, "ref")))


def cited(blocks: Iterable[Block]) -> list[str]:
    """The keys that are cited, each once, in order."""
    spans = _spans_of(blocks, "cite")
    keys = (key.strip().lstrip("@") for span in spans for key in span.text.split(";"))
    return list(dict.fromkeys(keys))
