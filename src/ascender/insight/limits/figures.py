"""Figures of the limits: support, distance, separability, sensitivity, and two models compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from ascender.insight.limits.distance import GUIDE
from ascender.insight.limits.measure import Measured
from ascender.insight.limits.strings import STRINGS
from ascender.insight.limits.summary import of
from ascender.report.figure import GREYS, Axes, Figure, Label, labels, legend, panels
from ascender.report.palette import SERIES, line_style, normalizer

LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1)), (0, (4, 1, 1, 1)), (0, (7, 2)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
GREY = GREYS[0]


def _named_panels(titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    figure, axes = panels(len(titles), 2.1, per_row=3)
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
    return figure, axes


def support(measured: Measured, lang: str = "en") -> Figure:
    """exp(H) against L by normaliser."""
    say = labels(STRINGS, lang)
    figure, (axis,) = _named_panels([measured.name])
    names = list(dict.fromkeys(row.normalizer for row in measured.heads))
    lengths = sorted({row.length for row in measured.heads})
    for i, name in enumerate(names):
        rows = of(measured, name)
        here = [[r for r in rows if r.length == n] for n in lengths]
        axis.plot([fmean(map(measured.visible, h)) for h in here],
                  [fmean(r.support for r in h) for h in here], color=normalizer(name),
                  ls=LINES[i % 5], marker=MARKS[i % 7],
                  label=name + (" *" if name == measured.own else ""))  # fmt: skip
    own = [[r for r in of(measured) if r.length == n] for n in lengths]
    keys = [fmean(r.keys for r in h) for h in own]
    visible = [fmean(map(measured.visible, h)) for h in own]
    axis.plot(visible, keys, color=GREY, ls=":", lw=0.9, label="L")
    axis.plot(visible, [GUIDE * n for n in visible], color=GREY, ls=(0, (1, 3)), lw=0.9,
              label=f"{GUIDE} |V|" if measured.flocks else f"{GUIDE} L")  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel=say("visible" if measured.flocks else "L"),
             ylabel=say("support"))  # fmt: skip
    _plain(axis, visible)
    legend(figure, [axis])
    return figure


def distance(measured: Measured, lang: str = "en") -> Figure:
    """d̃ and its bound against N at several L, a panel a layer (Fig. 2 of arXiv 2508.17821)."""
    say = labels(STRINGS, lang)
    layers = sorted({row.layer for row in measured.curves})
    figure, axes = _named_panels([say("layer", n=n) for n in layers])
    lengths = sorted({row.length for row in measured.curves})
    for axis, layer in zip(axes, layers, strict=True):
        for i, length in enumerate(lengths):
            rows = [r for r in measured.curves if (r.layer, r.length) == (layer, length)]
            points = sorted({r.N for r in rows})
            here = [[r for r in rows if r.N == N] for N in points]
            means = [fmean(r.distance for r in h) for h in here]
            low = [min(r.distance for r in h) for h in here]
            high = [max(r.distance for r in h) for h in here]
            bounds = [fmean(r.bound for r in h) for h in here]
            colour = SERIES[i % 7]
            axis.fill_between(points, low, high, color=colour, alpha=0.15, lw=0)
            axis.plot(points, means, color=colour, marker=MARKS[i % 7], label=f"L = {length}")
            axis.plot(points, bounds, color=colour, ls="--", lw=0.9)
        axis.plot([], [], color=GREY, ls="--", lw=0.9, label=say("bound"))
        axis.set(xscale="log", yscale="log", xlabel=say("N"), ylabel=say("distance"))
        _plain(axis, [1, 8, 64, 512][: 2 + (max(lengths) > 64) + (max(lengths) > 512)])
    legend(figure, axes[:1])
    return figure


def separable(measured: Measured, lang: str = "en") -> Figure:
    """N_s/N against N/L at the greatest length, a panel a layer, a line a head (Fig. 3)."""
    longest = max(row.length for row in measured.curves)

    def finish(axis: Axes, say: Label) -> None:
        axis.axvline(GUIDE, color=GREY, ls=":", lw=0.9)
        axis.set(xscale="log", ylim=(0, 1.05), xlabel=say("N/L"), ylabel=say("separable"))
        _plain(axis, [0.01, 0.06, 0.25, 0.75])

    rows = [row for row in measured.curves if row.length == longest]
    return _lines_of_heads(rows, "share", "separable", finish, lang)


def gradient(measured: Measured, lang: str = "en") -> Figure:
    """‖J‖₂ against T of the model's own normaliser, a panel a layer, a line a head (Fig. 4)."""
    rows = [row for row in measured.slopes if row.normalizer == measured.own]
    T = sorted({r.T for r in rows})
    return _lines_of_heads(rows, "T", "spectral", lambda axis, say: _bounds(axis, T, say), lang)


def _lines_of_heads(
    rows: Sequence[Any], x: str, y: str, finish: Callable[[Axes, Label], None], lang: str
) -> Figure:
    """A panel a layer, a line a head."""
    say = labels(STRINGS, lang)
    layers, heads = sorted({r.layer for r in rows}), sorted({r.head for r in rows})
    figure, axes = _named_panels([say("layer", n=n) for n in layers])
    for axis, layer in zip(axes, layers, strict=True):
        for h in heads:
            here = [r for r in rows if (r.layer, r.head) == (layer, h)]
            line = sorted({(getattr(r, x), getattr(r, y)) for r in here})
            axis.plot(*zip(*line, strict=True), color=SERIES[h % 7], ls=LINES[h // 7 % 5],
                      marker=".", lw=0.9, label=say("head", n=h))  # fmt: skip
        finish(axis, say)
    legend(figure, axes[:1])
    return figure


def normalizers(measured: Measured, lang: str = "en") -> Figure:
    """‖J‖₂ against T by normaliser, the largest over heads."""
    say = labels(STRINGS, lang)
    figure, (axis,) = _named_panels([measured.name])
    temperatures = sorted({row.T for row in measured.slopes})
    for i, name in enumerate(dict.fromkeys(row.normalizer for row in measured.slopes)):
        rows = [row for row in measured.slopes if row.normalizer == name]
        most = [max(r.spectral for r in rows if r.T == T) for T in temperatures]
        axis.plot(temperatures, most, color=normalizer(name), ls=LINES[i % 5], marker=MARKS[i % 7],
                  label=name)  # fmt: skip
    _bounds(axis, temperatures, say)
    legend(figure, [axis])
    return figure


def compare(one: Measured, two: Measured, lang: str = "en") -> Figure:
    """exp(H)/L against L of two models: every head thin, the mean thick."""
    say = labels(STRINGS, lang)
    figure, (axis,) = _named_panels([""])
    colours = _of_models(one.name, two.name)
    for i, (measured, colour) in enumerate(zip((one, two), colours, strict=True)):
        rows = of(measured)
        for place in sorted({(r.layer, r.head) for r in rows}):
            line = sorted(
                (measured.visible(r), r.share) for r in rows if (r.layer, r.head) == place
            )
            axis.plot(*zip(*line, strict=True), color=colour, lw=0.5, alpha=0.4)
        lengths = sorted({r.length for r in rows})
        here = [[r for r in rows if r.length == n] for n in lengths]
        axis.plot([fmean(map(measured.visible, h)) for h in here],
                  [fmean(r.share for r in h) for h in here], color=colour, lw=2.2, ls=LINES[i],
                  marker=MARKS[i], label=measured.name)  # fmt: skip
    axis.axhline(GUIDE, color=GREY, ls=":", lw=0.9, label=f"{GUIDE}")
    flocks = one.flocks or two.flocks
    axis.set(xscale="log", ylim=(0, 1.02), xlabel=say("visible" if flocks else "L"),
             ylabel=say("share"))  # fmt: skip
    _plain(axis, sorted({round(one.visible(r)) for r in of(one)}))
    legend(figure, [axis])
    return figure


def _of_models(*names: str) -> list[str]:
    """Each its variant's colour, `ascender (pylib, seed 0), muted` that of no-rules; of two
    alike the second another."""
    colours: list[str] = []
    for name in names:
        variant = "no-rules" if name.endswith(", muted") else name.partition(" (")[0]
        colour = line_style(variant).colour
        colours.append(SERIES[len(colours)] if colour in colours else colour)
    return colours


FIGURES = {
    "support": support, "distance": distance, "separable": separable, "gradient": gradient,
    "normalizers": normalizers,
}  # fmt: skip


def _bounds(axis: Axes, T: Sequence[float], say: Label) -> None:
    axis.plot(T, [1 / (2 * t) for t in T], color=GREY, ls="--", label="1/(2T)")
    axis.plot(T, [1 / (4 * t) for t in T], color=GREY, ls=":", label="1/(4T)")
    axis.set(xscale="log", yscale="log", xlabel=say("T"), ylabel=say("spectral"))
    axis.set_ylim(1e-3, 30)
    _plain(axis, [0.1, 1])


def _plain(axis: Axes, ticks: Sequence[float]) -> None:
    """Plain numbers where an axis is logarithmic."""
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    axis.set_xticks(ticks, [f"{t:.3g}" for t in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    if axis.get_yscale() == "log":
        axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axis.yaxis.set_minor_formatter(NullFormatter())
