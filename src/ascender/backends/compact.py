"""The definition for short sequences: whole matrices, but few of them, and a backward by hand.

Where N is small (training on 64 … 256 tokens) the time goes into the number of operations and
of fresh matrices, not into N². This is the fold of folded.py with the matrices written out, a
few sequences at a time so that they stay in the cache, in one autograd node:

    forward   T = Qa Kaᵀ − f^s φ + β,   S = T/τ_score,   A = softmax over V,   out = A v
    backward  G = ∂L/∂T = A ∘ (dA − Σ_j A dA) / τ_score,   and from it, term by term, each line
              of forward read upwards. ∂L/∂x is written dx; sums run over what was broadcast.

A long call makes its matrices again in backward. The laws compare every gradient with autograd's
through the dense definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ascender import neighbours as nb
from ascender.backends import by_hand
from ascender.combine import EPS
from ascender.flock import Flock
from ascender.geometry import FLOOR, lift, probe
from ascender.rules import Number

HELD = 1 << 20  # scores in flight; a call with fewer keeps its matrices for backward
NUMBERS = (
    "align", "sep", "coh", "alpha_align", "alpha_coh", "tau_sep", "tau_coh", "delta", "kappa",
    "tau_score",
)  # fmt: skip


@dataclass(frozen=True)
class Masks:
    """0/1 matrices and their likes, (b, h, N, M); None where nothing is hidden."""

    near: Tensor  # N_k(i) as 0/1
    hidden: Tensor | None  # not in V(i)
    keys: Tensor | None  # padding as 0/1, (b, h, M, 1), where V(i) is the same for every row
    by_row: bool  # V(i) differs by row
    count: Tensor | float  # |V(i)|
    crowd: Tensor  # over whom the density sums, as 0/1
    away: Tensor | None  # not in the surroundings that the centre averages over
    anyone: Tensor | None  # rows with such surroundings
    standardise: bool
    scale: float | None = None  # k̃ = scale · k where all keys of a head have one length

    def piece(self, some: slice) -> Masks:
        """The part that belongs to some of the batch."""
        cut: dict[str, Any] = {
            name: value[some]
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and value.shape[0] > 1
        }
        return replace(self, **cut)


def compact(flock: Flock) -> Tensor:
    """out = A v, for N·M small."""
    r = flock.rules
    z_q, z_k = flock.z
    h_q, h_k = flock.h_unit
    numbers = [
        r.strength(n, z_q) if n in ("align", "sep", "coh") else r.at(n, z_q) for n in NUMBERS
    ]
    q, k, v = (t.to(flock.wide).contiguous() for t in (flock.q, flock.k, flock.v))
    q = q / q.shape[-1] ** 0.5
    other = flock.other_dense
    if other is not None:
        other = other.to(q.dtype).reshape((1,) * (4 - other.ndim) + other.shape)
    keys = k * flock.key_scale if flock.bare is None else flock.key_unit
    out = _Compact.apply(_masks(flock), q, k, keys, v, z_q, z_k, h_q, h_k, other, *numbers)
    return out.to(flock.q.dtype)


def _masks(flock: Flock) -> Masks:
    vis, dtype, r = flock.vis, flock.wide, flock.rules
    near = nb.as_mask(flock.members, vis.M)
    by_row = vis.causal or vis.window is not None or not vis.by_key_only
    hidden = ~vis.visible if by_row or vis.mask is not None else None
    count: Tensor | float = float(vis.M)
    keys = None
    if hidden is not None:
        seen = vis.visible if by_row else vis.mask
        assert seen is not None
        count = seen.sum(-1, keepdim=True).clamp_min(1).to(dtype)
        keys = None if by_row else seen.mT.to(dtype)
    around, crowd = vis.visible, vis.flockmates
    away = hidden
    if r.local_scope == "neighbours":
        around = near if vis.cross else near | (vis.visible & ~vis.flockmates)
        away, crowd = ~around, near
    anyone = None if away is None else around.any(-1, keepdim=True).to(dtype)
    plain = flock.bare is None and isinstance(flock.key_norm, float | int)
    return Masks(
        near.to(dtype), hidden, keys, by_row, count, crowd.to(dtype), away, anyone,
        r.standardise, 1 / float(flock.key_norm) if plain else None,  # type: ignore[arg-type]
    )  # fmt: skip


def _mix(A: Tensor, y: Tensor) -> Tensor:
    """A @ y where either may have one head that all share; (B, H, N, w)."""
    B, H, M, w = y.shape
    if A.shape[1] == H or H == 1:
        return A @ y
    flat = y.transpose(1, 2).reshape(B, M, H * w)
    return (A[:, 0] @ flat).view(B, -1, H, w).transpose(1, 2)


def _softmax(s: Tensor, hidden: Tensor | None) -> Tensor:
    """In place: a fresh matrix costs more than the arithmetic."""
    if hidden is None:
        return torch.softmax(s, -1, out=s)
    s = (
        s.masked_fill_(hidden, -torch.inf)
        if s.shape[1] >= hidden.shape[1]
        else torch.where(hidden, -torch.inf, s)
    )
    return torch.softmax(s, -1, out=s).masked_fill_(hidden, 0)


def _softmax_back(dp: Tensor, p: Tensor) -> Tensor:
    return torch._softmax_backward_data(dp, p, -1, p.dtype)


def _to(grad: Tensor, like: Any) -> Tensor | None:
    """grad summed to the shape of what was broadcast; None where that was a plain number."""
    return grad.sum_to_size(like.shape) if isinstance(like, Tensor) else None


class _Spread:
    """Row variances of x_i·y_j over V(i): from the covariance of y, or from the rows."""

    def __init__(self, x: Tensor, y: Tensor, m: Masks) -> None:
        self.x, self.n = x, m.count
        self.r: Tensor | None = None
        if m.by_row:
            assert m.hidden is not None
            r = _mix(x, y.mT) if x.shape[1] == y.shape[1] else x @ y.mT
            r = r.masked_fill_(m.hidden, 0)
            r = (r - r.sum(-1, keepdim=True) / m.count).masked_fill_(m.hidden, 0)
            self.y, self.r = y, r
            self.var = r.square().sum(-1, keepdim=True) / m.count
            return
        kept = y if m.keys is None else y * m.keys
        self.c = y - kept.sum(-2, keepdim=True) / m.count
        if m.keys is not None:
            self.c = self.c * m.keys
        self.cov = self.c.mT @ self.c
        self.cov /= m.count
        self.xc = x @ self.cov
        self.var = (self.xc * x).sum(-1, keepdim=True)

    def back(self, dvar: Tensor) -> tuple[Tensor, Tensor]:
        """(dx, dy)."""
        if self.r is not None:
            dr = self.r * (2 * dvar / self.n)
            return dr @ self.y, dr.mT @ self.x
        dx = self.xc * (2 * dvar)
        dcov = (self.x * dvar).mT @ self.x
        if dcov.shape[1] != self.c.shape[1]:
            dcov = dcov.sum(1, keepdim=True)
        return dx, self.c @ (dcov * (2 / self.n))


class _Sparse:
    """Row variances of φ, which is 0 but for a few keys."""

    def __init__(self, phi: Tensor, n: Tensor | float) -> None:
        self.phi, self.n = phi, n
        self.mean = phi.sum(-1, keepdim=True) / n
        square = torch.linalg.vector_norm(phi, dim=-1, keepdim=True).square()
        self.var = (square / n - self.mean.square()).clamp_min_(0)

    def back(self, dphi: Tensor, dvar: Tensor) -> Tensor:
        """dphi with the share of the variance added, in place."""
        scale = 2 * dvar * (self.var > 0) / self.n
        return dphi.addcmul_(self.phi, scale).sub_(self.mean * scale)


class _Term:
    """One score's slope f = g·gate/√(var + ε), and its way back."""

    def __init__(self, g: Number, gate: Tensor, spread: _Spread | _Sparse | None) -> None:
        self.g, self.gate = g, gate
        self.rs = torch.ones_like(gate) if spread is None else torch.rsqrt(spread.var + EPS)
        self.f = g * gate * self.rs

    def back(self, df: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """(dg, dgate, dvar)."""
        dg = _to(df * self.gate * self.rs, self.g)
        dvar = df * self.f * self.rs.square() * -0.5
        return dg, df * self.g * self.rs, dvar


class _Compact(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, m: Masks, *inputs: Any) -> Tensor:
        ctx.m, ctx.numbers = m, inputs[9:]
        ctx.save_for_backward(*inputs[:9])
        q, v = inputs[0], inputs[3]
        pieces = list(_pieces(m, inputs[:9]))
        if len(pieces) == 1:
            ctx.kept = _Rows(m, *inputs)
            return ctx.kept.out
        ctx.kept = None
        out = q.new_empty(*q.shape[:-1], v.shape[-1])
        for some, part, tensors in pieces:
            out[some] = _Rows(part, *tensors, *ctx.numbers).out
        return out

    @staticmethod
    @by_hand.backward
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        if ctx.kept is not None:
            rows, ctx.kept = ctx.kept, None
            parts, numbers = rows.back(g)
            return (None, *parts, *numbers)
        tensors = ctx.saved_tensors
        grads: list[Any] = [None if t is None else torch.zeros_like(t) for t in tensors]
        sums: list[Any] = [None] * len(ctx.numbers)
        for some, part, cut in _pieces(ctx.m, tensors):
            parts, numbers = _Rows(part, *cut, *ctx.numbers).back(g[some])
            for whole, here in zip(grads, parts, strict=True):
                if whole is not None:
                    whole[some if whole.shape[0] > 1 else slice(None)] += here
            for i, here in enumerate(numbers):
                sums[i] = here if sums[i] is None else sums[i] + here
        return (None, *grads, *sums)


def _pieces(m: Masks, tensors: Any) -> Iterator[tuple[slice, Masks, list[Any]]]:
    """Some of the batch at a time."""
    B, H, N, _ = tensors[0].shape
    step = max(1, HELD // (H * N * tensors[1].shape[2]))
    for a in range(0, B, step):
        some = slice(a, a + step)
        cut = [t if t is None or (t.shape[0] == 1 and B > 1) else t[some] for t in tensors]
        yield some, m.piece(some), cut


class _Rows:
    """Forward of some sequences, with what backward needs of it."""

    def __init__(
        self, m: Masks, q: Tensor, k: Tensor, ku: Tensor, v: Tensor, z_q: Tensor, z_k: Tensor,
        h_q: Tensor, h_k: Tensor, other: Tensor | None, *numbers: Number,
    ) -> None:  # fmt: skip
        self.m, self.numbers, self.other = m, numbers, other
        self.v, self.ku, self.z_q, self.z_k, self.h_q, self.h_k = v, ku, z_q, z_k, h_q, h_k
        t, H, self.d = numbers[9], q.shape[1], q.shape[-1]
        self._heading()
        self._centre()
        self._penalty()
        x, y = (self.coh.f * self.x).expand(-1, H, -1, -1), self.y.expand(-1, H, -1, -1)
        if m.scale is None:
            self.Q = torch.cat([q, self.align.f * self.u, x], -1)
            self.K = torch.cat([k, ku, y], -1)
        else:  # keys of one length: k̃ = scale · k, so u folds into q
            self.Q = torch.cat([torch.addcmul(q, self.align.f * m.scale, self.u), x], -1)
            self.K = torch.cat([k, y], -1)
        self.Q = self.Q.div_(t)
        s = (self.Q @ self.K.mT).addcmul_(self.phi, self.sep.f / t, value=-1)
        if other is not None:
            s += other / t
        self.A = _softmax(s, m.hidden)
        self.out = self.A @ v

    def _heading(self) -> None:
        m, ku = self.m, self.ku
        self.n_near = m.near.sum(-1, keepdim=True).clamp_min_(1)
        s = _mix(m.near, ku)
        self.length = torch.linalg.vector_norm(s, dim=-1, keepdim=True).clamp_min_(FLOOR)
        self.u = s.div_(self.length)
        self.scatter = 1 - (self.length / self.n_near).square()
        self.gate_a = torch.sigmoid(-self.numbers[3] * self.scatter)
        self.spread_a = _Spread(self.u, ku, m) if m.standardise else None
        self.align = _Term(self.numbers[0], self.gate_a, self.spread_a)

    def _centre(self) -> None:
        m, tau = self.m, self.numbers[6]
        self.y = lift(self.z_k)
        zz = self.z_q.square().sum(-1, keepdim=True)
        self.d2 = (probe(self.z_q) @ self.y.mT).neg_().add_(zz).clamp_min_(0)
        self.p = _softmax(self.d2 * (-1 / tau**2), m.away)
        mean = self.p @ self.y
        self.c = mean[..., :-1]
        self.extent = (mean[..., -1:] - self.c.square().sum(-1, keepdim=True)).clamp_min_(0)
        self.gate_c = torch.sigmoid(-self.numbers[4] * self.extent)
        gate = self.gate_c if m.anyone is None else self.gate_c * m.anyone
        self.x = probe(self.c) / tau
        self.spread_c = _Spread(self.x, self.y, m) if m.standardise else None
        self.coh = _Term(self.numbers[2], gate, self.spread_c)

    def _penalty(self) -> None:
        m, kappa = self.m, self.numbers[8]
        self.w = torch.exp(self.d2 * (-1 / self.numbers[5] ** 2))
        self.rho = (self.w * m.crowd).sum(-1, keepdim=True)
        e = (self.h_q @ self.h_k.mT).sub(self.numbers[7]).clamp_min_(0)
        weight = self.w * m.near
        self.phi = e.mul_(weight) if e.shape[1] >= weight.shape[1] else e * weight
        self.spread_s = _Sparse(self.phi, m.count) if m.standardise else None
        self.sep = _Term(self.numbers[1], (self.rho / kappa).clamp_max_(1), self.spread_s)

    def back(self, g: Tensor) -> tuple[list[Any], list[Any]]:
        """Gradients of the tensors, and of the numbers."""
        t = self.numbers[9]
        A, d, z = self.A, self.d, self.y.shape[-1]
        dv = A.mT @ g
        inner = (g * self.out).sum(-1, keepdim=True)
        G = (g @ self.v.mT).sub_(inner).mul_(A)  # ∂L/∂S
        dQ, dK = G @ self.K, G.mT @ self.Q
        dt = (dQ * self.Q).sum(-1, keepdim=True)
        if self.m.scale is None:
            dq, dfu, dfx = dQ.div_(t).split([d, d, z], -1)
            dk, dku, dy = dK.split([d, d, z], -1)
        else:
            dq, dfx = dQ.div_(t).split([d, z], -1)
            dk, dy = dK.split([d, z], -1)
            dfu, dku = dq * self.m.scale, 0
        G = G.div_(t)  # ∂L/∂T from here on
        dother = None
        if self.other is not None:
            dother = G.sum_to_size(self.other.shape).clone()  # G is used up below
            dt = dt + (G * self.other).sum(-1, keepdim=True)
        dku, d_align, d_alpha_align = self._back_heading(dfu, dku)
        dt_sep, dd2, dh_q, dh_k, d_sep = self._back_penalty(G)
        dd2_c, dy, d_coh = self._back_centre(dfx, dy)
        # d² = ‖z_q‖² − probe(z_q)·lift(z_k), and y = lift(z_k)
        dd2 = dd2.add_(dd2_c).mul_(self.d2 > 0)
        z_q, z_k = self.z_q, self.z_k
        dz_q = 2 * (z_q * dd2.sum(-1, keepdim=True) - dd2 @ z_k)
        dz_k = 2 * (z_k * dd2.sum(-2).unsqueeze(-1) - dd2.mT @ z_q)
        dz_k = dz_k + dy[..., :-1] + 2 * z_k * dy[..., -1:]
        d_g_sep, d_tau_sep, d_delta, d_kappa = d_sep
        d_g_coh, d_alpha_coh, d_tau_coh = d_coh
        d_t = _to(-(dt + dt_sep) / t, t)
        tensors = [dq, dk, dku, dv, dz_q, dz_k, dh_q, dh_k, dother]
        return tensors, [
            d_align, d_g_sep, d_g_coh, d_alpha_align, d_alpha_coh, d_tau_sep, d_tau_coh, d_delta,
            d_kappa, d_t,
        ]  # fmt: skip

    def _back_heading(self, dfu: Tensor, dku: Tensor | int) -> tuple[Any, ...]:
        """T has f u·k̃."""
        alpha, u = self.numbers[3], self.u
        dg, dgate, dvar = self.align.back((dfu * u).sum(-1, keepdim=True))
        du = dfu * self.align.f
        if self.spread_a is not None:
            du_v, dku_v = self.spread_a.back(dvar)
            du, dku = du.add_(du_v), dku + dku_v
        slope = dgate * self.gate_a * (1 - self.gate_a)
        ds = (du - u * (u * du).sum(-1, keepdim=True)).div_(self.length)
        ds = ds.addcmul_(u, 2 * alpha * slope * self.length / self.n_near.square())
        return dku + _mix(self.m.near.mT, ds), dg, _to(-slope * self.scatter, alpha)

    def _back_penalty(self, G: Tensor) -> tuple[Any, ...]:
        """T has −f φ. Uses up G."""
        tau, delta, kappa = self.numbers[5], self.numbers[7], self.numbers[8]
        m, phi, w, d2 = self.m, self.phi, self.w, self.d2
        scratch = G * phi
        df = scratch.sum(-1, keepdim=True).neg_()
        dt = df * self.sep.f
        dg, deta, dvar = self.sep.back(df)
        dphi = G.mul_(-self.sep.f)
        if self.spread_s is not None:
            dphi = self.spread_s.back(dphi, dvar)
        drho = deta * (self.rho < kappa) / kappa
        dkappa = _to(-drho * self.rho / kappa, kappa)
        dlog = _heads(torch.mul(dphi, phi, out=scratch), tau, d2)  # ∂L/∂(−d²/τ²): of φ, then of ρ
        crowd = m.crowd * w
        dlog = dlog + _heads(_heads(drho, tau, crowd) * crowd, tau, d2)
        dtau = _to((dlog * d2).sum(-1, keepdim=True) * (2 / tau**3), tau)
        da = dphi.mul_(phi > 0)
        shared = w.shape[1] == 1 and self.h_q.shape[1] == 1
        da = da.sum(1, keepdim=True).mul_(w) if shared and not _many(delta) else da.mul_(w)
        ddelta = _to(-da.sum(-1, keepdim=True), delta)
        da = _heads(da, None, self.h_q)
        dd2 = _heads(dlog * (-1 / tau**2), None, d2)
        return dt, dd2, da @ self.h_k, da.mT @ self.h_q, (dg, dtau, ddelta, dkappa)

    def _back_centre(self, dfx: Tensor, dy: Tensor) -> tuple[Any, ...]:
        """T has f x·y."""
        alpha, tau = self.numbers[4], self.numbers[6]
        x, y, c, gate = self.x, self.y, self.c, self.gate_c
        dg, dgate, dvar = self.coh.back((dfx * x).sum(-1, keepdim=True))
        dx, dy = _heads(dfx * self.coh.f, None, x), _heads(dy, None, y)
        if self.spread_c is not None:
            dx_v, dy_v = self.spread_c.back(_heads(dvar, None, x))
            dx, dy = dx + dx_v, dy + _heads(dy_v, None, y)
        dgate = dgate if self.m.anyone is None else dgate * self.m.anyone
        slope = dgate * gate * (1 - gate)
        dalpha = _to(-slope * self.extent, alpha)
        dextent = _heads(-alpha * slope * (self.extent > 0), None, c)
        dmean = torch.cat([2 / tau * dx[..., :-1] - 2 * c * dextent, dextent], -1)
        dy = dy + _heads(self.p.mT @ dmean, None, y)
        dlog = _softmax_back(dmean @ y.mT, self.p)
        dtau = _to(
            (dlog * self.d2).sum(-1, keepdim=True) * (2 / tau**3)
            - (dx * x).sum(-1, keepdim=True) / tau,
            tau,
        )
        dd2 = _heads(dlog * (-1 / tau**2), None, self.d2)
        return dd2, dy, (dg, dalpha, dtau)


def _many(number: Number) -> bool:
    """Whether a number differs by head."""
    return isinstance(number, Tensor) and number.shape[0] > 1


def _heads(grad: Tensor, number: Number | None, like: Tensor) -> Tensor:
    """Sum over heads where `like` has one that all share (and the number does not differ)."""
    if like.shape[1] == 1 and grad.shape[1] != 1 and not (number is not None and _many(number)):
        return grad.sum(1, keepdim=True)
    return grad
