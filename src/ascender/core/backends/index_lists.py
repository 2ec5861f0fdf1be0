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
from ascender.kernels import gpu

GPU_CHUNK = 1 << 26  # numbers gathered at once on a GPU that has no Triton


class Lists:
    """Index lists (B, h, N, K), −1 = none, over M keys, for B·H independent heads."""

    def __init__(self, index: Int[Tensor, "B #H N K"], heads: int, keys: int) -> None:
        if index.shape[-1] > keys:  # a list names a key once, so the rest is −1
            index = index.sort(-1, descending=True).values[..., :keys]
        self.valid: Bool[Tensor, "B #H N K"] = index >= 0
        B, _, N, K = index.shape
        self.shape = (B, heads, N, K)
        self.keys = keys
        self.all_valid = not gpu.on_gpu(index) and bool(self.valid.all())
        base = torch.arange(B * heads, device=index.device).view(B, heads, 1, 1) * keys
        self.flat: Int[Tensor, "R K"] = (index.clamp_min(0) + base).reshape(-1, K)

    @lazy
    def count(self) -> Int[Tensor, "B h N 1"]:
        return self.valid.sum(-1, keepdim=True)

    @lazy
    def transposed(self) -> tuple[Tensor, Tensor, Tensor]:
        """(order, row, offsets): the entries sorted by key, the row each came from, and where
        each key's entries begin."""
        B, H, _, K = self.shape
        key, order = self.flat.flatten().int().sort(stable=True)
        first = torch.searchsorted(
            key, torch.arange(B * H * self.keys, device=key.device, dtype=torch.int32)
        )
        return order, order // K, first

    @lazy
    def starts(self) -> Int[Tensor, "R1"]:
        R, K = self.flat.shape
        return torch.arange(0, R * K + 1, K, device=self.flat.device)

    def _rows(self, x: Float[Tensor, "B #H n w"]) -> Float[Tensor, "R w"]:
        B, H = self.shape[:2]
        return x.expand(B, H, -1, -1).reshape(-1, x.shape[-1])

    def masked(self, p: Float[Tensor, "B H N K"]) -> Float[Tensor, "B H N K"]:
        """p, 0 where the list has no entry."""
        return p if self.all_valid else p * self.valid

    def dot(
        self, x: Float[Tensor, "B #H N w"], y: Float[Tensor, "B #H M w"]
    ) -> Float[Tensor, "B H N K"]:
        """x_i · y_l, 0 where there is no l."""
        flat = _Dot.apply(self._rows(x), self._rows(y), self)
        return self.masked(flat.view(self.shape))

    def bag(
        self, p: Float[Tensor, "B H N K"] | None, y: Float[Tensor, "B #H M w"]
    ) -> Float[Tensor, "B H N w"]:
        """Σ_l p_il y_l; p = None counts every entry once."""
        if p is None and not self.all_valid:
            p = self.valid.to(y.dtype).expand(self.shape)
        if p is not None:
            p = self.masked(p).reshape(self.flat.shape)
        return _Bag.apply(p, self._rows(y), self).view(*self.shape[:3], -1)


def _triton(t: Tensor) -> bool:
    """Whether the kernels of kernels/gpu/list_sums.py compute the sums."""
    return gpu.on_gpu(t) and gpu.has_triton() and t.dtype != torch.float64


def _dot(x: Tensor, y: Tensor, lists: Lists) -> Tensor:
    if _triton(x):
        from ascender.kernels.gpu import list_sums

        return list_sums.dot(x, y, lists.flat)
    if gpu.on_gpu(x):  # sampled products of CUDA know no half precision, and need a sparse tensor
        step = max(1, GPU_CHUNK // (lists.flat.shape[1] * x.shape[-1]))
        parts = zip(x.split(step), lists.flat.split(step), strict=True)
        return torch.cat([(y[index] @ row.unsqueeze(-1)).squeeze(-1) for row, index in parts])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CSR support is called beta; this is all we use of it
        pattern = torch.sparse_csr_tensor(
            lists.starts,
            lists.flat.flatten(),
            x.new_zeros(lists.flat.numel()),
            size=(x.shape[0], y.shape[0]),
            check_invariants=False,
        )
    return torch.sparse.sampled_addmm(pattern, x, y.t(), beta=0.0).values().view_as(lists.flat)


def _bag(p: Tensor | None, y: Tensor, lists: Lists) -> Tensor:
    if _triton(y):
        from ascender.kernels.gpu import list_sums

        return list_sums.bag(p, y, lists.flat)
    return F.embedding_bag(lists.flat, y, mode="sum", per_sample_weights=p)


def _bag_transposed(p: Tensor | None, x: Tensor, lists: Lists) -> Tensor:
    order, row, first = lists.transposed
    if _triton(x):
        from ascender.kernels.gpu import list_sums

        return list_sums.bag_transposed(p, x, order, row, first)
    weights = None if p is None else p.reshape(-1)[order]
    return F.embedding_bag(row, x, first, mode="sum", per_sample_weights=weights)


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor, y: Tensor, lists: Lists) -> Tensor:
        return _dot(x.contiguous(), y.contiguous(), lists)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, y, ctx.lists = inputs
        ctx.save_for_backward(x, y)

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        g = g.contiguous()
        dx = _bag(g, y.contiguous(), ctx.lists) if ctx.needs_input_grad[0] else None
        dy = _bag_transposed(g, x.contiguous(), ctx.lists) if ctx.needs_input_grad[1] else None
        return dx, dy, None


class _Bag(torch.autograd.Function):
    @staticmethod
    def forward(p: Tensor | None, y: Tensor, lists: Lists) -> Tensor:
        return _bag(p, y.contiguous(), lists)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        p, y, ctx.lists = inputs
        ctx.save_for_backward(p, y)

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        p, y = ctx.saved_tensors
        g = g.contiguous()
        dp = _dot(g, y.contiguous(), ctx.lists) if ctx.needs_input_grad[0] else None
        dy = _bag_transposed(p, g, ctx.lists) if ctx.needs_input_grad[1] else None
        return dp, dy, None
