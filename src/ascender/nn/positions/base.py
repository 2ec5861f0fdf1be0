"""Position: the interface of every positional encoding.

    embed    x_i ← x_i + e_p(i)                          the tokens, at the bottom of the stack
    rotate   q_i ← R_p(i) q_i,  k_j ← R_j k_j            queries and keys
    bias     S_ij ← S_ij + β_ij                          the scores
    scores   S_ij ← S_ij + q_i·a^K_ij / √d               the scores, by what the query asks
    key_scores   S_ij ← S_ij + a^Q_ij·k_j / √d           the scores, by what the key offers
    values   out_i ← out_i + Σ_j A_ij a^V_ij             the outputs, by where the weights lie

p are the positions of the queries, j those of the keys: any whole numbers, since a query block is
the tail of its keys and a bounded cache has holes.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ascender.core.backends.base import Need
from ascender.core.combine import Bias
from ascender.core.shapes import (
    KeyPositions,
    Keys,
    Outputs,
    Queries,
    QueryPositions,
    Scores,
    TokenPositions,
    Tokens,
)

INIT = 0.02  # the standard deviation that learned tables start with


class Position(nn.Module):
    """No position: acts nowhere. The base of all others, each of which overrides what it does.

    needs          what it needs of a backend (core/backends/base.py): columns, matrix, weights
    causal_needs   the same where causal, if it differs
    """

    name: ClassVar[str] = "none"
    needs: ClassVar[Need] = "columns"
    causal_needs: ClassVar[Need | None] = None

    def __init__(self) -> None:  # no options, where nn.Module's signature has any
        super().__init__()

    def embed(self, x: Tokens, p: TokenPositions) -> Tokens:
        """The tokens with their positions; p is (N,), or (B, N)."""
        return x

    def rotate(self, t: Queries, p: TokenPositions) -> Queries:
        """Queries or keys turned by their positions; p is (N,), or (B, N)."""
        return t

    def bias(self, p: QueryPositions, j: KeyPositions, causal: bool) -> Bias:
        """β: LowRank or (H, 1, M) where it folds, (H, N, M) where it does not, None where 0."""
        return None

    def scores(self, q: Queries, p: QueryPositions, j: KeyPositions) -> Scores | None:
        """q_i·a^K_ij, not yet divided by √d; None where 0."""
        return None

    def key_scores(self, k: Keys, p: QueryPositions, j: KeyPositions) -> Scores | None:
        """a^Q_ij·k_j, and what both sides have together, not yet divided by √d; None where 0."""
        return None

    def values(self, weights: Scores, p: QueryPositions, j: KeyPositions) -> Outputs | None:
        """Σ_j A_ij a^V_ij; None where 0."""
        return None


def distance(p: QueryPositions, j: KeyPositions) -> Int[Tensor, "N M"]:
    """j − p(i): how far ahead of the query a key stands."""
    return j[None, :] - p[:, None]


def exact(device: torch.device) -> torch.dtype:
    """Where angles are computed: in float32, pθ would be off by 1e-3 at p = 10⁴."""
    return torch.float32 if device.type == "mps" else torch.float64
