"""The auxiliary losses (SPEC section 6), from any backend, and from all layers of a model.

    L_align = mean_i (1 − u_i · ū_i)         ū_i the mean of u_l over N_k(i)
    L_sep   = mean_i Σ_j A_ij φ_ij
    L_coh   = mean_i Σ_j A_ij ‖z_j − c_i‖²

A mean is over the batch, the heads and the valid rows. A row is valid where V(i) is not empty and
i is no padding: a mask of keys (…, 1, M) in self-attention says so of the queries too. L_coh
needs a centre, L_align a heading and a ū_i; rows that have none are left out, and so are, in ū_i,
neighbours without a heading of their own (N_k(l) empty, or a key that is no query here: the past
in decoding, everything in cross-attention). No such row, or a rule that is switched off (λ or ω a
plain 0): that loss is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from ascender.flock import Flock
from ascender.schedule import LossWeights


@dataclass(frozen=True)
class Losses:
    """The three, as scalars with gradients."""

    align: Float[Tensor, ""]
    sep: Float[Tensor, ""]
    coh: Float[Tensor, ""]

    def total(self, weights: LossWeights) -> Float[Tensor, ""]:
        """α_1 L_align + α_2 L_sep + α_3 L_coh."""
        return weights.align * self.align + weights.sep * self.sep + weights.coh * self.coh


def losses(flock: Flock) -> Losses:
    """Of a pass that has filled `flock.local`."""
    local, rules, zero = flock.local, flock.rules, flock.q.new_zeros((), dtype=flock.wide)
    assert local is not None
    align = sep = coh = zero
    rows = valid(flock)
    if rules.active("align") and not flock.vis.cross:
        away, headed = _turned_away(flock)
        align = _mean(away, rows & headed, local.spoilt)
    if rules.active("sep"):
        assert local.sep is not None
        sep = _mean(local.sep, rows, local.spoilt)
    if rules.active("coh"):
        assert local.coh is not None
        coh = _mean(local.coh, rows & _centred(flock), local.spoilt)
    return Losses(align, sep, coh)


def valid(flock: Flock) -> Bool[Tensor, "#B #H #N 1"]:
    """V(i) is not empty, and i is not padding."""
    vis, local = flock.vis, flock.local
    assert local is not None and local.seen is not None
    if vis.cross or not vis.by_key_only:
        return local.seen
    return local.seen & vis.self_visible[..., None]


def _centred(flock: Flock) -> Bool[Tensor, "#B #H N 1"] | bool:
    """Whether there is anybody to have a centre of."""
    local = flock.local
    if flock.rules.local_scope == "visible":
        return True
    assert local is not None and local.count is not None
    return (local.count > 0) | flock.vis.self_visible[..., None]


def _turned_away(flock: Flock) -> tuple[Float[Tensor, "B H N 1"], Bool[Tensor, "B H N 1"]]:
    """(1 − u_i·ū_i, whether both exist)."""
    local, before = flock.local, flock.vis.M - flock.vis.N
    assert local is not None and local.u is not None and local.over is not None
    u = local.u
    assert local.count is not None
    headed = (local.count > 0).expand(*u.shape[:3], 1)
    keys = F.pad(torch.cat([u, headed.to(u.dtype)], -1), (0, 0, before, 0))  # queries as keys
    sums = local.over(keys)
    n = sums[..., -1:]
    away = 1 - (u * sums[..., :-1]).sum(-1, keepdim=True) / n.clamp_min(1)
    return away, headed & (n > 0)


def _mean(
    x: Float[Tensor, "B H N 1"], rows: Tensor, spoilt: Bool[Tensor, "B H N 1"] | None
) -> Float[Tensor, ""]:
    """Over the rows; NaN where one of them is spoilt."""
    rows = rows.expand_as(x)
    if spoilt is not None:
        x = x.masked_fill(spoilt, torch.nan)
    return torch.where(rows, x, 0).sum() / rows.sum().clamp_min(1)
