"""Plain softmax attention under a pattern of visibility: what windows and blocks share.

    out_i = Σ_j A_ij v_j      A_i = softmax over V(i) of s·q_i·k_j + β_ij      s = 1/√d

A bias folds where β_ij = x_i·y_j: it is a few more columns of q and k, and no N×M exists.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ascender.backends.decode import meet
from ascender.backends.folded import Whole
from ascender.combine import LowRank, columns, masked_softmax
from ascender.geometry import wide
from ascender.visibility import Visibility


def sides(
    q: Float[Tensor, "B H N d"], k: Float[Tensor, "B G M d"], v: Float[Tensor, "B G M e"],
    vis: Visibility, other: Tensor | LowRank | None = None, scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """(Q, K, V) whose products are the whole score, one head each, in the accumulating type.
    Keys that are padding are 0: whatever they hold, NaN included, reaches nobody."""
    refuse(vis, other)
    B, H, N, d = q.shape
    acc = wide(q.dtype)
    Q = [q.to(acc) * (d**-0.5 if scale is None else scale)]
    K, V = ([t.to(acc).repeat_interleave(H // t.shape[1], 1)] for t in (k, v))
    if other is not None:
        x, y = columns(other, vis.N, vis.M)
        Q.append(x.to(q).to(acc).expand(B, H, N, -1))
        K.append(y.to(q).to(acc).expand(B, H, -1, -1))
    whole = (torch.cat(t, -1) if len(t) > 1 else t[0] for t in (Q, K, V))
    Qs, Ks, Vs = whole
    if vis.mask is not None:
        Ks, Vs = (t.masked_fill(~vis.mask.mT, 0) for t in (Ks, Vs))
    return Qs, Ks, Vs


def refuse(vis: Visibility, other: Tensor | LowRank | None) -> None:
    """What is not linear in N: matrices of scores and masks by pairs."""
    if isinstance(other, Tensor) and other.ndim > 1 and other.shape[-2] != 1:
        raise ValueError(
            f"other of shape {tuple(other.shape)} is a matrix of scores, which a pattern linear in "
            "N never forms; expected LowRank or a (…, 1, M) tensor, as causal ALiBi is"
        )
    if vis.cross:
        raise ValueError(
            "cross-attention: queries have no position among the keys; expected self-attention"
        )
    if not vis.by_key_only:
        assert vis.mask is not None
        raise ValueError(
            f"mask of shape {tuple(vis.mask.shape)} differs by query; expected a padding mask "
            "(B, 1, 1, M)"
        )


def see_all(
    Q: Float[Tensor, "B H n w"], K: Float[Tensor, "B H M w"], V: Float[Tensor, "B H M e"],
    vis: Visibility,
) -> Float[Tensor, "B H n e"]:  # fmt: skip
    """Global rows: every key that is not padding, by the flash kernel."""
    p = torch.arange(Q.shape[-2], device=Q.device)
    every = replace(vis, p=p, causal=False, window=None, n_global=0)
    return Whole(every, Q.dtype).attend(Q, K, V)[0]


def attend_rows(
    q: Float[Tensor, "B H n d"], k: Float[Tensor, "B G M d"], v: Float[Tensor, "B G M e"],
    visible: Bool[Tensor, "#B #H n M"], other: Tensor | LowRank | None = None,
    scale: float | None = None,
) -> Float[Tensor, "B H n e"]:  # fmt: skip
    """A few rows against all keys, written out: decoding. Grouped keys are never copied."""
    B, H, n, d = q.shape
    total = meet(q * (d**-0.5 if scale is None else scale), k).to(wide(q.dtype))
    if other is not None:
        total = total + (other.dense() if isinstance(other, LowRank) else other).to(total)
    weights = masked_softmax(total, visible).to(v.dtype)
    return (weights.reshape(B, v.shape[1], -1, v.shape[2]) @ v).reshape(B, H, n, -1)
