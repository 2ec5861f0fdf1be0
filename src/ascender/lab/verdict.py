"""Win, tie or loss, by a rule that a suite writes down before its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ascender.lab.stats import Interval

Verdict = Literal["win", "tie", "loss"]


@dataclass(frozen=True)
class DecisionRule:
    """How differences a − b of one metric are judged.

    higher     whether more of it is better
    alpha      what a p, adjusted for its family, must be below
    smallest   the smallest difference of interest, in the metric's units: an interval that lies
               wholly within ±smallest is a tie however small its p; 0: any difference counts
    margin     how much worse is still not inferior, in the metric's units
    """

    higher: bool = True
    alpha: float = 0.05
    smallest: float = 0.0
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha is {self.alpha}; expected 0 < alpha < 1")
        for name in ("smallest", "margin"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 0")


def verdict(interval: Interval | None, p: float | None, rule: DecisionRule) -> Verdict:
    """Of the difference a − b, with its adjusted p. With [l, h] turned so that more is better and
    δ = smallest:

        win    l > 0, h ≥ δ and p < α        loss   h < 0, l ≤ −δ and p < α        tie    otherwise

    A tie does not show equivalence. b against a gets the opposite verdict. Without an interval or
    a test there is no winner.

    >>> rule = DecisionRule(smallest=0.01)
    >>> verdict(Interval(0.002, 0.03), 0.01, rule), verdict(Interval(0.002, 0.009), 0.01, rule)
    ('win', 'tie')
    """
    if interval is None or p is None or not p < rule.alpha:
        return "tie"
    low, high = _turned(interval, rule.higher)
    if low > 0 and high >= rule.smallest:
        return "win"
    if high < 0 and low <= -rule.smallest:
        return "loss"
    return "tie"


def not_inferior(interval: Interval, margin: float, higher: bool = True) -> bool:
    """Whether a is at most a margin worse than b: l > −margin, with [l, h] the interval of a − b
    turned so that more is better. A one-sided test at 2.5 %.

    >>> not_inferior(Interval(-0.004, 0.01), 0.005), not_inferior(Interval(-0.004, 0.01), 0.001)
    (True, False)
    """
    return _turned(interval, higher).low > -margin


def inferior(interval: Interval, margin: float, higher: bool = True) -> bool:
    """Whether a is more than a margin worse than b: h < −margin, turned as above.

    >>> inferior(Interval(-0.04, -0.02), 0.005), inferior(Interval(-0.04, 0.01), 0.005)
    (True, False)
    """
    return _turned(interval, higher).high < -margin


def _turned(interval: Interval, higher: bool) -> Interval:
    return interval if higher else -interval
