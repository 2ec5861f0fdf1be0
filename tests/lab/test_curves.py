"""Learning curves: cost until a goal, its median over seeds, area."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascender.lab.curves import area, median_reached, reached


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
