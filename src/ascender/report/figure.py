"""One style and one saver for all figures: a column or a page wide, text of 8 points or more."""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascender.common.files import write
from ascender.common.validate import need
from ascender.report.strings import Strings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
else:  # imported only by the functions that draw
    Axes = Figure = Any

COLUMN, PAGE = 3.35, 6.9  # inches: one column of a paper, and both
FORMATS = ("svg", "png", "pdf")
THIN: dict[str, Any] = {"color": "#888888", "lw": 0.9}
GREYS = (THIN["color"], "#555555")
KOREAN_FONTS = (
    "Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "Nanum Gothic", "Malgun Gothic",
    "Apple SD Gothic Neo", "AppleGothic", "UnDotum", "Baekmuk Gulim", "Noto Sans CJK JP",
)  # fmt: skip

Label = Callable[..., str]


def korean_font() -> str | None:
    """A font of this machine that has Korean letters."""
    from matplotlib import font_manager

    here = {font.name for font in font_manager.fontManager.ttflist}
    return next((name for name in KOREAN_FONTS if name in here), None)


def labels(strings: Strings, lang: str) -> Label:
    """Axis labels (`axis.NAME`) in one language: Korean where a font has it, else English."""
    one = "ko" if lang == "ko" and korean_font() else "en"
    return lambda name, /, **fields: strings.text(f"axis.{name}", one, **fields)


def style() -> AbstractContextManager[None]:
    """Matplotlib's settings while a figure is drawn and saved."""
    need("matplotlib", "figures")
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


def blank(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="w")


def panels(n: int, height: float, per_row: int = 2) -> tuple[Figure, list[Axes]]:
    """A figure with n axes: a column wide for one, a page wide for more."""
    across = min(n, per_row)
    down = math.ceil(n / across)
    figure = blank(COLUMN if n == 1 else PAGE, down * height)
    axes = list(figure.subplots(down, across, squeeze=False).flat)
    for spare in axes[n:]:
        spare.remove()
    return figure, axes[:n]


def panel_rows(
    n: int, across: int, height: float, share: bool = True
) -> tuple[Figure, list[list[Axes]]]:
    """(a figure a page wide, n rows of axes); `share`: the axes of a row have one y axis."""
    figure = blank(PAGE, n * height)
    axes = figure.subplots(n, across, squeeze=False, sharey="row" if share else "none")
    return figure, [list(row) for row in axes]


def stacked(n: int, height: float) -> Any:
    """(figure, n subfigures, one below the other)."""
    figure = blank(PAGE, n * height)
    return figure, list(figure.subfigures(n, 1, squeeze=False).flat)


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One for all panels, below them; each name once, grey reference lines last."""
    named: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    named = dict(sorted(named.items(), key=lambda item: _is_reference(item[1])))
    longest = max((len(label) for label in named), default=0)
    across = max(1, min(len(named), int(figure.get_figwidth() * 16 / (longest + 7))))
    across = math.ceil(len(named) / math.ceil(len(named) / across))  # rows of even length
    rows = math.ceil(len(named) / across)
    figure.set_figheight(figure.get_figheight() + 0.08 + 0.16 * rows)
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=across,
                  frameon=False, handlelength=2.6, columnspacing=1.2)  # fmt: skip


def _is_reference(handle: Any) -> bool:
    """Whether a handle is a grey reference line, such as the frontier, chance or a goal."""
    return hasattr(handle, "get_color") and handle.get_color() in GREYS


def shortened(text: str, n: int = 28) -> str:
    """At most n characters.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= n else text[: n - 1] + "…"


def save_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """As SVG, PNG and PDF, each written whole, the same bytes every time."""
    metadata: dict[str, dict[str, Any]] = {
        "svg": {"Date": None}, "png": {"Software": None}, "pdf": {"CreationDate": None},
    }  # fmt: skip
    logging.getLogger("fontTools.subset").setLevel(logging.ERROR)  # tables of a font it drops
    written = []
    for kind in FORMATS:
        drawn = io.BytesIO()
        figure.savefig(drawn, format=kind, metadata=metadata[kind], dpi=220)
        written.append(write(folder / f"{name}.{kind}", drawn.getvalue()))
    return written


def inline_svg(svg: str, prefix: str, label: str) -> str:
    """An SVG inside a page: no prolog, no metadata, ids of its own, as wide as there is room."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.S)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    head, rest = svg.split(">", 1)
    wide = re.search(r'width="([\d.]+)pt"', head)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    most = f' style="--natural:{float(wide[1]) * 1.6:.0f}px"' if wide else ""
    return f'{head} role="img" aria-label="{escape(label)}"{most}>{rest}'
