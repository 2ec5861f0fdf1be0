"""Flock scope by index lists: a query reads only the |F(i)| keys of its flock, O(N·|F|) memory.

What dense writes as (N, M) matrices is (N, L) here, L the longest list: products with the listed
keys and sums over them (index_lists.py). The far keys are found by exact top-k in blocks
(neighbours.py); queries that are global themselves attend to all of V(i) and are computed by
dense, a few rows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core import neighbours as nb
from ascender.core.affinity import at_distance
from ascender.core.backends.base import Backend
from ascender.core.backends.decode import Decode, decode
from ascender.core.backends.dense import dense
from ascender.core.backends.index_lists import Lists
from ascender.core.backends.native import NUMBERS, by_head, number_table
from ascender.core.combine import LowRank, RowStats, slope, standardise, to_4d
from ascender.core.flock import Flock
from ascender.core.geometry import kernel, probe
from ascender.core.rules import RULES, alignment, cohesion, separation
from ascender.core.softmax import masked_softmax
from ascender.core.visibility import Visibility
from ascender.kernels import gpu

DECODE = Decode()
VECTOR = 16  # float32 numbers in the widest vector register


def flock_attention(flock: Flock) -> Float[Tensor, "B H N e"]:
    """out = A v over the flocks."""
    if _serves_token(flock):
        return _token(flock)
    scope = flock.scope
    assert scope is not None
    if scope.leading == 0:
        return _over_lists(flock)
    if scope.leading is not None:
        rows = torch.arange(scope.vis.N, device=flock.q.device)
        dense_rows, list_rows = rows[: scope.leading], rows[scope.leading :]
    elif not bool(scope.is_global.any()):
        return _over_lists(flock)
    else:
        dense_rows, list_rows = (
            torch.nonzero(m).flatten() for m in (scope.is_global, ~scope.is_global)
        )
    out = flock.v.new_zeros(*flock.q.shape[:3], flock.v.shape[-1])
    out = out.index_copy(2, dense_rows, _all_visible(flock.rows(dense_rows)))
    if not len(list_rows):
        return out
    return out.index_copy(2, list_rows, _over_lists(flock.rows(list_rows)))


def _all_visible(flock: Flock) -> Float[Tensor, "B H N e"]:
    """Rows that are global, written out; grouped keys stay grouped where decode serves the call."""
    rows = flock.narrowed().with_affinity_in_bias()
    if DECODE.refuses(rows) is None:
        return decode(rows)
    return dense(flock.repeat_kv())[0]


def _over_lists(flock: Flock) -> Float[Tensor, "B H N e"]:
    rows = _ListedRows(flock)
    if _serves(flock, rows.index.shape[-1]):
        return _compiled(flock, rows)
    r, total = flock.rules, rows.base
    if r.active("align"):
        total = total + rows.alignment()
    if r.active("sep"):
        total = total + rows.separation()
    if r.active("coh"):
        total = total + rows.cohesion()
    if flock.affinity_term:
        total = total + r.at("omega_aff", total) * rows.affinity
    if flock.other is not None:
        total = total + rows.other()
    total = total / r.at("tau_score", total)
    weights = (masked_softmax if flock.normalise is None else flock.normalise)(total, rows.valid)
    if flock.dropout:
        weights = F.dropout(weights, flock.dropout)
    return rows.bag(weights, flock.v.to(rows.dtype)).to(flock.v.dtype)


def _serves(flock: Flock, length: int) -> bool:
    """Whether the C kernel computes a call, on a GPU that in Triton; `length` of the lists."""
    there = (
        gpu.has_triton() and flock.q.dtype != torch.float64 and length <= gpu.LONGEST
        if gpu.on_gpu(flock.q)
        else nb.compiled(flock.q.float()) and flock.q.dtype in (torch.float32, torch.bfloat16)
    )
    return (
        FlockLists.compiled
        and there
        and flock.normalise is None
        and not flock.dropout
        and not (flock.rules.separation_scope == "all" and flock.rules.active("sep"))
    )


def _compiled(flock: Flock, rows: _ListedRows) -> Float[Tensor, "B H N e"]:
    """The same by kernels/lists.c, on a GPU by kernels/gpu/list_kernels.py."""
    on_gpu = gpu.on_gpu(flock.q)
    if on_gpu:
        from ascender.kernels.gpu.list_attention import list_attention
    else:
        from ascender.kernels.list_operators import list_attention
    qkv = [t if on_gpu else t.float() for t in (flock.q, flock.k, flock.v)]
    r, vis, H = flock.rules, flock.vis, flock.q.shape[1]
    given = not isinstance(flock.neighbours, str) or flock.by_scores
    plain = flock.bare is None and flock.key_norm is None
    raw = on_gpu and not torch.is_grad_enabled() and not plain  # reads no key that is in no list
    z_q, z_k = flock.z
    h_q, h_k = flock.h_q.float(), flock.h_k.float()
    geometry = [z_q, z_k, h_q, h_k]
    if not on_gpu:
        wide = _whole_vectors(z_k)
        geometry[:2] = wide if z_q is z_k else _whole_vectors(z_q), wide
        geometry = [t.expand(-1, H, -1, -1) for t in geometry]
    numbers = [by_head(r, name, H, z_k) for name in (*NUMBERS, "omega_aff")]
    sizes = r.sizes()
    bias = flock.affinity_by_distance
    tensors = (
        *qkv[:2], flock.bare if raw else None if plain else flock.key_unit, qkv[2],
        *geometry, None if flock.other is None else rows.other(), torch.stack(numbers, 1), bias,
    )  # fmt: skip
    out = list_attention(
        tensors, lists=rows.index, near=rows.near if given and r.needs_neighbours else None,
        sizes=sizes if len(sizes) == H else sizes * H, p=vis.p.int(), j=vis.j.int(),
        tied=flock.affinity == "tied", term=flock.affinity_term, standardise=r.standardise,
        local=r.local_scope == "neighbours", causal=vis.causal, cross=vis.cross,
        **{rule: r.active(rule) for rule in RULES}, **({"raw": raw} if on_gpu else {}),
    )  # fmt: skip
    return out.to(flock.v.dtype)


def _serves_token(flock: Flock) -> bool:
    """Whether a call is one new token that is the last key and sees all keys, with one list for all
    heads and no gradients: the common case of decoding."""
    vis, r, scope = flock.vis, flock.rules, flock.scope
    assert scope is not None
    if not (vis.N == 1 < vis.M and vis.causal and vis.mask is None and vis.window is None):
        return False
    return (
        not vis.cross and not torch.is_grad_enabled() and flock.q.dtype == torch.float32
        and flock.neighbours == "semantic" and flock.affinity == "query-key"
        and (flock.far_keys is None or flock.far_keys.shape[1] == 1)
        and flock.h_q.shape[1] == flock.h_k.shape[1] == len(r.sizes("far")) == len(r.sizes()) == 1
        and flock.other is None and flock.pair_values is None
        and flock.q.device.type == "cpu" and _serves(flock, 0)
        and scope.n_global < vis.M and _is_last(vis)
    )  # fmt: skip


def _is_last(vis: Visibility) -> bool:
    """Whether the keys are at the positions 0 … M − 1 and the query is the last."""
    j = vis.j.numpy()  # ascending
    return bool(j[0] == 0 and j[-1] == len(j) - 1 == vis.p.numpy()[0])


def _token(flock: Flock) -> Float[Tensor, "B H 1 e"]:
    """One new token in C (kernels/list_token.c): reads M·d_a numbers, and k and v of |F| keys."""
    from ascender.kernels.list_operators import one_list_token

    r, H, scope = flock.rules, flock.q.shape[1], flock.scope
    assert scope is not None
    scale = flock.key_scale
    if not (isinstance(scale, Tensor) and scale.ndim == 4):
        scale = torch.as_tensor(scale, dtype=torch.float32).flatten().expand(H).contiguous()
    return one_list_token(
        flock.q, flock.k, flock.v, flock.bare, scale, (flock.z[0], flock.z_lifted),
        (flock.h_q, flock.h_k), number_table(r, H, flock.q, (*NUMBERS, "omega_aff")),
        flock.affinity_by_distance, r.sizes("far")[0] if flock.far_keys is None else flock.far,
        r.sizes()[0], (scope.window, scope.n_global),
        (flock.affinity_term, r.standardise, r.local_scope == "neighbours", *map(r.active, RULES)),
    )  # fmt: skip


def _whole_vectors(z: Float[Tensor, "B Z n z"]) -> Float[Tensor, "B Z n z16"]:
    """z padded with 0 to a multiple of VECTOR columns: the same distances, and a faster kernel."""
    missing = -z.shape[-1] % VECTOR
    return F.pad(z, (0, missing)) if missing else z


class FlockLists(Backend):
    """Flock scope by index lists instead of masks."""

    name = "flock"
    provides = ("columns", "matrix", "rows", "weights")
    lists = True
    grouped = True
    compiled = True  # False: torch operators, as on a machine without a compiler

    def run(
        self, flock: Flock, stats: bool = False
    ) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
        return flock_attention(flock), None

    def refuses(self, flock: Flock) -> str | None:
        if flock.scope is None:
            return "scope is 'visible'; expected scope='flock'"
        return super().refuses(flock)


class _ListedRows:
    """The terms of the scores over the lists of F(i), (B, H, N, L) each."""

    def __init__(self, flock: Flock) -> None:
        assert flock.scope is not None
        self.flock, self.r, self.vis, self.dtype = flock, flock.rules, flock.vis, flock.accum_dtype
        index = flock.scope.lists(flock.far)
        if index.shape[-1] > self.vis.M:  # a key is in a list once, so the rest is −1
            index = index.sort(-1, descending=True).values[..., : self.vis.M]
        self.index: Int[Tensor, "B #H N L"] = index.expand(flock.q.shape[0], -1, -1, -1)
        self.valid: Bool[Tensor, "B #H N L"] = self.index >= 0
        self.z_q, self.z_k = flock.z

    @lazy
    def mates(self) -> Bool[Tensor, "B #H N L"]:
        """All but the query itself."""
        return self.valid if self.vis.cross else self.valid & (self.distance != 0)

    @lazy
    def lists(self) -> Lists:
        return Lists(self.index, self.flock.q.shape[1], self.vis.M)

    def dot(self, x: Tensor, y: Tensor) -> Float[Tensor, "B H N L"]:
        return self.lists.dot(x, y)

    def bag(self, p: Tensor, y: Tensor) -> Float[Tensor, "B H N w"]:
        return self.lists.bag(p.expand(self.lists.shape), y)

    @lazy
    def base(self) -> Float[Tensor, "B H N L"]:
        """q_i·k_j/√d."""
        q, k = self.flock.q.to(self.dtype), self.flock.k.to(self.dtype)
        return self.dot(q / q.shape[-1] ** 0.5, k)

    @lazy
    def affinity(self) -> Float[Tensor, "B H N L"]:
        """g_ij."""
        g = self.dot(*self.flock.affinity_factors)
        table = self.flock.affinity_by_distance
        if table is None:
            return g
        return (g + at_distance(table, self.distance)).masked_fill(~self.valid, 0)

    @lazy
    def distance(self) -> Int[Tensor, "B #H N L"]:
        """p(i) − j."""
        return self.vis.p.view(-1, 1) - self.vis.j[self.index.clamp_min(0)]

    @lazy
    def cosine(self) -> Float[Tensor, "B H N L"]:
        """a_ij."""
        return self.dot(*self.flock.h_unit)

    @lazy
    def near(self) -> Bool[Tensor, "B #H N L"]:
        """Which of the list are in N_k(i)."""
        flock = self.flock
        if isinstance(flock.neighbours, Tensor):
            given = nb.given(flock.neighbours, self.vis)
            hit = self.index[..., :, None] == given[..., None, :]
            return (hit & (given >= 0)[..., None, :]).any(-1)
        if flock.by_scores:
            rank = self.base
        else:
            rank = self.cosine if flock.affinity == "tied" else self.affinity
        rank = rank.detach().clone()
        if self.vis.causal:
            age = nb.penalty(self.distance, rank.dtype)
            rank = nb.prefer_recent(rank, age, flock.by_cosine)
        rank = rank.masked_fill(~self.mates, -torch.inf)
        return nb.as_mask(nb.best(rank, self.r.sizes()), rank.shape[-1])

    @lazy
    def d2(self) -> Float[Tensor, "B H N L"]:
        """‖z_i − z_j‖²."""
        zz = self.z_q.square().sum(-1, keepdim=True)
        return (zz - self.dot(probe(self.z_q), self.flock.z_lifted)).clamp_min(0)

    def add(self, rule: str, gate: Tensor, score: Tensor) -> Float[Tensor, "B H N L"]:
        """λ ω gate_i r̃_ij (or r_ij), 0 outside the list."""
        valid, strength = self.valid, self.r.strength(rule, score)
        score = standardise(score, valid) if self.r.standardise else score.masked_fill(~valid, 0)
        return slope(strength, gate, None) * score

    def alignment(self) -> Float[Tensor, "B H N L"]:
        keys = self.flock.key_unit
        s = self.bag(self.near.to(keys.dtype), keys)
        count = self.near.sum(-1, keepdim=True).to(keys.dtype)
        u, gate = alignment.heading(s, count, self.r.at("alpha_align", s))
        return self.add("align", gate, self.dot(u, keys))

    def separation(self) -> Float[Tensor, "B H N L"]:
        r = self.r
        w = kernel(self.d2, r.at("tau_sep", self.d2))
        crowd = self.near if r.local_scope == "neighbours" else self.mates
        rho = w.masked_fill(~crowd, 0).sum(-1, keepdim=True)
        phi = separation.penalty(w, self.cosine, r.at("delta", w))
        phi = phi.masked_fill(~(self.mates if r.separation_scope == "all" else self.near), 0)
        return self.add("sep", separation.crowding(rho, r.at("kappa", rho)), -phi)

    def cohesion(self) -> Float[Tensor, "B H N L"]:
        tau = self.r.at("tau_coh", self.d2)
        around = self.valid
        if self.r.local_scope == "neighbours":
            around = self.near if self.vis.cross else self.near | (self.valid & ~self.mates)
        w = masked_softmax(-self.d2 / tau**2, around)
        mean = self.bag(w, self.flock.z_lifted)
        c = mean[..., :-1]
        gate = cohesion.gate(c, mean[..., -1:], self.r.at("alpha_coh", c))
        gate = gate * around.any(-1, keepdim=True)
        # −‖z_j − c‖² + ‖c‖²: what is constant along the row falls out where it is standardised
        score = self.dot(probe(c), self.flock.z_lifted)
        if not self.r.standardise:
            score = score - c.square().sum(-1, keepdim=True)
        return self.add("coh", gate, score / tau)

    def other(self) -> Float[Tensor, "B H N L"]:
        """The additive bias at the listed keys."""
        other = self.flock.other
        B, H, N, L = self.lists.shape
        if isinstance(other, LowRank):
            sides = (to_4d(side).to(self.dtype) for side in (other.left, other.right))
            return self.dot(*(side.expand(B, -1, -1, -1) for side in sides))
        assert other is not None
        index = self.index.clamp_min(0).expand(B, H, N, L)
        return to_4d(other).to(self.dtype).expand(B, H, N, -1).gather(-1, index)
