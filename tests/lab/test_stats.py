"""The statistics against published or hand-computed values, and each shown able to fail."""

import itertools
import math
import re

import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from ascender.lab.curves import area, median_reached, reached
from ascender.lab.judge import RANGES
from ascender.lab.resampling import approximate_randomisation, paired_bootstrap
from ascender.lab.stats import (
    Interval,
    Summary,
    cliffs_delta,
    differences,
    holm,
    paired,
    paired_d,
    signed_rank,
)
from ascender.lab.verdict import DecisionRule
from ascender.tasks import TASKS, kind_of
from support.stats_cases import E, S, near

# Hours of sleep gained with two drugs, by patient: Student 1908, R's `sleep`.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]

SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

values = st.lists(st.floats(-9, 9), min_size=1, max_size=7)

chances = st.lists(st.floats(0, 1), min_size=1, max_size=7)


# summaries and proportions


def test_summary_by_the_table():
    found = Summary.of([4.0, 7.0, 6.0, 3.0, 5.0])
    half = 2.776 * math.sqrt(2.5 / 5)  # t of 4 degrees; Σ(x − 5)² = 10, over 4
    assert (found.mean, found.n) == (5.0, 5)
    assert found.sd == pytest.approx(math.sqrt(2.5))
    assert list(found.interval) == near(5 - half, 5 + half, to=1e-3)
    normal = 1.96 * math.sqrt(2.5 / 5)  # too sure of five values
    assert list(found.interval) != near(5 - normal, 5 + normal, to=0.1)


def test_intervals_stay_within_the_metrics_range():
    """What is cut off cannot be: the rest is the t interval, digit for digit."""
    unit = Interval(0.0, 1.0)
    x = [0.8, 0.9, 0.999]
    free, cut = Summary.of(x), Summary.of(x, unit)
    assert free.interval.high > 1
    assert cut.interval == Interval(free.interval.low, 1.0)
    assert (cut.mean, cut.sd, cut.n) == (free.mean, free.sd, free.n)
    assert Summary.of([0.5, 0.51, 0.52], unit) == Summary.of([0.5, 0.51, 0.52])
    apart = paired([0.9, 0.2, 1.0], [0.0, 0.1, 0.05], unit)
    assert paired([0.9, 0.2, 1.0], [0.0, 0.1, 0.05]).interval.high > 1
    assert apart.interval.high == 1.0
    assert apart.interval.low > -1
    assert apart.t_p == paired([0.9, 0.2, 1.0], [0.0, 0.1, 0.05]).t_p


def test_the_range_of_every_tasks_metric_is_known():
    names = {kind_of(name).metric for name in TASKS}
    assert {"accuracy", "bits per byte"} <= names
    assert names <= set(RANGES)


def test_equal_values_have_no_spread():
    assert np.std([0.1] * 3, ddof=1) > 0
    assert Summary.of([0.1] * 3).sd == 0


# pairs


def test_paired_sleep():
    found = paired(FIRST, SECOND)
    assert found.mean == pytest.approx(-1.58)
    assert found.n == 10
    assert list(found.interval) == near(-2.4598858, -0.7001142, to=1e-6)
    assert found.t_p == pytest.approx(0.002833, abs=1e-6)
    apart = scipy_stats.ttest_ind(FIRST, SECOND).pvalue  # unpaired: 0.079, as R has it
    assert apart == pytest.approx(0.0792, abs=1e-3)


def test_wilcoxon_of_darwins_maize():
    d = np.array([6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75], dtype=float)
    assert signed_rank(d) == pytest.approx(0.041259765625)  # W = 24, n = 15
    assert signed_rank(np.abs(d)) == pytest.approx(2**-14)


def every_sign(d):
    """Wilcoxon's p by trying all signs."""
    d = d[d != 0]
    rank = scipy_stats.rankdata(np.abs(d))
    sums = [
        rank[np.array(up, dtype=bool)].sum()
        for up in itertools.product([False, True], repeat=len(d))
    ]
    W = rank[d > 0].sum()
    return min(1.0, 2 * min(np.mean(sums <= W + 1e-9), np.mean(sums >= W - 1e-9)))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=7))
def test_wilcoxon_with_ties_and_zeros(d):
    d = np.array(d, dtype=float)
    assert signed_rank(d) == pytest.approx(every_sign(d))


def test_wilcoxon_without_ties_is_scipys():
    d = np.random.default_rng(0).normal(0.3, 1, 23)
    expected = scipy_stats.wilcoxon(d, method="exact").pvalue
    assert signed_rank(d) == pytest.approx(expected, rel=1e-9)


def test_one_pair_is_no_test():
    found = paired([0.9], [0.8])
    assert (found.sd, found.interval, found.t_p, found.wilcoxon_p) == (None,) * 4
    assert paired([0.9, 0.7], [0.8, 0.5]).t_p is not None


def test_pairs_without_spread():
    same = paired([0.3, 0.5, 0.8], [0.3, 0.5, 0.8])
    assert (same.mean, same.sd, same.t_p, same.wilcoxon_p) == (0, 0, 1, 1)
    a, b = [0.8, 0.3, 0.9], [0.7, 0.2, 0.8]
    assert 0 < np.std(np.subtract(a, b)) < 1e-15  # dust, of which a t would be made
    assert paired(a, b).t_p is None
    assert paired(a, b).wilcoxon_p == 0.25


@given(st.integers(-300, 300), st.floats(1, 9))
def test_differences_at_every_scale(power, x):
    big, small = x * 10.0**power, x * 10.0**power / 3
    assert differences([big], [small])[0] == pytest.approx(big - small, rel=1e-10)


# sizes of effects


def test_cliffs_delta_by_counting():
    assert cliffs_delta([1, 2, 3], [0, 2]) == 3 / 6
    assert cliffs_delta([5, 6], [1, 2, 3]) == 1
    assert cliffs_delta([1, 1], [1]) == 0


@given(values, values)
def test_cliffs_delta_is_the_double_loop(a, b):
    loop = sum((x > y) - (x < y) for x in a for y in b) / (len(a) * len(b))
    assert cliffs_delta(a, b) == pytest.approx(loop)
    assert cliffs_delta(a, b) == -cliffs_delta(b, a)


def test_effects_of_pairs():
    assert paired_d(SECOND, FIRST) == pytest.approx(4.0621 / math.sqrt(10), abs=1e-4)  # t/√n
    assert paired_d([0.1] * 3, [0.1] * 3) == 0
    assert paired_d([0.2], [0.1]) is None
    assert paired_d([0.8, 0.3], [0.7, 0.2]) is None


# families


def test_holm():
    # four hypotheses, as in the encyclopaedia's example of Holm 1979
    found = holm([0.01, 0.04, 0.03, 0.005])
    assert found == near(0.03, 0.06, 0.06, 0.02, to=1e-12)
    assert found != near(0.04, 0.16, 0.12, 0.02, to=1e-12)  # Bonferroni's
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_counts_what_was_not_tested():
    assert holm([0.02, None, 0.01]) == [0.04, None, 0.03]
    assert holm([0.02, 0.01]) == [0.02, 0.02]


@given(chances)
def test_holm_laws(ps):
    found = holm(ps)
    m = len(ps)
    for p, q in zip(ps, found, strict=True):
        assert p <= q <= min(1, m * p) + 1e-12
    order = sorted(range(m), key=lambda i: ps[i])
    assert [found[i] for i in order] == sorted(found)
    assert holm(ps[::-1]) == found[::-1]


# bad input

ROWS = np.zeros((S, E))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Summary.of([]), ["(0,)", "at least one"]),
        (lambda: Summary.of([0.5, math.nan]), ["value 1 is nan", "finite"]),
        (lambda: paired([1.0, 2.0], [1.0]), ["2 and 1", "pairs"]),
        (lambda: holm([0.5, 1.5]), ["p value 1.5"]),
        (lambda: holm([math.nan]), ["p value nan"]),
        (lambda: paired_bootstrap(ROWS, ROWS[:2]), ["(3, 211) and (2, 211)", "one shape"]),
        (lambda: paired_bootstrap(ROWS, ROWS / 0), ["NaN", "finite"]),
        (lambda: approximate_randomisation(ROWS, ROWS, draws=0), ["draws is 0"]),
        (lambda: reached([], 0.5), ["no points"]),
        (lambda: area([(2, 0.1), (1, 0.2)]), ["from cost 2 to 1", "rise"]),
        (lambda: median_reached([5], 4), ["reached at 5", "limit 4"]),
        (lambda: median_reached([5], [6, 7]), ["1 costs and 2 limits"]),
        (lambda: DecisionRule(alpha=0), ["alpha is 0"]),
        (lambda: DecisionRule(margin=-1.0), ["margin is -1.0"]),
    ],
)
def test_bad_input(call, words):
    jaxtyping.config.update("jaxtyping_disable", True)  # as a user has it
    try:
        with (
            np.errstate(invalid="ignore"),
            pytest.raises(ValueError, match=".*".join(re.escape(word) for word in words)),
        ):
            call()
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
