"""Attention and row variances on small blocks, written out a cache-full at a time.

A block of 64 × 320 scores is as small as a flash kernel's own tile: two products and a softmax
beat the kernel there. Scores are never kept: backward makes them again from lse, as flash does,
so memory is that of the inputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.backends import by_hand

HELD = 1 << 18  # scores in flight: 1 MiB of float32


def _pieces(x: Tensor, keys: int) -> Iterator[slice]:
    """Slices of the leading axis whose scores fit in the cache."""
    step = max(1, HELD // (x[0, ..., 0].numel() * keys))
    for a in range(0, x.shape[0], step):
        yield slice(a, a + step)


def _some(t: Tensor, piece: slice) -> Tensor:
    """A piece of a constant, which may be one for all."""
    return t if t.shape[0] == 1 else t[piece]


class TileAttention(torch.autograd.Function):
    """(out, lse) of softmax(Q Kᵀ + bias) V; bias is a constant. Rows of −inf: out = lse = 0."""

    @staticmethod
    def forward(Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        out = Q.new_empty(*Q.shape[:-1], V.shape[-1])
        lse = Q.new_empty(Q.shape[:-1])
        for piece in _pieces(Q, K.shape[-2]):
            s = Q[piece] @ K[piece].contiguous().mT
            if bias is not None:
                s += _some(bias, piece)
            top = s.amax(-1, keepdim=True).clamp_min_(torch.finfo(s.dtype).min)
            mass = s.sub_(top).exp_().sum(-1, keepdim=True)
            out[piece] = (s @ V[piece].contiguous()).div_(mass.clamp_min(torch.finfo(s.dtype).tiny))
            lse[piece] = torch.where(mass > 0, top + mass.log(), 0).squeeze(-1)
        return out, lse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    @by_hand.backward
    def backward(ctx: Any, g: Tensor, g_lse: Tensor) -> tuple[Tensor | None, ...]:
        Q, K, V, bias, out, lse = ctx.saved_tensors
        dQ, dK, dV = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (Q, K, V))
        delta = ((g * out).sum(-1) - g_lse).unsqueeze(-1)
        for piece in _pieces(Q, K.shape[-2]):
            q, k, v = (t[piece].contiguous() for t in (Q, K, V))
            s = q @ k.mT
            if bias is not None:
                s += _some(bias, piece)
            p = s.sub_(lse[piece].unsqueeze(-1)).exp_()
            dV[piece] = p.mT @ g[piece]
            ds = (g[piece] @ v.mT).sub_(delta[piece]).mul_(p)
            dQ[piece] = ds @ k
            dK[piece] = ds.mT @ q
        return dQ, dK, dV, None


class TileVariance(torch.autograd.Function):
    """Population variance of each row of x yᵀ over the keys that `seen` (0 or 1) marks."""

    @staticmethod
    def forward(x: Tensor, y: Tensor, seen: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        mean, var = x.new_empty(*x.shape[:-1], 1), x.new_empty(*x.shape[:-1], 1)
        for piece in _pieces(x, y.shape[-2]):
            mask, n = _some(seen, piece), _some(count, piece)
            r = (x[piece] @ y[piece].contiguous().mT).mul_(mask)
            m = r.sum(-1, keepdim=True) / n
            mean[piece] = m
            var[piece] = r.sub_(m).mul_(mask).square_().sum(-1, keepdim=True) / n
        return var, mean

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    @by_hand.backward
    def backward(ctx: Any, g: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, y, seen, count, mean = ctx.saved_tensors
        dx, dy = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (x, y))
        scale = 2 * g / count
        for piece in _pieces(x, y.shape[-2]):
            rows, keys = x[piece].contiguous(), y[piece].contiguous()
            dr = (rows @ keys.mT).sub_(mean[piece]).mul_(_some(seen, piece)).mul_(scale[piece])
            dx[piece] = dr @ keys
            dy[piece] = dr.mT @ rows
        return dx, dy, None, None


def tile_attend(
    Q: Float[Tensor, "G h L d"], K: Float[Tensor, "G h S d"], V: Float[Tensor, "G h S e"],
    bias: Float[Tensor, "#G #h L S"] | None,
) -> tuple[Float[Tensor, "G h L e"], Float[Tensor, "G h L"]]:  # fmt: skip
    out, lse = TileAttention.apply(Q, K, V, bias)
    return out, lse


def tile_variance(
    x: Float[Tensor, "G h L w"], y: Float[Tensor, "G #h S w"],
    seen: Float[Tensor, "#G #h L S"], count: Float[Tensor, "#G #h L 1"],
) -> Float[Tensor, "G h L 1"]:  # fmt: skip
    y = y.expand(-1, x.shape[1], -1, -1)
    var, _ = TileVariance.apply(x, y, seen, count)
    return var
