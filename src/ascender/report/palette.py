"""One colour a rule, one a variant, in every figure whatever else it shows.

Rules and terms have Okabe and Ito's colours, which differ with every kind of colour vision; a
variant with a single rule has that rule's. Nothing is drawn here and nothing heavy imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any
from zlib import crc32

RULES = {"align": "#0072B2", "sep": "#D55E00", "coh": "#009E73"}
TERMS = {"base": "#8a8f98", **RULES, "aff": "#E69F00", "other": "#CC79A7"}

# By the part of a variant's name before "+".
VARIANTS = {
    "vanilla": "#000000", "ascender": "#882D9E", **{f"only-{rule}": c for rule, c in RULES.items()},
    "no-align": "#56B4E9", "no-sep": "#E69F00", "no-coh": "#7FBF5B",
    "matched": "#6B6B6B", "shuffled": "#8C564B", "no-rules": "#8A8A00",
    "longformer": "#A0522D", "bigbird": "#B5838D", "performer": "#5F7A8C", "linear": "#4D7C6F",
    "shared-qknorm": "#D6457E",
}  # fmt: skip
OTHERS = ("#4C6EB1", "#B8860B", "#5E8C31", "#C05780", "#008B8B", "#9C6644", "#7A6FBE", "#B23A48")

NORMALIZERS = {
    "softmax": "#000000", "ssmax": "#0072B2", "length": "#D55E00", "topk": "#009E73",
    "sparsemax": "#CC79A7", "entmax15": "#E69F00",
}  # fmt: skip

# Heads and lengths have no names: by their number.
SERIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

MARKS = ("s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
LINES: tuple[Any, ...] = ((0, (5, 1.5)), (0, (1.2, 1)), (0, (4, 1, 1, 1)), (0, (7, 2)))
PARTNERS = ("alibi", "rope", "none", "entmax15")  # without a number, told apart by their place
TINTS = (0.25, 0.42, 0.58)  # of white, for what a variant is combined with


@dataclass(frozen=True)
class LineStyle:
    """Colour, mark and line of one variant."""

    colour: str
    mark: str
    line: Any


def line_style(name: str) -> LineStyle:
    """The family gives the colour, what stands behind "+" its tint, mark and line.

    >>> line_style("vanilla"), line_style("only-align").colour == RULES["align"]
    (LineStyle(colour='#000000', mark='o', line='-'), True)
    """
    family, _, options = name.partition("+")
    colour = VARIANTS.get(family) or OTHERS[_number(family) % len(OTHERS)]
    if options:
        step = _step(options.partition("=")[2] or options)
        colour = _lighter(colour, TINTS[step % len(TINTS)])
    elif family in VARIANTS:
        step = list(VARIANTS).index(family)
    else:
        step = _number(family)
    if name == "vanilla":
        return LineStyle(colour, "o", "-")
    return LineStyle(colour, MARKS[step % len(MARKS)], LINES[step % len(LINES)])


def line_styles(names: Sequence[str]) -> dict[str, LineStyle]:
    """Of the variants of one figure: their colours, and marks with lines that differ without
    colour too. Only a mark may depend on what else is drawn."""
    styles: dict[str, LineStyle] = {}
    for name in names:
        mine = line_style(name)
        marks = (*MARKS[MARKS.index(mine.mark) :], *MARKS) if mine.mark in MARKS else (mine.mark,)
        taken = {(other.mark, other.line) for other in styles.values()}
        free = (mark for mark in marks if (mark, mine.line) not in taken)
        styles[name] = replace(mine, mark=next(free, mine.mark))
    return styles


def normalizer(name: str) -> str:
    return NORMALIZERS.get(name) or OTHERS[_number(name) % len(OTHERS)]


def _number(text: str) -> int:
    """The same on every machine, unlike hash()."""
    return crc32(text.encode())


def _step(value: str) -> int:
    """Doublings of a number, so that windows of 8, 16 and 32 follow each other."""
    if value in PARTNERS:
        return PARTNERS.index(value)
    try:
        return round(log2(float(value)))
    except ValueError:
        return _number(value)


def _lighter(colour: str, tint: float) -> str:
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(c + (255 - c) * tint):02X}" for c in parts)
