"""Means over heads, whether two models differ, and what to do about it.

exp(H) ∝ |V|^β      β = 1: a head spreads over the same share of any length, the collapse
                    β = 0: over the same number of keys, none

|V| is L except in flock scope, where |F| hardly grows with the length.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from statistics import fmean, stdev
from typing import Any

from ascender.core.rules import COOLEST
from ascender.insight.limits.distance import GUIDE
from ascender.insight.limits.flocks import FlockSize, enough_keys
from ascender.insight.limits.measure import HeadLimits, Measured
from ascender.insight.limits.strings import STRINGS
from ascender.report.strings import Pair, joined

MEANS = (
    "keys", "entropy", "support", "share", "largest", "delta", "half_range", "tight",
    "tight_range", "outside", "separable", "critical", "distance", "bound",
)  # fmt: skip
MOST = 0.5  # of the heads beyond the guideline, or of β: from here on something is advised


def summary(measured: Measured) -> dict[str, Any]:
    """What a page or a document keeps: means over all heads, the largest Jacobians, β."""
    rows = []
    for place, here in grouped(measured.heads, "normalizer", "length"):
        numbers = {what: fmean(getattr(row, what) for row in here) for what in MEANS}
        numbers |= {what: max(getattr(r, what) for r in here) for what in ("spectral", "entry")}
        rows.append({**place, "n": len(here), **numbers})
    kept = {
        "name": measured.name, "own": measured.own, "layers": len(measured.layers),
        "rows": rounded(rows), "curves": rounded(_curves(measured)),
        "slopes": rounded(_slopes(measured)), "growth": rounded(_growth(measured)),
    }  # fmt: skip
    if measured.flocks:
        kept["flocks"] = rounded([asdict(size) for size in measured.flocks])
    return kept


def growth(measured: Measured, normalizer: str | None = None) -> dict[tuple[int, int], float]:
    """β of every head, by least squares of log exp(H) = H on log |V|; needs two lengths."""
    slopes = {}
    for place, here in grouped(of(measured, normalizer), "layer", "head"):
        x = [math.log(measured.visible(row)) for row in here]
        y = [math.log(row.support) for row in here]
        mx, my = fmean(x), fmean(y)
        square = sum((a - mx) ** 2 for a in x)
        if square > 0:
            beta = sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / square
            slopes[place["layer"], place["head"]] = beta
    return slopes


def of(measured: Measured, normalizer: str | None = None) -> list[HeadLimits]:
    """The rows under one normaliser; None: the model's own."""
    wanted = normalizer or measured.own
    return [row for row in measured.heads if row.normalizer == wanted]


def compared(a: Measured, b: Measured, paired: bool = False) -> dict[str, Any]:
    """Do a's heads spread less, or more slowly, than b's? Mean and standard deviation over heads.
    paired: the heads are the same ones (the same weights), so they are also compared one by one."""
    one, two = growth(a), growth(b)
    longest = max({r.length for r in of(a)} & {r.length for r in of(b)})
    shares = [{(r.layer, r.head): r.share for r in of(m) if r.length == longest} for m in (a, b)]
    comparison: dict[str, Any] = {
        "names": [a.name, b.name], "length": longest, "heads": [len(x) for x in shares],
        "share": [_moments(x.values()) for x in shares],
        "flocks": [bool(m.flocks) for m in (a, b)],
        "growth": [_moments(x.values()) for x in (one, two)] if one and two else None,
    }  # fmt: skip
    if paired:
        comparison["narrower"] = sum(shares[0][p] < shares[1][p] for p in shares[0])
        comparison["slower"] = sum(one[p] < two[p] for p in one)
    return comparison


def verdict(comparison: dict[str, Any]) -> str:
    """The comparison in a sentence of numbers."""
    (a, b), (n, m), (x, y) = comparison["names"], comparison["heads"], comparison["share"]
    flocks = comparison["flocks"]
    whose = ["of its flock" if flock else "of its keys" if any(flocks) else "" for flock in flocks]
    said = (
        f"At {comparison['length']} tokens {a} uses {_spread(x)} {whose[0] or 'of its keys'} "
        f"(exp(H)/L, mean ± sd over {n} heads), {' '.join(filter(None, (b, _spread(y), whose[1])))}"
        f" ({m} heads)"
    )
    if comparison["growth"] is not None:
        said += "; exp(H) grows as {}^β with β = {} against {}".format(
            "|V|" if any(flocks) else "L", *(_spread(g) for g in comparison["growth"])
        )
    if "slower" in comparison:
        said += (
            f". Head by head, {a} is the narrower in {comparison['narrower']} of {n} and the "
            f"slower to spread in {comparison['slower']}"
        )
    return said + "."


def _moments(x: Iterable[float]) -> tuple[float, float]:
    rows = list(x)
    return fmean(rows), stdev(rows) if len(rows) > 1 else 0.0


def _spread(x: tuple[float, float]) -> str:
    return f"{x[0]:.3f} ± {x[1]:.3f}"


def _growth(measured: Measured) -> list[dict[str, Any]]:
    rows = []
    for normalizer in dict.fromkeys(row.normalizer for row in measured.heads):
        slopes = growth(measured, normalizer)
        if slopes:
            low, high = min(slopes.values()), max(slopes.values())
            mean = fmean(slopes.values())
            rows.append({"normalizer": normalizer, "mean": mean, "low": low, "high": high})
    return rows


def _curves(measured: Measured) -> list[dict[str, Any]]:
    """Means over heads at each length and N."""
    return [
        {**place, **{w: fmean(getattr(r, w) for r in rows)
                     for w in ("N", "mass", "distance", "bound", "separable")}}
        for place, rows in grouped(measured.curves, "length", "of", "share")
    ]  # fmt: skip


def _slopes(measured: Measured) -> list[dict[str, Any]]:
    """Over heads: the mean of ‖J‖₂, its largest, and the largest entry."""
    return [
        {**place, "mean": fmean(r.mean for r in rows),
         "spectral": max(r.spectral for r in rows), "entry": max(r.entry for r in rows)}
        for place, rows in grouped(measured.slopes, "normalizer", "T")
    ]  # fmt: skip


def grouped(rows: Iterable[Any], *names: str) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """(fields, the rows that agree in them), in the order of the rows."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
    for values, group in groups.items():
        yield dict(zip(names, values, strict=True)), group


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Five digits are enough to read."""
    return [
        {key: float(f"{x:.5g}") if isinstance(x, float) else x for key, x in row.items()}
        for row in rows
    ]


def advice(measured: Measured) -> tuple[Pair, Pair]:
    """(result, what to do), each in English and Korean, of the model's own weights at the greatest
    length."""
    own = of(measured)
    longest = max(row.length for row in own)
    here = [row for row in own if row.length == longest]
    wide = sum(row.share >= GUIDE for row in here)
    beta = _beta(measured)
    numbers = {
        "name": measured.name, "length": longest, "share": f"{fmean(r.share for r in here):.2f}",
        "wide": wide, "heads": len(here), "guide": GUIDE,
    }  # fmt: skip
    flocks = [size for size in measured.flocks if size.length == longest]
    text = _flock_result(flocks, here, numbers) if flocks else _string("seen", **numbers)
    over = "|V|" if flocks else "L"
    grows = ("", "") if beta is None else _string("grows", over=over, beta=f"{beta:.2f}")
    result = joined(text, grows, (".", "."))
    cool = sorted({(r.layer, r.head) for r in own if r.temperature < COOLEST})
    if cool:
        layer, head = cool[0]
        return result, _string("cool", n=len(cool), coolest=COOLEST, layer=layer, head=head)
    if flocks:
        return result, _flock_advice(flocks)
    if wide < MOST * len(here):
        return result, _string("fine", guide=GUIDE)
    if beta is not None and beta < MOST:
        return result, _string("level")
    return result, _wide(measured)


def _flock_result(
    flocks: Sequence[FlockSize], rows: Sequence[HeadLimits], numbers: dict[str, Any]
) -> Pair:
    layers = {size.layer for size in flocks}
    share = fmean(row.share for row in rows if row.layer in layers)
    sizes = {
        what: f"{fmean(getattr(size, what) for size in flocks):.0f}" for what in ("keys", "visible")
    }
    return _string(
        "flock", **{**numbers, "share": f"{share:.2f}"}, **sizes,
        held=f"{fmean(size.share for size in flocks):.2f}", layers=len(flocks),
        within=sum(size.within for size in flocks),
    )  # fmt: skip


def _flock_advice(flocks: Sequence[FlockSize]) -> Pair:
    if all(size.within for size in flocks):
        return _string("flock_within", guide=GUIDE)
    if any(size.whole for size in flocks):
        return _string("flock_whole", guide=GUIDE)
    enough = max(enough_keys(size.keys) for size in flocks)
    return _string("flock_wide", guide=GUIDE, enough=enough)


def _wide(measured: Measured) -> Pair:
    """The normaliser whose support grows least on the same scores, where others were measured."""
    names = dict.fromkeys(row.normalizer for row in measured.heads)
    betas = {
        n: beta for n in names if n != measured.own if (beta := _beta(measured, n)) is not None
    }
    if not betas:
        return _string("wide")
    best = min(betas, key=lambda name: abs(betas[name]))
    return _string("another", normalizer=best, beta=f"{betas[best]:.2f}")


def _beta(measured: Measured, normalizer: str | None = None) -> float | None:
    slopes = growth(measured, normalizer)
    return fmean(slopes.values()) if slopes else None


def _string(key: str, /, **names: object) -> Pair:
    return STRINGS.pair(f"advice.{key}", **names)
