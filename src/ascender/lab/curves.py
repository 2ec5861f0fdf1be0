"""Learning curves: what a quality costs, and how a run did on the way.

A curve is a list of (cost, quality), the cost in steps, tokens or seconds, as measured: nothing is
smoothed, nothing read between two points where a claim depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ascender.lab.stats import scipy_stats

Curve = Sequence[tuple[float, float]]


def reached(curve: Curve, goal: float, higher: bool = True) -> float | None:
    """The cost at which a goal is first met: min {t : q(t) ≥ goal}, or ≤ where lower is better.
    None is censored: not met as far as the curve goes, and it says no more.

    >>> reached([(10, 0.3), (20, 0.8), (30, 0.7)], goal=0.7)
    20
    >>> reached([(10, 0.3), (20, 0.8)], goal=0.9)
    """
    _check(curve)
    met = (t for t, q in curve if (q >= goal if higher else q <= goal))
    return next(met, None)


def median_reached(costs: Sequence[float | None], limit: float | Sequence[float]) -> float | None:
    """The median cost when some runs never got there: the first t at which Kaplan and Meier's
    S(t) = Π_{t_i ≤ t} (1 − d_i/n_i) is at most ½, d_i of n_i still running got there at t_i
    (1958). None: fewer than half did.

    costs   what `reached` found, a run each
    limit   how far the runs went, one for all or one each: where None is censored

    >>> median_reached([10, 30, 20, None, None], limit=40)
    30.0
    >>> median_reached([10, None, None], limit=40)
    """
    limits = list(limit) if isinstance(limit, Sequence) else [limit] * len(costs)
    if len(limits) != len(costs):
        raise ValueError(f"{len(costs)} costs and {len(limits)} limits; expected one each, or one")
    for t, end in zip(costs, limits, strict=True):
        if t is not None and not t <= end:
            raise ValueError(
                f"a goal reached at {t} after the limit {end}; expected None or before"
            )
    censored = [t is None for t in costs]
    if all(censored):
        return None
    times = [float(end if t is None else t) for t, end in zip(costs, limits, strict=True)]
    S = scipy_stats.ecdf(scipy_stats.CensoredData.right_censored(times, censored)).sf
    half = S.quantiles[S.probabilities <= 0.5 + 1e-9]  # a product of fractions is not quite ½
    return float(half[0]) if len(half) else None


def area(curve: Curve) -> float:
    """The mean quality on the way, by trapezoids: ∫ q dt / (t_end − t_0). Of curves over the same
    span, the larger (or lower, where lower is better) learned faster. One point is its quality.

    >>> area([(0, 0.0), (10, 1.0), (30, 1.0)])
    0.8333333333333334
    """
    _check(curve)
    if len(curve) == 1:
        return float(curve[0][1])
    t, q = np.array(curve, dtype=np.float64).T
    return float((np.diff(t) * (q[1:] + q[:-1]) / 2).sum() / (t[-1] - t[0]))


def _check(curve: Curve) -> None:
    if not curve:
        raise ValueError("curve has no points; expected at least one (cost, quality)")
    for (t, _), (later, _) in pairwise(curve):
        if not t < later:
            raise ValueError(f"curve goes from cost {t} to {later}; expected costs that rise")
