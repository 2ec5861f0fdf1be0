"""The statistics against published or hand-computed values, and each shown able to fail."""

import itertools
import math
import re
import tracemalloc

import jaxtyping
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from ascender.lab import resampling
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
from ascender.lab.verdict import DecisionRule, inferior, not_inferior, verdict
from ascender.tasks import TASKS, kind_of

S, E = 3, 211  # seeds, examples

# Hours of sleep gained with two drugs, by patient: Student 1908, R's `sleep`.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

values = st.lists(st.floats(-9, 9), min_size=1, max_size=7)
chances = st.lists(st.floats(0, 1), min_size=1, max_size=7)


def near(*expected, to=1e-4):
    return pytest.approx(list(expected), abs=to)


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


# resampling


def scores(shift=0.2, noise=0.5, seed=0):
    """(S, E) of two variants on the same examples: mostly the example decides."""
    rng = np.random.default_rng(seed)
    example = 2 * rng.normal(size=E)
    a = example + shift + noise * rng.normal(size=(S, E))
    return a, example + noise * rng.normal(size=(S, E))


def width(interval):
    return interval.high - interval.low


def test_bootstrap_is_nearly_normal():
    a, b = scores()
    d = (a - b).mean(0)
    half = 1.96 * d.std() / math.sqrt(E)
    found = paired_bootstrap(a, b)
    assert found.difference == pytest.approx(d.mean())
    assert list(found.interval) == near(d.mean() - half, d.mean() + half, to=half / 10)
    assert (found.n, found.draws) == (E, 10_000)
    rng = np.random.default_rng(1)
    apart = paired_bootstrap(a, b[:, rng.permutation(E)])  # no longer by example
    assert width(apart.interval) > 3 * width(found.interval)
    assert found.p < 0.01 < 0.1 < apart.p


def test_seeds_are_no_examples():
    a, b = scores(noise=0.01)
    d = np.random.default_rng(2).normal(size=E)
    found = paired_bootstrap(a + d, b)  # the same for all seeds: three seeds tell no more
    alone, flat = paired_bootstrap(a[0] + d, b[0]), paired_bootstrap((a + d).ravel(), b.ravel())
    assert width(found.interval) == pytest.approx(width(alone.interval), rel=0.05)
    assert width(flat.interval) < 0.7 * width(found.interval)


def test_bootstrap_p_agrees_with_its_interval():
    for seed in range(7):
        a, b = scores(shift=0.06, seed=seed)
        found = paired_bootstrap(a, b, draws=1999)
        low, high = found.interval
        assert (found.p < 0.05) == (low > 0 or high < 0)


def test_bootstrap_by_all_draws():
    a, b = np.array([1, 1, 0, 1]), np.array([0, 1, 1, 0])  # d = 1, 0, −1, 1
    means = [np.mean(draw) for draw in itertools.product([1, 0, -1, 1], repeat=4)]
    tail = min(np.mean(np.array(means) <= 0), np.mean(np.array(means) >= 0))
    assert paired_bootstrap(a, b).p == pytest.approx(2 * tail, abs=0.03)


def all_swaps(d):
    """The randomisation test's p by trying all signs."""
    sums = [abs(np.dot(s, d)) for s in itertools.product([-1, 1], repeat=len(d))]
    return np.mean(np.array(sums) >= abs(np.sum(d)) - 1e-9)


@pytest.mark.parametrize(
    ("a", "p"),
    [
        ([1, 2, 3, 4, 5, 6], 2 / 64),
        ([1, 2, 3, 4, 5, -6], 28 / 64),  # 14 subsets sum to at most 6, 14 to at least 15
        ([0.1, 0.1, 0.1, 0.1, 0.1, -0.3], 54 / 64),  # all but the 10 that come to 0
    ],
)
def test_randomisation_by_all_swaps(a, p):
    a = np.array(a)
    assert all_swaps(a) == p
    assert approximate_randomisation(a, np.zeros(6)).p == pytest.approx(p, abs=0.02)
    assert approximate_randomisation(a, np.zeros(6), draws=3).p in (1 / 4, 2 / 4, 3 / 4, 1)


def test_randomisation_is_uniform_under_the_null():
    right, flat = [], []
    for seed in range(200):
        a, b = (t[:, :17] for t in scores(shift=0, seed=seed))
        a = a + np.random.default_rng([seed]).normal(size=17)  # the variants differ by example
        right.append(approximate_randomisation(a, b, draws=199, seed=seed).p)
        flat.append(approximate_randomisation(a.ravel(), b.ravel(), draws=199, seed=seed).p)
    assert scipy_stats.kstest(right, "uniform").pvalue > 0.01
    assert np.mean(np.array(right) <= 0.1) == pytest.approx(0.1, abs=0.06)
    assert scipy_stats.kstest(flat, "uniform").pvalue < 0.01  # three seeds are not three examples
    assert np.mean(np.array(flat) <= 0.1) > 0.2


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])
def test_resampling_laws(test, monkeypatch):
    a, b = scores(shift=0.05)
    found = test(a, b, draws=501)
    assert test(a, b, draws=501) == found
    assert test(a, b, draws=501, seed=1) != found
    assert test(a, a, draws=501).p == 1
    back = test(b, a, draws=501)
    assert back.difference == -found.difference
    assert back.p == pytest.approx(found.p)
    if found.interval is not None:
        assert list(back.interval) == near(*-found.interval, to=1e-12)
    assert test(a[0], b[0], draws=501) == test(a[:1], b[:1], draws=501)
    monkeypatch.setattr(resampling, "CELLS", 50)
    assert test(a, b, draws=501) == found  # in pieces


@pytest.mark.parametrize("test", [paired_bootstrap, approximate_randomisation])
def test_memory_is_bounded(test, monkeypatch):
    a = np.random.default_rng(0).normal(size=20_011)

    def peak():
        tracemalloc.start()
        test(a, np.zeros_like(a), draws=127)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak() < 17e6
    monkeypatch.setattr(resampling, "CELLS", 127 * len(a))
    assert peak() > 17e6  # in one piece


# curves


def test_reached():
    curve = [(100, 0.2), (200, 0.71), (300, 0.69), (400, 0.9)]
    assert reached(curve, 0.7) == 200  # first, though it falls again
    assert reached(curve, 0.9) == 400
    assert reached(curve, 0.95) is None
    assert reached(curve, 0.7, higher=False) == 100
    assert reached([(1, math.nan), (2, 0.5)], 0.4) == 2


# Weeks of remission of leukaemia with 6-MP and with placebo: Freireich et al. 1963; Cox 1972
TREATED = [6, 6, 6, None, 7, None, 10, None, None, 13, 16, *[None] * 3, 22, 23, *[None] * 5]
FOLLOWED = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
PLACEBO = [1, 1, 2, 2, 3, 4, 4, 5, 5, 8, 8, 8, 8, 11, 11, 12, 12, 15, 17, 22, 23]


def test_median_reached_in_remission():
    assert median_reached(TREATED, FOLLOWED) == 23
    assert median_reached(PLACEBO, 23) == 8 == np.median(PLACEBO)
    done = [t for t in TREATED if t is not None]
    assert median_reached(done, 35) == 10  # leaving out the censored is no median


def test_median_reached_by_hand():
    # at 1: 4/5; at 2 one leaves; at 3: 4/5 · 2/3 = 8/15; at 4: 8/15 · 1/2 < ½
    assert median_reached([1, None, 3, 4, 9], [9, 2, 9, 9, 9]) == 4
    assert median_reached([1, 2, 3, 4, 9], 9) == 3
    assert median_reached([1, 2, None, None], 9) == 2  # S(2) = ½
    assert median_reached([1, None, None], 9) is None
    assert median_reached([None], 9) is None
    many = [*range(1, 24), None]
    assert median_reached(many, 24) == 12  # 23/24 · … · 12/13 = ½, in floats above it
    assert median_reached([5, 5, 5, 5, None, None], 5) == 5  # reached at the limit is reached


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_median_with_nothing_censored(costs):
    assert median_reached(costs, 9) == sorted(costs)[(len(costs) - 1) // 2]


def test_area():
    assert area([(0, 0.0), (10, 1.0), (30, 1.0)]) == pytest.approx((5 + 20) / 30)
    assert area([(50, 0.4)]) == 0.4
    early, late = [(0, 0), (1, 1), (10, 1)], [(0, 0), (9, 0), (10, 1)]
    assert area(early) == pytest.approx(0.95)
    assert area(late) == pytest.approx(0.05)


@given(st.lists(st.tuples(st.floats(1, 9), st.floats(0, 1)), min_size=1, max_size=7))
def test_area_is_a_mean(points):
    costs = np.cumsum([gap for gap, _ in points]).tolist()
    curve = [(t, q) for t, (_, q) in zip(costs, points, strict=True)]
    qualities = [q for _, q in curve]
    assert min(qualities) - 1e-9 <= area(curve) <= max(qualities) + 1e-9
    assert area([(7 * t + 3, q) for t, q in curve]) == pytest.approx(area(curve))


# verdicts


@pytest.mark.parametrize(
    ("interval", "p", "rule", "expected"),
    [
        ((0.01, 0.03), 0.01, DecisionRule(), "win"),
        ((-0.03, -0.01), 0.01, DecisionRule(), "loss"),
        ((0.01, 0.03), 0.01, DecisionRule(higher=False), "loss"),
        ((-0.01, 0.03), 0.01, DecisionRule(), "tie"),
        ((0.01, 0.03), 0.06, DecisionRule(), "tie"),  # not after Holm
        ((0.01, 0.03), 0.06, DecisionRule(alpha=0.1), "win"),
        ((0.01, 0.03), 0.05, DecisionRule(), "tie"),
        ((0.0, 0.03), 0.01, DecisionRule(), "tie"),
        ((0.01, 0.03), 0.01, DecisionRule(smallest=0.04), "tie"),  # sure, and too small to matter
        ((0.01, 0.03), 0.01, DecisionRule(smallest=0.02), "win"),
        ((-0.03, -0.01), 0.01, DecisionRule(smallest=0.04), "tie"),
        ((0.01, 0.03), None, DecisionRule(), "tie"),
    ],
)
def test_verdict(interval, p, rule, expected):
    assert verdict(Interval(*interval), p, rule) == expected
    assert verdict(None, p, rule) == "tie"


@given(
    st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.1), st.booleans(), st.sampled_from([0, 0.3])
)  # fmt: skip
def test_verdicts_mirror(low, width, p, higher, smallest):
    rule, other = (DecisionRule(higher=h, smallest=smallest) for h in (higher, not higher))
    interval = Interval(low, low + width)
    opposite = {"win": "loss", "loss": "win", "tie": "tie"}
    assert verdict(-interval, p, rule) == opposite[verdict(interval, p, rule)]
    assert verdict(interval, p, other) == opposite[verdict(interval, p, rule)]
    if -smallest < interval.low and interval.high < smallest:
        assert verdict(interval, p, rule) == "tie"
    if verdict(interval, p, rule) == "win":
        assert not_inferior(interval, 0.0, higher)


def test_not_inferior():
    worse = Interval(-0.02, 0.01)
    assert not_inferior(worse, 0.03)
    assert not not_inferior(worse, 0.02)
    assert not_inferior(worse, 0.015, higher=False)
    assert not not_inferior(worse, 0.01, higher=False)


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.3), st.booleans())
def test_inferior_and_not_inferior(low, width, margin, higher):
    interval = Interval(low, low + width)
    assert not (inferior(interval, margin, higher) and not_inferior(interval, margin, higher))
    if width == 0 and abs(low) != margin:
        assert inferior(interval, margin, higher) or not_inferior(interval, margin, higher)
    better = Interval(margin + 0.1, 1.0)
    assert inferior(-better, margin)
    assert inferior(better, margin, higher=False)


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
