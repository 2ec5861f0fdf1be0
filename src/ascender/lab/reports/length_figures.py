"""Figure 5 and what belongs to it: quality and costs by length.

length         of a suite whose tasks were run at several lengths: both, from its trials
layer_costs    the costs of one attention layer, measured at lengths nobody trained at
layer_pareto   the quality of the trials against those costs, at the greatest length
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ascender.lab.costs import Cost
from ascender.lab.judge import Condition
from ascender.lab.reports.figures import (
    COSTS,
    against,
    chance_line,
    cost,
    metric_name,
    reach,
    short_numbers,
)
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.stats import Summary
from ascender.report.figure import Axes, Figure, Label, legend, panel_rows, shortened
from ascender.report.palette import LineStyle, line_styles

LAYER = {
    "layer_flops": "flops",
    "layer_ms": "forward_ms",
    "layer_training_ms": "training_ms",
    "layer_memory": "memory_mb",
}  # fields of a Cost, by the name of their axis
ALIKE = 0.02  # lengths that differ by less are one length
Lines = dict[str, dict[float, Condition]]


def tokens(condition: Condition) -> float:
    """The real length: mean tokens of a training example."""
    each = (r["tokens"] / (r["steps"] * r["run"]["batch"]) for r in condition.records)
    return float(np.mean(list(each)))


def at_lengths(results: SuiteResults) -> dict[str, Lines]:
    """Task → variant → real length → condition, of the tasks that were run at several lengths and
    differ in nothing else."""
    found: dict[str, Lines] = {}
    for task in dict.fromkeys(results.base_task.values()):
        mine = [c for c in results.conditions if results.base_task[c.task] == task]
        of: dict[str, list[tuple[float, Condition]]] = {}
        for condition in mine:
            of.setdefault(condition.variant, []).append((tokens(condition), condition))
        lines = {variant: sorted(line, key=lambda at: at[0]) for variant, line in of.items()}
        if all(map(_apart, lines.values())) and any(len(line) > 1 for line in lines.values()):
            found[task] = {variant: dict(line) for variant, line in lines.items()}
    return found


def _apart(line: Sequence[tuple[float, Condition]]) -> bool:
    """Whether no two lengths of a line are the same."""
    return all(b[0] > a[0] * (1 + ALIKE) for a, b in pairwise(line))


def length(results: SuiteResults, say: Label) -> Figure | None:
    """5: quality and costs against length, where a task was run at several."""
    tasks = at_lengths(results)
    if not tasks:
        return None
    styles = line_styles(results.variants)
    figure, rows = panel_rows(2 * len(tasks), 2, 1.9, share=False)
    for i, (task, lines) in enumerate(tasks.items()):
        axes = [*rows[2 * i], *rows[2 * i + 1]]
        first = next(iter(next(iter(lines.values())).values()))
        quality = {v: {x: c.summary for x, c in line.items()} for v, line in lines.items()}
        _lines(axes[0], quality, styles)
        chance_line(axes[0], first, say)
        axes[0].set_ylabel(say("test", metric=metric_name(first)))
        axes[0].set_title(shortened(task, 40), loc="left", weight="bold")
        for axis, name in zip(axes[1:], COSTS, strict=True):
            costs = {v: {x: cost(c, name) for x, c in line.items()} for v, line in lines.items()}
            _lines(axis, costs, styles, costly=True)
            axis.set_ylabel(say(name))
        for axis in axes:
            axis.set_xlabel(say("tokens"))
    legend(figure, [axis for row in rows for axis in row])
    return figure


def layer_costs(results: SuiteResults, say: Label) -> Figure | None:
    """5, costs: FLOPs, latency, training time and memory of one layer against the length."""
    by_variant = _by_variant(results.source.costs)
    if not any(len(line) > 1 for line in by_variant.values()):
        return None
    styles = line_styles([*by_variant])
    figure, rows = panel_rows(2, 2, 1.9, share=False)
    for axis, (name, field) in zip(
        [axis for row in rows for axis in row], LAYER.items(), strict=True
    ):
        _lines(axis, {v: _values(line, field) for v, line in by_variant.items()}, styles, True)
        axis.set_ylabel(say(name))
        axis.set_xlabel(say("layer_tokens"))
    legend(figure, [axis for row in rows for axis in row])
    return figure


def layer_pareto(results: SuiteResults, say: Label) -> Figure | None:
    """2, at length: the quality on each task against the costs of one layer, at the greatest length
    that was measured, of the variants that have both."""
    longest = max((row.n for row in results.source.costs), default=0)
    rows_of = {row.variant: row for row in results.source.costs if row.n == longest}
    tasks = [t for t in results.tasks if sum(c.variant in rows_of for c in results.of_task(t)) > 1]
    if not tasks:
        return None
    names = ("layer_flops", "layer_ms", "layer_memory")
    styles = line_styles([v for v in results.variants if v in rows_of])
    figure, rows = panel_rows(len(tasks), len(names), 1.75)
    for row, task in zip(rows, tasks, strict=True):
        conditions = [c for c in results.of_task(task) if c.variant in rows_of]
        quality = {c.variant: c.summary for c in conditions}
        for axis, name in zip(row, names, strict=True):
            costs = {
                v: Summary.of([x])
                for v in quality
                if (x := getattr(rows_of[v], LAYER[name])) is not None
            }
            if costs:
                against(axis, quality, costs, styles, say, conditions[0].higher)
            axis.set_xlabel(say(name))
        title = say("at_length", task=shortened(task, 40), n=f"{longest:,}")
        row[0].set_title(title, loc="left", weight="bold")
        row[0].set_ylabel(say("test", metric=metric_name(conditions[0])))
    legend(figure, [axis for row in rows for axis in row])
    return figure


def _by_variant(costs: Iterable[Cost]) -> dict[str, list[Cost]]:
    by_variant: dict[str, list[Cost]] = {}
    for row in costs:
        by_variant.setdefault(row.variant, []).append(row)
    return by_variant


def _values(line: Sequence[Cost], field: str) -> dict[float, Summary]:
    known = ((row.n, getattr(row, field)) for row in line)
    return {n: Summary.of([x]) for n, x in sorted(known) if x is not None}


def _lines(
    axis: Axes, lines: Mapping[str, Mapping[float, Summary]], styles: Mapping[str, LineStyle],
    costly: bool = False,
) -> None:  # fmt: skip
    """A line a variant over real lengths, on a doubling axis; costs on a logarithmic one where they
    differ much."""
    for variant, line in lines.items():
        if not line:
            continue
        x, y = list(line), [s.mean for s in line.values()]
        reaches = [reach(s) or [[0], [0]] for s in line.values()]
        errors = np.array(reaches)[:, :, 0].T if any(s.interval for s in line.values()) else None
        style = styles[variant]
        axis.errorbar(x, y, yerr=errors, color=style.colour, marker=style.mark, ls=style.line,
                      elinewidth=0.9, capsize=2, label=shortened(variant))  # fmt: skip
    every = [s.mean for line in lines.values() for s in line.values()]
    if costly and every and min(every) > 0 and max(every) > 5 * min(every):
        axis.set_yscale("log")
    if costly:
        short_numbers(axis.yaxis)
    _real_lengths(axis, sorted({x for line in lines.values() for x in line}))


def _real_lengths(axis: Axes, lengths: Sequence[float]) -> None:
    """Ticks where something was measured; of lengths next to each other the first."""
    ticks: list[float] = []
    for x in lengths:
        if not ticks or x > 1.15 * ticks[-1]:
            ticks.append(x)
    if lengths and lengths[0] > 0:
        axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [f"{x:,.0f}" for x in ticks])
    axis.xaxis.set_minor_locator(_none())


def _none() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
