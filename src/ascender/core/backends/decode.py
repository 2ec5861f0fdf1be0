"""A few new queries against all the keys so far: O(M) a token.

The rows are few, so they are written out, (B, H, n, M), without what the softmax ignores. Each
key is read once: u_i and q_i meet the keys in one product, since k̃_j·u_i = (k_j·u_i)/‖k_j‖.
Keys and values may be grouped (fewer heads than q) and are never copied. At one token the number
of operations is what costs, so rows are masked only where something is hidden, and changed in
place where they are new.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core import neighbours as nb
from ascender.core.backends.base import Backend
from ascender.core.backends.native import serves_token, token
from ascender.core.combine import EPS, RowStats, slope, standardise
from ascender.core.flock import Flock
from ascender.core.geometry import kernel, lift, probe, unit
from ascender.core.rules import alignment, cohesion, separation
from ascender.core.softmax import masked_softmax
from ascender.core.visibility import Visibility


def decode(flock: Flock) -> Float[Tensor, "B H N e"]:
    """out = A v, row by row."""
    if serves_token(flock):
        return token(flock)
    r, accum_dtype = flock.rules, flock.accum_dtype
    _, H, N, d = flock.q.shape
    rows = _QueryRows(flock)
    q = flock.q * d**-0.5
    known = rows.base
    if r.active("align"):
        u, gate = rows.heading()
        if known is None and flock.bare is None and q.dtype == accum_dtype:
            both = key_products(torch.cat([q, u], -2), flock.k)
            total, score = both[..., :N, :], both[..., N:, :]
        else:
            total = key_products(q, flock.k).to(accum_dtype) if known is None else known
            score = key_products(u, flock.heading_keys.to(accum_dtype))
        scale = flock.key_scale
        score = score * (_spread(scale.mT, H) if isinstance(scale, Tensor) else scale)
        total = torch.addcmul(total, r.strength("align", u) * gate, rows.standardised(score))
    else:
        total = key_products(q, flock.k).to(accum_dtype) if known is None else known.clone()
    if r.active("coh"):
        c, gate = rows.centre()
        score = key_products(probe(c) / r.at("tau_coh", c), rows.y)
        total.addcmul_(r.strength("coh", c) * gate, rows.standardised(score))
    if r.active("sep"):
        total.scatter_add_(-1, rows.places, rows.penalties())
    if flock.other_dense is not None:
        total = total + flock.other_dense.to(accum_dtype)
    total = total / r.at("tau_score", total)
    weights = rows.softmax(total) if flock.normalise is None else flock.weights(total)
    return weighted_sum(weights.to(flock.v.dtype), flock.v)


class Decode(Backend):
    """A few queries against many keys, as rows of scores."""

    name = "decode"
    provides = ("columns", "matrix", "rows")
    grouped = True

    def run(
        self, flock: Flock, stats: bool = False
    ) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
        return decode(flock), None


def key_products(
    x: Float[Tensor, "B H N w"], y: Float[Tensor, "B G M w"]
) -> Float[Tensor, "B H N M"]:
    """x_i · y_j, each head of y serving H/G heads of x."""
    rows, keys = by_head(x, y)
    return torch.bmm(rows, keys.mT).view(*x.shape[:3], -1)


def weighted_sum(
    a: Float[Tensor, "B H N M"], y: Float[Tensor, "B G M w"]
) -> Float[Tensor, "B H N w"]:
    """Σ_j a_ij y_j, each head of y serving H/G heads of a."""
    rows, keys = by_head(a, y)
    return torch.bmm(rows, keys).view(*a.shape[:3], -1)


def by_head(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """(BG, rows, ·) and (BG, M, w): torch.matmul would take five operations to get there."""
    B, G, M, w = y.shape
    return x.reshape(B * G, -1, x.shape[-1]), y.reshape(B * G, M, w)


def _spread(t: Tensor, heads: int) -> Tensor:
    if t.ndim < 4 or t.shape[1] in (1, heads):
        return t
    return t.repeat_interleave(heads // t.shape[1], 1)


def _sees_all(vis: Visibility) -> bool:
    """Whether every query sees every key: no mask, or one last token that looks back at all."""
    return vis.mask is None and vis.window is None and (not vis.causal or vis.N == 1)


class _QueryRows:
    """The local quantities of a few rows. `visible` is None where everything is, `valid` where
    every list is full."""

    def __init__(self, flock: Flock) -> None:
        self.flock, self.r, self.vis = flock, flock.rules, flock.vis
        self.visible: Bool[Tensor, "#B #H N M"] | None = None
        self.n: float | Tensor = float(self.vis.M)
        if not _sees_all(self.vis):
            self.visible = self.vis.visible
            self.n = self.visible.sum(-1, keepdim=True).clamp_min(1)
        self.local = self.r.local_scope == "neighbours"
        self.z_q, self.z_k = flock.z
        self.y = flock.z_lifted

    @lazy
    def own(self) -> Int[Tensor, "N 1"]:
        return self.vis.own.view(-1, 1)

    def flockmates(self, rows: Float[Tensor, "B #H N M"]) -> Float[Tensor, "B #H N M"]:
        """−inf outside P(i), in place."""
        if self.visible is not None:
            return rows.masked_fill_(~self.vis.flockmates, -torch.inf)
        if self.vis.cross:
            return rows
        return rows.scatter_(-1, self.own.expand(*rows.shape[:3], 1), -torch.inf)

    def softmax(self, rows: Float[Tensor, "B #H N M"]) -> Float[Tensor, "B h N M"]:
        """Over V(i)."""
        if self.visible is None:
            return torch.softmax(rows, -1)
        return masked_softmax(rows, self.visible)

    def standardised(self, score: Float[Tensor, "B #H N M"]) -> Float[Tensor, "B #H N M"]:
        """r̃, which is what LayerNorm makes of r where all is visible."""
        if not self.r.standardise:
            return score
        if self.visible is None:
            return F.layer_norm(score, score.shape[-1:], eps=EPS)
        return standardise(score, self.visible)

    @lazy
    def cosines(self) -> Float[Tensor, "B #H N M"]:
        """a_ij, −inf outside P(i)."""
        mask = self.vis.mask
        heads = max(len(self.r.sizes()), 1 if mask is None else mask.shape[1])
        h_q, h_k = self.flock.h_unit
        if heads > h_q.shape[1]:
            h_q = h_q.expand(-1, heads, -1, -1)
        return self.flockmates(key_products(h_q, h_k))

    @lazy
    def base(self) -> Float[Tensor, "B H N M"] | None:
        """q·k/√d where it ranks the neighbours, too: not in half precision, as in dense."""
        flock = self.flock
        if not (flock.by_scores and self.r.needs_neighbours) or flock.q.dtype != flock.accum_dtype:
            return None
        return key_products(flock.q * flock.q.shape[-1] ** -0.5, flock.k)

    @lazy
    def lists(self) -> Int[Tensor, "B H N K"]:
        """N_k(i)."""
        if self.flock.by_cosine:
            ranked = self.cosines.detach()
            if self.vis.causal:
                age = nb.penalty(self.vis.p[:, None] - self.vis.j, ranked.dtype)
                ranked = nb.prefer_recent(ranked.clone(), age, bounded=True)
            neighbours = nb.best(ranked, self.r.sizes(), full=self.full)
        elif self.base is not None:
            neighbours = nb.top_k_of(self.base, self.vis, self.r.sizes())
        else:
            neighbours = self.flock.members
        return neighbours.expand(-1, self.flock.q.shape[1], -1, -1)

    @property
    def full(self) -> bool:
        """Whether there are enough flockmates for every list, and no need to look."""
        sizes = self.r.sizes()
        semantic = self.flock.by_cosine
        return semantic and self.visible is None and len(sizes) == 1 and sizes[0] < self.vis.M

    @lazy
    def valid(self) -> Bool[Tensor, "B H N K"] | None:
        return None if self.full else self.lists >= 0

    @lazy
    def places(self) -> Int[Tensor, "B H N K"]:
        """The lists with 0 for −1."""
        return self.lists if self.valid is None else self.lists.clamp_min(0)

    def masked(self, t: Float[Tensor, "B H N K"]) -> Float[Tensor, "B H N K"]:
        """0 where the list has no entry."""
        return t if self.valid is None else t.masked_fill(~self.valid, 0)

    def at(self, rows: Float[Tensor, "B #H N M"]) -> Float[Tensor, "B H N K"]:
        """Rows at the places of the lists."""
        return rows.expand(-1, self.places.shape[1], -1, -1).gather(-1, self.places)

    def take(self, y: Float[Tensor, "B G M w"]) -> Float[Tensor, "B H N K w"]:
        """y_l for l in the lists."""
        index, keys = by_head(self.places, y)
        head = torch.arange(len(keys), device=y.device).view(-1, 1, 1)
        return keys[head, index].view(*self.places.shape, -1)

    def heading(self) -> tuple[Tensor, Tensor]:
        """(u, γ)."""
        near, scale = (
            self.take(self.flock.heading_keys).to(self.flock.accum_dtype),
            self.flock.key_scale,
        )
        if self.flock.key_norm is None:
            near = unit(near)
        else:
            near = near * (scale.unsqueeze(-1) if isinstance(scale, Tensor) else scale)
        count: float | Tensor = float(near.shape[-2])
        if self.valid is not None:
            near = near.masked_fill(~self.valid.unsqueeze(-1), 0)
            count = self.valid.sum(-1, keepdim=True).to(near.dtype)
        return alignment.heading(near.sum(-2), count, self.r.at("alpha_align", near))

    @lazy
    def nearness(self) -> Float[Tensor, "B #H N M"]:
        """−‖z_i − z_j‖², never positive; for every head where heads that share z see other keys."""
        zz = self.z_q.square().sum(-1, keepdim=True)
        near = key_products(probe(self.z_q), self.y).sub_(zz).clamp_max_(0)
        heads = 1 if self.visible is None else self.visible.shape[1]
        return near.expand(-1, max(heads, near.shape[1]), -1, -1)

    @lazy
    def near_d2(self) -> Float[Tensor, "B H N K"]:
        """‖z_i − z_l‖² over the lists."""
        return (self.z_q.unsqueeze(-2) - self.take(self.z_k)).square().sum(-1)

    def centre(self) -> tuple[Tensor, Tensor]:
        """(c, γ)."""
        tau, alpha = self.r.at("tau_coh", self.y), self.r.at("alpha_coh", self.y)
        if not self.local:
            mean = weighted_sum(self.softmax(self.nearness / tau**2), self.y)
            c = mean[..., :-1]
            return c, cohesion.gate(c, mean[..., -1:], alpha)
        own_d2, own_z = self.flock.own
        d2 = torch.cat([self.near_d2, own_d2.expand(*self.near_d2.shape[:3], 1)], -1)
        here = self.vis.self_visible[..., None].expand(*d2.shape[:3], 1)
        there = torch.cat([self.lists >= 0, here], -1)
        w = masked_softmax(-d2 / tau**2, there)
        near = (w[..., :-1, None] * self.take(self.y)).sum(-2)
        mean = near + w[..., -1:] * lift(own_z)
        c = mean[..., :-1]
        return c, cohesion.gate(c, mean[..., -1:], alpha) * there.any(-1, keepdim=True)

    def crowd(self) -> tuple[Float[Tensor, "B #H N 1"], Float[Tensor, "B H N K"]]:
        """(ρ_i, w_il over the lists)."""
        tau = self.r.at("tau_sep", self.y)
        if self.local:
            w = self.masked(kernel(self.near_d2, tau))
            return w.sum(-1, keepdim=True), w
        w = self.flockmates(self.nearness / tau**2).exp_()
        return w.sum(-1, keepdim=True), self.at(w)

    def penalties(self) -> Float[Tensor, "B H N K"]:
        """The k penalties of each row."""
        r = self.r
        rho, w = self.crowd()
        if self.flock.by_cosine:
            a = self.at(self.cosines)
        else:
            h_q, h_k = self.flock.h_unit
            a = (h_q.unsqueeze(-2) * self.take(h_k)).sum(-1)
        phi = self.masked(separation.penalty(w, a, r.at("delta", w)))
        eta = separation.crowding(rho, r.at("kappa", w))
        var = None
        if r.standardise:
            mean = phi.sum(-1, keepdim=True) / self.n
            var = (phi.square().sum(-1, keepdim=True) / self.n - mean.square()).clamp_min(0)
        return -slope(r.strength("sep", w), eta, var) * phi
