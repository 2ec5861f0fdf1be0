"""Paired bootstrap and approximate randomisation over examples."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ascender.lab import resampling
from ascender.lab.resampling import approximate_randomisation, paired_bootstrap
from support.stats_cases import E, S, near


def width(interval):
    return interval.high - interval.low


def scores(shift=0.2, noise=0.5, seed=0):
    """(S, E) of two variants on the same examples: mostly the example decides."""
    rng = np.random.default_rng(seed)
    example = 2 * rng.normal(size=E)
    a = example + shift + noise * rng.normal(size=(S, E))
    return a, example + noise * rng.normal(size=(S, E))


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
