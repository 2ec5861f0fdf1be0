"""Numbers as they are printed, and the cells and tables made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import log10

from ascender.lab.judge import Condition
from ascender.lab.reports.strings import STRINGS
from ascender.lab.stats import Interval, Summary
from ascender.report.strings import Pair, Strings, joined
from ascender.report.table import Cell, Column, Table

NONE = Cell("–")
WORDS = (
    "task",
    "variant",
    "metric",
    "of",
    "role",
    "against",
    "paper_claim",
    "suite",
    "since",
    "ground",
)
ROW_NAMES = ("task", "variant")
Trials = tuple[str, ...]  # keys


def number(x: float, signed: bool = False) -> str:
    """Four places after the point, fewer for large numbers; a real minus sign.

    >>> number(0.12345), number(-0.5, signed=True), number(12.3456), number(41234.5)
    ('0.1235', '−0.5000', '12.35', '41,234')
    """
    size = abs(x)
    places = 4 if size < 10 else 2 if size < 1000 else 0
    return f"{x:{'+' if signed else ''},.{places}f}".replace("-", "−")


def short(x: float) -> str:
    """Three digits and a power: k, M, G.

    >>> short(1234567), short(999), short(0.5), short(45.67)
    ('1.23M', '999', '0.500', '45.7')
    """
    for power, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= power:
            return short(x / power) + sign
    places = 2 - int(log10(abs(x))) if abs(x) >= 1 else 3
    whole = float(x).is_integer()
    return f"{x:.0f}" if whole else f"{x:.{max(places, 0)}f}"


def p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def effect(x: float) -> str:
    return f"{x:+.2f}".replace("-", "−")


def ratio(x: float) -> str:
    return f"{x:.2f}×"


def span(interval: Interval, signed: bool = False) -> str:
    return f"[{number(interval.low, signed)}, {number(interval.high, signed)}]"


def number_cell(
    x: float | None, trials: Trials = (), show: Callable[[float], str] = number
) -> Cell:
    return NONE if x is None else Cell(show(x), trials, {"": x})


def mean_cell(s: Summary, trials: Trials, signed: bool = False) -> Cell:
    spread = "" if s.sd is None else f" ± {number(s.sd)}"
    return Cell(number(s.mean, signed) + spread, trials, {"mean": s.mean, "sd": s.sd})


def interval_cell(interval: Interval | None, trials: Trials) -> Cell:
    if interval is None:
        return NONE
    return Cell(span(interval), trials, {"low": interval.low, "high": interval.high})


def difference_cell(
    mean: float, interval: Interval | None, trials: Trials, name: str = "mean"
) -> Cell:
    low, high = interval or (None, None)
    within = "" if interval is None else f" {span(interval, True)}"
    return Cell(number(mean, True) + within, trials, {name: mean, "low": low, "high": high})


def cost_cell(
    x: float | None, base: float | None, trials: Trials = (), show: Callable[[float], str] = short
) -> Cell:
    """A cost, and in brackets its ratio to the baseline's."""
    if x is None:
        return NONE
    share = x / base if base else None
    text = show(x) if share is None else f"{show(x)} ({ratio(share)})"
    return Cell(text, trials, {"mean": x, "ratio": share})


def verdict_cell(verdict: str, trials: Trials = ()) -> Cell:
    en, ko = STRINGS.pair(f"verdict.{verdict}")
    return Cell(en, trials, ko=ko, code=verdict)


def term_cell(code: str) -> Cell:
    """A term, a source of groups, or several joined by +, under the names the figures use."""
    en, ko = joined(*map(_term, code.split("+")), joint=" + ")
    return Cell(en, ko=ko, code=code)


def _term(name: str) -> Pair:
    return STRINGS.get(f"axis.{name}") or STRINGS.get(f"axis.of_{name}") or (name, name)


def metric(condition: Condition) -> str:
    return f"{condition.records[0]['metric']} {'↑' if condition.higher else '↓'}"


def lab_table(
    name: str, rows: Iterable[Mapping[str, Cell]], baseline: str = "", strings: Strings = STRINGS,
    words: Collection[str] = WORDS,
) -> Table:  # fmt: skip
    """A table with its title, note and headings from the strings; rows by column, `words`: columns
    of words. Where some rows have more columns, the others are empty there."""
    rows = list(rows)
    columns = tuple(
        Column(c, strings.pair(f"column.{c}", baseline=baseline), c in words, c in ROW_NAMES)
        for c in max(rows, key=len, default={})
    )
    note = strings.pair(f"note.{name}", baseline=baseline)
    cells = tuple(tuple(row.get(c.name, NONE) for c in columns) for row in rows)
    return Table(name, columns, cells, strings.pair(f"title.{name}"), (note,))
