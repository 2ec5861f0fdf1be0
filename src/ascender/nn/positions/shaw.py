"""Relative position representations (Shaw et al. 2018, https://arxiv.org/abs/1803.02155) on keys
and values, and on queries as an option, without a vector for every pair."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ascender.common.validate import check_flag, check_int
from ascender.core.geometry import accum_dtype
from ascender.core.shapes import KeyPositions, Keys, Outputs, Queries, QueryPositions, Scores
from ascender.nn.positions.base import INIT, Position, distance


class Shaw(Position):
    """Shaw: acts on the scores and on the outputs; learned tables that all heads share.

        r(i, j) = clip(j − p(i), −c, c)
        S_ij  gets  q_i · a^K_r(i,j) / √d        = (q a^Kᵀ)_i at r(i, j): N × (2c+1), then a gather
        out_i gets  Σ_j A_ij a^V_r(i,j)          = Σ_r (Σ_{j: r(i,j)=r} A_ij) a^V_r: a sum by
                                                   distance, N × (2c+1), then a product
    queries=True: the queries have a table too, S_ij = (q_i + a^Q_r)·(k_j + a^K_r)/√d, so

        S_ij  gets  a^Q_r(i,j) · (k_j + a^K_r(i,j)) / √d     = (k a^Qᵀ)_j and (a^Q·a^K) at r(i, j)

    Memory O(NM + (N + M)c), no (N, M, d).

    Laws: adding one number to all positions changes nothing; tables of zeros are vanilla; a^V of
    one vector adds that vector to every row that sees anything; a^Q = 0 is queries=False.
    """

    name = "shaw"
    needs = "pairs"

    def __init__(self, head_dim: int, clip: int = 16, queries: bool = False) -> None:
        super().__init__()
        check_int("head_dim", head_dim, 1)
        check_int("clip", clip, 0)
        check_flag("queries", queries)
        self.head_dim, self.clip = head_dim, clip
        self.a_K = nn.Parameter(torch.empty(2 * clip + 1, head_dim))
        self.a_V = nn.Parameter(torch.empty(2 * clip + 1, head_dim))
        self.a_Q = nn.Parameter(torch.empty(2 * clip + 1, head_dim)) if queries else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for a in (self.a_K, self.a_V, self.a_Q):
            if a is not None:
                nn.init.normal_(a, std=INIT)

    def r(self, p: QueryPositions, j: KeyPositions) -> Int[Tensor, "N M"]:
        """The row of the tables that each pair uses: the clipped distance, from 0 on."""
        return distance(p, j).clamp(-self.clip, self.clip).long() + self.clip

    def scores(self, q: Queries, p: QueryPositions, j: KeyPositions) -> Scores:
        """q_i·a^K_ij, not divided by √d; float32 where q is of a half precision."""
        acc = accum_dtype(q.dtype)
        by_distance = q.to(acc) @ self.a_K.mT.to(acc)
        return by_distance.gather(-1, self.r(p, j).expand(*q.shape[:2], -1, -1))

    def key_scores(self, k: Keys, p: QueryPositions, j: KeyPositions) -> Scores | None:
        """a^Q_ij·(k_j + a^K_ij), not divided by √d; float32 where k is of a half precision."""
        if self.a_Q is None:
            return None
        acc, r = accum_dtype(k.dtype), self.r(p, j)
        a_Q, a_K = self.a_Q.to(acc), self.a_K.to(acc)
        by_distance = k.to(acc) @ a_Q.mT + (a_Q * a_K).sum(-1)
        return by_distance.gather(-1, r.mT.expand(*k.shape[:2], -1, -1)).mT

    def values(self, weights: Scores, p: QueryPositions, j: KeyPositions) -> Outputs:
        A = weights.to(accum_dtype(weights.dtype))
        by_distance = A.new_zeros(*A.shape[:-1], len(self.a_V))
        by_distance = by_distance.scatter_add(-1, self.r(p, j).expand_as(A), A)
        return (by_distance @ self.a_V.to(A.dtype)).to(weights.dtype)

    def extra_repr(self) -> str:
        shown = f"head_dim={self.head_dim}, clip={self.clip}"
        return shown if self.a_Q is None else f"{shown}, queries=True"
