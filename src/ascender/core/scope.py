"""Flock scope: a query attends to its flock F(i) instead of everything visible
(docs/definition.md, section 8).

    F(i) = V(i) ∩ ( {p(i)} ∪ {j : |p(i) − j| ≤ w} ∪ {j < g} ∪ L_m(i) )      p(i) < g: F(i) = V(i)
    L_m(i)   the far keys: the m members of P(i) outside window and globals that rank highest

In cross-attention there is neither window nor self. Index lists are of keys, −1 = none; a key is
in a list once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core.neighbours import as_mask
from ascender.core.visibility import Visibility
from ascender.kernels import gpu

SCOPES = ("visible", "flock")


@dataclass(frozen=True)
class FarKeys:
    """L_m(i) of another layer, handed to an attention in flock scope as its `neighbours`: it takes
    these far keys and ranks none of its own. N_k(i) is chosen inside the flock as ever."""

    index: Int[Tensor, "B #H N m"]


@dataclass(frozen=True)
class FlockScope:
    """Who is in a flock besides the far keys. `vis` is V: window and globals do not limit it."""

    vis: Visibility
    window: int = 0
    n_global: int = 0

    @lazy
    def outside(self) -> Visibility:
        """P(i) outside window and globals, from which the far keys are chosen."""
        if self.vis.cross:  # no query has a position among the keys
            return self.vis
        return replace(self.vis, beyond=self.window, n_global=self.n_global)

    @property  # not kept: as large as the far keys
    def near(self) -> Int[Tensor, "b h N W"]:
        """Self, window and globals: the members of F(i) that are known without ranking."""
        vis, w = self.vis, self.window
        if vis.cross:
            return torch.full((1, 1, vis.N, 0), -1, device=vis.p.device)
        steps = torch.arange(w + 1 if vis.causal else 2 * w + 1, device=vis.p.device)
        index = torch.searchsorted(vis.j, vis.p - w)[:, None] + steps
        inside = (index < vis.M) & (vis.j[index.clamp_max(vis.M - 1)] <= vis.p[:, None] + w)
        index = index.masked_fill(~inside, -1)
        if g := min(self.n_global, vis.M):
            first = torch.arange(g, device=vis.p.device).expand(vis.N, -1)
            new = (vis.j[:g] < self.n_global) & ((vis.p[:, None] - vis.j[:g]).abs() > w)
            index = torch.cat([index, first.masked_fill(~new, -1)], -1)
        index = index[None, None]
        return torch.where(vis.contains(index), index, -1)

    def lists(self, far: Int[Tensor, "B #H N m"]) -> Int[Tensor, "B #H N L"]:
        """F(i) as lists; of a query that is global itself only a part."""
        near = self.near
        B, H = (max(a, b) for a, b in zip(near.shape[:2], far.shape[:2], strict=True))
        return torch.cat([near.expand(B, H, -1, -1), far.expand(B, H, -1, -1)], -1)

    def mask(self, far: Int[Tensor, "B #H N m"]) -> Bool[Tensor, "B #H N M"]:
        """F as a matrix."""
        flock = as_mask(self.lists(far), self.vis.M)
        if not self.n_global:
            return flock
        return flock | (self.is_global[:, None] & self.vis.visible)

    @property
    def leading(self) -> int | None:
        """How many queries are global, those in front; None where only the device knows."""
        if self.vis.cross or not self.n_global:
            return 0
        first = self.vis.first
        return None if first is None else max(0, min(self.n_global - first, self.vis.N))

    @lazy
    def is_global(self) -> Bool[Tensor, "N"]:
        """Which queries attend to all of V(i)."""
        return self.vis.p < (0 if self.vis.cross else self.n_global)

    def count(self, far: Tensor | tuple[int, ...]) -> Int[Tensor, "#B #H #N 1"]:
        """|F(i)|, without ranking. `far`: the sizes m by head, or given lists."""
        vis = self.vis
        if vis.cross:
            near = torch.zeros_like(vis.count)
        else:
            near = replace(vis, window=self.window, n_global=self.n_global).count
        if isinstance(far, Tensor):
            return near + (far >= 0).sum(-1, keepdim=True)
        m = gpu.filled(far, vis.p).view(1, -1, 1, 1)
        return near + torch.minimum(m, vis.count - near)
