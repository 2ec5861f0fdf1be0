"""Running sums over chunks, restarting at every sequence (running_sums_kernels.py), as a torch
operator and an autograd node; `definition` is the same as a loop, for tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ascender.kernels.gpu import interpreted

library = torch.library.Library("ascender", "FRAGMENT")
library.define("running_sums(Tensor x, Tensor begins, bool reverse) -> Tensor")


def running_sums(x: Tensor, begins: Tensor) -> Tensor:
    """out_c = Σ x_b over the chunks b < c of the same sequence, of x (rows, C, W) in float32;
    begins (C,) of bool: where a sequence begins."""
    return _RunningSums.apply(x.contiguous(), begins.contiguous())


class _RunningSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, begins: Tensor) -> Tensor:
        ctx.save_for_backward(begins)
        return torch.ops.ascender.running_sums(x, begins, False)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (begins,) = ctx.saved_tensors
        return torch.ops.ascender.running_sums(grad.contiguous(), begins, True), None


def _run(x: Tensor, begins: Tensor, reverse: bool) -> Tensor:
    from ascender.kernels.gpu.running_sums_kernels import running

    out, (rows, C, W) = torch.empty_like(x), x.shape
    grid = lambda given: (-(-W // given["BW"]), rows)  # noqa: E731
    running[grid](x, begins.view(torch.uint8), out, C, W, REVERSE=reverse)
    return out


def _fake(x: Tensor, begins: Tensor, reverse: bool) -> Tensor:
    return torch.empty_like(x)


def definition(x: Tensor, begins: Tensor) -> Tensor:
    """Chunk by chunk; differentiable."""
    out, sums = [], torch.zeros_like(x[:, 0])
    for c, begin in enumerate(begins.tolist()):
        sums = torch.zeros_like(sums) if begin else sums
        out.append(sums)
        sums = sums + x[:, c]
    return torch.stack(out, 1)


for device in ("CUDA", "CPU") if interpreted() else ("CUDA",):
    library.impl("running_sums", _run, device)
torch.library.register_fake("ascender::running_sums", _fake, lib=library)
