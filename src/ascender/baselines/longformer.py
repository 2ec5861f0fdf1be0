"""Longformer: a window and leading global tokens, linear in N (arXiv 2004.05150).

    V(i) = { j : |p(i) − j| ≤ w, or j < g, or p(i) < g }        causal: j ≤ p(i) as well

Our window w counts the tokens on each side. transformers' `attention_window` counts both sides
together and must be even, so

    window = w  here   is   attention_window = 2w  there

Both see the token itself besides: 2w + 1 keys.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.backends.windowed import Blocks
from ascender.baselines.plain import see_all, sides
from ascender.combine import LowRank
from ascender.visibility import Visibility


def window_attention(
    q: Float[Tensor, "B H N d"], k: Float[Tensor, "B G M d"], v: Float[Tensor, "B G M e"],
    vis: Visibility, other: Tensor | LowRank | None = None, scale: float | None = None,
) -> Float[Tensor, "B H N e"]:  # fmt: skip
    """softmax over V(i) of s·q_i·k_j + β_ij, times v, in O(N (w + g)). The queries are the tail
    of the keys; `other` folds (LowRank, or one number a key). A row that sees nothing is 0."""
    if vis.window is None:
        raise ValueError("there is no window; expected Visibility(window=…)")
    Q, K, V = sides(q, k, v, vis, other, scale)
    blocks = Blocks(vis, Q.dtype)
    out = blocks.attend(Q, K, V)[0]
    n = leading(vis)
    if n:
        out = torch.cat([see_all(Q[..., :n, :], K, V, vis), out[..., n:, :]], -2)
    return out.to(v.dtype)


def leading(vis: Visibility) -> int:
    """How many of the queries look further than the blocks do: the global ones, unless causal
    (the keys up to a leading token are leading themselves)."""
    return 0 if vis.causal else min(max(0, vis.n_global - (vis.M - vis.N)), vis.N)
