"""Attention with its log-sum-exp on CUDA, by PyTorch's memory-efficient kernel.

It is compiled into torch and takes float32 and the half precisions, any width that is a multiple
of eight, values narrower than queries, and a bias next to `causal`; float32 products are as exact
as float32 (three of TF32). It returns lse padded to a multiple of 32 and takes no gradient for it;
flash.py says how backward handles that. Widths are filled up to multiples of 16 with zeros.

Not run so far: there was no GPU. tests/gpu checks the numbers with the kernel replaced by its
definition, and the calls with tensors that have shapes and devices only (docs/gpu.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ascender.core.backends import autograd_utils

WIDTH = 16  # columns and keys are filled up to a multiple of it: aligned loads of 16 bytes
HIDDEN = -1e30  # instead of −inf: a row that sees nothing stays finite (float16: the least number)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _forward(*args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_efficient_attention(*args, **options)


def _backward(*args: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_efficient_attention_backward(*args, **options)


def attend(
    Q: Float[Tensor, "B H N d"],
    K: Float[Tensor, "B H M d"],
    V: Float[Tensor, "B H M e"],
    causal: bool,
    bias: Float[Tensor, "#B #H 1 M"] | None,
    with_lse: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
) -> tuple[Float[Tensor, "B H N e"], Float[Tensor, "B H N"]]:
    """(out, lse) of softmax(Q Kᵀ + bias) V with scale 1; `causal` needs N = M. `with_lse`: what
    hands the gradient of lse to backward in `out`."""
    if bias is not None:
        bias = F.pad(
            bias.clamp_min(max(HIDDEN, torch.finfo(Q.dtype).min)), (0, -bias.shape[-1] % WIDTH)
        )
    e = V.shape[-1]
    Q, K, V = (F.pad(t, (0, -t.shape[-1] % WIDTH)).contiguous() for t in (Q, K, V))
    out, lse = _Efficient.apply(Q, K, V, bias, causal, with_lse)
    return out[..., :e], lse


def _expanded(bias: Tensor | None, Q: Tensor, K: Tensor) -> Tensor | None:
    """The bias of every pair as a view; its memory stays one row a batch."""
    if bias is None:
        return None
    return bias[..., : K.shape[-2]].expand(*Q.shape[:3], K.shape[-2])


class _Efficient(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool, with_lse: Any
    ) -> tuple[Tensor, Tensor]:
        shown = _expanded(bias, Q, K)
        out, lse, seed, offset = _forward(Q, K, V, shown, True, 0.0, causal, scale=1.0)
        ctx.save_for_backward(Q, K, V, bias, out, lse, seed, offset)
        ctx.causal, ctx.with_lse = causal, with_lse
        ctx.set_materialize_grads(False)
        return out, lse[..., : Q.shape[-2]]

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor | None, g_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        Q, K, V, bias, out, lse, seed, offset = ctx.saved_tensors
        g = torch.zeros_like(out) if g is None else g.contiguous()
        if g_lse is not None:
            g, out = ctx.with_lse(g, out, g_lse.unsqueeze(-1).to(lse.dtype))
        dQ, dK, dV, _ = _backward(
            g, Q, K, V, _expanded(bias, Q, K), out, lse, seed, offset, 0.0,
            [True, True, True, False], ctx.causal, scale=1.0,
        )  # fmt: skip
        return dQ, dK, dV, None, None, None
