"""Figure 4 and what belongs to it: ω and contributions by head, roles, the groups found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ascender.core.rules import RULES
from ascender.insight.grouping import SOURCES
from ascender.lab.judge import RANGES, omega
from ascender.lab.reports.figures import reach, ruled
from ascender.lab.reports.model_insight import ModelInsight, measured
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.stats import Summary
from ascender.report.figure import (
    GREYS,
    THIN,
    Axes,
    Figure,
    Label,
    legend,
    panels,
    shortened,
    stacked,
)
from ascender.report.palette import TERMS as COLOURS
from ascender.report.palette import line_style

HATCHES = {"align": "", "sep": "////", "coh": "....", "aff": "xxxx"}
Maps = Mapping[str, np.ndarray]
Places = Mapping[tuple[str, int], float]  # of a source and a layer


def heads(results: SuiteResults, say: Label) -> Figure | None:
    """4: ω by layer and head, mean over seeds; below it what the rules do, where it was
    measured."""
    models = _ruled_models(results)
    if models:
        return head_maps(models, say)
    conditions = ruled(results)
    return _maps([
        (c.task, "ω", {
            rule: np.mean([omega(r)[rule] for r in c.records if omega(r)], axis=0)
            for rule in RULES
        })
        for c in conditions
    ], say) if conditions else None  # fmt: skip


def _ruled_models(results: SuiteResults) -> list[ModelInsight]:
    """The variant that stands for the rules, on each task where it was measured."""
    return [m for m in measured(results) if m.variant == results.ruled() and m.ruled]


def head_maps(models: Sequence[ModelInsight], say: Label) -> Figure:
    """For each task ω above and the attention moved below, heads matched between seeds."""
    return _maps([
        (m.task, label, {rule: get(rule) for rule in m.rules})
        for m in models
        for label, get in (("ω", m.omega), (say("moved"), m.moved))
    ], say)  # fmt: skip


def _maps(rows: Sequence[tuple[str, str, Maps]], say: Label) -> Figure:
    """A row of maps for each (task, what is shown, map by rule); one scale for all that show the
    same."""
    figure, places = stacked(len(rows), _height(*(m for *_, of in rows for m in of.values())))
    scales = {
        label: _scale([m for _, name, of in rows if name == label for m in of.values()])
        for _, label, _ in rows
    }
    titled = ""
    for place, (task, label, of) in zip(places, rows, strict=True):
        if task != titled:
            place.suptitle(shortened(task, 70), x=0.01, ha="left", weight="bold", size=9)
        titled = task
        _heat(place, of, say, label, scales[label])
    return figure


def _height(*maps: np.ndarray) -> float:
    return 1.0 + 0.3 * max(2, *(len(m) for m in maps))


def _scale(maps: Sequence[np.ndarray]) -> dict[str, Any]:
    """Colours that all maps share: from 0, or about it where some are below; places to print."""
    every = np.concatenate([m.ravel() for m in maps])
    top, low = float(np.abs(every).max()) or 1.0, float(every.min())
    fine = 0 < float(np.ptp(every)) < 0.05 and max(m.shape[1] for m in maps) <= 4
    places = 3 if fine else 2
    if low < 0:
        return {"cmap": "RdBu_r", "vmin": -top, "vmax": top, "places": places}
    return {"cmap": "YlGnBu", "vmin": 0, "vmax": top, "places": places}


def _heat(row: Any, of: Maps, say: Label, label: str, how: Mapping[str, Any]) -> None:
    """A map for each rule, layers down, heads across."""
    axes = row.subplots(1, len(of), sharey=True)
    colours = {name: value for name, value in how.items() if name != "places"}
    for axis, (rule, m) in zip(axes, of.items(), strict=True):
        image = axis.imshow(m, aspect="auto", **colours)
        _numbers(axis, m, image, how["places"])
        axis.set_xticks(range(m.shape[1]), [str(i) for i in range(m.shape[1])])
        axis.set_yticks(range(m.shape[0]), [str(i) for i in range(m.shape[0])])
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(say(rule), loc="left")
        axis.set_xlabel(say("head"))
    axes[0].set_ylabel(say("layer"))
    bar = row.colorbar(image, ax=list(axes), aspect=14, pad=0.015)
    short = len(label) == 1
    bar.set_label(label, rotation=0 if short else 90, labelpad=8 if short else 3)
    bar.outline.set_visible(False)


def _numbers(axis: Axes, m: np.ndarray, image: Any, places: int) -> None:
    if m.shape[1] > 8:
        return
    for (i, j), x in np.ndenumerate(m):
        r, g, b, _ = image.cmap(image.norm(x))
        ink = "black" if 0.299 * r + 0.587 * g + 0.114 * b > 0.5 else "white"
        axis.text(j, i, f"{x:.{places}f}".replace("-", "−"), ha="center", va="center", color=ink)


def roles(results: SuiteResults, say: Label) -> Figure | None:
    """The roles of heads: mean attention moved by each rule, and how many heads have it."""
    models = _ruled_models(results)
    return role_bars(models, say) if models else None


def role_bars(models: Sequence[ModelInsight], say: Label) -> Figure:
    """A panel a task, a group of bars a role."""
    most = max(len(m.roles.names) for m in models)
    figure, axes = panels(len(models), 0.85 + 0.42 * most)
    for axis, m in zip(axes, models, strict=True):
        roles, wide = m.roles, 0.8 / len(m.rules)
        for r, rule in enumerate(m.rules):
            x = roles.centres[:, len(m.terms) + r]
            y = np.arange(len(x)) + (r - (len(m.rules) - 1) / 2) * wide
            axis.barh(y, x, wide * 0.92, color=COLOURS[rule], hatch=HATCHES[rule],
                      edgecolor="white", lw=0, label=say(rule))  # fmt: skip
        n = np.bincount(roles.which, minlength=len(roles.names))
        names = [f"{_role(name, say)} ({k})" for name, k in zip(roles.names, n, strict=True)]
        axis.set_yticks(range(len(names)), names)
        axis.set_ylim(len(names) - 0.5, -0.5)
        axis.tick_params(axis="y", length=0)
        axis.set_xlim(left=0)
        axis.set_title(shortened(m.task, 40), loc="left", weight="bold")
        axis.set_xlabel(say("moved"))
    legend(figure, axes)
    return figure


def _role(name: str, say: Label) -> str:
    return " + ".join(say(part) for part in name.split("+"))


def grouping(results: SuiteResults, say: Label) -> Figure | None:
    """NMI of every source, by variant, with chance."""
    models = [m for m in measured(results) if m.groups()]
    return group_bars(models, say) if models else None


def group_bars(models: Sequence[ModelInsight], say: Label) -> Figure:
    """A panel a task: sources and layers along, a bar a variant, chance as a line on each."""
    tasks = list(dict.fromkeys(m.task for m in models))
    figure, rows = stacked(len(tasks), 2.3)
    axes = []
    for row, task in zip(rows, tasks, strict=True):
        axis = row.subplots()
        axes.append(axis)
        of = {m.variant: m for m in models if m.task == task}
        names = {name for m in of.values() for name in m.groups()}
        order = sorted(names, key=lambda name: (SOURCES.index(name[0]), name[1]))
        kinds = list(dict.fromkeys(kind for kind, _ in order))
        places = {name: i + 0.5 * kinds.index(name[0]) for i, name in enumerate(order)}
        wide = 0.84 / len(of)
        have = {name: [v for v, m in of.items() if name in m.groups()] for name in places}
        for variant, m in of.items():
            at = {
                name: x + (have[name].index(variant) - (len(have[name]) - 1) / 2) * wide
                for name, x in places.items()
                if variant in have[name]
            }
            _bars(axis, m, at, wide, line_style(variant).colour, say)
        _two_rows(axis, places, say)
        axis.set_xlim(-0.6, max(places.values()) + 0.6)
        axis.set_ylim(0, 1.02)
        axis.set_title(shortened(task, 40), loc="left", weight="bold")
        axis.set_ylabel("NMI")
        axis.set_xlabel(say("source"))
    legend(figure, axes)
    return figure


def _two_rows(axis: Axes, places: Places, say: Label) -> None:
    """Layers below the bars, and below their middle what is clustered."""
    axis.set_xticks(list(places.values()), [str(layer) for _, layer in places])
    of = {name: [x for (a, _), x in places.items() if a == name] for name, _ in places}
    middle = [np.mean(x) + 1e-3 for x in of.values()]  # where a tick is, matplotlib has no other
    axis.set_xticks(middle, [f"\n{say(f'of_{name}')}" for name in of], minor=True)
    axis.tick_params(axis="x", which="both", length=0)


def _bars(
    axis: Axes, m: ModelInsight, at: Places, wide: float, colour: str, say: Label
) -> None:  # fmt: skip
    """Of one variant, with their intervals and chance."""
    groups, label, half = m.groups(), shortened(m.variant), wide * 0.45
    soft = 0.75 if colour != "#000000" else 0.45  # vanilla's black hides chance
    for name, x in at.items():
        s = Summary.of([g["nmi"][0] for g in groups[name]], RANGES["NMI"])
        chance = float(np.mean([g["chance"][0] for g in groups[name]]))
        axis.bar(x, s.mean, 2 * half, color=colour, label=label, lw=0, alpha=soft)
        if s.interval is not None:
            axis.errorbar(x, s.mean, yerr=reach(s), color="black", elinewidth=0.9, capsize=2)
        axis.plot([x - half, x + half], [chance] * 2, ls=":", label=say("chance"),
                  **{**THIN, "lw": 1.6, "color": GREYS[1]})  # fmt: skip
        label = ""
