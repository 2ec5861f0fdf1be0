"""Verdicts: win, tie, loss, and non-inferiority."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascender.lab.stats import Interval
from ascender.lab.verdict import DecisionRule, inferior, not_inferior, verdict


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
