"""The figures: functions of the rows."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ascender.common.files import write
from ascender.insight.demo import korean_font
from ascender.insight.limits.distance import GUIDE
from ascender.insight.limits.measure import Measured
from ascender.insight.limits.strings import AXES, pick
from ascender.insight.limits.summary import of
from ascender.report.palette import SERIES, look, normalizer

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:  # imported only by the functions that draw
    Axes = Figure = Any

LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1)), (0, (4, 1, 1, 1)), (0, (7, 2)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#777777"
ACROSS, PANEL = 3, (2.35, 1.9)

Say = Callable[..., str]


def words(lang: str) -> Say:
    """Labels in one language: Korean where it is asked for alone and a font has it."""
    one = "ko" if lang == "ko" and korean_font() else "en"
    return lambda name, **names: pick(AXES[name], one, **names)


def style() -> AbstractContextManager[None]:
    """Settings that hold while a figure is made and saved."""
    try:
        import matplotlib
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            'figures need matplotlib; expected: pip install "ascender-attention[figures]"',
            name=missing.name,
        ) from None
    fonts = ["DejaVu Sans", *filter(None, [korean_font()])]
    return matplotlib.rc_context({
        "font.family": fonts, "font.size": 8, "axes.titlesize": 8.5, "legend.fontsize": 7.5,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7,
        "lines.linewidth": 1.3, "lines.markersize": 3.5, "svg.hashsalt": "ascender",
        "mathtext.default": "regular", "text.parse_math": False,
    })  # fmt: skip


def _panels(n: int, titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    across = min(n, ACROSS)
    down = math.ceil(n / across)
    width = max(3.4, PANEL[0] * across)
    figure = Figure((width, PANEL[1] * down + 0.5), layout="constrained", facecolor="w")
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for spare in axes[n:]:
        spare.remove()
    for axis, title in zip(axes, titles, strict=False):
        axis.set_title(title)
    return figure, axes[:n]


def _legend(figure: Figure, axis: Axes) -> None:
    """Below all panels, each name once."""
    named = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    longest = max(len(name) for name in named)
    across = max(1, min(len(named), int(figure.get_figwidth() * 14 / (longest + 6))))
    rows = math.ceil(len(named) / across)
    figure.set_figheight(figure.get_figheight() + 0.17 * rows)
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=across,
                  frameon=False, handlelength=2.4, columnspacing=1.2)  # fmt: skip


def support(measured: Measured, lang: str = "en") -> Figure:
    """exp(H) against L by normaliser."""
    say = words(lang)
    figure, (axis,) = _panels(1, [measured.name])
    names = list(dict.fromkeys(row.normalizer for row in measured.heads))
    lengths = sorted({row.length for row in measured.heads})
    for i, name in enumerate(names):
        rows = of(measured, name)
        here = [[r for r in rows if r.length == n] for n in lengths]
        axis.plot([fmean(r.keys for r in h) for h in here],
                  [fmean(r.support for r in h) for h in here], color=normalizer(name),
                  ls=LINES[i % 5], marker=MARKS[i % 7],
                  label=name + (" *" if name == measured.own else ""))  # fmt: skip
    keys = [fmean(r.keys for r in of(measured) if r.length == n) for n in lengths]
    axis.plot(keys, keys, color=GREY, ls=":", lw=0.9, label="L")
    axis.plot(keys, [GUIDE * k for k in keys], color=GREY, ls=(0, (1, 3)), lw=0.9,
              label=f"{GUIDE} L")  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel=say("L"), ylabel=say("support"))
    _plain(axis, keys)
    _legend(figure, axis)
    return figure


def distance(measured: Measured, lang: str = "en") -> Figure:
    """d̃ and its bound against N at several L, a panel a layer (Fig. 2 of arXiv 2508.17821)."""
    say = words(lang)
    layers = sorted({row.layer for row in measured.curves})
    figure, axes = _panels(len(layers), [say("layer", n=n) for n in layers])
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
    _legend(figure, axes[0])
    return figure


def separable(measured: Measured, lang: str = "en") -> Figure:
    """N_s/N against N/L at the greatest length, a panel a layer, a line a head (Fig. 3)."""
    say = words(lang)
    longest = max(row.length for row in measured.curves)
    rows = [row for row in measured.curves if row.length == longest]
    layers, heads = sorted({r.layer for r in rows}), sorted({r.head for r in rows})
    figure, axes = _panels(len(layers), [say("layer", n=n) for n in layers])
    for axis, layer in zip(axes, layers, strict=True):
        for h in heads:
            here = sorted({(r.share, r.separable) for r in rows if (r.layer, r.head) == (layer, h)})
            axis.plot(*zip(*here, strict=True), color=SERIES[h % 7], ls=LINES[h // 7 % 5],
                      marker=".", lw=0.9, label=say("head", n=h))  # fmt: skip
        axis.axvline(GUIDE, color=GREY, ls=":", lw=0.9)
        axis.set(xscale="log", ylim=(0, 1.05), xlabel=say("N/L"), ylabel=say("separable"))
        _plain(axis, [0.01, 0.06, 0.25, 0.75])
    _legend(figure, axes[0])
    return figure


def gradient(measured: Measured, lang: str = "en") -> Figure:
    """‖J‖₂ against T of the model's own normaliser, a panel a layer, a line a head (Fig. 4)."""
    say = words(lang)
    rows = [row for row in measured.slopes if row.normalizer == measured.own]
    layers, heads = sorted({r.layer for r in rows}), sorted({r.head for r in rows})
    figure, axes = _panels(len(layers), [say("layer", n=n) for n in layers])
    for axis, layer in zip(axes, layers, strict=True):
        for h in heads:
            here = sorted((r.T, r.spectral) for r in rows if (r.layer, r.head) == (layer, h))
            axis.plot(*zip(*here, strict=True), color=SERIES[h % 7], ls=LINES[h // 7 % 5],
                      marker=".", lw=0.9, label=say("head", n=h))  # fmt: skip
        _bounds(axis, sorted({r.T for r in rows}), say)
    _legend(figure, axes[0])
    return figure


def normalizers(measured: Measured, lang: str = "en") -> Figure:
    """‖J‖₂ against T by normaliser, the largest over heads."""
    say = words(lang)
    figure, (axis,) = _panels(1, [measured.name])
    temperatures = sorted({row.T for row in measured.slopes})
    for i, name in enumerate(dict.fromkeys(row.normalizer for row in measured.slopes)):
        rows = [row for row in measured.slopes if row.normalizer == name]
        most = [max(r.spectral for r in rows if r.T == T) for T in temperatures]
        axis.plot(temperatures, most, color=normalizer(name), ls=LINES[i % 5], marker=MARKS[i % 7],
                  label=name)  # fmt: skip
    _bounds(axis, temperatures, say)
    _legend(figure, axis)
    return figure


def compare(one: Measured, two: Measured, lang: str = "en") -> Figure:
    """exp(H)/L against L of two models: every head thin, the mean thick."""
    say = words(lang)
    figure, (axis,) = _panels(1, [""])
    colours = _of_models(one.name, two.name)
    for i, (measured, colour) in enumerate(zip((one, two), colours, strict=True)):
        rows = of(measured)
        for place in sorted({(r.layer, r.head) for r in rows}):
            line = sorted((r.keys, r.share) for r in rows if (r.layer, r.head) == place)
            axis.plot(*zip(*line, strict=True), color=colour, lw=0.5, alpha=0.4)
        lengths = sorted({r.length for r in rows})
        here = [[r for r in rows if r.length == n] for n in lengths]
        axis.plot([fmean(r.keys for r in h) for h in here],
                  [fmean(r.share for r in h) for h in here], color=colour, lw=2.2, ls=LINES[i],
                  marker=MARKS[i], label=measured.name)  # fmt: skip
    axis.axhline(GUIDE, color=GREY, ls=":", lw=0.9, label=f"{GUIDE}")
    axis.set(xscale="log", ylim=(0, 1.02), xlabel=say("L"), ylabel=say("share"))
    _plain(axis, sorted({round(r.keys) for r in of(one)}))
    _legend(figure, axis)
    return figure


def _of_models(*names: str) -> list[str]:
    """Each its variant's colour, `ascender (pylib, seed 0), muted` that of no-rules; of two
    alike the second another."""
    found: list[str] = []
    for name in names:
        variant = "no-rules" if name.endswith(", muted") else name.partition(" (")[0]
        colour = look(variant).colour
        found.append(SERIES[len(found)] if colour in found else colour)
    return found


FIGURES = {
    "support": support, "distance": distance, "separable": separable, "gradient": gradient,
    "normalizers": normalizers,
}  # fmt: skip


def _bounds(axis: Axes, T: Sequence[float], say: Say) -> None:
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


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """As SVG and PNG, the same bytes every time."""
    metadata: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "png": {"Software": None}}
    written = []
    for kind, about in metadata.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind, metadata=about, dpi=120)
        written.append(write(folder / f"{name}.{kind}", drawn.getvalue()))
    return written
