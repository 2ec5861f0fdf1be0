"""Attention on blocks small enough for the CPU cache, in torch operators.

A block of 32 × 288 scores is as small as a flash kernel's own tile: products and a softmax in
reused scratch beat the kernel there, and every term's scores are at hand. Nothing of that size is
kept: backward makes the scores again from lse, as flash does. Blocks of keys overlap and are read
in place.

Shapes: rows (B, H, C, L, ·), keys (B, H, C, S, ·).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ascender.core.backends import autograd_utils
from ascender.kernels import gpu

MAX_SCORES = 1 << 18  # scores in flight: 1 MiB of float32
GPU_SCORES = 1 << 25  # the same on a GPU, which a launch of work that small would leave idle


Piece = tuple[int | slice, int | slice, slice]


class _Pieces:
    """Some blocks at a time, with scratch that all of them share: on the CPU of one head, on a GPU
    of as many batches and heads as there is room for, whose keys are copied."""

    def __init__(self, rows: Tensor, keys: Tensor, scratch: int) -> None:
        *self.sizes, L, _ = rows.shape
        self.many = gpu.on_gpu(rows)
        room = max(1, (GPU_SCORES if self.many else MAX_SCORES) // (L * keys.shape[-2]))
        self.steps = [1, 1, 1]
        for axis in (2, 1, 0) if self.many else (2,):
            self.steps[axis] = min(self.sizes[axis], max(1, room))
            room //= self.sizes[axis]
        self.tile = L, keys.shape[-2]
        self.scratch = [rows.new_empty(prod(self.steps), *self.tile) for _ in range(scratch)]

    def __iter__(self) -> Iterator[tuple[Piece, list[Tensor]]]:
        each = (range(0, n, step) for n, step in zip(self.sizes, self.steps, strict=True))
        for b, h, c in product(*each):
            cut = [
                slice(a, min(a + step, n))
                for a, step, n in zip((b, h, c), self.steps, self.sizes, strict=True)
            ]
            sizes = [s.stop - s.start for s in cut]
            at: Piece = (cut[0], cut[1], cut[2]) if self.many else (b, h, cut[2])
            shape = (*(sizes if self.many else sizes[2:]), *self.tile)
            yield at, [t[: prod(sizes)].view(shape) for t in self.scratch]


def _product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """a @ b of blocks, of one head or of several."""
    if a.ndim == 3:
        return torch.bmm(a, b) if out is None else torch.bmm(a, b, out=out)
    flat = a.flatten(0, -3), b.flatten(0, -3)
    if out is None:
        return torch.bmm(*flat).view(*a.shape[:-1], b.shape[-1])
    torch.bmm(*flat, out=out.flatten(0, -3))
    return out


class Mask:
    """Which keys a row sees: those near it, the same in every block, if they are real (there, and
    not padding). Nothing of the size of all scores is kept."""

    def __init__(
        self, near: Bool[Tensor, "L S"], real: Bool[Tensor, "#B #H C S"], dtype: torch.dtype
    ) -> None:
        self.near, self.real = near.to(dtype), real.to(dtype)
        self.hide, self.missing = _forbid(near, dtype), _forbid(real, dtype)
        # On a GPU the host does not know.
        self.whole = None if gpu.on_gpu(real) else real.all(-1).cpu()
        self.count: Float[Tensor, "#B #H C L 1"] = (self.real @ self.near.mT).unsqueeze(-1)

    def at(self, t: Tensor, piece: Piece) -> Tensor:
        """A piece of what may be one for all batches and heads."""
        b, h, c = piece
        own = slice(None) if isinstance(b, slice) else 0
        return t[b if t.shape[0] > 1 else own, h if t.shape[1] > 1 else own, c]

    def complete(self, piece: Piece) -> bool:
        """Whether all keys of a piece are real."""
        return self.whole is not None and bool(self.at(self.whole, piece).all())

    def add(self, s: Tensor, piece: Piece) -> Tensor:
        """s, −inf where a row does not see; in place."""
        s.add_(self.hide)
        if not self.complete(piece):
            s.add_(self.at(self.missing, piece).unsqueeze(-2))
        return s

    def visible_and_count(self, piece: Piece) -> tuple[Tensor, Tensor]:
        """(0/1 matrix, |V(i)| or 1) of a piece."""
        n = self.at(self.count, piece).clamp_min(1)
        if self.complete(piece):
            return self.near, n
        return self.near * self.at(self.real, piece).unsqueeze(-2), n


def _forbid(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    zero = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return zero.masked_fill_(~allowed, -torch.inf)


def _normalise(s: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """(softmax(s) v, lse), using s up. Rows of −inf: 0 and 0."""
    top = s.amax(-1, keepdim=True).clamp_min_(torch.finfo(s.dtype).min)
    mass = s.sub_(top).exp_().sum(-1, keepdim=True)
    out = _product(s, v).div_(mass.clamp_min(torch.finfo(s.dtype).tiny))
    return out, torch.where(mass > 0, top + mass.log(), 0).squeeze(-1)


def _moments(r: Tensor, mask: Tensor, n: Tensor, scratch: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population variance of each row over the keys that the mask (0/1) marks."""
    mean = torch.mul(r, mask, out=scratch).sum(-1, keepdim=True).div_(n)
    scratch.addcmul_(mask, mean, value=-1)
    return mean, torch.linalg.vector_norm(scratch, dim=-1, keepdim=True).square_().div_(n)


class TileScores(torch.autograd.Function):
    """Attention under S = q kᵀ + Σ_t f_t ∘ (x_t y_tᵀ) + bias, with the slopes f_t = g_t/√(var + ε)
    of standardised scores taken from the scores themselves.

    Inputs: q, k, v, mask, ε (None: f = g), then g, x, y of each t.
    Outputs: out, lse, and each f.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, mask: Mask, eps: float | None, *terms: Tensor
    ) -> tuple[Tensor, ...]:  # fmt: skip
        out, lse = q.new_empty(*q.shape[:-1], v.shape[-1]), q.new_empty(q.shape[:-1])
        slopes = [q.new_empty(*q.shape[:-1], 1) for _ in terms[::3]]
        for at, (s, r, scratch) in _Pieces(q, k, 3):
            _product(q[at], k[at].mT, out=s)
            for f, g, x, y in zip(slopes, terms[::3], terms[1::3], terms[2::3], strict=True):
                _product(x[at], y[at].mT, out=r)
                f[at] = g[at]
                if eps is not None:
                    var = _moments(r, *mask.visible_and_count(at), scratch)[1]
                    f[at] *= torch.rsqrt(var.add_(eps))
                s.addcmul_(r, f[at])
            out[at], lse[at] = _normalise(mask.add(s, at), v[at])
        return out, lse, *slopes

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        q, k, v, ctx.mask, ctx.eps, *terms = inputs
        ctx.save_for_backward(q, k, v, *output, *terms)
        ctx.terms = len(terms) // 3

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g_out: Tensor, g_lse: Tensor, *g_f: Tensor) -> tuple[Any, ...]:
        q, k, v, out, lse, *rest = ctx.saved_tensors
        slopes, terms = rest[: ctx.terms], rest[ctx.terms :]
        grads = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v, *terms)]
        delta = ((g_out * out).sum(-1) - g_lse).unsqueeze(-1)
        for at, (p, ds, scratch, *scores) in _Pieces(q, k, 3 + ctx.terms):
            _product(q[at], k[at].mT, out=p)
            for r, f, x, y in zip(scores, slopes, terms[1::3], terms[2::3], strict=True):
                _product(x[at], y[at].mT, out=r)
                p.addcmul_(r, f[at])
            ctx.mask.add(p, at).sub_(lse[at].unsqueeze(-1)).exp_()
            g = g_out[at]
            _product(g, v[at].mT, out=ds).sub_(delta[at]).mul_(p)
            grads[0][at], grads[1][at] = _product(ds, k[at]), _product(ds.mT, q[at])
            grads[2][at] = _product(p.mT, g)
            for t, r in enumerate(scores):
                g_t, x, y = (terms[3 * t + i][at] for i in range(3))
                df = torch.mul(ds, r, out=scratch).sum(-1, keepdim=True).add_(g_f[t][at])
                dr = torch.mul(ds, slopes[t][at], out=p)
                if ctx.eps is not None:
                    mask, n = ctx.mask.visible_and_count(at)
                    mean, var = _moments(r, mask, n, scratch)
                    rs = torch.rsqrt(var + ctx.eps)
                    dr.addcmul_(r.sub_(mean).mul_(mask), -df * g_t * rs**3 / n)
                    df = df * rs
                grads[3 + 3 * t][at] = df
                grads[4 + 3 * t][at], grads[5 + 3 * t][at] = _product(dr, y), _product(dr.mT, x)
        return (*grads[:3], None, None, *grads[3:])
