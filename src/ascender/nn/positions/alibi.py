"""ALiBi: a penalty that grows with distance (Press et al. 2021, https://arxiv.org/abs/2108.12409).

s_h = 2^(−8h/H),  h = 1 … H                  H a power of two
else the slopes of the power of two P below H, and every other one of 2P: 2^(−8h/2P), h = 1, 3 …
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ascender.common.validate import check_int
from ascender.core.combine import LowRank
from ascender.core.geometry import accum_dtype
from ascender.core.shapes import KeyPositions, QueryPositions
from ascender.nn.positions.base import Position, distance


def slopes(heads: int) -> tuple[float, ...]:
    """The published slope of each head, for any number of heads."""
    P = 1 << (heads.bit_length() - 1)
    whole = [2 ** (-8 * h / P) for h in range(1, P + 1)]
    between = [2 ** (-8 * h / (2 * P)) for h in range(1, 2 * (heads - P), 2)]
    return tuple(whole + between)


class Alibi(Position):
    """ALiBi: acts on the scores, nothing to learn.

        β_ij = −s_h |p(i) − j|

    Causal, |p(i) − j| = p(i) − j for every key in sight, so β folds: s_h j is one column of the
    keys, and what is left, −s_h p(i), a constant of the row. Softmax ignores it, float32 does not:
    without it scores grow with the distance from 0 and lose their last digits (5e-5 of the output
    at N = 4096). So it is a second column, and both are measured from an o amid the queries.

        β_ij = −s_h (p(i) − o) · 1 + s_h · (j − o)

    Laws: adding one number to all positions changes nothing; the two forms agree for j ≤ p(i).
    The bias is float32, float64 in a float64 module.
    """

    name = "alibi"
    needs = "matrix"
    causal_needs = "columns"
    slopes: Tensor

    def __init__(self, heads: int) -> None:
        super().__init__()
        check_int("heads", heads, 1)
        self.heads = heads
        self.register_buffer("slopes", torch.empty(heads), persistent=False)
        self.reset_parameters()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Alibi:
        """The slopes are computed again where the module is moved or cast: never in bfloat16."""
        super()._apply(fn, recurse)
        self.reset_parameters()
        return self

    def reset_parameters(self) -> None:
        s = self.slopes
        self.slopes = torch.tensor(slopes(self.heads), dtype=accum_dtype(s.dtype), device=s.device)

    def bias(self, p: QueryPositions, j: KeyPositions, causal: bool) -> Tensor | LowRank:
        s = self.slopes[:, None]
        if not causal:
            return s[:, None] * -distance(p, j).abs()
        o = (p.amin() + p.amax()) // 2
        row, key = -s * (p - o), (j - o).to(s.dtype)[None]  # (H, N), (1, M)
        return LowRank(
            torch.stack([row, s.expand_as(row)], -1), torch.stack([torch.ones_like(key), key], -1)
        )

    def extra_repr(self) -> str:
        return f"heads={self.heads}"
