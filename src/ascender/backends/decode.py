"""A few new queries against all the keys so far: O(M) a token.

The rows are few, so they are written out, (B, H, n, M), without what the softmax ignores. Each
key is read once: u_i and q_i meet the keys in one product, since k̃_j·u_i = (k_j·u_i)/‖k_j‖.
Keys and values may be grouped (fewer heads than q) and are never copied.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.combine import masked_softmax, row_moments, slope
from ascender.flock import Flock
from ascender.geometry import kernel, lift, probe
from ascender.lazy import lazy
from ascender.rules import Number, alignment, cohesion, separation
from ascender.visibility import Visibility


def decode(flock: Flock) -> Float[Tensor, "B H N e"]:
    """out = A v, row by row."""
    r, wide = flock.rules, flock.wide
    B, H, N, d = flock.q.shape
    rows = _Rows(flock)
    q = flock.q / d**0.5
    if r.active("align"):
        u, gate = rows.heading()
        if flock.bare is None and q.dtype == wide:
            both = meet(torch.cat([q, u.to(q.dtype)], -2), flock.k).to(wide)
            total, score = both.split(N, -2)
        else:
            total, score = meet(q, flock.k).to(wide), meet(u, flock.heading_keys.to(wide))
        scale = flock.key_scale
        score = score * (_spread(scale.mT, H) if isinstance(scale, Tensor) else scale)
        total = total + rows.slope("align", gate, score) * score
    else:
        total = meet(q, flock.k).to(wide)
    if r.active("coh"):
        c, gate = rows.centre()
        score = meet(probe(c) / r.at("tau_coh", c), rows.y)
        total = total + rows.slope("coh", gate, score) * score
    if r.active("sep"):
        total = rows.separate(total.contiguous())
    if flock.other_dense is not None:
        total = total + flock.other_dense.to(wide)
    total = total / r.at("tau_score", total)
    if rows.visible is None:
        weights = torch.softmax(total, -1)
    else:
        weights = masked_softmax(total, rows.visible)
    grouped = weights.to(flock.v.dtype).reshape(B, flock.v.shape[1], -1, flock.vis.M)
    return (grouped @ flock.v).reshape(B, H, N, -1)


def meet(x: Float[Tensor, "B H N w"], y: Float[Tensor, "B G M w"]) -> Float[Tensor, "B H N M"]:
    """x_i · y_j, every group of y's heads serving H/G heads of x."""
    B, H, N, w = x.shape
    return (x.reshape(B, y.shape[1], -1, w) @ y.mT).view(B, H, N, -1)


def take(y: Float[Tensor, "B G M w"], index: Int[Tensor, "B H N K"]) -> Float[Tensor, "B H N K w"]:
    """y_l for l in the lists, 0 for −1."""
    flat = index.clamp_min(0).reshape(index.shape[0], y.shape[1], -1, 1)
    found = y.gather(2, flat.expand(-1, -1, -1, y.shape[-1])).view(*index.shape, -1)
    return found * (index >= 0).unsqueeze(-1)


def _spread(t: Tensor, heads: int) -> Tensor:
    if t.ndim < 4 or t.shape[1] in (1, heads):
        return t
    return t.repeat_interleave(heads // t.shape[1], 1)


def _sees_all(vis: Visibility) -> bool:
    """Whether every query sees every key: no mask, or one last token that looks back at all."""
    return vis.mask is None and vis.window is None and (not vis.causal or vis.N == 1)


class _Rows:
    """The local quantities of a few rows."""

    def __init__(self, flock: Flock) -> None:
        self.flock, self.r, self.vis = flock, flock.rules, flock.vis
        self.visible: Bool[Tensor, "#B #H N M"] | None = (
            None if _sees_all(flock.vis) else flock.vis.visible
        )
        self.local = self.r.local_scope == "neighbours"
        self.z_q, self.z_k = flock.z
        self.y = flock.z_lifted
        if self.local or self.r.active("align") or self.r.active("sep"):
            lists = flock.members
            self.lists: Int[Tensor, "B H N K"] = lists.expand(-1, flock.q.shape[1], -1, -1)
            self.valid = self.lists >= 0

    def slope(self, rule: str, gate: Tensor, score: Tensor) -> Tensor:
        var = None
        if self.r.standardise and self.visible is None:
            mean = score.mean(-1, keepdim=True)
            var = (score - mean).square().mean(-1, keepdim=True)  # torch.var is ten times slower
        elif self.r.standardise:
            assert self.visible is not None
            var = row_moments(score, self.visible)[1]
        return slope(self.r.strength(rule, score), gate, var)

    def heading(self) -> tuple[Tensor, Tensor]:
        near = take(self.flock.heading_keys, self.lists).to(self.flock.wide)
        scale = self.flock.key_scale
        if isinstance(scale, Tensor) and scale.ndim == 4:
            near = near * take(scale, self.lists)
        elif isinstance(scale, Tensor):
            near = near * scale.unsqueeze(-1)
        else:
            near = near * scale
        count = self.valid.sum(-1, keepdim=True).to(near.dtype)
        return alignment.heading(near.sum(-2), count, self.r.at("alpha_align", near))

    @lazy
    def nearness(self) -> Float[Tensor, "B H N M"]:
        """‖z_i‖² − ‖z_i − z_j‖²."""
        return meet(probe(self.z_q), self.y)

    @lazy
    def near_d2(self) -> Float[Tensor, "B H N K"]:
        """‖z_i − z_l‖² over the lists."""
        return (self.z_q.unsqueeze(-2) - take(self.z_k, self.lists)).square().sum(-1)

    def centre(self) -> tuple[Tensor, Tensor]:
        tau, alpha = self.r.at("tau_coh", self.y), self.r.at("alpha_coh", self.y)
        if not self.local:
            w = self.nearness / tau**2
            w = torch.softmax(w, -1) if self.visible is None else masked_softmax(w, self.visible)
            mean = w @ self.y
            return mean[..., :-1], cohesion.gate(mean[..., :-1], mean[..., -1:], alpha)
        own_d2, own_z = self.flock.own
        d2 = torch.cat([self.near_d2, own_d2.expand(*self.near_d2.shape[:3], 1)], -1)
        here = self.vis.self_visible[..., None].expand(*d2.shape[:3], 1)
        there = torch.cat([self.valid, here], -1)
        w = masked_softmax(-d2 / tau**2, there)
        near = (w[..., :-1, None] * take(self.y, self.lists)).sum(-2)
        mean = near + w[..., -1:] * lift(own_z)
        c = mean[..., :-1]
        return c, cohesion.gate(c, mean[..., -1:], alpha) * there.any(-1, keepdim=True)

    def density(self, near: Tensor, tau: Number) -> Tensor:
        if self.local:
            return near.sum(-1, keepdim=True)
        zz = self.z_q.square().sum(-1, keepdim=True)
        w = torch.exp((self.nearness - zz) / tau**2)
        w = w if self.visible is None else w.masked_fill(~self.visible, 0)
        mass = w.sum(-1, keepdim=True)
        own = kernel(self.flock.own[0], tau) * self.vis.self_visible[..., None]
        return (mass - own).clamp_min(0)

    def separate(self, total: Tensor) -> Tensor:
        """total with the k penalties of each row added."""
        r, (h_q, h_k) = self.r, self.flock.h_unit
        tau = r.at("tau_sep", total)
        w = kernel(self.near_d2, tau) * self.valid
        a = (h_q.unsqueeze(-2) * take(h_k, self.lists)).sum(-1)
        phi = separation.penalty(w, a, r.at("delta", w)) * self.valid
        eta = separation.crowding(self.density(w, tau), r.at("kappa", w))
        var = None
        if r.standardise:
            n = float(self.vis.M) if self.visible is None else self.visible.sum(-1, keepdim=True)
            n = n if isinstance(n, float) else n.clamp_min(1)
            mean = phi.sum(-1, keepdim=True) / n
            var = (phi.square().sum(-1, keepdim=True) / n - mean.square()).clamp_min(0)
        b = -slope(r.strength("sep", w), eta, var) * phi
        return total.scatter_add(-1, self.lists.clamp_min(0), b)
