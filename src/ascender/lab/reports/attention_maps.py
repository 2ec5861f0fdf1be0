"""Figure 1: one attention of a trained model, taken apart on a test example (lab.score_maps)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascender.lab import score_maps
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.score_maps import ScoreMaps
from ascender.report.figure import PAGE, Figure, Label, blank

SIGNS = {"base": "", "total": "= ", "weights": "→ "}


def maps(results: SuiteResults, data_dir: str | None = None) -> ScoreMaps:
    """What was kept of a trial with rules, or is taken from its model where that is here."""
    said: list[str] = []
    path = score_maps.keep(results.source.folder, results.source.records, data_dir, said.append)
    if path is None:
        raise FileNotFoundError(said[0] if said else "no folder of a model")
    return score_maps.read(path)


def draw(maps: ScoreMaps, say: Label, shared: bool = False) -> Figure:
    """Three terms above, one and the sum and the weights below; four above with affinity. Each on a
    scale of its own, or, `shared`, all but the weights on one."""
    figure = blank(PAGE, 4.6 if shared else 4.0)
    axes = figure.subplots(2, (len(maps.terms) + 1) // 2)
    top = max(_reach(m) for t, m in maps.terms.items() if t != "weights")
    for axis in axes.flat[len(maps.terms) :]:
        axis.set_visible(False)
    images = {}
    for axis, (term, m) in zip(axes.flat, maps.terms.items(), strict=False):
        reach = top if shared else _reach(m)
        how: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -reach, "vmax": reach}
        if term == "weights":
            how = {"cmap": "YlGnBu", "vmin": 0, "vmax": _reach(m)}
        images[term] = axis.imshow(m, interpolation="nearest", **how)
        axis.set_title(SIGNS.get(term, "+ ") + say(term), loc="left", weight="bold")
        _ticks(axis, maps.tokens)
        axis.spines[:].set_visible(False)
        if not shared:
            _bar(figure, images[term], axis, shrink=0.75, aspect=16, pad=0.03)
    for axis in axes[1]:
        axis.set_xlabel(say("key"))
    for axis in axes[:, 0]:
        axis.set_ylabel(say("query"))
    for term, place, label in (("base", axes[0], "score"), ("weights", axes[1], "weights")):
        if shared:
            bar = _bar(figure, images[term], list(place), shrink=0.85, aspect=18, pad=0.015)
            bar.set_label(say(label))
    return figure


def _reach(m: np.ndarray) -> float:
    """The largest size of a term, from which its colours are taken; 1 of a term that is 0."""
    return float(np.abs(m).max()) or 1.0


def _bar(figure: Figure, image: Any, places: Any, **how: Any) -> Any:
    from matplotlib.ticker import MaxNLocator

    bar = figure.colorbar(image, ax=places, ticks=MaxNLocator(4), **how)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=2)
    return bar


def _ticks(axis: Any, tokens: tuple[str, ...]) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.tick_params(length=2)
    for along in (axis.xaxis, axis.yaxis):
        along.set_major_locator(MaxNLocator(4, integer=True))
    if tokens:
        long = max(map(len, tokens)) > 2
        turned = {"rotation": 60, "ha": "right"} if long else {}
        axis.set_xticks(range(len(tokens)), tokens, **turned)
        axis.set_yticks(range(len(tokens)), tokens)
