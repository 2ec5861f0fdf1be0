"""Two sentences at the end: what was seen, and what to do."""

from __future__ import annotations

from statistics import fmean

from ascender.insight.limits.distance import GUIDE
from ascender.insight.limits.measure import Measured
from ascender.insight.limits.monitor import COOLEST
from ascender.insight.limits.strings import STRINGS
from ascender.insight.limits.summary import growth, of
from ascender.report.strings import Pair, joined

MOST = 0.5  # of the heads beyond the guideline, or of β: from here on something is advised


def advice(measured: Measured) -> tuple[Pair, Pair]:
    """(seen, to do), each in English and Korean, of the model's own weights at the greatest
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
    grows = ("", "") if beta is None else _said("grows", beta=f"{beta:.2f}")
    seen = joined(_said("seen", **numbers), grows, (".", "."))
    cool = sorted({(r.layer, r.head) for r in own if r.temperature < COOLEST})
    if cool:
        layer, head = cool[0]
        return seen, _said("cool", n=len(cool), coolest=COOLEST, layer=layer, head=head)
    if wide < MOST * len(here):
        return seen, _said("fine", guide=GUIDE)
    if beta is not None and beta < MOST:
        return seen, _said("level")
    return seen, _wide(measured)


def _wide(measured: Measured) -> Pair:
    """The normaliser whose support grows least on the same scores, where others were measured."""
    names = dict.fromkeys(row.normalizer for row in measured.heads)
    found = {n: _beta(measured, n) for n in names if n != measured.own}
    slopes = {name: abs(beta) for name, beta in found.items() if beta is not None}
    if not slopes:
        return _said("wide")
    best = min(slopes, key=lambda name: slopes[name])
    return _said("another", normalizer=best, beta=f"{found[best]:.2f}")


def _beta(measured: Measured, normalizer: str | None = None) -> float | None:
    slopes = growth(of(measured, normalizer))
    return fmean(slopes.values()) if slopes else None


def _said(key: str, /, **names: object) -> Pair:
    return STRINGS.pair(f"advice.{key}", **names)
