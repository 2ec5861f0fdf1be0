"""The definition for short sequences: whole matrices, but few of them, and a backward by hand.

Where N is small (training on 64 … 256 tokens) the time goes into the number of operations and
of fresh matrices, not into N². This is the fold of folded.py with the matrices written out, a
few sequences at a time so that they stay in the cache, in one autograd node:

    forward   T = Qa Kaᵀ − f^s φ + β,   S = T/τ_score,   A = softmax over V,   out = A v
    backward  G = ∂L/∂T = A ∘ (dA − Σ_j A dA) / τ_score,   and from it, term by term, each line
              of forward read upwards. ∂L/∂x is written dx; sums run over what was broadcast.

A long call makes its matrices again in backward. The laws compare every gradient with autograd's
through the dense definition. A rule that is switched off is left out of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ascender.core import neighbours as nb
from ascender.core.backends import autograd_utils
from ascender.core.backends.base import Backend
from ascender.core.backends.compact_grads import (
    Masks,
    Slope,
    Sparse,
    Spread,
    differs,
    over_heads,
    softmax_,
    softmax_back,
    summed,
    weighted_sum,
)
from ascender.core.combine import RowStats
from ascender.core.flock import Flock
from ascender.core.geometry import FLOOR, lift, probe
from ascender.core.rules import Number

MAX_SCORES = 1 << 20  # scores in flight; a call with fewer keeps its matrices for backward
NUMBERS = (
    "align", "sep", "coh", "alpha_align", "alpha_coh", "tau_sep", "tau_coh", "delta", "kappa",
    "tau_score",
)  # fmt: skip


def compact(flock: Flock) -> Tensor:
    """out = A v, for N·M small."""
    r = flock.rules
    z_q, z_k = flock.z
    h_q, h_k = flock.h_unit
    numbers = [
        r.strength(n, z_q) if n in ("align", "sep", "coh") else r.at(n, z_q) for n in NUMBERS
    ]
    q, k, v = (t.to(flock.accum_dtype).contiguous() for t in (flock.q, flock.k, flock.v))
    q = q / q.shape[-1] ** 0.5
    other = flock.other_dense
    if other is not None:
        other = other.to(q.dtype).reshape((1,) * (4 - other.ndim) + other.shape)
    keys = flock.key_unit
    tensors = (q, k, keys, v, z_q, z_k, h_q, h_k, other)
    out = _CompactFunction.apply(_masks(flock, q, k), *tensors, *numbers)
    return out.to(flock.q.dtype)


def _masks(flock: Flock, q: Tensor, k: Tensor) -> Masks:
    vis, dtype, r = flock.vis, flock.accum_dtype, flock.rules
    plain = flock.bare is None and isinstance(flock.key_norm, float | int)
    base = None
    # where alignment folds into q, q·k is not a product of its own
    if flock.by_scores and r.needs_neighbours and not (plain and r.active("align")):
        with torch.no_grad():
            base = q @ k.mT
        flock = flock.with_base_scores(base)
    near = nb.as_mask(flock.members, vis.M) if r.needs_neighbours else None
    by_row = vis.causal or vis.window is not None or not vis.by_key_only
    hidden = ~vis.visible if by_row or vis.mask is not None else None
    count: Tensor | float = float(vis.M)
    keys = None
    if hidden is not None:
        visible = vis.visible if by_row else vis.mask
        assert visible is not None
        count = visible.sum(-1, keepdim=True).clamp_min(1).to(dtype)
        keys = None if by_row else visible.mT.to(dtype)
    around, crowd = vis.visible, vis.flockmates
    away = hidden
    if near is not None and r.local_scope == "neighbours":
        around = near if vis.cross else near | (vis.visible & ~vis.flockmates)
        away, crowd = ~around, near
    nonempty = None if away is None else around.any(-1, keepdim=True).to(dtype)
    return Masks(
        r.on, None if near is None else near.to(dtype), hidden, keys, by_row, count,
        crowd.to(dtype) if r.active("sep") else None, away, nonempty,
        r.standardise, 1 / float(flock.key_norm) if plain else None,  # type: ignore[arg-type]
        base,
    )  # fmt: skip


class Compact(Backend):
    """Short sequences: few matrices, backward by hand."""

    name = "compact"
    provides = ("columns", "matrix")

    def run(self, flock: Flock, stats: bool = False) -> tuple[Tensor, RowStats | None]:
        return compact(flock), None


class _CompactFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Masks, *inputs: Any) -> Tensor:
        ctx.m, ctx.numbers = m, inputs[9:]
        ctx.save_for_backward(*inputs[:9])
        q, v = inputs[0], inputs[3]
        pieces = list(_pieces(m, inputs[:9]))
        if len(pieces) == 1:
            ctx.kept = _Scores(m, *inputs)
            return ctx.kept.out
        ctx.kept = None
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        for some, part, tensors in pieces:
            out[some] = _Scores(part, *tensors, *ctx.numbers).out
        return out

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        if ctx.kept is not None:
            rows, ctx.kept = ctx.kept, None
            parts, numbers = rows.back(g)
            return (None, *_filled(parts, ctx.saved_tensors), *_filled(numbers, ctx.numbers))
        tensors = ctx.saved_tensors
        grads: list[Any] = [None if t is None else torch.zeros_like(t) for t in tensors]
        sums: list[Any] = [None] * len(ctx.numbers)
        for some, part, cut in _pieces(ctx.m, tensors):
            parts, numbers = _Scores(part, *cut, *ctx.numbers).back(g[some])
            for whole, here in zip(grads, parts, strict=True):
                if whole is not None and here is not None:
                    whole[some if whole.shape[0] > 1 else slice(None)] += here
            for i, here in enumerate(numbers):
                sums[i] = here if sums[i] is None else sums[i] + here
        return (None, *grads, *_filled(sums, ctx.numbers))


def _filled(grads: list[Any], of: Any) -> list[Any]:
    """Gradients of what only a disabled rule uses: 0, as in the definition."""
    return [
        torch.zeros_like(x) if grad is None and isinstance(x, Tensor) else grad
        for grad, x in zip(grads, of, strict=True)
    ]


def _pieces(m: Masks, tensors: Any) -> Iterator[tuple[slice, Masks, list[Any]]]:
    """Some of the batch at a time."""
    B, H, N, _ = tensors[0].shape
    step = max(1, MAX_SCORES // (H * N * tensors[1].shape[2]))
    for a in range(0, B, step):
        some = slice(a, a + step)
        cut = [t if t is None or (t.shape[0] == 1 and B > 1) else t[some] for t in tensors]
        yield some, m.piece(some), cut


class _Scores:
    """Forward of some sequences, with what backward needs of it."""

    def __init__(
        self, m: Masks, q: Tensor, k: Tensor, ku: Tensor, v: Tensor, z_q: Tensor, z_k: Tensor,
        h_q: Tensor, h_k: Tensor, other: Tensor | None, *numbers: Number,
    ) -> None:  # fmt: skip
        self.m, self.numbers, self.other = m, numbers, other
        self.v, self.ku, self.z_q, self.z_k, self.h_q, self.h_k = v, ku, z_q, z_k, h_q, h_k
        t, H = numbers[9], q.shape[1]
        left, right = {"base": q}, {"base": k}  # the columns of Q and K, by term
        if "align" in m.on:
            self._heading()
            if m.scale is None:
                left["align"], right["align"] = self.align.f * self.u, ku
            else:  # keys of one length: k̃ = scale · k, so u folds into q
                left["base"] = torch.addcmul(q, self.align.f * m.scale, self.u)
        if "sep" in m.on or "coh" in m.on:
            self._distances()
        if "coh" in m.on:
            self._centre()
            left["coh"] = (self.coh.f * self.x).expand(-1, H, -1, -1)
            right["coh"] = self.y.expand(-1, H, -1, -1)
        self.widths = {name: columns.shape[-1] for name, columns in right.items()}
        self.Q, self.K = (torch.cat(list(side.values()), -1) for side in (left, right))
        self.Q = self.Q.div_(t)
        d = 0 if m.base is None else q.shape[-1]
        s = self.Q[..., d:] @ self.K[..., d:].mT
        if m.base is not None:
            s += m.base / t
        if "sep" in m.on:
            self._penalty()
            s = s.addcmul_(self.phi, self.sep.f / t, value=-1)
        if other is not None:
            s += other / t
        self.A = softmax_(s, m.hidden)
        self.out = self.A @ v

    def _heading(self) -> None:
        m, ku = self.m, self.ku
        assert m.near is not None
        self.n_near = m.near.sum(-1, keepdim=True).clamp_min_(1)
        s = weighted_sum(m.near, ku)
        self.length = torch.linalg.vector_norm(s, dim=-1, keepdim=True).clamp_min_(FLOOR)
        self.u = s.div_(self.length)
        self.scatter = 1 - (self.length / self.n_near).square()
        self.gate_a = torch.sigmoid(-self.numbers[3] * self.scatter)
        self.spread_a = Spread(self.u, ku, m) if m.standardise else None
        self.align = Slope(self.numbers[0], self.gate_a, self.spread_a)

    def _distances(self) -> None:
        self.y = lift(self.z_k)
        zz = self.z_q.square().sum(-1, keepdim=True)
        self.d2 = (probe(self.z_q) @ self.y.mT).neg_().add_(zz).clamp_min_(0)

    def _centre(self) -> None:
        m, tau = self.m, self.numbers[6]
        self.p = softmax_(self.d2 * (-1 / tau**2), m.away)
        mean = self.p @ self.y
        self.c = mean[..., :-1]
        self.extent = (mean[..., -1:] - self.c.square().sum(-1, keepdim=True)).clamp_min_(0)
        self.gate_c = torch.sigmoid(-self.numbers[4] * self.extent)
        gate = self.gate_c if m.nonempty is None else self.gate_c * m.nonempty
        self.x = probe(self.c) / tau
        self.spread_c = Spread(self.x, self.y, m) if m.standardise else None
        self.coh = Slope(self.numbers[2], gate, self.spread_c)

    def _penalty(self) -> None:
        m, kappa = self.m, self.numbers[8]
        assert m.near is not None
        assert m.crowd is not None
        self.w = torch.exp(self.d2 * (-1 / self.numbers[5] ** 2))
        self.rho = (self.w * m.crowd).sum(-1, keepdim=True)
        e = (self.h_q @ self.h_k.mT).sub(self.numbers[7]).clamp_min_(0)
        weight = self.w * m.near
        self.phi = e.mul_(weight) if e.shape[1] >= weight.shape[1] else e * weight
        self.spread_s = Sparse(self.phi, m.count) if m.standardise else None
        self.sep = Slope(self.numbers[1], (self.rho / kappa).clamp_max_(1), self.spread_s)

    def back(self, g: Tensor) -> tuple[list[Any], list[Any]]:
        """Gradients of the tensors, and of the numbers; None of what a rule that is off has."""
        m, t, A = self.m, self.numbers[9], self.A
        dv = A.mT @ g
        inner = (g * self.out).sum(-1, keepdim=True)
        G = (g @ self.v.mT).sub_(inner).mul_(A)  # ∂L/∂S
        dQ, dK = G @ self.K, G.mT @ self.Q
        dt = (dQ * self.Q).sum(-1, keepdim=True)
        left, right = (
            dict(zip(self.widths, dx.split(list(self.widths.values()), -1), strict=True))
            for dx in (dQ.div_(t), dK)
        )
        dq, dk = left["base"], right["base"]
        G = G.div_(t)  # ∂L/∂T from here on
        dother = dku = d_align = d_alpha_align = dh_q = dh_k = None
        d_sep: tuple[Any, ...] = (None,) * 4
        if self.other is not None:
            dother = G.sum_to_size(self.other.shape).clone()  # G is used up below
            dt = dt + (G * self.other).sum(-1, keepdim=True)
        if "align" in m.on:
            dfu, dku = (left["align"], right["align"]) if m.scale is None else (dq * m.scale, 0)
            dku, d_align, d_alpha_align = self._back_heading(dfu, dku)
        dd2 = None
        if "sep" in m.on:
            dt_sep, dd2, dh_q, dh_k, d_sep = self._back_penalty(G)
            dt = dt + dt_sep
        dz_q, dz_k, d_coh = self._back_distances(dd2, left.get("coh"), right.get("coh"))
        d_g_sep, d_tau_sep, d_delta, d_kappa = d_sep
        d_g_coh, d_alpha_coh, d_tau_coh = d_coh
        tensors = [dq, dk, dku, dv, dz_q, dz_k, dh_q, dh_k, dother]
        return tensors, [
            d_align, d_g_sep, d_g_coh, d_alpha_align, d_alpha_coh, d_tau_sep, d_tau_coh, d_delta,
            d_kappa, summed(-dt / t, t),
        ]  # fmt: skip

    def _back_distances(
        self, dd2: Tensor | None, dfx: Tensor | None, dy: Tensor | None
    ) -> tuple[Any, ...]:
        """d² = ‖z_q‖² − probe(z_q)·lift(z_k), and y = lift(z_k): (dz_q, dz_k, cohesion's)."""
        d_coh: tuple[Any, ...] = (None,) * 3
        if dfx is not None and dy is not None:
            dd2_c, dy, d_coh = self._back_centre(dfx, dy)
            dd2 = dd2_c if dd2 is None else dd2.add_(dd2_c)
        if dd2 is None:
            return None, None, d_coh
        dd2 = dd2.mul_(self.d2 > 0)
        z_q, z_k = self.z_q, self.z_k
        dz_q = 2 * (z_q * dd2.sum(-1, keepdim=True) - dd2 @ z_k)
        dz_k = 2 * (z_k * dd2.sum(-2).unsqueeze(-1) - dd2.mT @ z_q)
        if dy is not None:
            dz_k = dz_k + dy[..., :-1] + 2 * z_k * dy[..., -1:]
        return dz_q, dz_k, d_coh

    def _back_heading(self, dfu: Tensor, dku: Tensor | int) -> tuple[Any, ...]:
        """T has f u·k̃."""
        alpha, u = self.numbers[3], self.u
        assert self.m.near is not None
        dg, dgate, dvar = self.align.back((dfu * u).sum(-1, keepdim=True))
        du = dfu * self.align.f
        if self.spread_a is not None:
            du_v, dku_v = self.spread_a.back(dvar)
            du, dku = du.add_(du_v), dku + dku_v
        slope = dgate * self.gate_a * (1 - self.gate_a)
        ds = (du - u * (u * du).sum(-1, keepdim=True)).div_(self.length)
        ds = ds.addcmul_(u, 2 * alpha * slope * self.length / self.n_near.square())
        return dku + weighted_sum(self.m.near.mT, ds), dg, summed(-slope * self.scatter, alpha)

    def _back_penalty(self, G: Tensor) -> tuple[Any, ...]:
        """T has −f φ. Uses up G."""
        tau, delta, kappa = self.numbers[5], self.numbers[7], self.numbers[8]
        m, phi, w, d2 = self.m, self.phi, self.w, self.d2
        assert m.crowd is not None
        scratch = G * phi
        df = scratch.sum(-1, keepdim=True).neg_()
        dt = df * self.sep.f
        dg, deta, dvar = self.sep.back(df)
        dphi = G.mul_(-self.sep.f)
        if self.spread_s is not None:
            dphi = self.spread_s.back(dphi, dvar)
        drho = deta * (self.rho < kappa) / kappa
        dkappa = summed(-drho * self.rho / kappa, kappa)
        dlog = over_heads(
            torch.mul(dphi, phi, out=scratch), tau, d2
        )  # ∂L/∂(−d²/τ²): of φ, then of ρ
        crowd = m.crowd * w
        dlog = dlog + over_heads(over_heads(drho, tau, crowd) * crowd, tau, d2)
        dtau = summed((dlog * d2).sum(-1, keepdim=True) * (2 / tau**3), tau)
        da = dphi.mul_(phi > 0)
        shared = w.shape[1] == 1 and self.h_q.shape[1] == 1
        da = da.sum(1, keepdim=True).mul_(w) if shared and not differs(delta) else da.mul_(w)
        ddelta = summed(-da.sum(-1, keepdim=True), delta)
        da = over_heads(da, None, self.h_q)
        dd2 = over_heads(dlog * (-1 / tau**2), None, d2)
        return dt, dd2, da @ self.h_k, da.mT @ self.h_q, (dg, dtau, ddelta, dkappa)

    def _back_centre(self, dfx: Tensor, dy: Tensor) -> tuple[Any, ...]:
        """T has f x·y."""
        alpha, tau = self.numbers[4], self.numbers[6]
        x, y, c, gate = self.x, self.y, self.c, self.gate_c
        dg, dgate, dvar = self.coh.back((dfx * x).sum(-1, keepdim=True))
        dx, dy = over_heads(dfx * self.coh.f, None, x), over_heads(dy, None, y)
        if self.spread_c is not None:
            dx_v, dy_v = self.spread_c.back(over_heads(dvar, None, x))
            dx, dy = dx + dx_v, dy + over_heads(dy_v, None, y)
        dgate = dgate if self.m.nonempty is None else dgate * self.m.nonempty
        slope = dgate * gate * (1 - gate)
        dalpha = summed(-slope * self.extent, alpha)
        dextent = over_heads(-alpha * slope * (self.extent > 0), None, c)
        dmean = torch.cat([2 / tau * dx[..., :-1] - 2 * c * dextent, dextent], -1)
        dy = dy + over_heads(self.p.mT @ dmean, None, y)
        dlog = softmax_back(dmean @ y.mT, self.p)
        dtau = summed(
            (dlog * self.d2).sum(-1, keepdim=True) * (2 / tau**3)
            - (dx * x).sum(-1, keepdim=True) / tau,
            tau,
        )
        dd2 = over_heads(dlog * (-1 / tau**2), None, self.d2)
        return dd2, dy, (dg, dalpha, dtau)
