"""Kernel means and densities on a GPU (centre_pass_kernels.py), as torch operators and one autograd
node; `definition` is the same with a matrix of distances, for tests.

    w_ij = exp(−r_h ‖x_i − y_j‖²)                 lse_i = log Σ_j w_ij
    mean_i = Σ_j w_ij (y_j, ‖y_j‖²) / Σ_j w_ij

over the keys that i sees. A row that sees nothing has mean 0 and lse −∞.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ascender.kernels.gpu import interpreted, power_of_two

ARGUMENTS = "Tensor x, Tensor y, Tensor rate, Tensor? mask, Tensor? cu, bool causal, int longest"
library = torch.library.Library("ascender", "FRAGMENT")
library.define(f"centre_pass({ARGUMENTS}, bool own) -> (Tensor, Tensor)")
library.define(
    f"centre_pass_backward(Tensor grad, Tensor lse, Tensor delta, {ARGUMENTS}) "
    "-> (Tensor, Tensor, Tensor)"
)


def centre_pass(
    x: Tensor, y: Tensor, rate: Tensor, mask: Tensor | None = None, cu: Tensor | None = None, *,
    causal: bool = False, longest: int = 0, own: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(mean (B, H, N, w + 1), lse (B, H, N)) in float32 of x (B, X, N, w), y (B, Y, M, w) and rate
    (H,) = 1/τ²; X and Y divide H. mask, cu, longest: as in main_pass.py. `own`: every row sees a
    key where it is itself."""
    tensors = [None if t is None else t.contiguous() for t in (x, y, rate, mask, cu)]
    return _CentrePass.apply(causal, longest, own, *tensors)


class _CentrePass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, causal: bool, longest: int, own: bool, *tensors: Any
    ) -> tuple[Tensor, Tensor]:
        mean, lse = torch.ops.ascender.centre_pass(*tensors, causal, longest, own)
        ctx.save_for_backward(*tensors, mean, lse)
        ctx.causal, ctx.longest = causal, longest
        ctx.set_materialize_grads(False)
        return mean, lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor | None, grad_lse: Tensor | None) -> tuple[Any, ...]:
        *tensors, mean, lse = ctx.saved_tensors
        x, y = tensors[:2]
        grad = torch.zeros_like(mean) if grad is None else grad.contiguous()
        delta = (grad * mean).sum(-1)
        if grad_lse is not None:
            delta = delta - torch.where(lse == -torch.inf, 0, grad_lse)
        dx, dy, drate = torch.ops.ascender.centre_pass_backward(
            grad, lse, delta, *tensors, ctx.causal, ctx.longest
        )
        dx, dy = (
            d.view(t.shape[0], t.shape[1], -1, *t.shape[2:]).sum(2) for d, t in ((dx, x), (dy, y))
        )
        return None, None, None, dx, dy, drate.sum((0, 2)), None, None


def _heads(
    x: Tensor, y: Tensor, rate: Tensor, mask: Tensor | None, cu: Tensor | None, causal: bool
) -> dict[str, Any]:
    """The constants of the kernels."""
    return {
        "H": rate.numel(), "XH": x.shape[1], "YH": y.shape[1],
        "MH": 1 if mask is None else mask.shape[1], "D": x.shape[-1],
        "BD": power_of_two(x.shape[-1]), "CAUSAL": causal, "HAS_MASK": mask is not None,
        "PACKED": cu is not None,
    }  # fmt: skip


def _inputs(x: Tensor, y: Tensor, rate: Tensor, mask: Tensor | None, cu: Tensor | None) -> Any:
    """The first arguments of the kernels; what is not there is never read."""
    return x, y, rate, rate if mask is None else mask.view(torch.uint8), rate if cu is None else cu


def _sequences(x: Tensor, y: Tensor, cu: Tensor | None, longest: int) -> tuple[int, int, int]:
    if cu is not None:
        return cu.numel() - 1, longest, longest
    return x.shape[0], x.shape[2], y.shape[2]


def _forward(
    x: Tensor, y: Tensor, rate: Tensor, mask: Tensor | None, cu: Tensor | None, causal: bool,
    longest: int, own: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    from ascender.kernels.gpu import centre_pass_kernels as kernels

    mean, lse = _fake_forward(x, y, rate, mask, cu, causal, longest, own)
    if cu is not None:  # rows of no sequence
        mean.zero_()
        lse.zero_()
    count, queries, _ = _sequences(x, y, cu, longest)
    kernels.forward[lambda given: (-(-queries // given["BM"]), count * rate.numel())](
        *_inputs(x, y, rate, mask, cu), mean, lse, x.shape[2], y.shape[2],
        **_heads(x, y, rate, mask, cu, causal), OWN=own,
    )  # fmt: skip
    return mean, lse


def _backward(
    grad: Tensor, lse: Tensor, delta: Tensor, x: Tensor, y: Tensor, rate: Tensor,
    mask: Tensor | None, cu: Tensor | None, causal: bool, longest: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    from ascender.kernels.gpu import centre_pass_kernels as kernels

    dx, dy, drate = _fake_backward(grad, lse, delta, x, y, rate, mask, cu, causal, longest)
    if cu is not None:
        for t in (dx, dy, drate):
            t.zero_()
    options, (count, queries, keys) = (
        _heads(x, y, rate, mask, cu, causal), _sequences(x, y, cu, longest)
    )  # fmt: skip
    count *= rate.numel()
    given = (*_inputs(x, y, rate, mask, cu), grad, lse, delta)
    sizes = (x.shape[2], y.shape[2])
    kernels.keys[lambda t: (-(-keys // t["BN"]), count)](*given, dy, *sizes, **options)
    kernels.queries[lambda t: (-(-queries // t["BM"]), count)](*given, dx, drate, *sizes, **options)
    return dx, dy, drate


def _fake_forward(
    x: Tensor, y: Tensor, rate: Tensor, mask: Tensor | None, cu: Tensor | None, causal: bool,
    longest: int, own: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    B, _, N, w = x.shape
    H = rate.numel()
    return x.new_empty(B, H, N, w + 1), x.new_empty(B, H, N)


def _fake_backward(
    grad: Tensor, lse: Tensor, delta: Tensor, x: Tensor, y: Tensor, rate: Tensor,
    mask: Tensor | None, cu: Tensor | None, causal: bool, longest: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """∂x and ∂y have a part for every head, ∂r one for every row."""
    B, _, N, w = x.shape
    H = rate.numel()
    return x.new_empty(B, H, N, w), y.new_empty(B, H, y.shape[2], w), x.new_empty(B, H, N)


def definition(
    x: Tensor, y: Tensor, rate: Tensor, mask: Tensor | None = None, cu: Tensor | None = None, *,
    causal: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(mean, lse) with a matrix of distances; differentiable."""
    H, N, M = rate.numel(), x.shape[2], y.shape[2]
    x, y = (t.repeat_interleave(H // t.shape[1], 1) for t in (x, y))
    s = -rate.view(-1, 1, 1) * (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1)
    i, j = torch.arange(N, device=x.device)[:, None], torch.arange(M, device=x.device)
    hidden = j > i + M - N if causal else (j < 0) | (i < 0)
    if mask is not None:
        hidden = hidden | ~mask[:, :, None]
    if cu is not None:
        sequence = torch.searchsorted(cu[1:].contiguous(), j, right=True)
        hidden = hidden | (sequence[:, None] != sequence)
    empty = hidden.all(-1)
    s = s.masked_fill(hidden & ~empty[..., None], -torch.inf)
    lse = s.logsumexp(-1)
    w = torch.exp(s - lse[..., None]).masked_fill(hidden, 0)
    mean = w @ torch.cat([y, y.square().sum(-1, keepdim=True)], -1)
    return mean, lse.masked_fill(empty, -torch.inf)


for device in ("CUDA", "CPU") if interpreted() else ("CUDA",):
    library.impl("centre_pass", _forward, device)
    library.impl("centre_pass_backward", _backward, device)
torch.library.register_fake("ascender::centre_pass", _fake_forward, lib=library)
torch.library.register_fake("ascender::centre_pass_backward", _fake_backward, lib=library)
