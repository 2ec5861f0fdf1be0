"""Figures 2 and 3 of a report, from a suite's results: quality against cost, and both compared with
the baseline's. (Figure 1 is in attention_maps.py, 4 in head_figures.py, 5 in length_figures.py,
those over training in curve_figures.py.)

Each gives a figure, or None where the records have nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Any

from ascender.lab.judge import Condition, Record, matched, omega
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import FLOPS
from ascender.lab.stats import Summary
from ascender.report.figure import (
    PAGE,
    THIN,
    Axes,
    Figure,
    Label,
    blank,
    legend,
    panel_rows,
    shortened,
)
from ascender.report.palette import LineStyle, line_styles

MANY = 4  # tasks; of more, only the last row says what its axes are
VERDICT_MARKS = {"win": "^", "tie": "o", "loss": "v", "unjudged": "x"}
COSTS: Mapping[str, Callable[[Record], float]] = {
    "flops": lambda r: float(r[FLOPS]),
    "step_ms": lambda r: 1e3 * r["seconds"] / max(r["steps"], 1),
    "memory": lambda r: float(r["peak_memory_mb"]),
}  # of a trial, by the name of its axis
COST_MARKS = {"flops": ("s", "#222222"), "step_ms": ("D", "#7A7A7A"), "memory": ("o", "#B5B5B5")}


def cost(condition: Condition, name: str) -> Summary:
    """One of COSTS over the seeds of a condition."""
    return Summary.of([COSTS[name](r) for r in condition.records])


def pareto(results: SuiteResults, say: Label) -> Figure | None:
    """2: quality against FLOPs, time and memory, a row a task."""
    styles = line_styles(results.variants)
    many = len(results.tasks) > MANY
    figure, rows = panel_rows(len(results.tasks), len(COSTS), 1.4 if many else 1.75)
    for row, task in zip(rows, results.tasks, strict=True):
        conditions = results.of_task(task)
        quality = {c.variant: c.summary for c in conditions}
        for axis, name in zip(row, COSTS, strict=True):
            costs = {c.variant: cost(c, name) for c in conditions}
            against(axis, quality, costs, styles, say, conditions[0].higher)
            chance_line(axis, conditions[0], say, near=True, noted=axis is row[-1])
            if row is rows[-1] or not many:
                axis.set_xlabel(say(name))
        row[0].set_title(shortened(task, 40), loc="left", weight="bold")
        row[0].set_ylabel(say("test", metric=metric_name(conditions[0])))
    legend(figure, [axis for row in rows for axis in row])
    return figure


def against(
    axis: Axes, quality: Mapping[str, Summary], costs: Mapping[str, Summary],
    styles: Mapping[str, LineStyle], say: Label, higher: bool,
) -> None:  # fmt: skip
    """One panel of quality against a cost, by variant: intervals of both, and the frontier."""
    names = [name for name in quality if name in costs]
    x, y = [costs[name].mean for name in names], [quality[name].mean for name in names]
    for name, at, of in zip(names, x, y, strict=True):
        axis.errorbar(at, of, yerr=reach(quality[name]), xerr=reach(costs[name]),
                      fmt=styles[name].mark, color=styles[name].colour, ms=5.5, elinewidth=0.9,
                      capsize=0, label=shortened(name))  # fmt: skip
    best = frontier(x, y, higher)
    axis.step([*(x[i] for i in best), max(x)], [*(y[i] for i in best), y[best[-1]]], where="post",
              color="#555555", lw=1, zorder=0, label=say("frontier"))  # fmt: skip
    if min(x) > 0 and max(x) / min(x) > 10:
        axis.set_xscale("log")
    short_numbers(axis.xaxis)
    axis.margins(x=0.12)


def frontier(x: Sequence[float], y: Sequence[float], higher: bool = True) -> list[int]:
    """Indices of what nothing beats at its cost or less, from the cheapest on.

    >>> frontier([1, 2, 3, 4], [0.5, 0.4, 0.8, 0.8])
    [0, 2]
    """
    best: list[int] = []
    for i in sorted(range(len(x)), key=lambda i: (x[i], -y[i] if higher else y[i])):
        if not best or (y[i] > y[best[-1]] if higher else y[i] < y[best[-1]]):
            best.append(i)
    return best


def deltas(results: SuiteResults, say: Label) -> Figure | None:
    """3: differences from the baseline with intervals, of quality and beside it of cost."""
    by_task = [[c for c in results.of_task(t) if results.comparison(c)] for t in results.tasks]
    by_task = [conditions for conditions in by_task if conditions]
    if not by_task:
        return None
    baseline = shortened(results.sheet.baseline, 24)
    heights = [0.62 + 0.2 * len(conditions) for conditions in by_task]
    figure = blank(PAGE, sum(heights))
    rows = figure.subplots(
        len(by_task), 2, squeeze=False, width_ratios=(3, 2), height_ratios=heights
    )
    for (left, right), conditions in zip(rows, by_task, strict=True):
        _quality_deltas(left, conditions, results, say)
        _cost_deltas(right, conditions, results, say)
        for axis in (left, right):
            axis.set_ylim(len(conditions) - 0.5, -0.5)
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="x", color="#E6E6E6", lw=0.6)
            few(axis.xaxis)
        left.set_yticks(range(len(conditions)), [shortened(c.variant, 24) for c in conditions])
        right.set_yticks([])
        word = "own_difference" if results.sheet.against else "difference"
        label = say(word, metric=metric_name(conditions[0]), baseline=baseline)
        name_axes(left, conditions[0], fill(label, 40, break_on_hyphens=False), "")
    word = "own_cost_difference" if results.sheet.against else "cost_difference"
    label = say(word, baseline=baseline)
    rows[-1][1].set_xlabel(fill(label, 40, break_on_hyphens=False))
    legend(figure, [rows[0][1]])
    return figure


def _quality_deltas(
    axis: Axes, conditions: Sequence[Condition], results: SuiteResults, say: Label
) -> None:
    """A row a variant: its difference, the interval, and by the mark its verdict."""
    styles, smallest = line_styles(results.variants), results.sheet.rule.smallest
    if smallest:
        axis.axvspan(-smallest, smallest, color="#DDDDDD", lw=0, zorder=0)
    axis.axvline(0, color="black", lw=0.8, zorder=1)
    for row, condition in enumerate(conditions):
        s = results.judged[condition.task, condition.variant].by_seed
        colour, verdict = styles[condition.variant].colour, results.verdict(condition)
        if s.interval is not None:
            axis.plot(s.interval, (row, row), color=colour, lw=1.6, solid_capstyle="butt")
        axis.plot(s.mean, row, VERDICT_MARKS[verdict], color=colour, ms=6.5, mec=colour,
                  mfc="white" if verdict == "tie" else colour, mew=1.4)  # fmt: skip


def _cost_deltas(
    axis: Axes, conditions: Sequence[Condition], results: SuiteResults, say: Label
) -> None:
    """A row a variant: how much more each cost is than the baseline's, in percent, by seed."""
    axis.axvline(0, color="black", lw=0.8, zorder=1)
    for row, condition in enumerate(conditions):
        pair = matched(condition, results.base_of(condition))
        for i, (name, get) in enumerate(COSTS.items() if pair else ()):
            own, theirs = ([get(r) for r in c.records] for c in pair or ())
            more = [100 * (a / b - 1) for a, b in zip(own, theirs, strict=True) if b]
            if not more:
                continue
            s, (mark, colour) = Summary.of(more), COST_MARKS[name]
            y = row + 0.24 * (i - 1)
            axis.errorbar(s.mean, y, xerr=reach(s), fmt=mark, color=colour, ms=4, elinewidth=0.9,
                          label=say(f"more_{name}"))  # fmt: skip


# --- what they share


def ruled(results: SuiteResults) -> list[Condition]:
    """The variant that stands for the rules, on each task."""
    name = results.ruled()
    return [c for c in results.conditions if c.variant == name and any(omega(r) for r in c.records)]


def reach(s: Summary) -> list[list[float]] | None:
    """Error bars of a mean."""
    if s.interval is None:
        return None
    return [[s.mean - s.interval.low], [s.interval.high - s.mean]]


def chance_line(
    axis: Axes, condition: Condition, say: Label, near: bool = False, noted: bool = True
) -> None:
    """A dotted line; with `near`, where it would compress the other points, a number and an arrow
    above the panel (if `noted`)."""
    chance = condition.chance
    if chance is None:
        return
    low, high = axis.get_ylim()
    above, below = chance > 2 * high - low, chance < 2 * low - high
    if near and (above or below):
        if noted:
            said = f"{say('level')} {chance:.3g} {'↑' if above else '↓'}"
            axis.set_title(said, loc="right", fontsize="medium", color="#555555")
    else:
        axis.axhline(chance, ls=":", zorder=0, label=say("level"), **THIN)


def metric_name(condition: Condition) -> str:
    return f"{condition.records[0]['metric']}{'' if condition.higher else ' ↓'}"


def name_axes(axis: Axes, condition: Condition, x: str, y: str, title: str | None = None) -> None:
    axis.set_title(shortened(title or condition.task, 40), loc="left", weight="bold")
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def short_numbers(axis: Any) -> None:
    """1.2M for 1,200,000, at ticks that do not touch."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

    if axis.get_scale() == "log":
        axis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.set_minor_formatter(NullFormatter())
    else:
        few(axis, 4)
    large = EngFormatter(sep="")
    axis.set_major_formatter(FuncFormatter(lambda x, _: large(x) if x >= 1e5 else f"{x:,g}"))


def few(axis: Any, most: int = 5) -> None:
    """Ticks that do not touch."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
