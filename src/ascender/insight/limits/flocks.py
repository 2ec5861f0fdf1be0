"""The size of flocks, compared with the number of keys that a row should select.

    |F(i)| < 0.06 |V(i)|        N < 0.06 L of arXiv 2508.17821 with N = |F|, L = |V|

In flock scope a row selects |F(i)| of its |V(i)| visible keys before there are any weights. All
other quantities of a row (entropy, support, critical N, separable share …) range over the flock:
their L is |F|.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from ascender.insight.limits.distance import GUIDE


@dataclass(frozen=True)
class FlockSize:
    """The flocks of one layer at one length, means over rows and heads.

    visible |V| · keys |F| · share |F|/|V| · support exp(H) under the model's own normaliser
    """

    length: int
    layer: int
    visible: float
    keys: float
    share: float
    support: float

    @classmethod
    def of(
        cls, length: int, layer: int, visible: Tensor, keys: Tensor, support: Tensor
    ) -> FlockSize:
        """From |V|, |F| and exp(H) of every row, (B, H, rows)."""
        numbers = (visible.double(), keys.double(), keys / visible, support.double())
        return cls(length, layer, *(float(t.mean()) for t in numbers))

    @property
    def within(self) -> bool:
        """Whether the flock is as small as advised."""
        return self.share < GUIDE

    @property
    def whole(self) -> bool:
        """Whether it is all of V: then its size still grows with the text."""
        return self.keys >= self.visible


def enough_keys(keys: float) -> int:
    """The least |V| at which a flock of so many keys is under 0.06 |V|.

    >>> enough_keys(6), enough_keys(13)
    (101, 217)
    """
    return math.floor(round(keys / GUIDE, 6)) + 1


def flock_warnings(flocks: Iterable[FlockSize], length: int) -> list[str]:
    """One line if any layer has flocks of 0.06 |V| keys or more at a length, else none."""
    here = [row for row in flocks if row.length == length]
    wide = [row for row in here if not row.within]
    if not wide:
        return []
    worst = max(wide, key=lambda row: row.share)
    return [
        f"L = {length}: flocks of {len(wide)} of {len(here)} layers hold N = |F| ≥ {GUIDE} |V| "
        f"keys; the largest is {worst.share:.2f} |V|, in layer {worst.layer}"
    ]
