"""Statistics over seeds: means and intervals, paired tests (p values), effect sizes, Holm.

Every interval has a level of 95 %. What is undefined (the spread of one value, a test of one pair)
is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ascender.common.validate import need

need("scipy", "tasks")
from scipy import stats as scipy_stats  # noqa: E402

LEVEL = 0.95
DIGITS = 12  # differences are settled to so many; below is what subtraction leaves behind

Values = Sequence[float] | np.ndarray


class Interval(NamedTuple):
    """From low to high; −[l, h] = [−h, −l].

    >>> -Interval(-1.0, 2.0)
    Interval(low=-2.0, high=1.0)
    """

    low: float
    high: float

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def cut(self, range_: Interval | None) -> Interval:
        """What of it lies in a range. A mean cannot lie outside the range of its values, so what
        is cut off costs no coverage, and the numbers inside stay those of the t interval.

        >>> Interval(0.9, 1.2).cut(Interval(0.0, 1.0))
        Interval(low=0.9, high=1.0)
        """
        if range_ is None:
            return self
        return Interval(max(self.low, range_.low), min(self.high, range_.high))


@dataclass(frozen=True)
class Summary:
    """Values over seeds: x̄ = Σx/n, s² = Σ(x − x̄)²/(n − 1), x̄ ± t_{n−1} s/√n.

    >>> s = Summary.of([1, 2, 3, 4, 5])
    >>> s.mean, round(s.sd, 4), s.n, [round(x, 3) for x in s.interval]
    (3.0, 1.5811, 5, [1.037, 4.963])
    >>> Summary.of([0.5])
    Summary(mean=0.5, sd=None, n=1, interval=None)
    """

    mean: float
    sd: float | None
    n: int
    interval: Interval | None

    @classmethod
    def of(cls, values: Values, range_: Interval | None = None) -> Summary:
        """At least one value, all of them finite; `range_` is what the values can be at all."""
        x = _finite(values)
        n, mean, s = len(x), float(x.mean()), _sd(x)
        if s is None:
            return cls(mean, None, n, None)
        half = float(scipy_stats.t.ppf((1 + LEVEL) / 2, n - 1)) * s / sqrt(n)
        return cls(mean, s, n, Interval(mean - half, mean + half).cut(range_))


@dataclass(frozen=True)
class Paired(Summary):
    """Differences a − b by seed: mean, sd, n, interval as in Summary, and the p of two tests.

    t_p           paired t test; None where all differences are one number that is not 0: no
                  spread, so no t
    wilcoxon_p    signed ranks, exact; no less than 2^(1−n)
    """

    t_p: float | None
    wilcoxon_p: float | None


def paired(a: Values, b: Values, range_: Interval | None = None) -> Paired:
    """Two variants on the same seeds: d_s = a_s − b_s, tested against 0. One pair is no test.
    `range_` is what a and b can be: of values in [0, 1] the differences lie in [−1, 1].

    >>> p = paired([5, 7, 8, 9], [4, 5, 5, 5])
    >>> p.mean, round(p.sd, 3), round(p.t_p, 4), p.wilcoxon_p
    (2.5, 1.291, 0.0305, 0.125)
    >>> paired([5], [4])
    Paired(mean=1.0, sd=None, n=1, interval=None, t_p=None, wilcoxon_p=None)
    """
    d = differences(a, b)
    apart = None if range_ is None else range_.high - range_.low
    s = Summary.of(d, None if apart is None else Interval(-apart, apart))
    t_p = 1.0 if s.sd is not None and s.mean == 0 else None
    if s.sd:
        t_p = float(scipy_stats.ttest_1samp(d, 0.0).pvalue)
    return Paired(**vars(s), t_p=t_p, wilcoxon_p=signed_rank(d) if s.n > 1 else None)


def differences(a: Values, b: Values) -> Float[np.ndarray, "n"]:
    """d = a − b without the dust of subtraction, so that equal differences are equal.

    >>> 0.8 - 0.7 == 0.3 - 0.2
    False
    >>> differences([0.8, 0.3], [0.7, 0.2]).tolist()
    [0.1, 0.1]
    """
    x, y = _finite(a), _finite(b)
    if len(x) != len(y):
        raise ValueError(f"{len(x)} and {len(y)} values; expected pairs, by seed")
    scale = max(np.abs(x).max(), np.abs(y).max())
    if scale == 0:
        return x - y
    return np.round(x - y, min(DIGITS - int(np.ceil(np.log10(scale))), 300))


def signed_rank(d: Float[np.ndarray, "n"]) -> float:
    """Wilcoxon's p, exact with ties too: W = Σ_{d>0} rank|d| against its 2^n sign flips,
    p = 2 min(P(≤ W), P(≥ W)). Zeros are left out (Wilcoxon 1945).

    >>> signed_rank(np.array([1.0, 2.0, 3.0]))  # 2 of 8
    0.25
    """
    d = d[d != 0]
    rank = np.rint(2 * scipy_stats.rankdata(np.abs(d))).astype(int)  # twice: ties have halves
    chance = np.ones(1)  # of each sum of ranks, one difference after the other
    for r in rank:
        chance = (np.pad(chance, (0, r)) + np.pad(chance, (r, 0))) / 2
    W = int(rank[d > 0].sum())
    return min(1.0, 2 * float(min(chance[: W + 1].sum(), chance[W:].sum())))


def cliffs_delta(a: Values, b: Values) -> float:
    """How often a is above b, less how often below: δ = (#{a_i > b_j} − #{a_i < b_j}) / (m n)
    (Cliff 1993). δ(a, b) = −δ(b, a), within [−1, 1]; only the order counts.

    >>> cliffs_delta([1, 2, 3], [0, 2])  # 4 above, 1 below, of 6
    0.5
    """
    x, y = _finite(a), np.sort(_finite(b))
    above = np.searchsorted(y, x, side="left").sum()
    below = (len(y) - np.searchsorted(y, x, side="right")).sum()
    return float((above - below) / (len(x) * len(y)))


def paired_d(a: Values, b: Values) -> float | None:
    """Cohen's d of pairs: d_z = d̄/s_d over the differences by seed. None where
    all differences are the same but not 0.

    >>> round(paired_d([2, 4, 7], [1, 3, 5]), 4)
    2.3094
    """
    s = Summary.of(differences(a, b))
    if not s.sd:
        return 0.0 if s.mean == 0 else None
    return s.mean / s.sd


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p of a family of m tests, in the order given: p̃_(i) = max_{j ≤ i}
    min(1, (m − j + 1) p_(j)) (Holm 1979). Below α, it keeps the family's error below α. A test
    that could not be done (None) stays None and counts in m: the family was fixed before.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    >>> holm([0.01, None])
    [0.02, None]
    """
    for p in ps:
        if p is not None and not 0 <= p <= 1:
            raise ValueError(f"p value {p}; expected 0 ≤ p ≤ 1, or None where no test was done")
    m, highest = len(ps), 0.0
    adjusted: list[float | None] = [None] * m
    known = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    for j, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, (m - j) * p))
        adjusted[i] = highest
    return adjusted


def _sd(x: Float[np.ndarray, "n"]) -> float | None:
    """s, exactly 0 where all values are one (rounding in the mean would say 1e−17)."""
    if len(x) < 2:
        return None
    return 0.0 if x.min() == x.max() else float(x.std(ddof=1))


def _finite(values: Values) -> Float[np.ndarray, "n"]:
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or len(x) == 0:
        raise ValueError(f"values of shape {x.shape}; expected a list of at least one")
    if not np.isfinite(x).all():
        at = int(np.flatnonzero(~np.isfinite(x))[0])
        raise ValueError(f"value {at} is {x[at]}; expected finite numbers")
    return x
