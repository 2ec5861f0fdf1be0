"""One new token in flock scope, by a few torch operators: rank, gather, attend.

    g_j = h^q·h^k_j/√d_a + b[p − j]      over the keys outside window and globals
    F   = globals, the m largest g_j, window, itself
    out = softmax(q·k_F/√d) v_F

The same result as core/backends/flock.py, without its setup, which for one token costs more than
the attention itself. One list for all heads, or one per head. K and V are read at |F| keys only.
`index` is a RuleAdapter: far, window, n_global and distance_bias are read.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from ascender.core.affinity import at_distance, by_distance
from ascender.core.neighbours import penalty, prefer_recent
from ascender.core.rules import by_head
from ascender.kernels import gpu


@torch.no_grad()
def far_keys(
    index: Any, h_q: Float[Tensor, "B A 1 a"], h_k: Float[Tensor, "B A M a"], first: int,
    last: int, mask: Bool[Tensor, "B #H 1 M"] | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The keys of highest affinity among first … last − 1, (B, A, m), and which of them are
    real (False: masked)."""
    M = h_k.shape[2]
    m = min(max(by_head("far", index.far)), last - first)
    keys = h_k[:, :, first:last].float()
    g = (keys @ h_q.float().mT).squeeze(-1) / h_q.shape[-1] ** 0.5
    distance = torch.arange(M - 1 - first, M - 1 - last, -1, device=g.device)
    if index.distance_bias is not None:
        g = g + at_distance(by_distance(index.distance_bias.float(), causal=True), distance)
    g = prefer_recent(g, penalty(distance, g.dtype))
    if mask is not None:
        g = g.masked_fill(~mask[:, :, 0, first:last], -torch.inf)
    top = g.topk(m, -1, sorted=len(set(by_head("far", index.far))) > 1)
    return top.indices + first, top.values > -torch.inf


def attend_one(
    index: Any, q: Float[Tensor, "B H 1 d"], k: Float[Tensor, "B G M d"],
    v: Float[Tensor, "B G M e"], h_q: Float[Tensor, "B A 1 a"], h_k: Float[Tensor, "B A M a"],
    mask: Bool[Tensor, "B #H 1 M"] | None,
) -> Float[Tensor, "B H 1 e"]:  # fmt: skip
    """Attention of the newest token; `mask`: which keys it may attend to."""
    B, H, G, M = q.shape[0], q.shape[1], k.shape[1], k.shape[2]
    grouped = G != H
    first = min(index.n_global, M)
    last = max(first, M - 1 - index.window)  # window and itself from here on
    sizes = by_head("far", index.far)
    if last - first <= min(sizes) or index.n_global >= M:
        return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=grouped)
    at, real = far_keys(index, h_q, h_k, first, last, mask)
    if len(set(sizes)) > 1 or at.shape[1] > 1:  # lists by head
        k, v = (t.repeat_interleave(H // G, 1) for t in (k, v))
        at, real = at.expand(B, H, -1), real.expand(B, H, -1)
        limit = gpu.filled(sizes, at).view(1, -1, 1)
        real = real & (torch.arange(at.shape[-1], device=at.device) < limit)
        G, grouped = H, False
    near = torch.cat([torch.arange(*ends, device=at.device) for ends in ((0, first), (last, M))])
    at = torch.cat([near.expand(B, at.shape[1], -1), at], -1)
    visible = None
    if mask is not None or gpu.on_gpu(real) or not bool(real.all()):
        visible = F.pad(real, (near.numel(), 0), value=True)[:, :, None]
        if mask is not None:
            rows = mask.expand(B, max(mask.shape[1], at.shape[1]), 1, M)
            wide = at.expand(-1, rows.shape[1], -1)[:, :, None]
            visible = visible & rows.gather(-1, wide)
    if B == 1 and at.shape[1] == 1:  # rows of one batch: faster than gather
        k, v = (t.index_select(2, at[0, 0]) for t in (k, v))
    else:
        k, v = (_rows(t, at.expand(B, G, -1)) for t in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, visible, enable_gqa=grouped)
    return out if visible is None else out.masked_fill(~visible.any(-1, keepdim=True), 0)


def _rows(t: Float[Tensor, "B G M w"], at: Tensor) -> Float[Tensor, "B G L w"]:
    return t.gather(2, at[..., None].expand(-1, -1, -1, t.shape[-1]))
