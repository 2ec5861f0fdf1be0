"""Rows of heads → small tables: means over heads, and whether two models differ.

exp(H) ∝ L^β        β = 1: a head spreads over the same share of any length, the collapse
                    β = 0: over the same number of keys, none
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev
from typing import Any

from ascender.insight.limits.measure import Head, Measured

MEANS = (
    "keys", "entropy", "support", "share", "largest", "delta", "half_range", "tight",
    "tight_range", "outside", "separable", "critical", "distance", "bound",
)  # fmt: skip


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


def compared(a: Measured, b: Measured, paired: bool = False) -> dict[str, Any]:
    """Do a's heads spread less, or more slowly, than b's? Mean and standard deviation over heads.
    paired: the heads are the same ones (the same weights), so they are also compared one by one."""
    one, two = growth(of(a)), growth(of(b))
    longest = max({r.length for r in of(a)} & {r.length for r in of(b)})
    shares = [{(r.layer, r.head): r.share for r in of(m) if r.length == longest} for m in (a, b)]
    found: dict[str, Any] = {
        "names": [a.name, b.name], "length": longest, "heads": [len(x) for x in shares],
        "share": [_moments(x.values()) for x in shares],
        "growth": [_moments(x.values()) for x in (one, two)] if one and two else None,
    }  # fmt: skip
    if paired:
        found["narrower"] = sum(shares[0][p] < shares[1][p] for p in shares[0])
        found["slower"] = sum(one[p] < two[p] for p in one)
    return found


def verdict(found: dict[str, Any]) -> str:
    """The comparison in a sentence of numbers."""
    (a, b), (n, m), (x, y) = found["names"], found["heads"], found["share"]
    said = (
        f"At {found['length']} tokens {a} uses {_spread(x)} of its keys (exp(H)/L, mean ± sd over "
        f"{n} heads), {b} {_spread(y)} ({m} heads)"
    )
    if found["growth"] is not None:
        said += "; exp(H) grows as L^β with β = {} against {}".format(
            *(_spread(g) for g in found["growth"])
        )
    if "slower" in found:
        said += (
            f". Head by head, {a} is the narrower in {found['narrower']} of {n} and the slower to "
            f"spread in {found['slower']}"
        )
    return said + "."


def _moments(x: Iterable[float]) -> tuple[float, float]:
    rows = list(x)
    return fmean(rows), stdev(rows) if len(rows) > 1 else 0.0


def _spread(x: tuple[float, float]) -> str:
    return f"{x[0]:.3f} ± {x[1]:.3f}"


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
