"""The definition, as a reader would write it: N×M matrices, any mask, any option.

Slow and plain on purpose. Every other backend must equal this one, gradients included.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ascender.core import neighbours as nb
from ascender.core.affinity import at_distance
from ascender.core.backends.base import Backend
from ascender.core.combine import Parts, RowStats, slope, standardise
from ascender.core.flock import Flock
from ascender.core.geometry import kernel, squared_distance
from ascender.core.rules import Number, alignment, cohesion, separation
from ascender.core.softmax import masked_softmax


def dense(
    flock: Flock, stats: bool = False
) -> tuple[Float[Tensor, "B H N e"], Parts, RowStats | None]:
    """(A v, every term of every score, what the losses need where `stats` asks for it)."""
    flock, nonfinite = flock.without_nonfinite()
    nonfinite = nonfinite[..., None]
    base = (flock.q @ flock.k.transpose(-1, -2)).to(flock.accum_dtype) / flock.q.shape[-1] ** 0.5
    if flock.by_scores and flock.q.dtype == base.dtype:  # half precision is too coarse to rank by
        flock = flock.with_base_scores(base)
    flock = flock.narrowed()
    r, V = flock.rules, flock.vis.visible
    near = nb.as_mask(flock.members, flock.vis.M)
    z_q, z_k = flock.z
    d2 = squared_distance(z_q, z_k)

    align, heading = _alignment(flock, near)
    sep, phi, crowd = _separation(flock, near, d2)
    coh, centre = _cohesion(flock, near, d2)
    terms = {
        "base": base.masked_fill(~V, 0),
        "align": align,
        "sep": sep,
        "coh": coh,
        "aff": _affinity(flock, base) if flock.affinity_term else torch.zeros_like(base),
        "other": torch.zeros_like(base) if flock.other is None else _other(flock, base),
    }
    tau_score = r.at("tau_score", base)
    total = sum(terms.values()) / tau_score
    weights = flock.weights(total)
    row_stats = None
    if stats:
        row_stats = RowStats(
            nonempty=V.any(-1, keepdim=True), nonfinite=nonfinite, **heading, **crowd, **centre,
            count=near.sum(-1, keepdim=True), neighbour_sum=lambda y: near.to(y.dtype) @ y,
            sep=(weights * phi).sum(-1, keepdim=True),
            coh=(weights * squared_distance(centre["c"], z_k)).sum(-1, keepdim=True),
        )  # fmt: skip
    weights = weights.masked_fill(nonfinite & V, torch.nan)
    used = weights.masked_fill(nonfinite, 0)  # NaN would reach gradients of other rows
    dropped = F.dropout(used, flock.dropout) if flock.dropout else used
    out = dropped.to(flock.v.dtype) @ flock.v
    if flock.pair_values is not None and (more := flock.pair_values(dropped)) is not None:
        out = out + more.to(out.dtype)
    out = out.masked_fill(nonfinite, torch.nan)
    parts = Parts(**terms, total=total.masked_fill(~V, 0), weights=weights, tau_score=tau_score)
    return out, parts, row_stats


class Dense(Backend):
    """N×M matrices: every call, and the fallback where nothing else can."""

    name = "dense"
    provides = ("columns", "matrix", "rows", "weights", "pairs")
    gives_stats = True

    def run(
        self, flock: Flock, stats: bool = False
    ) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
        out, _, row_stats = dense(flock.repeat_kv(), stats)
        return out, row_stats

    def refuses(self, flock: Flock) -> str | None:
        return None


def _add(flock: Flock, rule: str, gate: Tensor, score: Tensor) -> Float[Tensor, "B H N M"]:
    """λ ω gate_i r̃_ij (or r_ij), 0 outside V(i)."""
    V, strength = flock.vis.visible, flock.rules.strength(rule, score)
    score = standardise(score, V) if flock.rules.standardise else score.masked_fill(~V, 0)
    return (slope(strength, gate, None) * score).expand(*flock.q.shape[:3], -1)


def _alignment(flock: Flock, near: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Its term; u and γ."""
    keys = flock.key_unit
    s = near.to(keys.dtype) @ keys
    count = near.sum(-1, keepdim=True).to(keys.dtype)
    u, gate = alignment.heading(s, count, flock.rules.at("alpha_align", s))
    term = _add(flock, "align", gate, u @ keys.transpose(-1, -2))
    return term, {"u": u, "gate_align": gate}


def _separation(flock: Flock, near: Tensor, d2: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Its term, φ; ρ and η."""
    r, P = flock.rules, flock.vis.flockmates
    h_q, h_k = flock.h_unit
    w = kernel(d2, r.at("tau_sep", d2))
    crowd = near if r.local_scope == "neighbours" else P
    rho = w.masked_fill(~crowd, 0).sum(-1, keepdim=True)
    phi = separation.penalty(w, h_q @ h_k.transpose(-1, -2), r.at("delta", w))
    phi = phi.masked_fill(~(P if r.separation_scope == "all" else near), 0)
    gate = separation.crowding(rho, r.at("kappa", rho))
    return _add(flock, "sep", gate, -phi), phi, {"rho": rho, "gate_sep": gate}


def _cohesion(flock: Flock, near: Tensor, d2: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Its term; c and γ."""
    r, vis = flock.rules, flock.vis
    z_k = flock.z[1]
    tau: Number = r.at("tau_coh", d2)
    around = vis.visible
    if r.local_scope == "neighbours":
        around = near if vis.cross else near | (vis.visible & ~vis.flockmates)
    # the weighted mean as a softmax of −d²/τ²: the same, and never 0/0
    w = masked_softmax(-d2 / tau**2, around)
    c = w @ z_k
    spread = w @ z_k.square().sum(-1, keepdim=True)
    gate = cohesion.gate(c, spread, r.at("alpha_coh", d2)) * around.any(-1, keepdim=True)
    term = _add(flock, "coh", gate, -squared_distance(c, z_k) / tau)
    return term, {"c": c, "gate_coh": gate}


def _affinity(flock: Flock, base: Tensor) -> Float[Tensor, "B H N M"]:
    """ω_aff g_ij."""
    x, y = flock.affinity_factors
    g = x @ y.mT
    if flock.affinity_by_distance is not None:
        g = g + at_distance(flock.affinity_by_distance, flock.vis.p[:, None] - flock.vis.j)
    term = flock.rules.at("omega_aff", base) * g
    return term.expand_as(base).masked_fill(~flock.vis.visible, 0)


def _other(flock: Flock, base: Tensor) -> Float[Tensor, "B H N M"]:
    other = flock.other_dense
    assert other is not None
    return other.to(base.dtype).expand_as(base).masked_fill(~flock.vis.visible, 0)
