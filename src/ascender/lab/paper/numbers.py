"""Numbers of a paper's sentences as cells: their text, the trials behind them, their values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ascender.lab.judge import Comparison, Record
from ascender.lab.paper.document import Text, cell_text, joined_text
from ascender.lab.paper.material import Material
from ascender.lab.reports.cells import difference_cell, ratio
from ascender.report.table import Cell
from ascender.tasks import Task, kind_of
from ascender.train.run import ADDED

Trials = tuple[str, ...]


def records_of(of: Material, tuning: bool = True) -> dict[str, Record]:
    """The record of every finished trial, by key, each once; `tuning`: also of suites that tune."""
    return {
        r["key"]: r
        for results in of.suites.values()
        if tuning or not results.sheet.tuning
        for r in results.source.records
    }


def count(n: int, trials: Iterable[str] = ()) -> Cell:
    """
    >>> count(1234).text
    '1,234'
    """
    return Cell(f"{n:,}", tuple(trials), {"n": n})


def counted(of: Material, n: int) -> Cell:
    """A number of things that are no trials."""
    return Cell(f"{n:,}", (), of.facts.derive({"n": n}))


def between(values: Iterable[float], trials: Iterable[str] = ()) -> Cell:
    """The smallest and the largest.

    >>> between([64, 32, 64]).text, between([2, 2]).text, between([1e-3, 0.01]).text
    ('32–64', '2', '0.001–0.01')
    """
    known = sorted(set(values))
    if not known:
        return Cell("–")
    ends = [known[0]] if len(known) == 1 else [known[0], known[-1]]
    text = "–".join(f"{x:,.0f}" if float(x).is_integer() else f"{x:g}" for x in ends)
    return Cell(text, tuple(trials), {"low": ends[0], "high": ends[-1]})


def named(text: str, ko: str = "") -> Cell:
    """A name or a setting of the records."""
    return Cell(text, ko=ko)


def times(x: float, trials: Iterable[str] = ()) -> Cell:
    """A ratio: 0.68×."""
    return Cell(ratio(x), tuple(trials), {"ratio": x})


def difference(c: Comparison, trials: Iterable[str]) -> Cell:
    """A difference by seed, with its interval."""
    return difference_cell(c.by_seed.mean, c.by_seed.interval, tuple(trials))


def in_a_row(items: Sequence[Text | Cell | str], joint: str = ", ") -> Text:
    """a, b, c."""
    texts = [cell_text(named(x) if isinstance(x, str) else x) if not isinstance(x, Text) else x
             for x in items]  # fmt: skip
    return joined_text(*texts, joint=joint)


def short_number(x: float) -> str:
    """As a person would write a setting.

    >>> short_number(0.01), short_number(1500)
    ('0.01', '1500')
    """
    return f"{x:g}"


def setting(run: Mapping[str, Any], name: str) -> Any:
    """A field of a run; of one that is newer than the record its default."""
    return run.get(name, ADDED.get(name))


def varied(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """The settings that differ between runs, but task, variant, seed and the task's options."""
    runs = list(runs)
    names = dict.fromkeys(name for run in runs for name in run)
    own = ("task", "variant", "seed", "options")
    different = {n: {json.dumps(setting(run, n), sort_keys=True) for run in runs} for n in names}
    return [name for name in names if name not in own and len(different[name]) > 1]


def kind_of_task(name: str) -> type[Task] | None:
    """The class of a task; None of one that is not known here."""
    try:
        return kind_of(name)
    except ValueError:
        return None
