"""Stock flash attention with its log-sum-exp, differentiable in both.

    s_ij = Q_i·K_j      lse_i = log Σ_j exp s_ij      out_i = Σ_j exp(s_ij − lse_i) V_j

Stock kernels return lse but take no gradient for it. Their backward uses `out` only in
Δ_i = grad_out_i · out_i, and ∂L/∂s_ij = p_ij (grad_out_i·V_j − Δ_i + grad_lse_i). Where V is
narrower than Q it is filled up with zeros, which the kernel asks for anyway; in one of those
columns backward sets grad_out to 1 and out to −grad_lse, and the kernel itself computes
Δ_i − grad_lse_i. Where V has no such column, handing in

    out_i − grad_lse_i · g_i / ‖g_i‖²,   g = grad_out,

instead of out_i does the same. A row with g_i = 0 gets a vanishing one first. Where V is much
narrower, flash_narrow_values.py does without the zeros. On CUDA the kernel is that of
flash_cuda.py.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core.backends import autograd_utils, flash_cuda
from ascender.core.backends import flash_narrow_values as narrow_values
from ascender.kernels import gpu

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def attend(
    Q: Float[Tensor, "B H N d"],
    K: Float[Tensor, "B K M d"],
    V: Float[Tensor, "B G M e"],
    *,
    causal: bool = False,
    bias: Float[Tensor, "#B #H #N M"] | None = None,
) -> tuple[Float[Tensor, "B H N e"], Float[Tensor, "B H N"]]:
    """(out, lse) of softmax(Q Kᵀ + bias) V with scale 1. `causal` needs N = M; `bias` is a
    constant (0 or −inf) in Q's dtype, e ≤ d. A row that sees nothing has out = 0; its lse is
    meaningless. K and V have as many heads as Q; on a GPU fewer that heads of Q share."""
    e = V.shape[-1]
    if gpu.on_gpu(Q):
        return flash_cuda.attend(Q, K, V, causal, bias, _with_lse)
    if e > Q.shape[-1]:
        Q, K = (torch.nn.functional.pad(t, (0, e - t.shape[-1])) for t in (Q, K))
    out, lse = _Flash.apply(Q, K, V, bias, causal)
    return out, lse


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, Q: Tensor, K: Tensor, V: Tensor, bias: Tensor | None, causal: bool
    ) -> tuple[Tensor, Tensor]:
        ctx.e, ctx.causal = V.shape[-1], causal
        sizes = Q.shape[-1], ctx.e, Q.shape[-2], K.shape[-2]
        ctx.narrow = bias is None and narrow_values.serves(*sizes)
        ctx.set_materialize_grads(False)
        if ctx.narrow:
            out, lse = narrow_values.forward(Q, K, V, causal)
            ctx.save_for_backward(Q, K, V, bias, out, lse)
            return out, lse
        if ctx.e < Q.shape[-1]:
            V = torch.nn.functional.pad(V, (0, Q.shape[-1] - ctx.e))
        out, lse = _forward(Q, K, V, 0.0, causal, attn_mask=bias, scale=1.0)
        ctx.save_for_backward(Q, K, V, bias, out, lse)
        return out[..., : ctx.e], lse

    @staticmethod
    @autograd_utils.backward
    def backward(ctx: Any, g: Tensor | None, g_lse: Tensor | None) -> tuple[Tensor | None, ...]:
        Q, K, V, bias, out, lse = ctx.saved_tensors
        if ctx.narrow:
            return (
                *narrow_values.backward(g, g_lse, Q, K, V, out, lse, ctx.causal),
                None,
                None,
            )
        if ctx.e < out.shape[-1]:
            g, out = _in_spare(g, out, g_lse, ctx.e)
        elif g is None:
            g = torch.zeros_like(out)
        if g_lse is not None and ctx.e == out.shape[-1]:
            g, out = _with_lse(g.contiguous(), out, g_lse.unsqueeze(-1).to(lse.dtype))
        dQ, dK, dV = _backward(g, Q, K, V, out, lse, 0.0, ctx.causal, attn_mask=bias, scale=1.0)
        return dQ, dK, dV[..., : ctx.e], None, None


def _in_spare(g: Tensor | None, out: Tensor, g_lse: Tensor | None, e: int) -> tuple[Tensor, Tensor]:
    """(g, out) of full width, with 1 · (−grad_lse) in column e. Nobody else sees that column of
    out, so it is written in place, past autograd, which watches the others."""
    filled = torch.zeros_like(out)
    if g is not None:
        filled[..., :e] = g
    if g_lse is not None:
        filled[..., e] = 1
        out.data[..., e] = -g_lse
    return filled, out


def _with_lse(g: Tensor, out: Tensor, g_lse: Tensor) -> tuple[Tensor, Tensor]:
    """(g, out) such that g·out is Δ − grad_lse, row by row, whatever the scale of either."""
    accum_dtype = g.to(g_lse.dtype)
    size = accum_dtype.abs().amax(-1, keepdim=True)
    least = g_lse.abs() * (1e-18 if g.dtype == torch.float64 else 1e-10)
    idle = (size < least) | (size == 0)
    if gpu.on_gpu(g) or bool(idle.any()):
        g = torch.cat([torch.where(idle, least.to(g.dtype), g[..., :1]), g[..., 1:]], -1)
        accum_dtype = g.to(g_lse.dtype)
        size = torch.where(idle, least, size)
    size = torch.where(size == 0, 1, size)
    along = accum_dtype / size
    square = along.square().sum(-1, keepdim=True)
    step = (g_lse / size) / torch.where(square == 0, 1, square)
    return g, (out - step * along).to(out.dtype)
