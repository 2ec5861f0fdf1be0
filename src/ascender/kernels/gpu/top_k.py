"""The k best keys of each query on a GPU (top_k_kernels.py), as a torch operator with the arguments
of kernels/operators.py, which does the same on the CPU. The definition: core/neighbours.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ascender.kernels.gpu import filled, interpreted, keys_of_room, one_room, power_of_two

BLOCK = 32  # keys whose maximum is kept
MAXIMA = 1 << 26  # kept at once: 256 MiB of float32
CANDIDATES = 2048  # of a program
library = torch.library.Library("ascender", "FRAGMENT")
library.define(
    "top_lists(Tensor x, Tensor y, Tensor p, Tensor j, Tensor? mask, int[] sizes, bool bounded, "
    "bool causal, int window, int n_global, bool cross, int beyond, Tensor? bias) -> Tensor"
)


def _top(
    x: Tensor, y: Tensor, p: Tensor, j: Tensor, mask: Tensor | None, sizes: Sequence[int],
    bounded: bool, causal: bool, window: int, n_global: int, cross: bool, beyond: int,
    bias: Tensor | None,
) -> Tensor:  # fmt: skip
    from ascender.kernels.gpu.top_k_kernels import block_max, pick

    x, p, j = (t.contiguous() for t in (x, p, j))
    y = y if one_room([y]) else y.contiguous()  # as a cache has it, with room for more
    (B, _, N, D), M, H = x.shape, y.shape[2], len(sizes)
    K, blocks = min(max(sizes), M), -(-M // BLOCK)
    width = power_of_two(K, least=1)
    if mask is not None:
        mask = mask.to(torch.uint8).contiguous()
    strides = (0, 0, 0) if mask is None else _outer_strides(mask)
    data = (x, y, p, j, x if mask is None else mask, x if bias is None else bias)
    options = {
        "H": H, "XH": x.shape[1], "YH": y.shape[1], "D": D, "W": BLOCK,
        "HAS_MASK": mask is not None, "HAS_BIAS": bias is not None, "BOUNDED": bounded,
        "CAUSAL": causal, "WINDOW": window, "GLOBALS": n_global, "CROSS": cross, "BEYOND": beyond,
    }  # fmt: skip
    BM, found = max(1, CANDIDATES // (width * BLOCK)), []
    step = max(1, MAXIMA // (B * H * blocks))
    for first in range(0, N, step):
        rows = min(step, N - first)
        sizes_of = (first, N, rows, M, keys_of_room(y), *strides)
        maxima = x.new_empty(B, H, rows, blocks)
        block_max[lambda given, rows=rows: (-(-rows // given["BM"]), -(-M // given["BN"]), B * H)](
            *data, maxima, *sizes_of, blocks, **options, BD=power_of_two(D)
        )
        top = maxima.topk(min(width, blocks), -1)
        chosen = x.new_full((B, H, rows, width), -1, dtype=torch.int32)
        chosen[..., : top.indices.shape[-1]] = top.indices.masked_fill(top.values == -torch.inf, -1)
        out = torch.empty_like(chosen)
        pick[(-(-rows // BM), B * H)](*data, chosen, out, *sizes_of, **options, K=width, BM=BM)
        found.append(out)
    index = torch.cat(found, -2)[..., :K].long()
    if len(set(sizes)) > 1:
        rank = torch.arange(K, device=x.device)
        limits = filled(sizes, rank).view(-1, 1, 1)
        index = index.masked_fill(rank >= limits, -1)
    return index


def _outer_strides(mask: Tensor) -> tuple[int, ...]:
    """Strides of batch, head and row, 0 where all have the same."""
    sizes = zip(mask.shape[:3], mask.stride()[:3], strict=True)
    return tuple(0 if size == 1 else stride for size, stride in sizes)


def _fake_top(
    x: Tensor, y: Tensor, p: Tensor, j: Tensor, mask: Tensor | None, sizes: Sequence[int],
    *_: object,
) -> Tensor:  # fmt: skip
    K = min(max(sizes), y.shape[2])
    return x.new_empty((x.shape[0], len(sizes), x.shape[2], K), dtype=torch.int64)


for device in ("CUDA", "CPU") if interpreted() else ("CUDA",):
    library.impl("top_lists", _top, device)
torch.library.register_fake("ascender::top_lists", _fake_top, lib=library)


def top_lists(*inputs: Any) -> Tensor:
    return torch.ops.ascender.top_lists(*inputs)
