"""Affinity: the score that ranks keys for a query, and a term of the attention score.

    tied        h_q = h_k = x P            keys are ranked by the cosine a_ij = cos(h_i, h_j)
    query-key   h_q = x P_q, h_k = x P_k   keys are ranked by g_ij
    g_ij = h^q_i · h^k_j / √d_a + b[bucket(p(i) − j)]       b: optional, a learned number a bucket

The affinity term adds ω_aff · g_ij to the score. Tied affinity finds tokens that are alike,
query-key affinity finds the answer to a query.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

AFFINITIES = ("tied", "query-key")
MAX_DISTANCE = 1024  # beyond it all distances share a bucket


def bucket(
    r: Int[Tensor, "..."], causal: bool, buckets: int = 32, max_distance: int = 128
) -> Int[Tensor, "..."]:
    """T5's bucket (Raffel et al. 2019, https://arxiv.org/abs/1910.10683) of r = j − p(i).

    Causal: n = max(0, −r) has all the buckets b. Else r ≤ 0 has the first half and r > 0 the
    second, each with n = |r| and b = buckets/2.

        n                                                    n < b/2
        b/2 + ⌊ log(2n/b) / log(2 max_distance/b) · b/2 ⌋    above, at most b − 1
    """
    b = buckets if causal else buckets // 2
    n = (-r).clamp_min(0) if causal else r.abs()
    near = b // 2
    # float32 and this order of operations: trained models depend on how this rounds.
    far = torch.log(n.clamp_min(1).float() / near) / math.log(max_distance / near) * (b - near)
    n = torch.where(n < near, n, (near + far.long()).clamp_max(b - 1))
    return n if causal else n + b * (r > 0)


def by_distance(bias: Float[Tensor, "n"], causal: bool) -> Float[Tensor, "r"]:
    """b at the distances p(i) − j = −MAX_DISTANCE … MAX_DISTANCE; further ones are as these."""
    r = torch.arange(MAX_DISTANCE, -MAX_DISTANCE - 1, -1, device=bias.device)  # j − p(i)
    return bias[bucket(r, causal, bias.numel(), MAX_DISTANCE)]


def at_distance(table: Float[Tensor, "r"], d: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
    """by_distance's table at p(i) − j = d."""
    where = d.clamp(-MAX_DISTANCE, MAX_DISTANCE) + MAX_DISTANCE
    return table.index_select(0, where.flatten()).view(where.shape)
