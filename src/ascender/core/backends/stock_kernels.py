"""Existing attention kernels for CUDA that return the log-sum-exp, and the choice of one for a pass
of the fold.

    fa4        FlashAttention-4 (pip install flash-attn-4), half precision, Hopper and Blackwell
    cudnn      cuDNN, half precision, values narrower than keys, Hopper and later
    flash      aten's FlashAttention-2, half precision, one width for keys and values, Ampere on
    efficient  aten's memory-efficient kernel: every dtype but float64, every width, a bias

`choose` takes the first in this order that supports the pass; ASCENDER_GPU_KERNEL=name takes one by
name. All have scale 1 here, and `causal` with as many queries as keys. Arguments are checked by the
shape functions of torch; none of these kernels has run here, for there was no GPU.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import torch
from torch import Tensor

from ascender.common.validate import lookup

HALVES = (torch.bfloat16, torch.float16)
NAME = "ASCENDER_GPU_KERNEL"
aten = torch.ops.aten  # the tests have definitions in its place
Saved = tuple[Any, ...]


@dataclass(frozen=True)
class Pass:
    """What a pass needs of a kernel: d and e are the widths of keys and values, multiples of 16.
    `capability`: that of the GPU, None where there is none."""

    dtype: torch.dtype
    d: int
    e: int
    biased: bool = False
    capability: tuple[int, int] | None = None


class StockKernel(ABC):
    """One kernel. Tensors are (B, H, tokens, width) and contiguous along the width; K and V may be
    views of stride 0 over heads."""

    name: ClassVar[str]
    dtypes: ClassVar[tuple[torch.dtype, ...]] = HALVES
    least: ClassVar[tuple[int, int]] = (8, 0)  # compute capability
    one_width = False  # whether keys and values must be equally wide
    differentiable = False  # whether forward has a gradient of its own, that of lse included

    def refuses(self, need: Pass) -> str | None:
        """Why it cannot compute a pass, and what it supports; None if it can."""
        if need.dtype not in self.dtypes:
            return f"{need.dtype}; expected {' or '.join(map(str, self.dtypes))}"
        if need.biased:
            return "a padding mask is a bias; expected no mask"
        if need.capability is None:
            return "no GPU to ask for its compute capability"
        if need.capability < self.least:
            at, least = (".".join(map(str, c)) for c in (need.capability, self.least))
            return f"compute capability {at}; expected at least {least}"
        most = self.widest(need)
        if max(need.d, need.e) > most:
            return f"width {max(need.d, need.e)}; expected at most {most}"
        return None

    @abstractmethod
    def widest(self, need: Pass) -> int:
        """The largest width on a GPU."""

    @abstractmethod
    def forward(
        self, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Saved]:
        """(out, lse (B, H, ≥ N) as the kernel returns it, what its backward wants)."""

    def backward(
        self, g: Tensor, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, out: Tensor,
        lse: Tensor, saved: Saved, causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """∂Q, ∂K, ∂V."""
        raise NotImplementedError


class Efficient(StockKernel):
    name = "efficient"
    dtypes = (torch.float32, *HALVES)

    def refuses(self, need: Pass) -> str | None:
        if need.dtype not in self.dtypes:
            return f"{need.dtype}; expected {' or '.join(map(str, self.dtypes))}"
        return None

    def widest(self, need: Pass) -> int:
        return 1 << 16

    def forward(
        self, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Saved]:
        out, lse, *saved = aten._scaled_dot_product_efficient_attention(
            Q, K, V, bias, True, 0.0, causal, scale=1.0
        )
        return out, lse, tuple(saved)

    def backward(
        self, g: Tensor, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, out: Tensor,
        lse: Tensor, saved: Saved, causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        dQ, dK, dV, _ = aten._scaled_dot_product_efficient_attention_backward(
            g, Q, K, V, bias, out, lse, *saved, 0.0, [True, True, True, False], causal, scale=1.0
        )
        return dQ, dK, dV


class Flash(StockKernel):
    name = "flash"
    one_width = True

    def widest(self, need: Pass) -> int:
        """Above 192, backward needs the shared memory of the large GPUs."""
        return 256 if need.capability in ((8, 0), (9, 0), (10, 0)) else 192

    def forward(
        self, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Saved]:
        out, lse, *saved, _ = aten._scaled_dot_product_flash_attention(
            Q, K, V, 0.0, causal, False, scale=1.0
        )
        return out, lse, tuple(saved)

    def backward(
        self, g: Tensor, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, out: Tensor,
        lse: Tensor, saved: Saved, causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        *sizes, seed, offset = saved
        dQ, dK, dV = aten._scaled_dot_product_flash_attention_backward(
            g, Q, K, V, out, lse, *sizes, 0.0, causal, seed, offset, scale=1.0
        )
        return dQ, dK, dV


class Cudnn(StockKernel):
    name = "cudnn"
    least = (9, 0)

    def refuses(self, need: Pass) -> str | None:
        if (reason := super().refuses(need)) is not None:
            return reason
        if need.e >= need.d:
            return f"values of width {need.e}, keys {need.d}; expected values narrower than keys"
        return None

    def widest(self, need: Pass) -> int:
        return 128

    def forward(
        self, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Saved]:
        out, lse, *saved, _ = aten._scaled_dot_product_cudnn_attention(
            Q, K, V, None, True, 0.0, causal, False, scale=1.0
        )
        return out, lse.flatten(2), tuple(saved)

    def backward(
        self, g: Tensor, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, out: Tensor,
        lse: Tensor, saved: Saved, causal: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        *sizes, seed, offset = saved
        dQ, dK, dV = aten._scaled_dot_product_cudnn_attention_backward(
            g, Q, K, V, out, lse.unsqueeze(-1), seed, offset, None, *sizes, 0.0, causal, scale=1.0
        )
        return dQ, dK, dV


class FlashAttention4(StockKernel):
    """flash_attn.cute: (batch, tokens, heads, width), and a gradient of lse."""

    name = "fa4"
    least = (9, 0)
    differentiable = True

    def refuses(self, need: Pass) -> str | None:
        if not installed():
            return 'not installed; expected: pip install "flash-attn-4"'
        return super().refuses(need)

    def widest(self, need: Pass) -> int:
        return 256 if need.capability is not None and need.capability[0] == 9 else 128

    def forward(
        self, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor, Saved]:
        flash_attn_func = import_module("flash_attn.cute").flash_attn_func
        q, k, v = (t.transpose(1, 2) for t in (Q, K, V))
        out, lse = flash_attn_func(q, k, v, softmax_scale=1.0, causal=causal, return_lse=True)
        return out.transpose(1, 2), lse, ()


KERNELS: dict[str, StockKernel] = {
    kernel.name: kernel for kernel in (FlashAttention4(), Cudnn(), Flash(), Efficient())
}


@lru_cache(1)
def installed() -> bool:
    """Whether FlashAttention-4 is installed."""
    return find_spec("flash_attn") is not None and find_spec("flash_attn.cute") is not None


@lru_cache
def capability(device: torch.device) -> tuple[int, int] | None:
    """The compute capability of a GPU."""
    return torch.cuda.get_device_capability(device) if torch.cuda.is_available() else None


def choose(need: Pass) -> StockKernel:
    """The first kernel that can compute a pass, or the one that the environment names."""
    if name := os.environ.get(NAME):
        kernel = lookup(NAME, name, KERNELS)
        if reason := kernel.refuses(need):
            able = [n for n, k in KERNELS.items() if k.refuses(need) is None]
            raise ValueError(f"{NAME} = {name!r} cannot: {reason}; or one of {', '.join(able)}")
        return kernel
    return next(kernel for kernel in KERNELS.values() if kernel.refuses(need) is None)
