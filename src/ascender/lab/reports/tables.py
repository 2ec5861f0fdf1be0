"""The tables of a suite: scores, differences, learning speed, non-inferiority and costs.

Each table of TABLES is a generator of rows: of one condition, cells by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ascender.lab.judge import RANGES, Condition, curve, matched
from ascender.lab.reports import cells
from ascender.lab.reports.cells import NONE, lab_table, mean_cell, number_cell, verdict_cell
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.stats import Summary, paired
from ascender.lab.verdict import inferior, not_inferior
from ascender.report.table import Cell, Table

UNITS = {"steps": "step", "tokens": "tokens", "flops_to_goal": "flops", "seconds": "seconds"}
FLOPS = "attention_flops_an_example"
COSTS = {
    "flops": FLOPS, "parameters": "parameters", "memory": "peak_memory_mb",
    "throughput": "tokens_a_second", "time": "seconds",
}  # fmt: skip
TEST = ("value", "loss", "levels", "n", "scores")
Row = dict[str, Cell]
Rows = Iterator[Row]


def table(name: str, results: SuiteResults) -> Table:
    """A table of TABLES; without rows where the records have nothing for it."""
    rows = (row for condition in results.conditions for row in TABLES[name](results, condition))
    return lab_table(name, rows, results.sheet.baseline)


def _summary(results: SuiteResults, condition: Condition) -> Rows:
    """A row a task: the baseline, the variant with the rules, their difference, and its price."""
    base = results.base_of(condition)
    if condition.variant != results.ruled() or base is None or base is condition:
        return
    pair = (*condition.keys, *base.keys)
    flops, time = (condition.mean(name) / base.mean(name) for name in (FLOPS, "seconds"))
    yield {
        "task": Cell(condition.task),
        "metric": Cell(cells.metric(condition), condition.keys),
        "chance": _chance(condition),
        "n": _n(condition),
        "base_test": mean_cell(base.summary, base.keys),
        "ruled_test": mean_cell(condition.summary, condition.keys),
        **_judged(results, condition),
        "flops_ratio": number_cell(flops, pair, cells.ratio),
        "time_ratio": number_cell(time, pair, cells.ratio),
    }


def _tuning(results: SuiteResults, condition: Condition) -> Rows:
    """Validation scores of what was tried."""
    yield {
        **_named(condition),
        "metric": Cell(cells.metric(condition), condition.keys),
        "n": _n(condition),
        "validation": mean_cell(condition.summary, condition.keys),
    }


def _accuracy(results: SuiteResults, condition: Condition) -> Rows:
    """Test scores, the chance level, and the difference from the baseline."""
    s, trials, base = condition.summary, condition.keys, results.base_of(condition)
    row = {
        **_named(condition),
        "metric": Cell(cells.metric(condition), trials),
        "test": mean_cell(s, trials),
        "n": _n(condition),
        "interval": cells.interval_cell(s.interval, trials),
        "chance": _chance(condition),
    }
    judged = _judged(results, condition)
    if results.sheet.against:
        row["against"] = NONE if base in (None, condition) else Cell(base.variant)
        row["own_difference"] = judged.pop("difference")
    yield row | judged


def _examples(results: SuiteResults, condition: Condition) -> Rows:
    """What the test examples, and ranks over seeds, say of the same differences."""
    c = results.comparison(condition)
    if c is None:
        return
    trials, e = _pair(results, condition), c.examples
    row = dict.fromkeys(("bootstrap", "bootstrap_p", "randomised_p", "examples"), NONE)
    if e is not None:
        row = {
            "bootstrap": cells.difference_cell(e.difference, e.interval, trials, "difference"),
            "bootstrap_p": number_cell(e.p, trials, cells.p_value),
            "randomised_p": number_cell(c.randomised, trials, cells.p_value),
            "examples": number_cell(e.n, trials, lambda n: f"{n:,}"),
        }
    wilcoxon = number_cell(c.by_seed.wilcoxon_p, trials, cells.p_value)
    yield {**_named(condition), "chance": _chance(condition), **row, "wilcoxon_p": wilcoxon}


def _learning(results: SuiteResults, condition: Condition) -> Rows:
    """What the goal took, and how a run did on the way."""
    if any(not r["curve"] for r in condition.records):
        return
    goal, areas = results.goal(condition.task), condition.areas()
    yield {
        **_named(condition),
        "chance": _chance(condition),
        "goal": number_cell(goal),
        **{n: NONE if goal is None else _cost(condition, goal, u) for n, u in UNITS.items()},
        "area": mean_cell(Summary.of(areas), condition.keys) if areas else NONE,
        "area_difference": _area_difference(results, condition),
    }


def _budget(results: SuiteResults, condition: Condition) -> Rows:
    """Validation scores after the suite's budget of steps and at the end, of the same runs."""
    budget = results.budget(condition.task)
    if budget is None or condition.at_step(budget) is None:
        return
    ends = [r["curve"][-1]["step"] for r in condition.records]
    row: Row = {"budget": number_cell(budget, condition.keys, lambda n: f"{n:,}")}
    for name, steps in (("at_budget", [budget] * len(ends)), ("at_end", ends)):
        scores = Summary.of(_at(condition, steps), condition.range_)
        row[name] = mean_cell(scores, condition.keys)
        row[f"{name}_difference"] = _difference_at(results, condition, steps)
    yield {**_named(condition), "chance": _chance(condition), **row}


def _at(condition: Condition, steps: list[int]) -> list[float]:
    """The validation score of every seed at its step."""
    return [
        next(float(p["value"]) for p in r["curve"] if p["step"] == step)
        for r, step in zip(condition.records, steps, strict=True)
    ]


def _difference_at(results: SuiteResults, condition: Condition, steps: list[int]) -> Cell:
    """To the baseline's at the same step."""
    base = results.base_of(condition)
    pair = matched(condition, base)
    if pair is None or base is condition:
        return NONE
    of = dict(zip(condition.seeds, steps, strict=True))
    own, theirs = pair
    at = [of[seed] for seed in own.seeds]
    if any(all(p["step"] != step for p in r["curve"])
           for r, step in zip(theirs.records, at, strict=True)):  # fmt: skip
        return NONE
    s = paired(_at(own, at), _at(theirs, at), condition.range_)
    return cells.difference_cell(s.mean, s.interval, (*own.keys, *theirs.keys))


def _efficiency(results: SuiteResults, condition: Condition) -> Rows:
    """Costs beside the quality they buy, and their ratio to the baseline's."""
    base = results.base_of(condition)
    trials = condition.keys if base is None or base is condition else (*condition.keys, *base.keys)
    costs = {}
    for name, field in COSTS.items():
        show: Any = cells.short if name != "parameters" else "{:,.0f}".format
        own, theirs = condition.mean(field), base.mean(field) if base else None
        costs[name] = cells.cost_cell(own, theirs, trials, show)
    test = mean_cell(condition.summary, condition.keys)
    yield {**_named(condition), "test": test, "chance": _chance(condition), **costs}


def _further(results: SuiteResults, condition: Condition) -> Rows:
    """Slices of difficulty and metrics beside the main one."""
    tests = [r["test"] for r in condition.records]
    levels = dict.fromkeys(n for t in tests for n in t.get("levels", {}))
    values = {name: [t["levels"].get(name) for t in tests] for name in levels}
    more = [n for n in tests[0] if n not in TEST and isinstance(tests[0][n], int | float)]
    values |= {name: [t.get(name) for t in tests] for name in more}
    for name, by_seed in values.items():
        known = {k: x for k, x in zip(condition.keys, by_seed, strict=True) if x is not None}
        range_ = condition.range_ if name in levels else RANGES.get(name)
        s, trials = Summary.of(list(known.values()), range_), tuple(known)
        yield {
            **_named(condition),
            "of": Cell(name),
            "test": mean_cell(s, trials),
            "n": Cell(str(s.n), trials),
            "interval": cells.interval_cell(s.interval, trials),
            "chance": _chance(condition),
        }


def _inferiority(results: SuiteResults, condition: Condition) -> Rows:
    """Whether a variant is at most the suite's margin worse than the baseline, and its attention
    FLOPs beside it."""
    margin, c = results.sheet.rule.margin, results.comparison(condition)
    base = results.base_of(condition)
    if not margin or c is None or base is None or c.by_seed.interval is None:
        return
    trials, within = _pair(results, condition), c.by_seed.interval
    verdict = "inferior" if inferior(within, margin, condition.higher) else "unproven"
    if not_inferior(within, margin, condition.higher):
        verdict = "not_inferior"
    flops = condition.mean(FLOPS) / base.mean(FLOPS)
    yield {
        **_named(condition),
        "n": Cell(str(c.by_seed.n), trials),
        "difference": cells.difference_cell(c.by_seed.mean, within, trials),
        "margin": number_cell(margin),
        "verdict": verdict_cell(verdict, trials),
        "flops_ratio": number_cell(flops, trials, cells.ratio),
    }


TABLES: dict[str, Callable[[SuiteResults, Condition], Rows]] = {
    "summary": _summary, "accuracy": _accuracy, "examples": _examples, "learning": _learning,
    "budget": _budget,
    "efficiency": _efficiency, "further": _further, "inferiority": _inferiority,
    "tuning": _tuning,
}  # fmt: skip


def costs(results: SuiteResults) -> Table:
    """One attention layer of each variant at length, × the baseline's at the same length."""
    measured, rows = results.source.costs, []
    for row in measured:
        base = next(r for r in measured if r.n == row.n)
        speed, usual = (1e3 * r.n / r.training_ms for r in (row, base))
        rows.append({
            "variant": Cell(row.variant),
            "length": number_cell(row.n, (), lambda n: f"{n:,}"),
            "layer_flops": cells.cost_cell(row.flops, base.flops),
            "latency": cells.cost_cell(row.forward_ms, base.forward_ms),
            "training_speed": cells.cost_cell(speed, usual),
            "training_memory": cells.cost_cell(row.memory_mb, base.memory_mb),
        })  # fmt: skip
    found = lab_table("costs", rows, measured[0].variant if measured else "")
    if not (on := results.source.costs_on):
        return found
    return replace(found, notes=(*found.notes, STRINGS.pair("note.costs_on", device=on)))


# --- cells


def _named(condition: Condition) -> Row:
    return {"task": Cell(condition.task), "variant": Cell(condition.variant, condition.keys)}


def _n(condition: Condition) -> Cell:
    return Cell(str(condition.summary.n), condition.keys)


def _chance(condition: Condition) -> Cell:
    return number_cell(condition.chance, condition.keys)


def _pair(results: SuiteResults, condition: Condition) -> tuple[str, ...]:
    """The trials of both on the seeds that both have."""
    pair = matched(condition, results.base_of(condition))
    return (*pair[0].keys, *pair[1].keys) if pair else ()


def _judged(results: SuiteResults, condition: Condition) -> Row:
    """difference, p, δ, d_z, verdict."""
    c, word = results.comparison(condition), results.verdict(condition)
    if c is None:
        empty = dict.fromkeys(("difference", "p", "delta", "d"), NONE)
        return {**empty, "verdict": verdict_cell(word, condition.keys)}
    trials = _pair(results, condition)
    return {
        "difference": cells.difference_cell(c.by_seed.mean, c.by_seed.interval, trials),
        "p": number_cell(c.p, trials, cells.p_value),
        "delta": number_cell(c.delta, trials, cells.effect),
        "d": number_cell(c.d, trials, cells.effect),
        "verdict": verdict_cell(word, trials),
    }


def _cost(condition: Condition, goal: float, unit: str) -> Cell:
    """The median and how many got there; `> end` where fewer than half did."""
    costs, median = condition.costs(goal, unit), condition.median_cost(goal, unit)
    got, n = sum(c is not None for c in costs), len(costs)
    end = max(curve(r, unit)[-1][0] for r in condition.records)
    text = f"> {cells.short(end)}" if median is None else cells.short(median)
    data = {"median": median, "reached": got, "of": n}
    return Cell(f"{text} ({got}/{n})", condition.keys, data)


def _area_difference(results: SuiteResults, condition: Condition) -> Cell:
    base = results.base_of(condition)
    pair = matched(condition, base)
    if pair is None or base is condition:
        return NONE
    own, theirs = (c.areas() for c in pair)
    if not len(own) == len(theirs) == len(pair[0].seeds):
        return NONE
    s = paired(own, theirs, condition.range_)
    return cells.difference_cell(s.mean, s.interval, (*pair[0].keys, *pair[1].keys))
