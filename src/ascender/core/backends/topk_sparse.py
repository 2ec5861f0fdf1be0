"""Attention over the `size` best keys of each row: the active set kept small.

    T(i) = the `size` members of V(i) with the largest S_ij = q_i·k_j/√d + β_ij
    A_i  = softmax of S_i/T over T(i),   out_i = Σ_{j∈T(i)} A_ij v_j

T(i) is found without a gradient, a few rows at a time; scores, weights and their gradients exist
over the lists only: O(N·size). The same as the definition with the TopK normaliser, gradients and
ties included (of keys tied at the edge the earliest stay).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ascender.core.backends.index_lists import Lists
from ascender.core.combine import LowRank, columns, folds, repeat_kv
from ascender.core.geometry import accum_dtype
from ascender.core.neighbours import CHUNK, best
from ascender.core.softmax import masked_softmax
from ascender.core.visibility import Visibility


def top_attention(
    q: Float[Tensor, "B H N d"],
    k: Float[Tensor, "B G M d"],
    v: Float[Tensor, "B G M e"],
    vis: Visibility,
    size: int,
    other: Tensor | LowRank | None = None,
    temperature: float = 1.0,
) -> Float[Tensor, "B H N e"]:
    """out, 0 in rows that see nothing. `other` folds: None, (…, 1, M) or LowRank. k and v may have
    fewer heads (grouped). A NaN makes the rows that see it NaN and no other."""
    if size < 1:
        raise ValueError(f"size = {size}; expected at least 1 key")
    if isinstance(other, Tensor) and not folds(other):
        raise ValueError(
            f"other of shape {tuple(other.shape)} is a matrix of scores; expected LowRank or a "
            "(…, 1, M) tensor, or the TopK normaliser with backend='dense'"
        )
    (B, H, _, d), acc = q.shape, accum_dtype(q.dtype)
    x, y, w = q.to(acc), repeat_kv(k, H).to(acc), repeat_kv(v, H).to(acc)
    if other is not None:  # x_i·y_j = √d S_ij
        left, right = (t.expand(B, H, -1, -1).to(acc) for t in columns(other, vis.N, vis.M))
        x, y = torch.cat([left * d**0.5, x], -1), torch.cat([right, y], -1)
    scale = temperature * d**0.5
    bad_q, bad_k = _bad(x), _bad(y) | _bad(w)
    if not bool(bad_q.any() | bad_k.any()):
        return _over(find(x, y, vis, size), x, y, w, scale).to(v.dtype)
    x, y, w = (t.masked_fill(b[..., None], 0) for t, b in ((x, bad_q), (y, bad_k), (w, bad_k)))
    nonfinite = vis.sees(bad_k) | (bad_q & (vis.count > 0).squeeze(-1))
    out = _over(find(x, y, vis, size), x, y, w, scale).to(v.dtype)
    return out.masked_fill(nonfinite[..., None], torch.nan)


def _over(index: Tensor, x: Tensor, y: Tensor, w: Tensor, scale: float) -> Float[Tensor, "B H N e"]:
    """Attention over index lists under the scores x_i·y_j/scale."""
    lists = Lists(index, x.shape[1], y.shape[2])
    return lists.bag(masked_softmax(lists.dot(x, y) / scale, lists.valid), w)


@torch.no_grad()
def find(
    x: Float[Tensor, "B H N w"], y: Float[Tensor, "B H M w"], vis: Visibility, size: int
) -> Int[Tensor, "B H N K"]:
    """T(i): the `size` members of V(i) with the largest x_i·y_j, −1 where there are fewer."""
    chunk, K = max(1, CHUNK // vis.M), min(size, vis.M)
    pieces = []
    for a in range(0, vis.N, chunk):
        rows = slice(a, a + chunk)
        s = x[:, :, rows] @ y.mT
        if vis.causal or vis.window is not None or vis.mask is not None:
            s.masked_fill_(~vis.rows(rows).visible, -torch.inf)
        index = best(s, (K,))
        edge = s.gather(-1, index.clamp_min(0)).amin(-1, keepdim=True)
        crowded = (index >= 0).all(-1) & ((s >= edge).sum(-1) > K)
        if bool(crowded.any()):  # a tie at the edge
            order = s[crowded].sort(dim=-1, descending=True, stable=True).indices
            index[crowded] = order[:, :K]
        pieces.append(index)
    return torch.cat(pieces, -2)


def _bad(t: Float[Tensor, "B H n w"]) -> Tensor:
    """Tokens with a NaN or an infinity."""
    return ~t.isfinite().all(-1)
