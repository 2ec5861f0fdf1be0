"""Attention on small blocks, written out a cache-full at a time.

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


class TileScores(torch.autograd.Function):
    """Attention under S = ( q kᵀ + Σ_t f_t ∘ (x_t y_tᵀ) ) / τ + bias, with the slopes
    f_t = g_t / √(var + ε) of standardised scores taken from the scores themselves.

    Inputs: q, k, v, bias, seen (0/1), count, ε (None: f = g), then g, x, y of each t; τ is in
    q and g already. Outputs: out, lse, and each f.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, bias: Tensor, seen: Tensor, count: Tensor,
        eps: float | None, *terms: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        out, lse = q.new_empty(*q.shape[:-1], v.shape[-1]), q.new_empty(q.shape[:-1])
        slopes = [q.new_empty(*q.shape[:-1], 1) for _ in terms[::3]]
        for piece in _pieces(q, k.shape[-2]):
            s = q[piece] @ k[piece].contiguous().mT
            for f, g, x, y in zip(slopes, terms[::3], terms[1::3], terms[2::3], strict=True):
                r = x[piece] @ y[piece].contiguous().mT
                f[piece] = g[piece]
                if eps is not None:
                    mask, n = _some(seen, piece), _some(count, piece)
                    f[piece] *= torch.rsqrt(_moments(r, mask, n)[1] + eps)
                s.addcmul_(r, f[piece])
            s += _some(bias, piece)
            top = s.amax(-1, keepdim=True).clamp_min_(torch.finfo(s.dtype).min)
            mass = s.sub_(top).exp_().sum(-1, keepdim=True)
            out[piece] = (s @ v[piece].contiguous()).div_(mass.clamp_min(1e-30))
            lse[piece] = torch.where(mass > 0, top + mass.log(), 0).squeeze(-1)
        return out, lse, *slopes

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        q, k, v, bias, seen, count, ctx.eps, *terms = inputs
        ctx.save_for_backward(q, k, v, bias, seen, count, *output, *terms)
        ctx.terms = len(terms) // 3

    @staticmethod
    @by_hand.backward
    def backward(ctx: Any, g_out: Tensor, g_lse: Tensor, *g_f: Tensor) -> tuple[Any, ...]:
        q, k, v, bias, seen, count, out, lse, *rest = ctx.saved_tensors
        slopes, terms = rest[: ctx.terms], rest[ctx.terms :]
        grads = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v, *terms)]
        delta = ((g_out * out).sum(-1) - g_lse).unsqueeze(-1)
        for piece in _pieces(q, k.shape[-2]):
            here, mask, n = grads, _some(seen, piece), _some(count, piece)
            rows, keys, values = (t[piece].contiguous() for t in (q, k, v))
            s = rows @ keys.mT
            scores = []
            for t, f in enumerate(slopes):
                x, y = (terms[3 * t + i][piece].contiguous() for i in (1, 2))
                r = x @ y.mT
                s.addcmul_(r, f[piece])
                scores.append((x, y, r))
            p = (s + _some(bias, piece)).sub_(lse[piece].unsqueeze(-1)).exp_()
            go = g_out[piece]
            here[2][piece] = p.mT @ go
            ds = (go @ values.mT).sub_(delta[piece]).mul_(p)
            here[0][piece], here[1][piece] = ds @ keys, ds.mT @ rows
            for t, (x, y, r) in enumerate(scores):
                f, g = slopes[t][piece], terms[3 * t][piece]
                df = torch.mul(ds, r, out=s).sum(-1, keepdim=True) + g_f[t][piece]
                dr = ds * f
                if ctx.eps is None:
                    here[3 + 3 * t][piece] = df
                else:
                    mean, var = _moments(r, mask, n)
                    rs = torch.rsqrt(var + ctx.eps)
                    here[3 + 3 * t][piece] = df * rs
                    dr.addcmul_(r.sub_(mean).mul_(mask), -df * g * rs**3 / n)
                here[4 + 3 * t][piece], here[5 + 3 * t][piece] = dr @ y, dr.mT @ x
        return (*grads[:3], None, None, None, None, *grads[3:])


def _moments(r: Tensor, mask: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population variance of each row over the keys that the mask (0/1) marks."""
    kept = r * mask
    mean = kept.sum(-1, keepdim=True).div_(n)
    kept = torch.sub(r, mean, out=kept).mul_(mask)
    return mean, torch.linalg.vector_norm(kept, dim=-1, keepdim=True).square_().div_(n)


def tile_attend(
    Q: Float[Tensor, "G h L d"], K: Float[Tensor, "G h S d"], V: Float[Tensor, "G h S e"],
    bias: Float[Tensor, "#G #h #L S"] | None,
) -> tuple[Float[Tensor, "G h L e"], Float[Tensor, "G h L"]]:  # fmt: skip
    out, lse = TileAttention.apply(Q, K, V, bias)
    return out, lse
