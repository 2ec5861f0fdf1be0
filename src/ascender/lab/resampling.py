"""Two variants on the same test examples: would other examples, or other labels, say the same?

Scores are (examples,) or (seeds, examples). A seed's models are given: what is drawn again are the
examples, the same ones for both variants and for all seeds. (Whether other seeds would say the
same is the question of stats.paired.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from ascender.lab.stats import LEVEL, Interval

CELLS = 1 << 19  # draws × different scores held at a time: 4 MB of counts, 4 MB of sums


@dataclass(frozen=True)
class Resampled:
    """The mean difference a − b, its interval (of the bootstrap only) and its two-sided p, from n
    examples and so many draws."""

    difference: float
    interval: Interval | None
    p: float
    n: int
    draws: int


def paired_bootstrap(
    scores_a: Shaped[np.ndarray, "*S E"], scores_b: Shaped[np.ndarray, "*S E"],
    draws: int = 10_000, seed: int = 0,
) -> Resampled:  # fmt: skip
    """Examples drawn again with replacement: d_e = mean_s(a_se − b_se), d* = mean of E drawn d_e;
    the interval are the 2.5 % and 97.5 % points of d*, and it is inverted for
    p = 2 (1 + min(#{d* ≤ 0}, #{d* ≥ 0})) / (1 + draws), at most 1 (Efron & Tibshirani 1993).

    >>> a, b = np.array([1, 1, 1, 0, 1, 1]), np.array([0, 1, 0, 0, 1, 0])
    >>> found = paired_bootstrap(a, b)
    >>> found.difference, round(found.interval.low, 3), round(found.interval.high, 3)
    (0.5, 0.167, 0.833)
    """
    d, unit, dust = _by_example(scores_a, scores_b, draws)
    E = len(d)
    drawn = _in_pieces(lambda rng, n, counts: rng.multinomial(E, counts / E, n), d, draws, seed)
    tail = min((drawn <= dust).sum(), (drawn >= -dust).sum())
    low, high = np.quantile(drawn / unit, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    p = min(1.0, 2 * float(1 + tail) / (1 + draws))
    return Resampled(float(d.sum()) / unit, Interval(float(low), float(high)), p, E, draws)


def approximate_randomisation(
    scores_a: Shaped[np.ndarray, "*S E"], scores_b: Shaped[np.ndarray, "*S E"],
    draws: int = 10_000, seed: int = 0,
) -> Resampled:  # fmt: skip
    """The variants' names swapped at random, example by example: d* = mean_e ±d_e,
    p = (1 + #{|d*| ≥ |d|}) / (1 + draws) (Noreen 1989). It assumes nothing but that under the
    null the two are exchangeable.

    >>> a, b = np.array([1, 1, 1, 0, 1, 1]), np.array([0, 1, 0, 0, 1, 0])
    >>> p = approximate_randomisation(a, b).p
    >>> abs(p - 2 / 2**3) < 0.02  # 3 of 6 differ, all one way: 2 of 2³ swaps are as far
    True
    """
    d, unit, dust = _by_example(scores_a, scores_b, draws)
    D = d.sum()
    swapped = _in_pieces(
        lambda rng, n, counts: rng.binomial(counts, 0.5, (n, len(counts))), d, draws, seed
    )
    c = int((np.abs(D - 2 * swapped) >= abs(D) - dust).sum())
    return Resampled(float(D) / unit, None, (1 + c) / (1 + draws), len(d), draws)


def _by_example(
    scores_a: np.ndarray, scores_b: np.ndarray, draws: int
) -> tuple[Float[np.ndarray, "E"], int, float]:
    """Σ_s(a_se − b_se) by example (whole numbers stay whole), what divides a sum of E of them into
    a mean, and how far from 0 rounding may take such a sum."""
    if scores_a.shape != scores_b.shape or scores_a.ndim not in (1, 2) or scores_a.size == 0:
        raise ValueError(
            f"scores of shapes {scores_a.shape} and {scores_b.shape}; "
            "expected one shape, (examples,) or (seeds, examples)"
        )
    if draws < 1:
        raise ValueError(f"draws is {draws}; expected at least 1")
    a, b = np.atleast_2d(scores_a.astype(np.float64)), np.atleast_2d(scores_b.astype(np.float64))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("scores have NaN or ∞; expected finite numbers")
    return (a - b).sum(0), a.size, 1e-12 * float(np.abs(a).sum() + np.abs(b).sum())


def _in_pieces(
    draw: Callable[[np.random.Generator, int, np.ndarray], np.ndarray],
    d: Float[np.ndarray, "E"], draws: int, seed: int,
) -> Float[np.ndarray, "draws"]:  # fmt: skip
    """Sums of drawn d. Equal d need no telling apart: how often each value comes is drawn, which
    is the same in distribution, and quick where scores are right or wrong. As many draws at a time
    as CELLS has room for; the pieces' size changes nothing, nor does the sign of d."""
    values, first, counts = np.unique(d, return_index=True, return_counts=True)
    order = first.argsort()
    values, counts = values[order], counts[order]
    rng, n = np.random.default_rng(seed), max(CELLS // len(values), 1)
    pieces = (draw(rng, min(n, draws - i), counts) for i in range(0, draws, n))
    return np.concatenate([(piece * values).sum(-1) for piece in pieces])
