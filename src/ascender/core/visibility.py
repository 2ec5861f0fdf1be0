"""Visibility: which keys each query may attend to.

    p(i) = i + (M − N)                       the key position of query i
    V(i) = { j : every mask allows j }       causal: j ≤ p(i)
                                             window: |p(i) − j| ≤ w, or j < g, or p(i) < g
                                             beyond: |p(i) − j| > w and j ≥ g (the far keys)
    P(i) = V(i) \\ {p(i)}                     the flockmates; in cross-attention P(i) = V(i)

All code that follows uses this object; nothing else in the package reads masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.kernels import gpu

CHUNK = 256  # rows of V written out at once
GPU_CHUNK = 1 << 28  # truth values of V written out at once on a GPU


@dataclass(frozen=True)
class Visibility:
    """p and j are positions: (N,) and (M,), or with leading axes that broadcast (blocks)."""

    p: Int[Tensor, "... N"]
    j: Int[Tensor, "... M"]
    causal: bool = False
    window: int | None = None
    n_global: int = 0
    mask: Bool[Tensor, "#B #H #N M"] | None = None  # each of b, h, n is full or 1
    cross: bool = False
    beyond: int | None = None
    first: int | None = None  # p[0], where the host knows it and p counts up from there
    cu: Int[Tensor, "S1"] | None = None  # packed sequences: s has the tokens cu[s] … cu[s+1] − 1
    longest: int = 0  # of packed sequences

    @staticmethod
    def of(N: int, M: int, *, device: torch.device | str = "cpu", **kinds) -> Visibility:  # type: ignore[no-untyped-def]
        """The usual case: keys 0 … M−1, queries at their tail."""
        j = torch.arange(M, device=device)
        offset = 0 if kinds.get("cross") else M - N
        p = torch.arange(offset, offset + N, device=device)
        return Visibility(p, j, first=offset, **kinds)

    @property
    def N(self) -> int:
        return self.p.shape[-1]

    @property
    def M(self) -> int:
        return self.j.shape[-1]

    @property
    def by_key_only(self) -> bool:
        """True where the mask is padding: the same for every query."""
        return self.mask is None or self.mask.shape[-2] == 1

    @lazy
    def sequence(self) -> Int[Tensor, "M"]:
        """The sequence of each packed token."""
        assert self.cu is not None
        return torch.searchsorted(self.cu[1:].long(), self.j, right=True)

    @lazy
    def start(self) -> Int[Tensor, "M"]:
        """The first token of the sequence of each packed token."""
        assert self.cu is not None
        return self.cu.long()[self.sequence]

    def _structure(self, p: Tensor, j: Tensor) -> Tensor | None:
        """Causal and window as arithmetic on positions, and packed sequences; None where nothing
        restricts."""
        visible = None
        if self.causal:
            visible = j <= p
        if self.cu is not None:
            same = self.sequence[p] == self.sequence[j]
            visible = same if visible is None else visible & same
        if self.window is not None:
            near = (p - j).abs() <= self.window
            if self.n_global:
                near = near | (j < self.n_global) | (p < self.n_global)
            visible = near if visible is None else visible & near
        if self.beyond is not None and not self.cross:
            far = ((p - j).abs() > self.beyond) & (j >= self.n_global)
            visible = far if visible is None else visible & far
        return visible

    @lazy
    def visible(self) -> Bool[Tensor, "... N M"]:
        """V as a matrix, (b, h, N, M) with b and h possibly 1."""
        visible = self._structure(self.p[..., :, None], self.j[..., None, :])
        if visible is None:
            visible = torch.ones(self.N, self.M, dtype=torch.bool, device=self.p.device)
        if self.mask is not None:
            visible = visible & self.mask
        return visible.reshape((1,) * max(0, 4 - visible.ndim) + visible.shape)

    @lazy
    def count(self) -> Int[Tensor, "#B #H #N 1"]:
        """|V(i)|, (b, h, N or 1, 1): from running sums over the keys, which stand in order; only
        a mask that differs by query is read row by row, in chunks."""
        if self.p.ndim > 1 or self.j.ndim > 1:
            return self.visible.sum(-1, keepdim=True)
        if not self.by_key_only:
            return torch.cat([rows.visible.sum(-1, keepdim=True) for rows in self._chunks()], -2)
        if self.mask is None:
            before = torch.arange(self.M + 1, device=self.j.device).view(1, 1, -1)
        else:
            before = F.pad(self.mask.squeeze(-2).cumsum(-1), (1, 0))

        if self.cu is not None:
            end = self.p + 1 if self.causal else self.cu.long()[self.sequence + 1]
            return (before[..., end] - before[..., self.start]).unsqueeze(-1)

        def upto(place: Tensor) -> Tensor:
            """How many of the keys that the mask allows stand at j ≤ place."""
            return before[..., torch.searchsorted(self.j, place, right=True)].unsqueeze(-1)

        if self.window is None:
            return upto(self.p) if self.causal else before[..., -1:, None]
        p, w, g = self.p, self.window, self.n_global
        last = p if self.causal else self.j[-1].expand_as(p)
        first = torch.where(p < g, g, (p - w).clamp_min(g))  # the globals are counted separately
        end = torch.where(p < g, last, torch.minimum(p + w, last)).clamp_min(g - 1)
        return upto(end) - upto(first - 1) + upto(last.clamp_max(g - 1))

    @lazy
    def flockmates(self) -> Bool[Tensor, "... N M"]:
        """P as a matrix."""
        if self.cross:
            return self.visible
        return self.visible & (self.p[..., :, None] != self.j[..., None, :])

    @lazy
    def own(self) -> Int[Tensor, "N"]:
        """The index among the keys of each query itself."""
        return torch.searchsorted(self.j, self.p)

    @lazy
    def self_visible(self) -> Bool[Tensor, "#B #H N"]:
        """Whether i is in V(i); without any N×M."""
        if self.cross:
            return torch.zeros(1, 1, self.N, dtype=torch.bool, device=self.p.device)
        if self.mask is None:
            return torch.ones(1, 1, self.N, dtype=torch.bool, device=self.p.device)
        rows, own = self.mask.expand(-1, -1, self.N, -1), self.own.view(1, 1, -1, 1)
        return rows.gather(-1, own.expand(*rows.shape[:2], -1, -1)).squeeze(-1)

    def allows(self, index: Int[Tensor, "#B #H N K"]) -> Bool[Tensor, "#B #H N K"]:
        """Which of the listed keys are in P(i); −1 and indices past M are not."""
        allowed = self.contains(index)
        if self.cross:
            return allowed
        return allowed & (self.j[index.clamp(0, self.M - 1)] != self.p.view(1, 1, -1, 1))

    def contains(self, index: Int[Tensor, "#B #H N K"]) -> Bool[Tensor, "#B #H N K"]:
        """Which of the listed keys are in V(i); −1 and indices past M are not."""
        inside = (index >= 0) & (index < self.M)
        safe = index.clamp(0, self.M - 1)
        j, p = self.j[safe], self.p.view(1, 1, -1, 1)
        visible = self._structure(p, j)
        allowed = inside if visible is None else inside & visible
        if self.mask is not None:
            b = max(index.shape[0], self.mask.shape[0])
            h = max(index.shape[1], self.mask.shape[1])
            rows = self.mask.expand(b, h, self.N, -1)
            allowed = allowed & rows.gather(-1, safe.expand(b, h, -1, -1))
        return allowed

    def rows(self, which: Tensor | slice) -> Visibility:
        """The same keys, some of the queries."""
        mask = self.mask
        if mask is not None and mask.shape[-2] != 1:
            mask = mask[..., which, :]
        if self.cu is not None:  # as a mask: who reads some of the rows need not know of packing
            assert mask is None
            mask = (self.sequence[self.p[which], None] == self.sequence)[None, None]
            return replace(self, p=self.p[which], mask=mask, first=None, cu=None)
        return replace(self, p=self.p[which], mask=mask, first=self._first_of(which))

    def _first_of(self, which: Tensor | slice) -> int | None:
        """`first` of some of the queries."""
        if self.first is None or not isinstance(which, slice):
            return None
        start, _, step = which.indices(self.N)
        return self.first + start if step == 1 else None

    def _chunks(self, each: int = 1, chunk: int | None = None) -> Iterator[Visibility]:
        """Some of the queries at a time, `chunk` or as many as the device likes; `each`: how many
        truth values a pair has, or as many as the mask has."""
        if chunk is None:
            chunk = CHUNK
        if gpu.on_gpu(self.p):
            mask = 1 if self.mask is None else self.mask.shape[0] * self.mask.shape[1]
            chunk = max(CHUNK, GPU_CHUNK // (max(each, mask) * self.M))
        return (self.rows(slice(a, a + chunk)) for a in range(0, self.N, chunk))

    def sees(
        self, keys: Bool[Tensor, "B #H M"], chunk: int | None = None
    ) -> Bool[Tensor, "B #H N"]:
        """Whether row i sees any of the marked keys: counted, or in chunks of rows."""
        if self.by_key_only and self.beyond is None and self.p.ndim == self.j.ndim == 1:
            mask = keys[..., None, :] if self.mask is None else keys[..., None, :] & self.mask
            any_key = replace(self, mask=mask).count.squeeze(-1) > 0
            return any_key.expand(*any_key.shape[:-1], self.N)
        chunks = self._chunks(keys.shape[0] * keys.shape[1], chunk)
        return torch.cat([(rows.visible & keys[..., None, :]).any(-1) for rows in chunks], -1)
