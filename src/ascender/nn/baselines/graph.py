"""A bias from a graph or a syntax tree: how many edges apart two tokens are.

    β_ij = b[ min(distance(i, j), D) ]       one learned table a head, b = 0: vanilla

D = 1 knows edges only; larger D the distance along the graph (a tree's path length), everything
further sharing the last entry. The edges come as `neighbours`, the same lists as for ASCender,
so the two differ by one object (neighbours.graph, grid and tree make them). After arXiv 2106.05234.

In a large graph most pairs are far from each other. A softmax does not change by a constant, so
the flash kernel is given b[bucket] − b[far], which is 0 for far pairs, and the gradient of the
table is made of the near pairs alone: dS_ij = A_ij (g_i·v_j − Δ_i) sums to 0 over a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ascender.common.lazy import lazy
from ascender.common.validate import check_int
from ascender.core.backends.autograd_utils import backward
from ascender.core.checks import check_neighbours
from ascender.core.combine import Bias, Parts, add_bias, repeat_kv
from ascender.core.neighbours import inside_transform
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.call import Call
from ascender.nn.slot import ways


class GraphBias(Vanilla):
    """Vanilla attention that knows how far apart tokens are in a given graph."""

    name = "graph"
    decodes = crosses = False  # a graph is given as a whole

    def __init__(self, dim: int, heads: int, *, max_distance: int = 4, **options: Any) -> None:
        check_int("max_distance", max_distance, 1)
        super().__init__(dim, heads, **options)
        self.max_distance = max_distance
        # entries: self, 1 … max_distance edges, further
        self.table = nn.Parameter(torch.empty(heads, max_distance + 2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.table)

    def bias(self, call: Call, other: Bias) -> Bias:
        B, H, N = call.q.shape[:3]
        if not isinstance(call.neighbours, Tensor) or call.vis.cross or N != call.vis.M:
            raise ValueError(
                f"graph attention with neighbours = {call.neighbours!r}, {N} queries and "
                f"{call.vis.M} keys; expected index lists of every token's edges in self-attention"
            )
        check_neighbours(call.neighbours, 1 if call.neighbours.ndim == 2 else B, H, N)
        return super().bias(call, other)  # the table's own is added where the scores are made

    def attend_heads(self, call: Call) -> Float[Tensor, "B H N e"]:
        if self._sparse(call):
            near = self._distances(call).near
            if near is not None:
                T = self.normalizer.temperature
                q = self.scale_query(call.q, lambda: call.vis.count) / (T * call.q.shape[-1] ** 0.5)
                k, v = (repeat_kv(t, self.heads) for t in (call.k, call.v))
                out: Tensor = _NearPairs.apply(q, k, v, self.table / T, near)
                return out
        if not self.normalizer.softmax or "values" in ways(type(call.position)):
            return self.parts(call)[0]  # which adds the table's bias itself
        return super().attend_heads(self._with_bias(call))

    def parts(self, call: Call) -> tuple[Float[Tensor, "B H N e"], Parts]:
        return super().parts(self._with_bias(call))

    def _distances(self, call: Call) -> _Known:
        assert isinstance(call.neighbours, Tensor)
        edges = check_neighbours(
            call.neighbours, 1 if call.neighbours.ndim == 2 else len(call.q), *call.q.shape[1:3]
        )
        assert isinstance(edges, Tensor)
        return known_distances(edges[:, :1], self.max_distance)

    def _with_bias(self, call: Call) -> Call:
        own = _ByBucket.apply(self.table, self._distances(call).far)
        return replace(call, other=add_bias(call.other, own))

    def _sparse(self, call: Call) -> bool:
        """Whether every pair sees each other, in a graph large enough for near pairs to be few."""
        vis, q = call.vis, call.q
        plain = call.other is None and not call.dropout and self.normalizer.softmax
        plain = plain and vis.mask is None and vis.window is None and not vis.causal
        able = q.device.type == "cpu" and q.dtype in (torch.float32, torch.float64)
        return (
            plain and able and vis.N * vis.M > LARGE and "values" not in ways(type(call.position))
            and not inside_transform() and not torch.compiler.is_compiling()
        )  # fmt: skip


LARGE = 1 << 18  # pairs of a graph from which near ones are taken alone
PAIRS = 1 << 13  # whose rows are read at a time
FEW = 0.125  # of all pairs, at most, are then near


@dataclass(frozen=True)
class Near:
    """The pairs up to `limit` edges apart: where they are among (B, N, N), and their buckets."""

    b: Int[Tensor, "P"]
    i: Int[Tensor, "P"]
    j: Int[Tensor, "P"]
    bucket: Int[Tensor, "P"]


@dataclass(frozen=True)
class _Known:
    """Distances that were computed, and for which lists."""

    edges: Int[Tensor, "B 1 N K"]
    limit: int
    far: Int[Tensor, "B 1 N N"]

    @lazy
    def near(self) -> Near | None:
        """The near pairs; None where they are many."""
        b, i, j = (self.far[:, 0] <= self.limit).nonzero(as_tuple=True)
        if len(b) > FEW * self.far.numel():
            return None
        return Near(b, i, j, self.far[b, 0, i, j].long())

    def serves(self, edges: Tensor, limit: int) -> bool:
        mine = self.edges
        same = mine.device == edges.device and mine.shape == edges.shape
        return same and limit == self.limit and torch.equal(mine, edges)


_known: deque[_Known] = deque(maxlen=2)  # all layers go by the same lists, and so do all steps


def distance(edges: Int[Tensor, "B 1 N K"], limit: int) -> Int[Tensor, "B 1 N N"]:
    """Edges between two tokens: 0 for itself, limit + 1 where there are more, or no way."""
    return known_distances(edges, limit).far


def known_distances(edges: Int[Tensor, "B 1 N K"], limit: int) -> _Known:
    """The distances of lists. The last ones are kept."""
    for known in tuple(_known):
        if known.serves(edges, limit):
            return known
    found = _Known(edges.clone(), limit, _search(edges.squeeze(1), limit).unsqueeze(1))
    _known.append(found)  # of a copy: lists may change in place
    return found


def _search(edges: Int[Tensor, "B N K"], limit: int) -> Int[Tensor, "B N N"]:
    """What i reaches in d + 1 steps is what its neighbours reach in d."""
    B, N = edges.shape[:2]
    batch = torch.arange(B, device=edges.device)[:, None]
    slots = edges.masked_fill((edges < 0) | (edges >= N), N).unbind(-1)  # N: none
    reached = torch.eye(N + 1, N, dtype=torch.bool, device=edges.device).repeat(B, 1, 1)
    far = torch.full((B, N, N), limit + 1, dtype=torch.int32, device=edges.device)
    for d in range(limit + 1):
        far.masked_fill_(reached[:, :N] & (far > d), d)
        wider = reached.clone()
        for index in slots:
            wider[:, :N] |= reached[batch, index]
        reached = wider
    return far


class _ByBucket(torch.autograd.Function):
    """table[h, far]: (B, H, N, N). The gradient of an entry is the sum over its pairs, bucket by
    bucket, and not N² additions at random places."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, far: Tensor) -> Tensor:
        ctx.save_for_backward(far)
        ctx.buckets = table.shape[1]
        return (
            table.index_select(1, far.flatten()).unflatten(1, far.shape).transpose(0, 1).squeeze(2)
        )

    @staticmethod
    @backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (far,) = ctx.saved_tensors
        g = g.sum_to_size(len(far), *g.shape[1:]).transpose(0, 1).flatten(1)
        sums = [torch.bincount(far.flatten(), row, ctx.buckets) for row in g]
        return torch.stack(sums).to(g.dtype), None


_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class _NearPairs(torch.autograd.Function):
    """softmax(q kᵀ + b[bucket]) v by the flash kernel on the CPU, whose bias has no gradient: that
    of the table is summed over the near pairs. Head by head, with one matrix of biases."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, table: Tensor, near: Near
    ) -> Float[Tensor, "B H N e"]:
        out, lse = torch.empty_like(v), q.new_empty(q.shape[:3])
        for at, bias, _ in _heads(q, table, near):
            out[at], lse[at] = _forward(q[at], k[at], v[at], 0.0, False, attn_mask=bias, scale=1.0)
        ctx.save_for_backward(q, k, v, table, out, lse)
        ctx.near = near
        return out

    @staticmethod
    @backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        q, k, v, table, out, lse = ctx.saved_tensors
        g, mean = g.contiguous(), (g * out).sum(-1)  # Δ
        grads = [torch.empty_like(t) for t in (q, k, v)]
        of_table = torch.zeros_like(table)
        for at, bias, (i, j, bucket) in _heads(q, table, ctx.near):
            q1, k1, v1, g1, out1, lse1 = (t[at] for t in (q, k, v, g, out, lse))
            made = _backward(g1, q1, k1, v1, out1, lse1, 0.0, False, attn_mask=bias, scale=1.0)
            for grad, of_head in zip(grads, made, strict=True):
                grad[at] = of_head
            head = at[1].start
            score = _products(q1[0, 0], k1[0, 0], i, j) + (table[head] - table[head, -1])[bucket]
            dS = _products(g1[0, 0], v1[0, 0], i, j) - mean[at][0, 0].index_select(0, i)
            dS *= (score - lse1[0, 0].index_select(0, i)).exp()
            of_table[head] += torch.bincount(bucket, dS, table.shape[1]).to(table.dtype)
        of_table[:, -1] -= of_table[:, :-1].sum(-1)
        return grads[0], grads[1], grads[2], of_table, None


def _heads(
    q: Tensor, table: Tensor, near: Near
) -> Iterator[tuple[Any, Tensor, tuple[Tensor, ...]]]:
    """(where it is, b[bucket] − b[far] of every pair, (i, j, bucket) of the near ones) of each
    example and head."""
    B, H, N = q.shape[:3]
    bias, lists = q.new_zeros(1, 1, N, N), int(near.b[-1]) + 1  # every token is near itself
    for batch in range(B):
        own = near.b == batch if lists > 1 else slice(None)
        i, j, bucket = near.i[own], near.j[own], near.bucket[own]
        for head in range(H):
            values = (table[head] - table[head, -1]).to(q.dtype)[bucket]
            bias.view(-1).index_copy_(0, i * N + j, values)
            yield (slice(batch, batch + 1), slice(head, head + 1)), bias, (i, j, bucket)
        bias.view(-1).index_fill_(0, i * N + j, 0)  # other lists, other places


def _products(
    x: Float[Tensor, "N d"], y: Float[Tensor, "N d"], i: Int[Tensor, "P"], j: Int[Tensor, "P"]
) -> Float[Tensor, "P"]:
    """x_i · y_j of some pairs, a cache-full at a time."""
    parts = zip(i.split(PAIRS), j.split(PAIRS), strict=True)
    return torch.cat([(x.index_select(0, a) * y.index_select(0, b)).sum(-1) for a, b in parts])
