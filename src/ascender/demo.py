"""The attention scores of five tokens, term by term: what `ascender demo` prints and draws.

    gulls  seagulls  turned  together  yesterday

The numbers are set by hand so that each rule has something to do in the row of "gulls":
the key of "turned" points away from the others (alignment), "seagulls" is a near duplicate
(separation), and "yesterday" lies far from the rest (cohesion).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ascender.common.files import write
from ascender.core.attention import asc_attention
from ascender.core.combine import Parts
from ascender.core.rules import Rules
from ascender.report import palette
from ascender.report.figure import korean_font
from ascender.report.strings import Strings, languages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table
else:  # imported only by the functions that draw
    Axes = Figure = Table = Any

TOKENS = ("gulls", "seagulls", "turned", "together", "yesterday")
ROW = 0
VECTORS: dict[str, list[tuple[float, float]]] = {
    "q": [(0.8, 0.9), (0.8, 1.0), (0.4, 1.1), (0.7, 0.8), (0.6, 0.2)],
    "k": [(1.2, 0.4), (1.3, 0.5), (-0.2, 1.2), (1.0, 0.6), (1.0, 0.1)],
    "v": [(1.0, 0.0), (0.9, 0.1), (0.3, 0.7), (0.6, 0.4), (0.0, 1.0)],
    "z_q": [(0.0, 0.0), (0.2, 0.1), (0.5, 0.7), (0.8, 0.2), (2.4, -1.2)],
    "h_q": [(1.0, 0.1), (1.0, 0.2), (0.1, 1.0), (0.8, 0.5), (0.3, -1.0)],
}

NUMBERS: dict[str, Any] = {
    "omega_align": 0.5, "omega_sep": 0.3, "omega_coh": 0.5, "k": 2, "kappa": 2.0
}  # fmt: skip
TERMS = ("base", "align", "sep", "coh")
TEXT = Strings({
    "title": ("Attention scores taken apart", "어텐션 점수의 분해"),
    "base": ("base q·k/√d", "기본 점수"),
    "align": ("alignment", "정렬"),
    "sep": ("separation", "분리"),
    "coh": ("cohesion", "응집"),
    "total": ("total", "합계"),
    "weights": ("weights", "가중치"),
    "query": ("query", "쿼리"),
    "key": ("key", "키"),
    "score": ("score", "점수"),
    "row": ("The row of “{token}”: what each term adds", "“{token}” 행: 각 항이 더하는 값"),
    "compare": ("Its weights, without and with the rules", "규칙 적용 전후의 가중치"),
    "plain": ("without rules", "규칙 없음"),
    "ruled": ("with rules", "규칙 적용"),
    "story": (
        "Alignment lowers “turned”, whose key points elsewhere; separation lowers the near "
        "duplicate “seagulls”;\ncohesion lowers “yesterday”, which lies far from the centre.",
        "정렬은 키의 방향이 다른 “turned”를, 분리는 거의 같은 토큰인 “seagulls”를,\n응집은 "
        "중심에서 멀리 떨어진 “yesterday”를 낮춘다.",
    ),
})  # fmt: skip
COLOURS = palette.TERMS
PLAIN, RULED = COLOURS["base"], palette.line_style("ascender").colour
DIVERGING, SEQUENTIAL = "RdBu_r", "YlGnBu"


def five_tokens() -> dict[str, Any]:
    """The example: tokens, inputs and rules (as asc_attention takes them), out, parts, row.

    >>> example = five_tokens()
    >>> example["parts"].weights[0, 0, example["row"]].round(decimals=2).tolist()
    [0.33, 0.18, 0.13, 0.23, 0.13]
    """
    inputs: dict[str, Any] = {
        name: torch.tensor(rows, dtype=torch.float64)[None, None] for name, rows in VECTORS.items()
    }
    rules = Rules(**NUMBERS)
    out, parts = asc_attention(**inputs, rules=rules, return_parts=True)
    return {
        "tokens": TOKENS, "inputs": inputs, "rules": rules, "out": out, "parts": parts, "row": ROW
    }  # fmt: skip


def _matrix(parts: Parts, name: str) -> list[list[float]]:
    """One term, or the softmax of the base scores alone ("plain")."""
    matrix = torch.softmax(parts.base, -1) if name == "plain" else getattr(parts, name)
    rows: list[list[float]] = matrix[0, 0].tolist()
    return rows


def decomposed(example: dict[str, Any]) -> list[dict[str, Any]]:
    """The chosen row as records: key, base, align, sep, coh, total, weight, plain."""
    parts, i = example["parts"], example["row"]
    columns = {n: _matrix(parts, n)[i] for n in (*TERMS, "total", "weights", "plain")}
    columns["weight"] = columns.pop("weights")
    return [
        {"key": token, **{name: column[j] for name, column in columns.items()}}
        for j, token in enumerate(example["tokens"])
    ]


def caption(lang: str, name: str, joint: str = " · ") -> str:
    """A caption in one language, or in both."""
    texts = (TEXT.text(name, one, token=TOKENS[ROW]) for one in languages(lang))
    return joint.join(dict.fromkeys(texts))


def table(example: dict[str, Any], lang: str) -> Table:
    """The chosen row for a terminal."""
    from rich import box
    from rich.table import Table

    shown = Table(title=caption(lang, "row", "\n"), box=box.SIMPLE_HEAD, pad_edge=False)
    shown.title_justify, shown.title_style = "left", "bold"
    shown.add_column(caption(lang, "key", "\n"), no_wrap=True)
    for name in (*TERMS, "total", "weights"):
        shown.add_column(caption(lang, name, "\n"), justify="right", no_wrap=True)
    shown.add_column(caption(lang, "plain", "\n"), justify="right")
    for record in decomposed(example):
        terms = [f"{record[name]:+.2f}" for name in (*TERMS, "total")]
        shown.add_row(record["key"], *terms, f"{record['weight']:.2f}", f"{record['plain']:.2f}")
    return shown


def draw(example: dict[str, Any], lang: str = "en") -> Figure:
    """Matrices of all terms, their sum and the weights; below, the chosen row."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    figure = Figure(figsize=(17, 8), facecolor="white", dpi=120)
    top = figure.add_gridspec(1, 6, left=0.06, right=0.935, top=0.85, bottom=0.5, wspace=0.2)
    _matrices(figure, [figure.add_subplot(top[0, c]) for c in range(6)], example, lang)
    low = figure.add_gridspec(
        1, 2, left=0.06, right=0.935, top=0.345, bottom=0.085, width_ratios=(2, 1), wspace=0.1
    )
    _bars(figure.add_subplot(low[0, 0]), example, lang)
    _weights(figure.add_subplot(low[0, 1]), example, lang)
    figure.suptitle(caption(lang, "title"), x=0.06, y=0.98, ha="left", size=17, weight="bold")
    story = figure.text(0.935, 0.985, caption(lang, "story", "\n"), ha="right", va="top")
    story.set(size=10.5 if lang == "en" else 9.5, color="#444444", linespacing=1.4)
    korean = [korean_font()] if lang != "en" else []
    for text in figure.findobj(Text):
        text.set_fontfamily(["DejaVu Sans", *filter(None, korean)])
    return figure


def _matrices(figure: Figure, axes: list[Axes], example: dict[str, Any], lang: str) -> None:
    parts, tokens = example["parts"], example["tokens"]
    names = (*TERMS, "total", "weights")
    values = {name: _matrix(parts, name) for name in names}
    top = max(abs(x) for name in names[:-1] for row in values[name] for x in row)
    images = []
    for axis, name, sign in zip(axes, names, ("", "+", "+", "+", "=", "→"), strict=True):
        scale: dict[str, Any] = {"cmap": DIVERGING, "vmin": -top, "vmax": top}
        if name == "weights":
            most = max(max(row) for row in values[name])
            scale = {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": most}
        images.append(axis.imshow(values[name], aspect="equal", **scale))
        axis.set_title(caption(lang, name, "\n"), size=12, weight="bold", pad=8)
        axis.text(-0.1, 0.5, sign, transform=axis.transAxes, size=18, ha="center", va="center")
        axis.set_xticks(range(len(tokens)), tokens, rotation=45, ha="right", size=9)
        axis.set_yticks(range(len(tokens)), tokens if axis is axes[0] else [], size=9)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        _cells(axis, values[name], images[-1], name == "weights")
    axes[0].set_ylabel(caption(lang, "query"), size=10)
    for image, y, label in ((images[0], 0.69, "score"), (images[-1], 0.51, "weights")):
        bar = figure.colorbar(image, cax=figure.add_axes((0.948, y, 0.008, 0.145)))
        bar.set_label(caption(lang, label), size=9)
        bar.ax.tick_params(labelsize=8)
        bar.outline.set_visible(False)


def _cells(axis: Axes, values: list[list[float]], image: Any, plain: bool) -> None:
    """The numbers, dark on light and light on dark, and a frame around the chosen row."""
    from matplotlib.patches import Rectangle

    for i, row in enumerate(values):
        for j, x in enumerate(row):
            r, g, b, _ = image.cmap(image.norm(x))
            ink = "black" if 0.299 * r + 0.587 * g + 0.114 * b > 0.5 else "white"
            text = f"{x:.2f}" if plain else f"{x + 0.0:+.2f}".replace("-", "−")
            axis.text(j, i, text, ha="center", va="center", size=8.5, color=ink)
    n = len(values[0])
    axis.add_patch(
        Rectangle((-0.5, ROW - 0.5), n, 1, fill=False, edgecolor="black", lw=1.8, clip_on=False)
    )


def _bars(axis: Axes, example: dict[str, Any], lang: str) -> None:
    """Terms stacked upwards from 0 where they raise the score, downwards where they lower it."""
    for x, record in enumerate(decomposed(example)):
        up = down = 0.0
        for name in TERMS:
            height = record[name]
            start = up if height >= 0 else down
            axis.bar(x, height, 0.4, start, color=COLOURS[name], edgecolor="white", linewidth=0.8)
            place, text = start + height / 2, f"{height:+.2f}".replace("-", "−")
            beside = axis.text(x - 0.23, place, text, ha="right", va="center", size=8)
            ink = "#444444" if name == "base" else COLOURS[name]  # its grey is too pale to read
            beside.set(color=ink, bbox={"facecolor": "white", "lw": 0, "pad": 0.6})
            up, down = up + max(height, 0.0), down + min(height, 0.0)
        total = record["total"]
        axis.bar(x + 0.31, total, 0.12, color="black")
        axis.text(x + 0.31, total + 0.04, f"{total:.2f}", ha="center", size=8.5, weight="bold")
    for name in TERMS:
        axis.bar(0, 0, color=COLOURS[name], label=caption(lang, name))
    axis.bar(0, 0, color="black", label=caption(lang, "total"))
    axis.axhline(0, color="black", lw=0.8)
    _dress(axis, example, caption(lang, "row"))
    axis.set_ylabel(caption(lang, "score"), size=10)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=5, frameon=False, fontsize=9)


def _weights(axis: Axes, example: dict[str, Any], lang: str) -> None:
    records = decomposed(example)
    for offset, name, label, colour in (
        (-0.2, "plain", "plain", PLAIN),
        (0.2, "weight", "ruled", RULED),
    ):
        places = [x + offset for x in range(len(records))]
        heights = [record[name] for record in records]
        axis.bar(places, heights, 0.38, color=colour, label=caption(lang, label))
        for x, y in zip(places, heights, strict=True):
            axis.text(x, y + 0.005, f"{y:.2f}", ha="center", size=8.5)
    _dress(axis, example, caption(lang, "compare"))
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, frameon=False, fontsize=9)


def _dress(axis: Axes, example: dict[str, Any], title: str) -> None:
    axis.set_title(title, size=12, weight="bold", loc="left", pad=12)
    axis.set_xticks(range(len(example["tokens"])), example["tokens"], size=10)
    axis.tick_params(axis="x", length=0)
    axis.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, folder: Path) -> list[Path]:
    """scores.png and scores.svg, whole or not at all."""
    import matplotlib

    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        drawn = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": "ascender"}):  # the same bytes every time
            figure.savefig(drawn, format=kind, metadata=metadata)
        written.append(write(folder / f"scores.{kind}", drawn.getvalue()))
    return written
