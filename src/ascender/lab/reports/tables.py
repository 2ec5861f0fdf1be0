"""The tables of a report, from a study."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10

from ascender.lab.judge import RANGES, Comparison
from ascender.lab.judge import Cell as Of
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.table import Cell, Table
from ascender.lab.stats import Interval, Summary, paired

NONE = Cell("–")
UNITS = {"steps": "step", "tokens": "tokens", "seconds": "seconds"}
FLOPS = "attention_flops_an_example"
COSTS = {
    "flops": FLOPS, "parameters": "parameters", "memory": "peak_memory_mb",
    "throughput": "tokens_a_second", "time": "seconds",
}  # fmt: skip
TEST = ("value", "loss", "levels", "n", "scores")


def tables(study: SuiteResults) -> list[Table]:
    """All that the records have something for."""
    made = [accuracy(study), examples(study), learning(study), efficiency(study), further(study)]
    return [table for table in made if table.rows]


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


def span(interval: Interval, signed: bool = False) -> str:
    return f"[{number(interval.low, signed)}, {number(interval.high, signed)}]"


def ratio_cell(x: float, mine: tuple[str, ...]) -> Cell:
    return Cell(f"{x:.2f}×", mine, {"": x})


def keys(*cells: Of | None, seeds: Sequence[int] | None = None) -> tuple[str, ...]:
    """Of the trials behind them; of some seeds only where a pair counts."""
    return tuple(
        r["key"] for cell in cells if cell is not None for r in cell.records
        if seeds is None or r["run"]["seed"] in seeds
    )  # fmt: skip


def summary(study: SuiteResults) -> Table:
    """A row a task: the baseline, the variant with the rules, their difference, and its price."""
    columns = ("task", "metric", "floor", "n", "base_test", "ruled_test", "difference", "p",
               "delta", "d", "verdict", "flops_ratio", "time_ratio")  # fmt: skip
    rows = []
    for cell in study.cells:
        base = study.base_of(cell)
        if cell.variant != study.ruled() or base is None or base is cell:
            continue
        rows.append((
            Cell(cell.task), Cell(_metric(cell), keys(cell)), _floor(cell),
            Cell(str(cell.summary.n), keys(cell)), mean_cell(base.summary, keys(base)),
            mean_cell(cell.summary, keys(cell)), *_judged(study, cell),
            *(ratio_cell(cell.mean(cost) / base.mean(cost), keys(cell, base))
              for cost in (FLOPS, "seconds")),
        ))  # fmt: skip
    return _table("summary", columns, rows, study)


def tuning(study: SuiteResults) -> Table:
    """Validation scores of what was tried."""
    rows = [
        (*_named(cell), Cell(_metric(cell), keys(cell)), Cell(str(cell.summary.n), keys(cell)),
         mean_cell(cell.summary, keys(cell)))
        for cell in study.cells
    ]  # fmt: skip
    return _table("tuning", ("task", "variant", "metric", "n", "validation"), rows, study)


def accuracy(study: SuiteResults) -> Table:
    """Test scores, their floor, and the difference from the baseline."""
    columns = ["task", "variant", "metric", "test", "n", "interval", "floor", "difference", "p",
               "delta", "d", "verdict"]  # fmt: skip
    if study.sheet.against:
        columns[7:8] = ["against", "own_difference"]
    rows = []
    for cell in study.cells:
        s, mine, base = cell.summary, keys(cell), study.base_of(cell)
        against = [NONE if base in (None, cell) else Cell(base.variant)]
        rows.append((
            *_named(cell), Cell(_metric(cell), mine), mean_cell(s, mine), Cell(str(s.n), mine),
            interval_cell(s.interval, mine), _floor(cell),
            *(against if study.sheet.against else ()), *_judged(study, cell),
        ))  # fmt: skip
    return _table("accuracy", columns, rows, study)


def examples(study: SuiteResults) -> Table:
    """What the test examples, and ranks over seeds, say of the same differences."""
    columns = ("task", "variant", "floor", "bootstrap", "bootstrap_p", "randomised_p", "examples",
               "wilcoxon_p")  # fmt: skip
    rows = []
    for cell in study.cells:
        c = study.judged.get((cell.task, cell.variant))
        if c is None:
            continue
        mine, e = _pair(study, cell), c.examples
        shown = [NONE, NONE, NONE, NONE]
        if e is not None and e.interval is not None:
            data = {"difference": e.difference, "low": e.interval.low, "high": e.interval.high}
            text = f"{number(e.difference, True)} {span(e.interval, True)}"
            shown = [Cell(text, mine, data), p_cell(e.p, mine), p_cell(c.randomised, mine),
                     Cell(f"{e.n:,}", mine, {"": e.n})]  # fmt: skip
        rows.append((*_named(cell), _floor(cell), *shown, p_cell(c.by_seed.wilcoxon_p, mine)))
    return _table("examples", columns, rows, study)


def learning(study: SuiteResults) -> Table:
    """What the goal took, and how a run did on the way."""
    columns = ("task", "variant", "floor", "goal", *UNITS, "area", "area_difference")
    rows = []
    for cell in study.cells:
        goal, mine = study.goal(cell.task), keys(cell)
        if any(not r["curve"] for r in cell.records):
            continue
        costs = [NONE] * len(UNITS)
        if goal is not None:
            costs = [_cost(cell, goal, unit) for unit in UNITS.values()]
        areas = cell.areas()
        rows.append((
            *_named(cell), _floor(cell),
            NONE if goal is None else Cell(number(goal), (), {"": goal}), *costs,
            mean_cell(Summary.of(areas), mine) if areas else NONE, _area_difference(study, cell),
        ))  # fmt: skip
    return _table("learning", columns, rows, study)


def efficiency(study: SuiteResults) -> Table:
    """Costs beside the quality they buy, and their ratio to the baseline's."""
    columns = ("task", "variant", "test", "floor", *COSTS)
    rows = []
    for cell in study.cells:
        base, mine = study.base_of(cell), keys(cell)
        shown = []
        for field in COSTS.values():
            x = cell.mean(field)
            b = base.mean(field) if base else 0.0
            ratio = x / b if b else None
            said = f"{x:,.0f}" if field == "parameters" else short(x)
            text = said if ratio is None else f"{said} ({ratio:.2f}×)"
            pair = keys(cell, base if base is not cell else None)
            shown.append(Cell(text, pair, {"mean": x, "ratio": ratio}))
        rows.append((*_named(cell), mean_cell(cell.summary, mine), _floor(cell), *shown))
    return _table("efficiency", columns, rows, study)


def further(study: SuiteResults) -> Table:
    """Slices of difficulty and metrics beside the main one."""
    rows = []
    for cell in study.cells:
        tests = [r["test"] for r in cell.records]
        levels = dict.fromkeys(n for t in tests for n in t.get("levels", {}))
        values = {name: [t["levels"].get(name) for t in tests] for name in levels}
        more = [n for n in tests[0] if n not in TEST and isinstance(tests[0][n], int | float)]
        values |= {name: [t.get(name) for t in tests] for name in more}
        for name, found in values.items():
            x = [v for v in found if v is not None]
            own = tuple(r["key"] for r, v in zip(cell.records, found, strict=True) if v is not None)
            s = Summary.of(x, cell.range_ if name in levels else RANGES.get(name))
            row = (*_named(cell), Cell(name), mean_cell(s, own), Cell(str(s.n), own),
                   interval_cell(s.interval, own), _floor(cell))  # fmt: skip
            rows.append(row)
    columns = ("task", "variant", "of", "test", "n", "interval", "floor")
    return _table("further", columns, rows, study)


# --- cells


def _table(
    name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], on: SuiteResults
) -> Table:
    return Table(name, tuple(columns), tuple(tuple(row) for row in rows), on.sheet.baseline)


def _named(cell: Of) -> tuple[Cell, Cell]:
    return Cell(cell.task), Cell(cell.variant, keys(cell))


def _metric(cell: Of) -> str:
    r = cell.records[0]
    return f"{r['metric']} {'↑' if r['higher'] else '↓'}"


def _floor(cell: Of) -> Cell:
    floor = cell.records[0]["floor"]
    return NONE if floor is None else Cell(number(floor), keys(cell), {"": floor})


def mean_cell(s: Summary, mine: tuple[str, ...]) -> Cell:
    spread = "" if s.sd is None else f" ± {number(s.sd)}"
    return Cell(number(s.mean) + spread, mine, {"mean": s.mean, "sd": s.sd})


def interval_cell(interval: Interval | None, mine: tuple[str, ...]) -> Cell:
    if interval is None:
        return NONE
    return Cell(span(interval), mine, {"low": interval.low, "high": interval.high})


def p_cell(p: float | None, mine: tuple[str, ...]) -> Cell:
    return NONE if p is None else Cell(p_value(p), mine, {"": p})


def _pair(study: SuiteResults, cell: Of) -> tuple[str, ...]:
    """The trials of both on the seeds that both have."""
    base = study.base_of(cell)
    common = set(cell.seeds) & set(base.seeds) if base else set()
    return keys(cell, base, seeds=sorted(common))


def _judged(study: SuiteResults, cell: Of) -> list[Cell]:
    """difference, p, δ, d_z, verdict."""
    word = study.verdict(cell)
    c: Comparison | None = study.judged.get((cell.task, cell.variant))
    if c is None:
        return [NONE, NONE, NONE, NONE, Cell(word, keys(cell))]
    mine, s = _pair(study, cell), c.by_seed
    d = NONE if c.d is None else Cell(effect(c.d), mine, {"": c.d})
    delta = Cell(effect(c.delta), mine, {"": c.delta})
    apart = difference_cell(s.mean, s.interval, mine)
    return [apart, p_cell(c.p, mine), delta, d, Cell(word, mine)]


def difference_cell(mean: float, interval: Interval | None, mine: tuple[str, ...]) -> Cell:
    low, high = interval or (None, None)
    within = "" if interval is None else f" {span(interval, True)}"
    return Cell(number(mean, True) + within, mine, {"mean": mean, "low": low, "high": high})


def _cost(cell: Of, goal: float, unit: str) -> Cell:
    """The median and how many got there; `> end` where fewer than half did."""
    costs, median = cell.costs(goal, unit), cell.median_cost(goal, unit)
    got, n = sum(c is not None for c in costs), len(costs)
    end = max(_ends(cell, unit))
    text = f"> {short(end)}" if median is None else short(median)
    data = {"median": median, "reached": got, "of": n}
    return Cell(f"{text} ({got}/{n})", keys(cell), data)


def _ends(cell: Of, unit: str) -> list[float]:
    names = {"step": "steps", "tokens": "tokens", "seconds": "seconds"}
    return [float(r[names[unit]]) for r in cell.records]


def _area_difference(study: SuiteResults, cell: Of) -> Cell:
    base = study.base_of(cell)
    common = sorted(set(cell.seeds) & set(base.seeds)) if base else []
    if base is None or base is cell or not common:
        return NONE
    areas = [dict(zip(c.seeds, c.areas(), strict=False)) for c in (cell, base)]
    if any(len(a) < len(c.seeds) for a, c in zip(areas, (cell, base), strict=True)):
        return NONE
    mine, theirs = ([a[seed] for seed in common] for a in areas)
    s = paired(mine, theirs, cell.range_)
    return difference_cell(s.mean, s.interval, keys(cell, base, seeds=common))
