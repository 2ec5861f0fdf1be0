"""How figures look: a column or a page wide, 8 points or more, colours that everyone can tell."""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascender.common.files import write
from ascender.insight.demo import korean_font
from ascender.lab.reports.strings import AXES, pick

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:  # imported only by the functions that draw
    Axes = Figure = Any

COLUMN, PAGE = 3.35, 6.9  # inches: one column of a paper, and both
PER_ROW = 2
KINDS = ("svg", "png", "pdf")

RULE_LINES = {"align": "-", "sep": (0, (4, 1.5)), "coh": (0, (1, 1))}
FINE: dict[str, Any] = {"color": "#888888", "lw": 0.9}
GREYS = (FINE["color"], "#555555")


@dataclass(frozen=True)
class Words:
    """Axis labels in one language: Korean where it is asked for alone and a font has it."""

    lang: str

    def __call__(self, name: str, **names: object) -> str:
        return pick(AXES[name], self.lang, **names)


def words(lang: str) -> Words:
    return Words("ko" if lang == "ko" and korean_font() else "en")


def style() -> AbstractContextManager[None]:
    """Settings that hold while a figure is made and saved."""
    import matplotlib

    fonts = ["DejaVu Sans", *filter(None, [korean_font()])]
    return matplotlib.rc_context({
        "font.family": fonts, "font.size": 8, "axes.titlesize": 9, "axes.labelsize": 8,
        "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8,
        "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7,
        "lines.linewidth": 1.4, "lines.markersize": 5, "pdf.fonttype": 42,
        "svg.hashsalt": "ascender", "axes.axisbelow": True, "mathtext.default": "regular",
        "text.parse_math": False, "axes.unicode_minus": True,
    })  # fmt: skip


def panels(n: int, height: float) -> Any:
    """(figure, n axes): a column wide for one, a page wide for more."""
    from matplotlib.figure import Figure

    across = min(n, PER_ROW)
    down = math.ceil(n / across)
    width = COLUMN if n == 1 else PAGE
    figure = Figure(figsize=(width, down * height), layout="constrained", facecolor="w")
    grid = figure.subplots(down, across, squeeze=False)
    axes = list(grid.flat)
    for spare in axes[n:]:
        spare.remove()
    return figure, axes[:n]


def stacked(n: int, height: float) -> Any:
    """(figure, n figures in it, one below the other)."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(PAGE, n * height), layout="constrained", facecolor="w")
    return figure, list(figure.subfigures(n, 1, squeeze=False).flat)


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One for all panels, below them; a name once, those of variants (with marks) first."""
    named: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    named = dict(sorted(named.items(), key=lambda item: _bare(item[1])))
    longest = max((len(label) for label in named), default=0)
    across = max(1, min(len(named), int(figure.get_figwidth() * 16 / (longest + 7))))
    across = math.ceil(len(named) / math.ceil(len(named) / across))  # rows of even length
    rows = math.ceil(len(named) / across)
    figure.set_figheight(figure.get_figheight() + 0.08 + 0.16 * rows)
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=across,
                  frameon=False, handlelength=2.6, columnspacing=1.2)  # fmt: skip


def _bare(handle: Any) -> bool:
    """Whether it is a line that is no variant's: the frontier, the floor, a goal."""
    return hasattr(handle, "get_color") and handle.get_color() in GREYS


def cut(text: str, n: int = 28) -> str:
    """A name that fits."""
    return text if len(text) <= n else text[: n - 1] + "…"


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """As SVG, PNG and PDF, each whole or not at all, the same bytes every time."""
    metadata: dict[str, dict[str, Any]] = {
        "svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None},
    }  # fmt: skip
    logging.getLogger("fontTools.subset").setLevel(logging.ERROR)  # tables of a font it drops
    written = []
    for kind in KINDS:
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind, metadata=metadata[kind], dpi=220)
        written.append(write(folder / f"{name}.{kind}", drawn.getvalue()))
    return written
