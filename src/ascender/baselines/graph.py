"""A bias from a graph or a syntax tree: how many edges apart two tokens are.

    β_ij = b[ min(distance(i, j), D) ]       one learned table a head, b = 0: vanilla

D = 1 knows edges only; larger D the distance along the graph (a tree's path length), everything
further sharing the last entry. The edges come as `neighbours`, the same lists ASCender goes by,
so the two differ by one object (neighbours.graph, grid and tree make them). After arXiv 2106.05234.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from ascender.baselines.vanilla import Vanilla
from ascender.checks import lists
from ascender.combine import Bias, add_bias
from ascender.names import check_int
from ascender.neighbours import as_mask
from ascender.slot import Call


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
        edges = lists(call.neighbours, B, H, N)
        assert isinstance(edges, Tensor)
        far = distance(edges[:, :1], self.max_distance)
        own = self.table[torch.arange(H, device=far.device).view(1, -1, 1, 1), far]
        return add_bias(super().bias(call, other), own)


def distance(edges: Int[Tensor, "B 1 N K"], limit: int) -> Int[Tensor, "B 1 N N"]:
    """Edges between two tokens: 0 for itself, limit + 1 where there are more, or no way."""
    N = edges.shape[2]
    step = as_mask(edges, N).float()
    far = torch.full(step.shape, limit + 1, device=edges.device)
    reached = torch.eye(N, device=edges.device).expand_as(step)
    for d in range(limit + 1):
        far = torch.where((reached > 0) & (far > d), d, far)
        reached = ((reached + reached @ step) > 0).float()
    return far
