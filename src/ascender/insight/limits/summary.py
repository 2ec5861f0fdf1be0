"""Rows of heads → small tables: means over heads, and whether two models differ.

exp(H) ∝ L^β        β = 1: a head spreads over the same share of any length, the collapse
                    β = 0: over the same number of keys, none
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ascender.insight.limits.measure import Head, Measured

MEANS = (
    "keys", "entropy", "support", "share", "largest", "delta", "half_range", "tight",
    "tight_range", "outside", "separable", "critical", "distance", "bound",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A heading for every column, and cells of text."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary(measured: Measured) -> dict[str, Any]:
    """What a page or a document keeps: means over all heads, the largest Jacobians, β."""
    kinds = dict.fromkeys((row.normalizer, row.length) for row in measured.heads)
    rows = []
    for normalizer, length in kinds:
        here = [r for r in measured.heads if (r.normalizer, r.length) == (normalizer, length)]
        numbers = {what: fmean(getattr(row, what) for row in here) for what in MEANS}
        numbers |= {what: max(getattr(r, what) for r in here) for what in ("spectral", "entry")}
        rows.append({"normalizer": normalizer, "length": length, "n": len(here), **numbers})
    return {
        "name": measured.name, "own": measured.own, "layers": len(measured.layers),
        "rows": rounded(rows), "curves": rounded(_curves(measured)),
        "slopes": rounded(_slopes(measured)), "growth": rounded(_growth(measured)),
    }  # fmt: skip


def growth(rows: Sequence[Head]) -> dict[tuple[int, int], float]:
    """β of every head, by least squares of log exp(H) = H on log L; needs two lengths."""
    found = {}
    for place in dict.fromkeys((row.layer, row.head) for row in rows):
        here = [row for row in rows if (row.layer, row.head) == place]
        x, y = [math.log(row.keys) for row in here], [math.log(row.support) for row in here]
        mx, my = fmean(x), fmean(y)
        square = sum((a - mx) ** 2 for a in x)
        if square > 0:
            found[place] = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / square
    return found


def of(measured: Measured, normalizer: str | None = None) -> list[Head]:
    """The rows under one normaliser; None: the model's own."""
    wanted = normalizer or measured.own
    return [row for row in measured.heads if row.normalizer == wanted]


def compared(a: Measured, b: Measured) -> dict[str, Any]:
    """Do a's heads spread more slowly than b's? Means over heads; where the two have the same
    layers and heads, also in how many a is the lower (pairs of the same place)."""
    one, two = growth(of(a)), growth(of(b))
    longest = max({r.length for r in of(a)} & {r.length for r in of(b)})
    shares = [
        {(r.layer, r.head): r.share for r in of(m) if r.length == longest} for m in (a, b)
    ]  # fmt: skip
    places = sorted(set(one) & set(two)) if set(one) == set(two) else []
    same = sorted(set(shares[0])) if set(shares[0]) == set(shares[1]) else []
    return {
        "names": [a.name, b.name], "length": longest,
        "growth": [fmean(x.values()) if x else None for x in (one, two)],
        "share": [fmean(x.values()) for x in shares],
        "pairs": len(same),
        "slower": sum(one[p] < two[p] for p in places),
        "narrower": sum(shares[0][p] < shares[1][p] for p in same),
    }  # fmt: skip


def verdict(found: dict[str, Any]) -> str:
    """The comparison in a sentence of numbers."""
    (a, b), (x, y) = found["names"], found["share"]
    said = f"At {found['length']} tokens {a} uses {x:.3f} of its keys (exp(H)/L), {b} {y:.3f}"
    if None not in found["growth"]:
        p, q = found["growth"]
        said += f"; exp(H) grows as L^{p:.3f} against L^{q:.3f}"
    if found["pairs"]:
        said += (
            f". Of {found['pairs']} pairs of heads, {a} is the narrower in {found['narrower']} and "
            f"the slower to spread in {found['slower']}"
        )
    return said + "."


def _growth(measured: Measured) -> list[dict[str, Any]]:
    found = []
    for normalizer in dict.fromkeys(row.normalizer for row in measured.heads):
        slopes = growth(of(measured, normalizer))
        if slopes:
            low, high = min(slopes.values()), max(slopes.values())
            mean = fmean(slopes.values())
            found.append({"normalizer": normalizer, "mean": mean, "low": low, "high": high})
    return found


def _curves(measured: Measured) -> list[dict[str, Any]]:
    """Means over heads at each length and N."""
    kinds: dict[tuple[int, str, float], list[Any]] = {}
    for row in measured.curves:
        kinds.setdefault((row.length, row.of, row.share), []).append(row)
    what = ("N", "mass", "distance", "bound", "separable")
    return [
        {"length": length, "of": of, "share": share,
         **{w: fmean(getattr(r, w) for r in rows) for w in what}}
        for (length, of, share), rows in kinds.items()
    ]  # fmt: skip


def _slopes(measured: Measured) -> list[dict[str, Any]]:
    """Over heads: the mean of ‖J‖₂, its largest, and the largest entry."""
    kinds: dict[tuple[str, float], list[Any]] = {}
    for row in measured.slopes:
        kinds.setdefault((row.normalizer, row.T), []).append(row)
    return [
        {"normalizer": normalizer, "T": T, "mean": fmean(r.mean for r in rows),
         "spectral": max(r.spectral for r in rows), "entry": max(r.entry for r in rows)}
        for (normalizer, T), rows in kinds.items()
    ]  # fmt: skip


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Five digits are enough to read."""
    return [
        {key: float(f"{x:.5g}") if isinstance(x, float) else x for key, x in row.items()}
        for row in rows
    ]
