"""Sums and products over index lists on a GPU (list_sums_kernels.py), as torch operators. What
they compute and their gradients: core/backends/index_lists.py."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ascender.kernels.gpu import interpreted, power_of_two

library = torch.library.Library("ascender", "FRAGMENT")
library.define("list_dot(Tensor x, Tensor y, Tensor flat) -> Tensor")
library.define("list_bag(Tensor? p, Tensor y, Tensor flat) -> Tensor")
library.define(
    "list_bag_transposed(Tensor? p, Tensor x, Tensor order, Tensor row, Tensor first) -> Tensor"
)


def _blocks(rows: int) -> Callable[[dict[str, int]], tuple[int]]:
    return lambda given: (-(-rows // given["BR"]),)


def _dot(x: Tensor, y: Tensor, flat: Tensor) -> Tensor:
    from ascender.kernels.gpu import list_sums_kernels as kernels

    out, (R, K), w = _fake_dot(x, y, flat), flat.shape, x.shape[-1]
    kernels.dot[_blocks(R)](x, y, flat, out, R, K, w, BW=power_of_two(w))
    return out


def _bag(p: Tensor | None, y: Tensor, flat: Tensor) -> Tensor:
    from ascender.kernels.gpu import list_sums_kernels as kernels

    out, (R, K), w = _fake_bag(p, y, flat), flat.shape, y.shape[-1]
    weights = {"HAS_P": p is not None, "BW": power_of_two(w)}
    kernels.bag[_blocks(R)](y if p is None else p, y, flat, out, R, K, w, **weights)
    return out


def _bag_transposed(
    p: Tensor | None, x: Tensor, order: Tensor, row: Tensor, first: Tensor
) -> Tensor:
    from ascender.kernels.gpu import list_sums_kernels as kernels

    out, S, w = _fake_bag_transposed(p, x, order, row, first), first.numel(), x.shape[-1]
    weights = {"HAS_P": p is not None, "BW": power_of_two(w)}
    kernels.bag_transposed[(S,)](
        x if p is None else p, x, order, row, first, out, S, order.numel(), w, **weights
    )
    return out


def _fake_dot(x: Tensor, y: Tensor, flat: Tensor) -> Tensor:
    return x.new_empty(flat.shape)


def _fake_bag(p: Tensor | None, y: Tensor, flat: Tensor) -> Tensor:
    return y.new_empty(flat.shape[0], y.shape[-1])


def _fake_bag_transposed(
    p: Tensor | None, x: Tensor, order: Tensor, row: Tensor, first: Tensor
) -> Tensor:
    return x.new_empty(first.numel(), x.shape[-1])


for name, run, fake in (
    ("list_dot", _dot, _fake_dot),
    ("list_bag", _bag, _fake_bag),
    ("list_bag_transposed", _bag_transposed, _fake_bag_transposed),
):
    for device in ("CUDA", "CPU") if interpreted() else ("CUDA",):
        library.impl(name, run, device)
    torch.library.register_fake(f"ascender::{name}", fake, lib=library)

dot = torch.ops.ascender.list_dot
bag = torch.ops.ascender.list_bag
bag_transposed = torch.ops.ascender.list_bag_transposed
