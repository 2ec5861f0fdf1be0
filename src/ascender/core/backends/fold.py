"""The same attention on stock flash kernels, in O(N) memory.

Softmax ignores what is constant along a row, so of a standardised score only its slope
f_i = λωγ_i/√(var_i + ε) is left, and two of the three scores are dot products:

    k̃_j · u_i                              alignment
    −‖z_j − c_i‖² = probe(c_i)·lift(z_j) − ‖c_i‖²     cohesion (geometry.py)

Hence  Q_i = [ q_i/√d , f^a_i u_i , f^c_i probe(c_i)/τ_coh ] / τ_score
       K_j = [ k_j    , k̃_j       , lift(z_j)              ]

and separation, which lives on the k members of N_k(i), moves their mass afterwards:

    p_il = exp(s_il − lse_i) · expm1(b_il)      out' = (out + Σ_l p_il v_l) / (1 + Σ_l p_il)

The centre c_i and the density ρ_i are the output and the log-sum-exp of one more, narrow pass.
What differs between the whole sequence (folded.py) and windows (windowed.py) is a Layout: how
rows meet keys, and where the variance of a row of scores comes from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ascender.common.lazy import lazy
from ascender.core.backends.decode import decode
from ascender.core.backends.dense import dense
from ascender.core.backends.index_lists import Lists
from ascender.core.combine import RowStats, columns, repeat_kv, slope
from ascender.core.flock import Flock
from ascender.core.geometry import kernel, lift, probe
from ascender.core.rules import Number, alignment, cohesion, separation
from ascender.core.softmax import masked_softmax
from ascender.core.visibility import Visibility
from ascender.kernels import gpu

ROWS = 128  # rows recomputed at once
GPU_ROWS = 32  # rows recomputed on a GPU, whether they need it or not
LITTLE = 0.02  # mass left below which a row of float32 is recomputed
At = Callable[[Lists], Tensor]


@dataclass(frozen=True)
class Score:
    """One rule's term g_i · r̃_ij with r_ij = x_i·y_j; g = λ ω gate_i. `key_scale`: y = key_scale
    times the keys themselves, so that the term needs no columns of its own. `lifted`: the last
    column of y is ‖z‖²."""

    g: Float[Tensor, "B #H N 1"]
    x: Float[Tensor, "B #H N w"]
    y: Float[Tensor, "B G M w"]
    key_scale: float | Tensor | None = None
    lifted: bool = False


class Layout(ABC):
    """How rows meet keys."""

    vis: Visibility

    @abstractmethod
    def attend(self, Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """(out, lse) of softmax over V(i) of Q_i·K_j."""

    @abstractmethod
    def weigh(
        self, flock: Flock, scores: list[Score], plain: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, At]:
        """Attention under base + scores + plain (pairs x, y with the bias x_i·y_j), all over
        τ_score: (out, lse, the function that gives these sums over index lists)."""

    def surroundings(self, flock: Flock, tau: Number) -> tuple[Tensor, Tensor]:
        """(mean of lift(z), log Σ w) under the kernel of width τ over V(i)."""
        z_q = flock.z[0]
        x, y = probe(z_q) / tau**2, flock.z_lifted
        heads = max(x.shape[1], y.shape[1])
        if self.vis.mask is not None:
            heads = max(heads, self.vis.mask.shape[1])
        x, y = (t.expand(-1, heads, -1, -1) for t in (x, y))
        mean, lse = self.attend(x, y, y)
        return mean, lse - (z_q.square().sum(-1, keepdim=True) / tau**2).squeeze(-1)

    @property
    @abstractmethod
    def count(self) -> Float[Tensor, "#B #H N 1"]:
        """|V(i)|."""

    def members(self, flock: Flock) -> Int[Tensor, "B #H N K"]:
        """N_k(i)."""
        return flock.members


def shares_keys(flock: Flock) -> bool:
    """Whether grouped keys stay grouped: on a GPU, where masks by head do not tell the heads of a
    group apart."""
    mask = flock.vis.mask
    return gpu.on_gpu(flock.q) and (mask is None or mask.shape[1] == 1)


def fold(
    flock: Flock, layout: Layout, stats: bool = False, passes: KernelPasses | None = None
) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
    """(A v, what the losses need where `stats` asks for it). `passes`: known already."""
    r = flock.rules
    lists = None
    if r.needs_neighbours:
        lists = Lists(layout.members(flock), flock.q.shape[1], flock.vis.M)
    crowd = Crowd(flock, layout, lists, passes or KernelPasses())
    scores = rule_scores(flock, crowd, lists)
    e, dtype = flock.v.shape[-1], flock.v.dtype
    u = scores[0].x if stats and r.active("align") else None
    if stats and r.active("coh"):
        flock = flock.with_lifted_values()
    plain = [] if flock.other is None else [columns(flock.other, flock.vis.N, flock.vis.M)]
    out, lse, at = layout.weigh(flock, scores, plain)
    sep = found = None
    if r.active("sep"):
        out, sep = _separate(flock, layout, crowd, at, out, lse, stats)
    if stats:
        c = crowd.centre[0] if r.active("coh") else None
        found = row_stats(layout, lists, u, sep, c, out[..., e:])
    out = out[..., :e].to(dtype)
    return out if flock.vis.mask is None else out.masked_fill(layout.count == 0, 0), found


def rule_scores(flock: Flock, crowd: Crowd, lists: Lists | None) -> list[Score]:
    """The two rules that are dot products: alignment, cohesion. `lists` may be by heads of keys,
    where heads of queries that share keys share their neighbours too."""
    r, scores = flock.rules, []
    if r.active("align"):
        assert lists is not None
        keys = flock.key_unit
        s, count = repeat_kv(lists.bag(None, keys), flock.q.shape[1]), lists.count.to(keys.dtype)
        u, gate = alignment.heading(s, count, r.at("alpha_align", keys))
        one_length = flock.key_norm is not None and flock.bare is None
        scale = flock.key_scale if one_length else None
        # Measured from an anchor: what all keys have in common is constant along a row.
        y = keys - flock.origin(keys.detach())
        scores.append(Score(r.strength("align", keys) * gate, u, y, scale))
    if r.active("coh"):
        c, gate = crowd.centre
        x = probe(c) / r.at("tau_coh", c)
        scores.append(Score(r.strength("coh", c) * gate, x, flock.z_lifted, lifted=True))
    return scores


def at_most(x: Tensor, bound: Tensor | float) -> Tensor:
    """x where rounding cannot lift it above what it can be; the gradient passes."""
    return x - (x.detach() - bound).clamp_min(0)


@dataclass(frozen=True)
class KernelPasses:
    """(mean of lift(z), log Σ w) under the kernels of width τ_coh and τ_sep; None: not computed."""

    coh: tuple[Tensor, Tensor] | None = None
    sep: tuple[Tensor, Tensor] | None = None


def shared_passes(flock: Flock, layout: Layout) -> KernelPasses:
    """The passes that are the same for all heads, which share z and the mask."""
    r = flock.rules
    crowd = Crowd(flock, layout, None, KernelPasses())

    def shared(rule: str, tau: Number) -> bool:
        one = not isinstance(tau, Tensor) or tau.numel() == 1
        return r.local_scope == "visible" and one and r.active(rule)

    return KernelPasses(
        crowd.coh_pass if shared("coh", r.tau_coh) else None,
        crowd.sep_pass if shared("sep", r.tau_sep) else None,
    )


class Crowd:
    """Centre and density of each token's surroundings, over V(i) or over N_k(i)."""

    def __init__(
        self, flock: Flock, layout: Layout, lists: Lists | None, passes: KernelPasses
    ) -> None:
        self.flock, self.layout, self.lists, self.passes = flock, layout, lists, passes
        self.local = flock.rules.local_scope == "neighbours"

    @lazy
    def near_d2(self) -> Float[Tensor, "B H N K"]:
        """‖z_i − z_l‖² over the lists."""
        assert self.lists is not None
        z_q, z_k = self.flock.z
        x = torch.cat([probe(z_q), -z_q.square().sum(-1, keepdim=True)], -1)
        y = torch.cat([self.flock.z_lifted, torch.ones_like(z_k[..., :1])], -1)
        return (-self.lists.dot(x, y)).clamp_min(0)

    def _pass(self, tau: float | Tensor) -> tuple[Tensor, Tensor]:
        return self.layout.surroundings(self.flock, tau)

    @lazy
    def coh_pass(self) -> tuple[Tensor, Tensor]:
        return self.passes.coh or self._pass(self.flock.rules.at("tau_coh", self.flock.z[0]))

    @lazy
    def sep_pass(self) -> tuple[Tensor, Tensor]:
        if self.passes.sep is not None:
            return self.passes.sep
        if self.flock.rules.one_kernel():
            return self.coh_pass
        return self._pass(self.flock.rules.at("tau_sep", self.flock.z[0]))

    @lazy
    def centre(self) -> tuple[Float[Tensor, "B #H N z"], Float[Tensor, "B #H N 1"]]:
        """(c, γ)."""
        r, z_q = self.flock.rules, self.flock.z[0]
        alpha = r.at("alpha_coh", z_q)
        if not self.local:
            mean = self.coh_pass[0]
            c = mean[..., :-1]
            return c, cohesion.gate(c, mean[..., -1:], alpha)
        assert self.lists is not None
        tau, own_d2, own_z = r.at("tau_coh", z_q), *self.flock.own
        d2 = torch.cat([self.near_d2, own_d2.expand(*self.near_d2.shape[:3], 1)], -1)
        here = self.flock.vis.self_visible[..., None].expand(*d2.shape[:3], 1)
        there = torch.cat([self.lists.valid.expand_as(self.near_d2), here], -1)
        w = masked_softmax(-d2 / tau**2, there)
        near = self.lists.bag(w[..., :-1], self.flock.z_lifted)
        mean = near + w[..., -1:] * lift(own_z)
        c = mean[..., :-1]
        return c, cohesion.gate(c, mean[..., -1:], alpha) * there.any(-1, keepdim=True)

    @lazy
    def density(self) -> Float[Tensor, "B #H N 1"]:
        """ρ."""
        z_q = self.flock.z[0]
        tau = self.flock.rules.at("tau_sep", z_q)
        if self.local:
            assert self.lists is not None
            w = self.lists.masked(kernel(self.near_d2, tau))
            return w.sum(-1, keepdim=True)
        log_mass, n = self.sep_pass[1].unsqueeze(-1), self.layout.count
        mass = torch.exp(at_most(log_mass, n.clamp_min(1).log()))
        mass = mass.masked_fill(self.layout.count == 0, 0)
        own = kernel(self.flock.own[0], tau) * self.flock.vis.self_visible[..., None]
        return (mass - own).clamp_min(0)


def penalties(
    flock: Flock, layout: Layout, crowd: Crowd
) -> tuple[Float[Tensor, "B #H N K"], Float[Tensor, "B #H N K"]]:
    """φ_il, and b_il, what separation adds to the scores of N_k(i)."""
    r, lists, rho = flock.rules, crowd.lists, crowd.density
    assert lists is not None
    h_q, h_k = flock.h_unit
    w = kernel(crowd.near_d2, r.at("tau_sep", rho))
    phi = separation.penalty(w, lists.dot(h_q, h_k), r.at("delta", w))
    phi = lists.masked(phi)
    var = None
    if r.standardise:
        n = layout.count.clamp_min(1)
        mean = phi.sum(-1, keepdim=True) / n
        var = (phi.square().sum(-1, keepdim=True) / n - mean.square()).clamp_min(0)
    eta = separation.crowding(rho, r.at("kappa", rho))
    return phi, -slope(r.strength("sep", rho), eta, var) * phi / r.at("tau_score", rho)


def _separate(
    flock: Flock, layout: Layout, crowd: Crowd, at: At, out: Tensor, lse: Tensor, stats: bool
) -> tuple[Float[Tensor, "B H N e"], Float[Tensor, "B H N 1"] | None]:
    """out with the mass of the k near duplicates of each row moved; with `stats` Σ_j A_ij φ_ij."""
    accum_dtype, lists = flock.accum_dtype, crowd.lists
    assert lists is not None
    phi, b = penalties(flock, layout, crowd)
    s = lists.masked(at(lists) - lse.to(accum_dtype).unsqueeze(-1))  # before exp: 0 · inf is NaN
    s = at_most(s, 0)
    A = torch.exp(s)
    p = A * torch.expm1(b)
    left = 1 + p.sum(-1, keepdim=True)
    few, which = left < (LITTLE if out.dtype == accum_dtype else 0.5), None
    if gpu.on_gpu(left):
        few, which = few_rows(left, few)
        left = left.clamp_min(torch.finfo(left.dtype).eps)
    whole = 1 / left.masked_fill(few, 1)
    moved = torch.addcmul(lists.bag(p * whole, flock.v.to(accum_dtype)), out.to(accum_dtype), whole)
    left_phi = ((A + p) * phi).sum(-1, keepdim=True) * whole if stats else None
    if which is None and bool(few.any()):
        which = few.any(0).any(0).nonzero()[:, 0]
    if which is not None:
        again = rows_again(flock, few.squeeze(-1), which, stats)
        moved = torch.where(few, again[..., :-1], moved)
        if left_phi is not None:
            left_phi = torch.where(few, again[..., -1:], left_phi)
    return moved.to(out.dtype), left_phi


def few_rows(
    left: Float[Tensor, "B H N 1"], few: Bool[Tensor, "B H N 1"]
) -> tuple[Bool[Tensor, "B H N 1"], Int[Tensor, "R"]]:
    """`few` of the rows that lost most of their mass, and which rows these are, without waiting for
    the GPU to say how many did."""
    worst = left.detach().amin((0, 1)).squeeze(-1)
    which = worst.topk(min(GPU_ROWS, worst.numel()), largest=False, sorted=False).indices
    return few & torch.zeros_like(few[0, 0]).index_fill(0, which, True), which


def rows_again(
    flock: Flock, few: Bool[Tensor, "B H N"], which: Int[Tensor, "R"], stats: bool
) -> Float[Tensor, "B H N e1"]:
    """Rows that lost nearly all their mass, where out + Σ p v cancels: by the definition, a few
    at a time, so that no N×M matrix is in memory."""
    out = torch.zeros(*few.shape, flock.v.shape[-1] + 1, dtype=flock.accum_dtype, device=few.device)
    for rows in which.split(ROWS):
        part = flock.rows(rows)
        again = (
            checkpoint(_by_definition, part, stats, use_reentrant=False, preserve_rng_state=False)
            if torch.is_grad_enabled()
            else _by_definition(part, stats)
        )
        out = out.index_copy(-2, rows, again)
    return out


def _by_definition(flock: Flock, stats: bool) -> Float[Tensor, "B H R e1"]:
    """out_i, and as a last column Σ_j A_ij φ_ij (0 without `stats`). Grouped keys stay grouped."""
    if not stats and flock.k.shape[1] < flock.q.shape[1]:
        fresh = replace(flock)  # what it keeps would be missing where backward computes it again
        return F.pad(decode(fresh).to(flock.accum_dtype), (0, 1))
    out, _, row_stats = dense(flock.repeat_kv(), stats=True)
    assert row_stats is not None
    assert row_stats.sep is not None
    return torch.cat([out.to(flock.accum_dtype), row_stats.sep], -1)


def row_stats(
    layout: Layout, lists: Lists | None, u: Tensor | None, sep: Tensor | None, c: Tensor | None,
    m: Float[Tensor, "B H N z1"],
) -> RowStats:  # fmt: skip
    """What the losses need; Σ_j A_ij ‖z_j − c_i‖² comes from m_i = Σ_j A_ij lift(z_j)."""
    coh = None
    if c is not None:
        pull = (probe(c) * m.to(c.dtype)).sum(-1, keepdim=True)
        coh = (c.square().sum(-1, keepdim=True) - pull).clamp_min(0)
    count = None if lists is None else lists.count
    total = None if lists is None else (lambda y: lists.bag(None, y))
    return RowStats(layout.count > 0, count, total, u, sep, coh)
