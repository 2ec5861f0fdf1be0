"""Attention with its log-sum-exp on CUDA, by an existing kernel (stock_kernels.py).

Widths are filled up with zeros to multiples of 16. Padding is a bias of −1e30, so that a row that
sees nothing stays finite. Heads of keys or values that several heads of queries share are read
where they lie: the heads of a group become the heads of a batch of groups,

    Q (B, G·r, N, d) → (B·G, r, N, d)        K (B, G, M, d) → (B·G, r, M, d) with stride 0 over r.

The kernels take no gradient of lse; flash.py says how backward handles that.

Not run so far: there was no GPU. tests/core/test_flash_cuda.py checks the numbers with the kernels
replaced by their definition, and their calls on tensors that have shapes only (docs/gpu.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ascender.core.backends import autograd_utils
from ascender.core.backends.stock_kernels import Pass, StockKernel, capability, choose

WIDTH = 16  # columns and keys are filled up to a multiple of it: aligned loads of 16 bytes
HIDDEN = -1e30  # instead of −inf: a row that sees nothing stays finite (float16: the least number)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def attend(
    Q: Float[Tensor, "B H N d"],
    K: Float[Tensor, "B K M d"],
    V: Float[Tensor, "B G M e"],
    causal: bool,
    bias: Float[Tensor, "#B #H #N M"] | None,
    with_lse: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
) -> tuple[Float[Tensor, "B H N e"], Float[Tensor, "B H N"]]:
    """(out, lse) of softmax(Q Kᵀ + bias) V with scale 1; `causal` needs N = M. K and V may have
    fewer heads, which divide those of Q. `with_lse`: what hands the gradient of lse to backward in
    `out`."""
    B, H, e = *Q.shape[:2], V.shape[-1]
    if bias is not None:
        least = max(HIDDEN, torch.finfo(Q.dtype).min)
        bias = F.pad(bias.clamp_min(least), (0, -bias.shape[-1] % WIDTH))
    Q, K, V = (F.pad(t, (0, -t.shape[-1] % WIDTH)).contiguous() for t in (Q, K, V))
    need = Pass(Q.dtype, Q.shape[-1], V.shape[-1], bias is not None, capability(Q.device))
    kernel = choose(need)
    if kernel.one_width:
        width = max(need.d, need.e)
        Q, K, V = (F.pad(t, (0, width - t.shape[-1])) for t in (Q, K, V))
    groups = min(K.shape[1], V.shape[1])
    Q, K, V = (_grouped(t, groups, H) for t in (Q, K, V))
    if bias is not None and groups < H:
        bias = _grouped(bias.expand(B, -1, -1, -1), groups, H)
    if kernel.differentiable:
        out, lse, _ = kernel.forward(Q, K, V, None, causal)
    else:
        out, lse = _Stock.apply(Q, K, V, bias, causal, kernel, with_lse)
    return out.reshape(B, H, *out.shape[2:])[..., :e], lse.reshape(B, H, -1)


def _grouped(t: Float[Tensor, "B h n w"], groups: int, heads: int) -> Float[Tensor, "Bg r n w"]:
    """A batch of groups: (B·groups, heads/groups, n, w), without a copy of shared heads."""
    if groups == heads:
        return t
    B, h, n, w = t.shape
    if h == 1:
        t = t.expand(-1, groups, -1, -1)
    elif h not in (groups, heads):
        t, h = t.repeat_interleave(heads // h, 1), heads
    t = t.reshape(B * groups, -1, n, w)
    return t.expand(-1, heads // groups, -1, -1)


def _expanded(bias: Tensor | None, Q: Tensor, K: Tensor) -> Tensor | None:
    """The bias of every pair as a view; its memory stays one row a batch."""
    if bias is None:
        return None
    return bias[..., : K.shape[-2]].expand(*Q.shape[:3], K.shape[-2])


class _Stock(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool,
        kernel: StockKernel, with_lse: Any,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        out, lse, saved = kernel.forward(Q, K, V, _expanded(bias, Q, K), causal)
        tensors = [t for t in saved if isinstance(t, Tensor)]
        ctx.saved = [t if not isinstance(t, Tensor) else None for t in saved]
        ctx.places = [n for n, t in enumerate(saved) if isinstance(t, Tensor)]
        ctx.save_for_backward(Q, K, V, bias, out, lse, *tensors)
        ctx.causal, ctx.kernel, ctx.with_lse = causal, kernel, with_lse
        ctx.set_materialize_grads(False)
        return out, lse[..., : Q.shape[-2]]

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor | None, g_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        Q, K, V, bias, out, lse, *tensors = ctx.saved_tensors
        saved = list(ctx.saved)
        for place, t in zip(ctx.places, tensors, strict=True):
            saved[place] = t
        g = torch.zeros_like(out) if g is None else g.contiguous()
        if g_lse is not None:
            g, out = ctx.with_lse(g, out, g_lse.unsqueeze(-1).to(lse.dtype))
        grads = ctx.kernel.backward(
            g, Q, K, V, _expanded(bias, Q, K), out, lse, tuple(saved), ctx.causal
        )
        return (*grads, None, None, None, None)
