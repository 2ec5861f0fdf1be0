"""How a table fits a page: its size of type, the widths of its columns, whether it is turned, and
into which parts it is split. Nothing is set below 7 points.

    widths    of text are estimated from the widths of Latin Modern and Nanum Myeongjo
    natural   of a column: its widest cell in one line; least: its longest piece that cannot break
    order     upright with numbers in one line, then in two; a short table with narrow words; turned
              so; each at 8 points and then at 7; then parts below each other
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil

from ascender.report.strings import in_language
from ascender.report.table import Column, Table

UPRIGHT, TURNED = 471.0, 715.0  # points: the text of A4 paper with margins of 2.2 cm, and turned
SIZES = (8, 7)  # points of type; \\footnotesize and \\scriptsize of a document of 10 points
WIDER = {8: 1.06, 7: 1.13}  # the letters of small sizes, in units of their size
GAP = 7.0  # points between columns
LINES = 5  # a cell of words should not need more
BIT = 0.5  # units
SLACK = 0.2  # units: widths are estimates
NAME = 11.5  # units: what is shorter is a name, and stays in one line
TIGHT, FEW = 8.0, 48  # units that words get, in a table of so few rows, before it is turned
WIDE = 0.34  # of the width: what a column of words may ask for, at least
PIECES = re.compile(r"(?<=[+=/_:])(?=\w)|(?<=[,.-])(?=[^\W\d])|\s+")  # as tex_text breaks names
CLOSED = re.compile(r"\s+(?=[\[(±])")  # where a cell of numbers may be broken
KINDS = (
    ("ijl.,;:'|![]{}·", 0.29), ("()ftr-", 0.40), (" ", 0.34), ("mwMW%@", 0.95),
    ("+=<>×±−≤≥→", 0.80), ("_", 0.75),
)  # fmt: skip
WIDTHS = {sign: width for signs, width in KINDS for sign in signs}


def em(text: str) -> float:
    """The width of a text, in units of the size of its type.

    >>> round(em("0.84"), 2), round(em("한글"), 2)
    (1.88, 2.0)
    """
    return sum(_sign(sign) for sign in text)


def _sign(sign: str) -> float:
    if sign in WIDTHS:
        return WIDTHS[sign]
    if ord(sign) >= 0x1100 and not 0x2000 <= ord(sign) < 0x2C00:
        return 1.0
    return 0.74 if sign.isupper() else 0.53


@dataclass(frozen=True)
class Layout:
    """A part of a table: the columns that it has, their widths in points, the size of its type and
    whether the page is turned."""

    columns: tuple[int, ...]
    widths: tuple[float, ...]
    size: int
    turned: bool = False


@dataclass(frozen=True)
class Need:
    """What a column needs, in units of the size: its longest piece, what reads well, one line; and
    every cell in one line."""

    least: float
    good: float
    natural: float
    words: bool
    cells: tuple[float, ...] = ()


def layouts(table: Table, lang: str) -> list[Layout]:
    """One layout, or, of a table that is too wide at 7 points on a turned page, one for each part;
    every part starts with the columns that name the rows."""
    needs = [_need(table, i, lang) for i in range(len(table.columns))]
    every = tuple(range(len(needs)))
    picks = ("good", "least", "tight") if len(table.rows) <= FEW else ("good", "least")
    for turned, pick in product((False, True), picks):
        for size in SIZES:
            if (fit := _fitted(every, needs, size, turned, pick)) is not None:
                return [fit]
    return [_part(columns, needs) for columns in _parts(table, needs)]


def lines(table: Table, layout: Layout, lang: str) -> int:
    """How many lines of text the rows take."""
    unit = layout.size * WIDER[layout.size]
    return sum(
        max(
            ceil(em(in_language(row[c].pair, lang)) * unit / width - 0.02)
            for c, width in zip(layout.columns, layout.widths, strict=True)
        )
        for row in table.rows
    )


def _need(table: Table, i: int, lang: str) -> Need:
    column = table.columns[i]
    texts = [in_language(row[i].pair, lang) for row in table.rows]
    heading = in_language(column.heading, lang)
    cut = PIECES if _wordy(column, texts) else CLOSED
    least = SLACK + max([_longest(text, cut) for text in texts] + [_longest(heading, PIECES)])
    natural = max([em(text) + SLACK for text in texts] + [least])
    two_lines = em(heading) / 2 + 1.0
    cells = tuple(em(text) + SLACK for text in texts)
    if not _wordy(column, texts):
        good = max(natural, min(two_lines, natural + 2))
        return Need(least, good, natural, False, cells)
    natural = max(natural, min(em(heading), natural + 4))
    good = natural if natural <= NAME else max(NAME, natural / LINES + 2)
    return Need(least, max(least, good), natural, True, cells)


def _wordy(column: Column, texts: Sequence[str]) -> bool:
    """Whether a column may be broken anywhere: words, and lists that are long."""
    return column.words or any(len(text) > 45 for text in texts)


def _longest(text: str, cut: re.Pattern[str]) -> float:
    return max((em(piece) for piece in cut.split(text) if piece), default=0.0)


def _fitted(
    columns: Sequence[int], needs: Sequence[Need], size: int, turned: bool, pick: str
) -> Layout | None:
    """All columns on a page, numbers in one line (`good`) or in two (`least`); None where they do
    not fit or words would stand in too narrow columns."""
    room = TURNED if turned else UPRIGHT
    unit = size * WIDER[size]
    free = room - GAP * (len(columns) - 1)
    asked = [_asked(needs[i], pick, WIDE * room / unit) for i in columns]
    if sum(asked) * unit > free:
        return None
    given = _spread(asked, [needs[i] for i in columns], free / unit)
    return Layout(tuple(columns), tuple(round(x * unit, 1) for x in given), size, turned)


def _asked(need: Need, pick: str, wide: float) -> float:
    """What a column asks for: words what reads well, up to a third of the page, or `tight` little;
    numbers one line, or, but for `good`, a line for each of their parts."""
    if need.words and pick == "tight":
        return max(need.least, min(need.good, TIGHT))
    if need.words:
        return max(need.least, min(need.good, wide))
    return need.good if pick == "good" else need.least


def _spread(asked: Sequence[float], needs: Sequence[Need], free: float) -> list[float]:
    """What is left goes, bit by bit, to the column that makes the rows highest, until every cell is
    in one line or nothing is left. A column of numbers gets all that it needs or nothing."""
    given, left = list(asked), free - sum(asked)
    while left > 0:
        wish = {i: need.natural - given[i] for i, need in enumerate(needs)}
        wish = {i: x for i, x in wish.items() if x > 0 and (needs[i].words or x <= left)}
        weights = _heights(given, needs, wish)
        if not any(weights.values()):
            break
        i = max(weights, key=weights.__getitem__)
        more = min(wish[i], BIT, left) if needs[i].words else wish[i]
        given[i], left = given[i] + more, left - more
    return given


def _heights(
    given: Sequence[float], needs: Sequence[Need], columns: Iterable[int]
) -> dict[int, float]:
    """How much lower the rows would be with a wider column: the lines of those that it makes the
    highest cell of, over its width."""
    weights = dict.fromkeys(columns, 0.0)
    for row in zip(*(need.cells for need in needs), strict=True):
        lines = [cell / width for cell, width in zip(row, given, strict=True)]
        highest = max(lines)
        for i in weights:
            if lines[i] > 1 and lines[i] >= highest - 0.01:
                weights[i] += lines[i] / given[i]
    return weights


def _parts(table: Table, needs: Sequence[Need]) -> Iterable[list[int]]:
    """Columns by part: as many as fit on an upright page at 7 points."""
    first = [i for i, c in enumerate(table.columns) if c.names_row] or [0]
    part = list(first)
    for i in range(len(needs)):
        if i in first:
            continue
        if len(part) > len(first) and _fitted([*part, i], needs, SIZES[-1], False, "least") is None:
            yield part
            part = list(first)
        part.append(i)
    yield part


def _part(columns: list[int], needs: Sequence[Need]) -> Layout:
    """A part on an upright page; one column that is wider than the page gets what there is."""
    for pick in ("good", "least"):
        for size in SIZES:
            if (fit := _fitted(columns, needs, size, False, pick)) is not None:
                return fit
    unit = SIZES[-1] * WIDER[SIZES[-1]]
    widths = [needs[i].least * unit for i in columns]
    scale = min(1.0, (UPRIGHT - GAP * (len(columns) - 1)) / sum(widths))
    return Layout(tuple(columns), tuple(round(w * scale, 1) for w in widths), SIZES[-1])
