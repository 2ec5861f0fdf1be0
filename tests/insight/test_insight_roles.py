"""Roles of heads: matching, agreement between seeds, clusters."""

import math

import numpy as np
import pytest

from ascender.insight import agreement, roles_of
from ascender.insight.roles import aligned, layer_agreement, match, matched_correlation, vectors


def heads(seed, noise=0.01, spots=((0, 0), (1, 0), (0, 1), (3, 3))):
    rng = np.random.default_rng(seed)
    return np.array(spots, float)[rng.permutation(len(spots))] + noise * rng.normal(size=(4, 2))


def test_matching_finds_a_permutation():
    rng = np.random.default_rng(0)
    a, order = rng.normal(size=(5, 8)), np.array([3, 0, 4, 1, 2])
    b = a[order] + 0.01 * rng.normal(size=a.shape)
    assert b[match(a, b)] == pytest.approx(a, abs=0.05)
    assert match(a, b).tolist() == np.argsort(order).tolist()
    assert match(a, rng.normal(size=a.shape)).tolist() != np.argsort(order).tolist()


def test_aligned_seeds_are_alike():
    seeds = [np.stack([heads(s), heads(s + 10)]) for s in range(4)]
    orders = aligned(seeds)
    made = [np.take_along_axis(s, o[..., None], 1) for s, o in zip(seeds, orders, strict=True)]
    assert np.std(made, 0).max() < 0.05 < np.std(seeds, 0).max()


def test_agreement_is_beyond_chance_only_where_there_is_some():
    found = agreement([heads(s) for s in range(3)], draws=200)
    assert found.r > 0.99
    assert found.r > found.null
    assert found.p < 0.05
    assert found.pairs == 3
    rng = np.random.default_rng(5)
    ps = [
        agreement([rng.normal(size=(4, 3)) for _ in range(3)], draws=99).p for _ in range(20)
    ]  # fmt: skip
    assert 0.25 < np.mean(ps) < 0.75  # of heads drawn alike p is uniform


def test_layers_agree_where_they_differ_alike():
    rng = np.random.default_rng(0)
    spots = rng.normal(size=(3, 1, 4))
    alike = [spots + 0.3 * rng.normal(size=(3, 5, 4)) for _ in range(3)]
    found = layer_agreement(alike, draws=99)
    assert found.r > 0.8
    assert found.p == 0.01
    a, b = (s.mean(1) - s.mean((0, 1)) for s in alike[:2])
    by_hand = (a * b).sum() / math.sqrt((a**2).sum() * (b**2).sum())
    assert layer_agreement(alike[:2], draws=9).r == pytest.approx(by_hand)
    turned = [alike[0], alike[1][::-1], alike[2][[1, 0, 2]]]
    assert layer_agreement(turned, draws=99).p > 0.05
    assert layer_agreement([s[:1] for s in alike]).r is None


def test_agreement_without_pairs_or_differences():
    assert agreement([heads(0)]) == agreement([heads(1)])
    assert agreement([heads(0)]).r is None
    assert agreement([np.ones((3, 2)), np.ones((3, 2))]).p is None


def test_correlation_by_hand():
    a, b = np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([[3.0, 1.0], [1.0, 0.0]])
    # about their means: ±(−1, 0) and ±(1, ½), matched by sign: r = 2 / √(2 · 2.5)
    assert matched_correlation(a, b) == pytest.approx(2 / math.sqrt(2 * 2.5))


def test_roles_are_the_blobs():
    rng = np.random.default_rng(0)
    spots = np.zeros((3, 8))
    spots[0, 6], spots[1, 7], spots[1, 5] = 0.3, 0.2, 0.1  # sep; coh and align; none
    which = np.repeat([0, 1, 2], [7, 5, 3])
    found = roles_of(spots[which] + 0.005 * rng.normal(size=(15, 8)))
    assert found.names == ("sep", "coh+align", "base")
    assert found.which.tolist() == which.tolist()
    assert found.silhouette > 0.8
    np.testing.assert_allclose(found.centres, spots, atol=0.02)
    one = roles_of(np.full((6, 8), 0.2))
    assert one.silhouette is None
    assert one.which.tolist() == [0] * 6
    assert vectors(np.zeros((2, 3, 5)), np.ones((2, 3, 3))).shape == (2, 3, 8)
