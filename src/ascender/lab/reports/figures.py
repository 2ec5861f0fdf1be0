"""The figures of a report, from a suite's results. (Figure 1 needs a model: attention_maps.py;
figure 4 is in head_figures.py.)

Each gives a figure, or None where the records have nothing for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascender.core.rules import RULES
from ascender.lab.judge import Condition, curve
from ascender.lab.reports.suite_results import SuiteResults, omega
from ascender.lab.reports.tables import FLOPS
from ascender.lab.stats import Summary
from ascender.report.figure import THIN, Axes, Figure, Label, legend, panels, shortened
from ascender.report.palette import RULES as RULE_COLOURS
from ascender.report.palette import LineStyle, line_styles

RULE_LINES = {"align": "-", "sep": (0, (4, 1.5)), "coh": (0, (1, 1))}
LENGTHS = ("length", "crowd")
VERDICT_MARKS = {"win": "^", "tie": "o", "loss": "v", "unjudged": "x"}


def pareto(results: SuiteResults, say: Label) -> Figure | None:
    """2: quality against cost."""
    styles = line_styles(results.variants)
    figure, axes = panels(len(results.tasks), 2.3)
    for axis, task in zip(axes, results.tasks, strict=True):
        conditions = results.of_task(task)
        x = [condition.mean(FLOPS) for condition in conditions]
        y = [condition.summary.mean for condition in conditions]
        for c, cost, quality in zip(conditions, x, y, strict=True):
            style, name = styles[c.variant], shortened(c.variant)
            axis.errorbar(cost, quality, yerr=reach(c.summary), fmt=style.mark, color=style.colour,
                          ms=5.5, elinewidth=0.9, capsize=2, label=name)  # fmt: skip
        at = frontier(x, y, conditions[0].higher)
        axis.step([*(x[i] for i in at), max(x)], [*(y[i] for i in at), y[at[-1]]], where="post",
                  color="#555555", lw=1, zorder=0, label=say("frontier"))  # fmt: skip
        _chance(axis, conditions[0], say, near=True)
        if min(x) > 0 and max(x) / min(x) > 10:
            axis.set_xscale("log")
        _powers(axis)
        axis.margins(x=0.12)
        _name(axis, conditions[0], say("flops"), say("test", metric=_metric(conditions[0])))
    legend(figure, axes)
    return figure


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
    """3: differences from the baseline, with intervals."""
    by_task = [[c for c in results.of_task(t) if results.comparison(c)] for t in results.tasks]
    by_task = [conditions for conditions in by_task if conditions]
    if not by_task:
        return None
    styles, smallest = line_styles(results.variants), results.sheet.rule.smallest
    figure, axes = panels(len(by_task), 0.75 + 0.26 * max(map(len, by_task)))
    for axis, conditions in zip(axes, by_task, strict=True):
        if smallest:
            axis.axvspan(-smallest, smallest, color="#DDDDDD", lw=0, zorder=0)
        axis.axvline(0, color="black", lw=0.8, zorder=1)
        for row, condition in enumerate(conditions):
            s = results.judged[condition.task, condition.variant].by_seed
            colour = styles[condition.variant].colour
            if s.interval is not None:
                axis.plot(s.interval, (row, row), color=colour, lw=1.6, solid_capstyle="butt")
            axis.plot(s.mean, row, VERDICT_MARKS[results.verdict(condition)], color=colour, ms=6.5,
                      mec=colour, mfc="white" if results.verdict(condition) == "tie" else colour,
                      mew=1.4)  # fmt: skip
        axis.set_yticks(range(len(conditions)), [shortened(c.variant, 20) for c in conditions])
        axis.set_ylim(len(conditions) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        axis.grid(axis="x", color="#E6E6E6", lw=0.6)
        _few(axis.xaxis)
        word = "own_difference" if results.sheet.against else "difference"
        label = say(word, metric=_metric(conditions[0]), baseline=results.sheet.baseline)
        _name(axis, conditions[0], label, "")
    return figure


def length(results: SuiteResults, say: Label) -> Figure | None:
    """5: quality against length, where a task was run at several."""
    lines: dict[str, dict[str, dict[float, Condition]]] = {}
    names: dict[str, str] = {}
    for condition in results.conditions:
        options = condition.records[0]["run"].get("options", {})
        name = next((n for n in LENGTHS if isinstance(options.get(n), int | float)), None)
        if name is not None:
            task = results.base_task[condition.task]
            names[task] = name
            lines.setdefault(task, {}).setdefault(condition.variant, {})[options[name]] = condition
    tasks = [t for t, of in lines.items() if len({x for line in of.values() for x in line}) > 1]
    if not tasks:
        return None
    styles = line_styles(results.variants)
    figure, axes = panels(len(tasks), 2.3)
    for axis, task in zip(axes, tasks, strict=True):
        for variant, line in lines[task].items():
            x = sorted(line)
            y = [line[at].summary.mean for at in x]
            errors = np.array([reach(line[at].summary) or [[0], [0]] for at in x])[:, :, 0].T
            style = styles[variant]
            axis.errorbar(x, y, yerr=errors, color=style.colour, marker=style.mark, ls=style.line,
                          elinewidth=0.9, capsize=2, label=shortened(variant))  # fmt: skip
        ticks = sorted({x for line in lines[task].values() for x in line})
        if min(ticks) > 0:
            axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axis.minorticks_off()
        first = next(iter(next(iter(lines[task].values())).values()))
        _chance(axis, first, say)
        _name(axis, first, names[task], say("test", metric=_metric(first)), task)
    legend(figure, axes)
    return figure


def curves(results: SuiteResults, say: Label) -> Figure | None:
    """Validation scores over steps: seeds thin, their mean thick."""
    styles = line_styles(results.variants)
    figure, axes = panels(len(results.tasks), 2.3)
    for axis, task in zip(axes, results.tasks, strict=True):
        conditions = results.of_task(task)
        for condition in conditions:
            _curves(axis, [curve(r, "step") for r in condition.records if r["curve"]],
                    styles[condition.variant], shortened(condition.variant))  # fmt: skip
        goal = results.goal(task)
        if goal is not None:
            axis.axhline(goal, ls=(0, (5, 3)), zorder=0, label=say("goal"), **THIN)
        _chance(axis, conditions[0], say)
        metric = _metric(conditions[0])
        _name(axis, conditions[0], say("step"), say("validation", metric=metric))
    legend(figure, axes)
    return figure


def omegas(results: SuiteResults, say: Label) -> Figure | None:
    """ω over training: heads of all seeds thin, their mean thick, a colour for each rule."""
    conditions = ruled(results)
    if not conditions:
        return None
    figure, axes = panels(len(conditions), 2.1)
    for axis, condition in zip(axes, conditions, strict=True):
        for rule in RULES:
            lines = [
                [(p["step"], p["omega"][rule][layer][head]) for p in r["curve"] if p.get("omega")]
                for r in condition.records
                for layer, of in enumerate(omega(r).get(rule, []))
                for head in range(len(of))
            ]
            _curves(axis, lines, LineStyle(RULE_COLOURS[rule], "", RULE_LINES[rule]), say(rule))
        _name(axis, condition, say("step"), "ω")
        axis.yaxis.label.set(rotation=0, va="center", ha="right")
    legend(figure, axes)
    return figure


# --- what they share


def ruled(results: SuiteResults) -> list[Condition]:
    """The variant that stands for the rules, on each task."""
    name = results.ruled()
    return [c for c in results.conditions if c.variant == name and any(omega(r) for r in c.records)]


def _curves(
    axis: Axes, lines: list[list[tuple[float, float]]], style: LineStyle, label: str
) -> None:
    """Each thin; thick their mean where all of them have a point."""
    if not lines:
        return
    for line in lines:
        axis.plot(*zip(*line, strict=True), color=style.colour, lw=0.5, alpha=0.4)
    common = sorted(set.intersection(*({t for t, _ in line} for line in lines)))
    mean = [float(np.mean([dict(line)[t] for line in lines])) for t in common]
    few = style.mark if len(common) <= 12 else ""
    axis.plot(
        common, mean, color=style.colour, ls=style.line, marker=few, ms=4, lw=1.6, label=label
    )


def reach(s: Summary) -> list[list[float]] | None:
    """Error bars of a mean."""
    if s.interval is None:
        return None
    return [[s.mean - s.interval.low], [s.interval.high - s.mean]]


def _chance(axis: Axes, condition: Condition, say: Label, near: bool = False) -> None:
    """A dotted line; with `near`, where it would compress the other points, a number and an
    arrow."""
    chance = condition.chance
    if chance is None:
        return
    low, high = axis.get_ylim()
    above, below = chance > 2 * high - low, chance < 2 * low - high
    if near and (above or below):
        y, va, arrow = (0.97, "top", "↑") if above else (0.03, "bottom", "↓")
        axis.text(0.98, y, f"{say('level')} {chance:.3g} {arrow}", transform=axis.transAxes,
                  ha="right", va=va, fontsize="small", color="#555555")  # fmt: skip
    else:
        axis.axhline(chance, ls=":", zorder=0, label=say("level"), **THIN)


def _metric(condition: Condition) -> str:
    return f"{condition.records[0]['metric']}{'' if condition.higher else ' ↓'}"


def _name(axis: Axes, condition: Condition, x: str, y: str, title: str | None = None) -> None:
    axis.set_title(shortened(title or condition.task, 40), loc="left", weight="bold")
    axis.set_xlabel(x)
    axis.set_ylabel(y)


def _powers(axis: Axes) -> None:
    """1.2M for 1,200,000."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    if axis.get_xscale() == "log":
        axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axis.xaxis.set_minor_formatter(NullFormatter())
    else:
        _few(axis.xaxis)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))


def _few(axis: Any) -> None:
    """Ticks that do not touch."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
