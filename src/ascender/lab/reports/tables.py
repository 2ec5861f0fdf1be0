"""The tables of a suite: scores, differences, learning speed and costs."""

from __future__ import annotations

from ascender.lab.judge import RANGES, Comparison, Condition
from ascender.lab.reports.cells import (
    NONE,
    difference_cell,
    effect,
    interval_cell,
    keys,
    lab_table,
    mean_cell,
    number,
    p_cell,
    ratio_cell,
    short,
    span,
    verdict_cell,
)  # fmt: skip
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.stats import Summary, paired
from ascender.report.table import Cell, Table

UNITS = {"steps": "step", "tokens": "tokens", "seconds": "seconds"}
FLOPS = "attention_flops_an_example"
COSTS = {
    "flops": FLOPS, "parameters": "parameters", "memory": "peak_memory_mb",
    "throughput": "tokens_a_second", "time": "seconds",
}  # fmt: skip
TEST = ("value", "loss", "levels", "n", "scores")


def tables(results: SuiteResults) -> list[Table]:
    """All that the records have something for."""
    made = (make(results) for make in (accuracy, examples, learning, efficiency, further))
    return [table for table in made if table.rows]


def summary(results: SuiteResults) -> Table:
    """A row a task: the baseline, the variant with the rules, their difference, and its price."""
    columns = ("task", "metric", "chance", "n", "base_test", "ruled_test", "difference", "p",
               "delta", "d", "verdict", "flops_ratio", "time_ratio")  # fmt: skip
    rows = []
    for condition in results.conditions:
        base = results.base_of(condition)
        if condition.variant != results.ruled() or base is None or base is condition:
            continue
        rows.append((
            Cell(condition.task), Cell(_metric(condition), keys(condition)), _chance(condition),
            Cell(str(condition.summary.n), keys(condition)), mean_cell(base.summary, keys(base)),
            mean_cell(condition.summary, keys(condition)), *_judged(results, condition),
            *(ratio_cell(condition.mean(cost) / base.mean(cost), keys(condition, base))
              for cost in (FLOPS, "seconds")),
        ))  # fmt: skip
    return lab_table("summary", columns, rows, results.sheet.baseline)


def tuning(results: SuiteResults) -> Table:
    """Validation scores of what was tried."""
    rows = [
        (*_named(c), Cell(_metric(c), keys(c)), Cell(str(c.summary.n), keys(c)),
         mean_cell(c.summary, keys(c)))
        for c in results.conditions
    ]  # fmt: skip
    columns = ("task", "variant", "metric", "n", "validation")
    return lab_table("tuning", columns, rows, results.sheet.baseline)


def accuracy(results: SuiteResults) -> Table:
    """Test scores, the chance level, and the difference from the baseline."""
    columns = ["task", "variant", "metric", "test", "n", "interval", "chance", "difference", "p",
               "delta", "d", "verdict"]  # fmt: skip
    if results.sheet.against:
        columns[7:8] = ["against", "own_difference"]
    rows = []
    for condition in results.conditions:
        s, trials, base = condition.summary, keys(condition), results.base_of(condition)
        against = [NONE if base in (None, condition) else Cell(base.variant)]
        rows.append((
            *_named(condition), Cell(_metric(condition), trials), mean_cell(s, trials),
            Cell(str(s.n), trials), interval_cell(s.interval, trials), _chance(condition),
            *(against if results.sheet.against else ()), *_judged(results, condition),
        ))  # fmt: skip
    return lab_table("accuracy", columns, rows, results.sheet.baseline)


def examples(results: SuiteResults) -> Table:
    """What the test examples, and ranks over seeds, say of the same differences."""
    columns = ("task", "variant", "chance", "bootstrap", "bootstrap_p", "randomised_p", "examples",
               "wilcoxon_p")  # fmt: skip
    rows = []
    for condition in results.conditions:
        c = results.judged.get((condition.task, condition.variant))
        if c is None:
            continue
        trials, e = _pair(results, condition), c.examples
        shown = [NONE, NONE, NONE, NONE]
        if e is not None and e.interval is not None:
            data = {"difference": e.difference, "low": e.interval.low, "high": e.interval.high}
            text = f"{number(e.difference, True)} {span(e.interval, True)}"
            shown = [Cell(text, trials, data), p_cell(e.p, trials), p_cell(c.randomised, trials),
                     Cell(f"{e.n:,}", trials, {"": e.n})]  # fmt: skip
        rows.append(
            (*_named(condition), _chance(condition), *shown, p_cell(c.by_seed.wilcoxon_p, trials))
        )
    return lab_table("examples", columns, rows, results.sheet.baseline)


def learning(results: SuiteResults) -> Table:
    """What the goal took, and how a run did on the way."""
    columns = ("task", "variant", "chance", "goal", *UNITS, "area", "area_difference")
    rows = []
    for condition in results.conditions:
        goal, trials = results.goal(condition.task), keys(condition)
        if any(not r["curve"] for r in condition.records):
            continue
        costs = [NONE] * len(UNITS)
        if goal is not None:
            costs = [_cost(condition, goal, unit) for unit in UNITS.values()]
        areas = condition.areas()
        rows.append((
            *_named(condition), _chance(condition),
            NONE if goal is None else Cell(number(goal), (), {"": goal}), *costs,
            mean_cell(Summary.of(areas), trials) if areas else NONE,
            _area_difference(results, condition),
        ))  # fmt: skip
    return lab_table("learning", columns, rows, results.sheet.baseline)


def efficiency(results: SuiteResults) -> Table:
    """Costs beside the quality they buy, and their ratio to the baseline's."""
    columns = ("task", "variant", "test", "chance", *COSTS)
    rows = []
    for condition in results.conditions:
        base, trials = results.base_of(condition), keys(condition)
        shown = []
        for field in COSTS.values():
            x = condition.mean(field)
            b = base.mean(field) if base else 0.0
            ratio = x / b if b else None
            said = f"{x:,.0f}" if field == "parameters" else short(x)
            text = said if ratio is None else f"{said} ({ratio:.2f}×)"
            pair = keys(condition, base if base is not condition else None)
            shown.append(Cell(text, pair, {"mean": x, "ratio": ratio}))
        rows.append(
            (*_named(condition), mean_cell(condition.summary, trials), _chance(condition), *shown)
        )
    return lab_table("efficiency", columns, rows, results.sheet.baseline)


def further(results: SuiteResults) -> Table:
    """Slices of difficulty and metrics beside the main one."""
    rows = []
    for condition in results.conditions:
        tests = [r["test"] for r in condition.records]
        levels = dict.fromkeys(n for t in tests for n in t.get("levels", {}))
        values = {name: [t["levels"].get(name) for t in tests] for name in levels}
        more = [n for n in tests[0] if n not in TEST and isinstance(tests[0][n], int | float)]
        values |= {name: [t.get(name) for t in tests] for name in more}
        for name, found in values.items():
            x = [v for v in found if v is not None]
            own = tuple(
                r["key"] for r, v in zip(condition.records, found, strict=True) if v is not None
            )
            s = Summary.of(x, condition.range_ if name in levels else RANGES.get(name))
            row = (*_named(condition), Cell(name), mean_cell(s, own), Cell(str(s.n), own),
                   interval_cell(s.interval, own), _chance(condition))  # fmt: skip
            rows.append(row)
    columns = ("task", "variant", "of", "test", "n", "interval", "chance")
    return lab_table("further", columns, rows, results.sheet.baseline)


# --- cells


def _named(condition: Condition) -> tuple[Cell, Cell]:
    return Cell(condition.task), Cell(condition.variant, keys(condition))


def _metric(condition: Condition) -> str:
    r = condition.records[0]
    return f"{r['metric']} {'↑' if r['higher'] else '↓'}"


def _chance(condition: Condition) -> Cell:
    chance = condition.records[0]["chance"]
    return NONE if chance is None else Cell(number(chance), keys(condition), {"": chance})


def _pair(results: SuiteResults, condition: Condition) -> tuple[str, ...]:
    """The trials of both on the seeds that both have."""
    base = results.base_of(condition)
    common = set(condition.seeds) & set(base.seeds) if base else set()
    return keys(condition, base, seeds=sorted(common))


def _judged(results: SuiteResults, condition: Condition) -> list[Cell]:
    """difference, p, δ, d_z, verdict."""
    word = results.verdict(condition)
    c: Comparison | None = results.judged.get((condition.task, condition.variant))
    if c is None:
        return [NONE, NONE, NONE, NONE, verdict_cell(word, keys(condition))]
    trials, s = _pair(results, condition), c.by_seed
    d = NONE if c.d is None else Cell(effect(c.d), trials, {"": c.d})
    delta = Cell(effect(c.delta), trials, {"": c.delta})
    apart = difference_cell(s.mean, s.interval, trials)
    return [apart, p_cell(c.p, trials), delta, d, verdict_cell(word, trials)]


def _cost(condition: Condition, goal: float, unit: str) -> Cell:
    """The median and how many got there; `> end` where fewer than half did."""
    costs, median = condition.costs(goal, unit), condition.median_cost(goal, unit)
    got, n = sum(c is not None for c in costs), len(costs)
    end = max(_ends(condition, unit))
    text = f"> {short(end)}" if median is None else short(median)
    data = {"median": median, "reached": got, "of": n}
    return Cell(f"{text} ({got}/{n})", keys(condition), data)


def _ends(condition: Condition, unit: str) -> list[float]:
    names = {"step": "steps", "tokens": "tokens", "seconds": "seconds"}
    return [float(r[names[unit]]) for r in condition.records]


def _area_difference(results: SuiteResults, condition: Condition) -> Cell:
    base = results.base_of(condition)
    common = sorted(set(condition.seeds) & set(base.seeds)) if base else []
    if base is None or base is condition or not common:
        return NONE
    areas = [dict(zip(c.seeds, c.areas(), strict=False)) for c in (condition, base)]
    if any(len(a) < len(c.seeds) for a, c in zip(areas, (condition, base), strict=True)):
        return NONE
    own, theirs = ([a[seed] for seed in common] for a in areas)
    s = paired(own, theirs, condition.range_)
    return difference_cell(s.mean, s.interval, keys(condition, base, seeds=common))
