"""Figures over training: validation scores, and ω of the rules."""

from __future__ import annotations

import numpy as np

from ascender.core.rules import RULES
from ascender.lab.judge import curve, omega
from ascender.lab.reports.figures import chance_line, metric_name, name_axes, ruled
from ascender.lab.reports.suite_results import SuiteResults
from ascender.report.figure import THIN, Axes, Figure, Label, legend, panels, shortened
from ascender.report.palette import RULES as RULE_COLOURS
from ascender.report.palette import LineStyle, line_styles

RULE_LINES = {"align": "-", "sep": (0, (4, 1.5)), "coh": (0, (1, 1))}


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
        chance_line(axis, conditions[0], say)
        metric = metric_name(conditions[0])
        name_axes(axis, conditions[0], say("step"), say("validation", metric=metric))
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
        name_axes(axis, condition, say("step"), "ω")
        axis.yaxis.label.set(rotation=0, va="center", ha="right")
    legend(figure, axes)
    return figure


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
