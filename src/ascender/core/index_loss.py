"""The index loss (docs/definition.md, section 8): affinity learns to rank keys as attention does.

    L_index = mean_i KL( Ā_i ‖ softmax_{j ∈ S(i)} g_ij )
    Ā_i     the weights, averaged over the heads, detached and renormalised over S(i)
    S(i)    the keys outside window and globals: of V(i) while attention is dense, of F(i) once it
            is sparse

Where heads have an h of their own, Ā_i are each head's own weights. Rows are left out where S(i) is
empty, has no weight, or i is padding; the loss is 0 where none is left. Computed in chunks of rows,
whichever backend computes the attention.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.affinity import at_distance
from ascender.core.backends.dense import dense
from ascender.core.combine import columns, folds
from ascender.core.flock import Flock
from ascender.core.scope import FlockScope
from ascender.core.softmax import masked_softmax
from ascender.kernels import gpu

CHUNK = 1 << 22  # weights of all heads in memory at once, per sequence
GPU_CHUNK = 1 << 26  # the same on a GPU, of all sequences


def index_loss(
    flock: Flock,
    scope: FlockScope,
    h_q: Float[Tensor, "B A N a"],
    h_k: Float[Tensor, "B A M a"],
) -> Float[Tensor, ""]:
    """L_index of a call. `scope`: window and globals, needed also where flock.scope is None (dense
    attention). h_q and h_k: projections of detached tokens."""
    flock = flock.repeat_kv()
    if listed(flock, scope, h_q):
        kl, valid = _listed_divergence(flock, scope, h_q, h_k)
        return kl.sum() / valid.sum().clamp_min(1)
    (B, H, N, _), M = flock.q.shape, flock.vis.M
    chunk = GPU_CHUNK // (B * H * M) if gpu.on_gpu(flock.q) else CHUNK // (H * M)
    total = h_q.new_zeros((), dtype=flock.accum_dtype)
    count = torch.zeros_like(total)
    for rows in torch.arange(N, device=flock.q.device).split(max(1, chunk)):
        kl, valid = _divergence(flock, scope, h_q, h_k, rows)
        total, count = total + kl.sum(), count + valid.sum()
    return total / count.clamp_min(1)


def listed(flock: Flock, scope: FlockScope, h_q: Tensor) -> bool:
    """Whether S(i) is the list of far keys and A is a softmax of scores that fold."""
    if flock.scope is None or flock.vis.cross or scope.n_global or flock.rules.on:
        return False
    if flock.affinity_term and flock.affinity_bias is not None:  # a bias that does not fold
        return False
    plain = flock.normalise is None and flock.pair_values is None and not gpu.on_gpu(flock.q)
    return plain and folds(flock.other) and h_q.shape[1] == flock.far.shape[1] == 1


def _listed_divergence(
    flock: Flock, scope: FlockScope, h_q: Tensor, h_k: Tensor
) -> tuple[Float[Tensor, "B 1 N"], Bool[Tensor, "B 1 N"]]:
    """(KL of every row, or 0; which rows count), from lists: example by example."""
    far = flock.far
    near = scope.near.expand(len(far), 1, -1, -1)
    scored, at = flock.with_affinity_in_bias(), replace(flock, h_q=h_q, h_k=h_k)
    x, y = at.affinity_factors
    kls, valids = [], []
    for b in range(len(far)):
        mine = far[b, 0]
        with torch.no_grad():
            total = _listed_scores(scored, b, torch.cat([near[b, 0], mine], -1))[None]
            weights = masked_softmax(total, total > -torch.inf)[0]
            p = weights[..., near.shape[-1] :].mean(0).masked_fill(mine < 0, 0)
            mass = p.sum(-1, keepdim=True)
            p = p / mass.clamp_min(torch.finfo(p.dtype).tiny)
        keys = y[b if len(y) > 1 else 0, 0].index_select(0, mine.clamp_min(0).flatten())
        g = (x[b if len(x) > 1 else 0, 0][:, None] * keys.unflatten(0, mine.shape)).sum(-1)
        if at.affinity_by_distance is not None:
            j = flock.vis.j[mine.clamp_min(0)]
            g = g + at_distance(at.affinity_by_distance, flock.vis.p[:, None] - j)
        lowest = torch.finfo(g.dtype).min / 2
        log = g.masked_fill(mine < 0, lowest).log_softmax(-1).masked_fill(mine < 0, 0)
        kls.append((torch.xlogy(p, p) - p * log).sum(-1))
        valids.append(mass[:, 0] > 0)
    valid = torch.stack(valids)[:, None]
    if flock.vis.by_key_only:  # padding
        valid = valid & flock.vis.self_visible.any(1, keepdim=True)
    return torch.where(valid, torch.stack(kls)[:, None], 0), valid


def _listed_scores(flock: Flock, b: int, index: Int[Tensor, "N L"]) -> Float[Tensor, "H N L"]:
    """The scores of listed keys in one example, −inf where there is none; without rules."""
    dtype, d = flock.accum_dtype, flock.q.shape[-1]
    at, total = index.clamp_min(0), []
    left = right = None
    if flock.other is not None:
        left, right = columns(flock.other, flock.vis.N, flock.vis.M)
    for head in range(flock.q.shape[1]):
        score = _listed(flock.q[b, head], flock.k[b, head], at).to(dtype) / d**0.5
        if left is not None and right is not None:
            own, theirs = (
                t[b if len(t) > 1 else 0, head if t.shape[1] > 1 else 0] for t in (left, right)
            )
            score = score + _listed(own, theirs, at).to(dtype)
        total.append(score)
    scores = torch.stack(total)
    tau = flock.rules.at("tau_score", scores[None])
    return (scores[None] / tau)[0].masked_fill(index < 0, -torch.inf)


def _listed(x: Tensor, y: Tensor, at: Int[Tensor, "N L"]) -> Float[Tensor, "N L"]:
    """x_i · y_j of listed j."""
    return (x[:, None] * y.index_select(0, at.flatten()).unflatten(0, at.shape)).sum(-1)


def _divergence(
    flock: Flock, scope: FlockScope, h_q: Tensor, h_k: Tensor, rows: Int[Tensor, "n"]
) -> tuple[Float[Tensor, "B A n"], Bool[Tensor, "B A n"]]:
    """(KL of some rows, or 0; which rows count)."""
    part = flock.rows(rows)
    weights, S = far_weights(part, replace(scope, vis=part.vis), h_q.shape[1] == 1)
    mass = weights.sum(-1, keepdim=True)
    valid = mass[..., 0] > 0
    vis = part.vis
    if vis.by_key_only and not vis.cross:  # padding
        valid = valid & vis.self_visible.any(1, keepdim=True)
    p = weights / mass.clamp_min(torch.finfo(mass.dtype).tiny)
    g = affinities(replace(part, h_q=h_q.index_select(-2, rows), h_k=h_k))
    log = g.masked_fill(~S, torch.finfo(g.dtype).min / 2).log_softmax(-1).masked_fill(~S, 0)
    kl = (torch.xlogy(p, p) - p * log).sum(-1)
    return torch.where(valid, kl, 0), valid


def affinities(flock: Flock) -> Float[Tensor, "B A N M"]:
    """g_ij."""
    x, y = flock.affinity_factors
    g = x @ y.mT
    if flock.affinity_by_distance is None:
        return g
    return g + at_distance(flock.affinity_by_distance, flock.vis.p[:, None] - flock.vis.j)


@torch.no_grad()
def far_weights(
    flock: Flock, scope: FlockScope, mean: bool
) -> tuple[Float[Tensor, "B A N M"], Bool[Tensor, "#B #A N M"]]:
    """(the weights at the keys S(i), S as a matrix); `mean`: over the heads."""
    flock = flock.narrowed()
    weights = head_weights(flock)
    S = flock.vis.visible & scope.outside.visible
    if mean:
        weights, S = weights.mean(1, keepdim=True), S.any(1, keepdim=True)
    return weights.masked_fill(~S, 0), S


@torch.no_grad()
def head_weights(flock: Flock) -> Float[Tensor, "B H N M"]:
    """A, of every head. Without an active rule only the base score and biases are computed."""
    if flock.rules.on:
        return dense(flock)[1].weights
    flock = flock.with_affinity_in_bias()
    total = (flock.q @ flock.k.mT).to(flock.accum_dtype) / flock.q.shape[-1] ** 0.5
    if flock.other is not None:
        assert flock.other_dense is not None
        total = total + flock.other_dense.to(total.dtype)
    return flock.weights(total / flock.rules.at("tau_score", total))
