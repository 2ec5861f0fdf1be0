"""A bias from a graph or a syntax tree: how many edges apart two tokens are.

    β_ij = b[ min(distance(i, j), D) ]       one learned table a head, b = 0: vanilla

D = 1 knows edges only; larger D the distance along the graph (a tree's path length), everything
further sharing the last entry. The edges come as `neighbours`, the same lists as for ASCender,
so the two differ by one object (neighbours.graph, grid and tree make them). After arXiv 2106.05234.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ascender.common.validate import check_int
from ascender.core.backends.autograd_utils import backward
from ascender.core.checks import check_neighbours
from ascender.core.combine import Bias, add_bias
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.call import Call


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
        edges = check_neighbours(call.neighbours, 1 if call.neighbours.ndim == 2 else B, H, N)
        assert isinstance(edges, Tensor)
        own = _ByBucket.apply(self.table, distance(edges[:, :1], self.max_distance))
        return add_bias(super().bias(call, other), own)


@dataclass(frozen=True)
class _Known:
    """Distances that were computed, and for which lists."""

    edges: Int[Tensor, "B 1 N K"]
    limit: int
    far: Int[Tensor, "B 1 N N"]

    def serves(self, edges: Tensor, limit: int) -> bool:
        mine = self.edges
        same = mine.device == edges.device and mine.shape == edges.shape
        return same and limit == self.limit and torch.equal(mine, edges)


_known: deque[_Known] = deque(maxlen=2)  # all layers go by the same lists, and so do all steps


def distance(edges: Int[Tensor, "B 1 N K"], limit: int) -> Int[Tensor, "B 1 N N"]:
    """Edges between two tokens: 0 for itself, limit + 1 where there are more, or no way. The last
    ones are kept."""
    for known in tuple(_known):
        if known.serves(edges, limit):
            return known.far
    far = _search(edges.squeeze(1), limit).unsqueeze(1)
    _known.append(_Known(edges.clone(), limit, far))  # lists may change in place
    return far


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
