"""Sums and products over index lists, without gathering (N, K, d) tensors.

With l running over the list of row i:

    dot(x, y)_il = x_i · y_l               a sampled product on a CSR pattern
    bag(p, y)_i  = Σ_l p_il y_l            a weighted embedding bag

Each is the other's gradient: ∂dot/∂x is a bag of y, ∂bag/∂p is a dot, and the gradient by y is
a bag over the transposed lists, which are sorted once and kept.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core.backends import autograd_utils
from ascender.core.combine import repeat_kv
from ascender.kernels import gpu

GPU_CHUNK = 1 << 26  # numbers gathered at once on a GPU that has no Triton


class Entries:
    """The entries of index lists as rows of y (B, G, M, ·) with the heads flattened, each head of y
    serving H/G heads of rows. `segments`: how many rows y has."""

    def __init__(self, lists: Lists, groups: int) -> None:
        (B, H, _, K), self.keys = lists.shape, lists.keys
        self.segments = B * groups * lists.keys
        heads = torch.arange(H, device=lists.index.device) // (H // groups)
        base = torch.arange(B, device=heads.device)[:, None] * groups + heads
        base = base.view(B, H, 1, 1) * lists.keys
        self.flat: Int[Tensor, "R K"] = (lists.index.clamp_min(0) + base).reshape(-1, K)

    @lazy
    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """(order, row, offsets): the entries sorted by key, the row each came from, and where
        each key's entries begin."""
        key, order = self.flat.flatten().int().sort(stable=True)
        every = torch.arange(self.segments, device=key.device, dtype=torch.int32)
        return order, order // self.flat.shape[1], torch.searchsorted(key, every)

    @lazy
    def starts(self) -> Int[Tensor, "R1"]:
        R, K = self.flat.shape
        return torch.arange(0, R * K + 1, K, device=self.flat.device)


class Lists:
    """Index lists (B, h, N, K), −1 = none, over M keys, for H heads of rows; y may have fewer."""

    def __init__(self, index: Int[Tensor, "B #H N K"], heads: int, keys: int) -> None:
        if index.shape[-1] > keys:  # a list names a key once, so the rest is −1
            index = index.sort(-1, descending=True).values[..., :keys]
        self.valid: Bool[Tensor, "B #H N K"] = index >= 0
        B, _, N, K = index.shape
        self.shape = (B, heads, N, K)
        self.keys = keys
        self.all_valid = not gpu.on_gpu(index) and bool(self.valid.all())
        self.index = index
        self._entries: dict[int, Entries] = {}

    @lazy
    def count(self) -> Int[Tensor, "B h N 1"]:
        return self.valid.sum(-1, keepdim=True)

    def entries(self, groups: int) -> Entries:
        """For y of so many heads."""
        if groups not in self._entries:
            self._entries[groups] = Entries(self, groups)
        return self._entries[groups]

    def _rows(self, x: Float[Tensor, "B #H n w"]) -> Float[Tensor, "R w"]:
        B, H = self.shape[:2]
        return x.expand(B, H, -1, -1).reshape(-1, x.shape[-1])

    def _keys(self, y: Float[Tensor, "B G M w"]) -> tuple[Float[Tensor, "S w"], Entries]:
        """y by row, and the entries that point into it. On a GPU heads that share y read it where
        it lies; on the CPU they sort their entries once, for as many heads of y."""
        B, H = self.shape[:2]
        if not gpu.on_gpu(y):
            y = repeat_kv(y, H)
        y = y.expand(B, -1, -1, -1)
        return y.reshape(-1, y.shape[-1]), self.entries(y.shape[1])

    def masked(self, p: Float[Tensor, "B H N K"]) -> Float[Tensor, "B H N K"]:
        """p, 0 where the list has no entry."""
        return p if self.all_valid else p * self.valid

    def dot(
        self, x: Float[Tensor, "B #H N w"], y: Float[Tensor, "B G M w"]
    ) -> Float[Tensor, "B H N K"]:
        """x_i · y_l, 0 where there is no l."""
        flat = _Dot.apply(self._rows(x), *self._keys(y))
        return self.masked(flat.view(self.shape))

    def bag(
        self, p: Float[Tensor, "B H N K"] | None, y: Float[Tensor, "B G M w"]
    ) -> Float[Tensor, "B H N w"]:
        """Σ_l p_il y_l; p = None counts every entry once."""
        if p is None and not self.all_valid:
            p = self.valid.to(y.dtype).expand(self.shape)
        if p is not None:
            p = self.masked(p).flatten(0, 2)
        return _Bag.apply(p, *self._keys(y)).view(*self.shape[:3], -1)


def _triton(t: Tensor) -> bool:
    """Whether the kernels of kernels/gpu/list_sums.py compute the sums."""
    return gpu.on_gpu(t) and gpu.has_triton() and t.dtype != torch.float64


def _dot(x: Tensor, y: Tensor, entries: Entries) -> Tensor:
    if _triton(x):
        from ascender.kernels.gpu import list_sums

        return list_sums.dot(x, y, entries.flat)
    if gpu.on_gpu(x):  # sampled products of CUDA know no half precision, and need a sparse tensor
        step = max(1, GPU_CHUNK // (entries.flat.shape[1] * x.shape[-1]))
        parts = zip(x.split(step), entries.flat.split(step), strict=True)
        return torch.cat([(y[index] @ row.unsqueeze(-1)).squeeze(-1) for row, index in parts])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CSR support is called beta; this is all we use of it
        pattern = torch.sparse_csr_tensor(
            entries.starts,
            entries.flat.flatten(),
            x.new_zeros(entries.flat.numel()),
            size=(x.shape[0], y.shape[0]),
            check_invariants=False,
        )
    return torch.sparse.sampled_addmm(pattern, x, y.t(), beta=0.0).values().view_as(entries.flat)


def _bag(p: Tensor | None, y: Tensor, entries: Entries) -> Tensor:
    if _triton(y):
        from ascender.kernels.gpu import list_sums

        return list_sums.bag(p, y, entries.flat)
    return F.embedding_bag(entries.flat, y, mode="sum", per_sample_weights=p)


def _bag_transposed(p: Tensor | None, x: Tensor, entries: Entries) -> Tensor:
    order, row, first = entries.transposed
    if _triton(x):
        from ascender.kernels.gpu import list_sums

        return list_sums.bag_transposed(p, x, order, row, first)
    weights = None if p is None else p.reshape(-1)[order]
    return F.embedding_bag(row, x, first, mode="sum", per_sample_weights=weights)


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, entries: Entries) -> Tensor:
        return _dot(x.contiguous(), y.contiguous(), entries)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, y, ctx.entries = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        g = g.contiguous()
        dx = _bag(g, y.contiguous(), ctx.entries) if ctx.needs_input_grad[0] else None
        dy = _bag_transposed(g, x.contiguous(), ctx.entries) if ctx.needs_input_grad[1] else None
        return dx, dy, None


class _Bag(torch.autograd.Function):
    @staticmethod
    def forward(p: Tensor | None, y: Tensor, entries: Entries) -> Tensor:
        return _bag(p, y.contiguous(), entries)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        p, y, ctx.entries = inputs
        ctx.save_for_backward(p, y)

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        p, y = ctx.saved_tensors
        g = g.contiguous()
        dp = _dot(g, y.contiguous(), ctx.entries) if ctx.needs_input_grad[0] else None
        dy = _bag_transposed(p, g, ctx.entries) if ctx.needs_input_grad[1] else None
        return dp, dy, None
