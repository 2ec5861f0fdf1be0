"""Attention over index lists on a GPU (list_kernels.py), as torch operators and one autograd node.

ascender::list_attention and its backward have fake implementations, so that what traces or counts
sees ordinary operators. Arguments are those of kernels/list_operators.py, which does the same on
the CPU; q, k, v and k̃ may be of a half precision. Without gradients, keys are read where a cache
has them: in a buffer with room for more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ascender.kernels.gpu import filled, interpreted, keys_of_room, one_room, power_of_two

FLAGS = ("tied", "term", "standardise", "local", "causal", "cross", "raw", "align", "sep", "coh")
INPUTS = (
    "Tensor q, Tensor k, Tensor? unit, Tensor v, Tensor zq, Tensor zk, Tensor hq, Tensor hk, "
    "Tensor? other, Tensor numbers, Tensor? bias, Tensor lists, Tensor? near, Tensor p, Tensor j, "
    "Tensor sizes, bool[] flags"
)
LEARNED = 11  # of these inputs have a gradient
TILE = 2048  # numbers of keys or values gathered at a time: more would not fit into registers
library = torch.library.Library("ascender", "FRAGMENT")
library.define(f"list_attention({INPUTS}) -> Tensor")
library.define(f"list_attention_backward(Tensor grad, {INPUTS}) -> Tensor[]")
Inputs = Sequence[Any]


def _launch(inputs: Inputs, out: Tensor, grad: Tensor, grads: Inputs, backward: bool) -> None:
    from ascender.kernels.gpu.list_kernels import attend

    q, k, unit, v, zq, zk, hq, hk, other, numbers, bias, lists, near, p, j, sizes, flags = inputs
    (B, H, N, D), BL = q.shape, power_of_two(lists.shape[-1])
    widths = {"D": D, "E": v.shape[-1], "DZ": zk.shape[-1], "DA": hk.shape[-1]}
    tensors = (q, k, unit, v, zq, zk, hq, hk, other, bias, numbers, lists, near, p, j, sizes, out)
    attend[(N, B)](
        *(q if t is None else t for t in (*tensors, grad, *grads)), N, keys_of_room(k),
        lists.shape[-1], zk.stride(2), H=H, GROUPS=k.shape[1], ZH=zk.shape[1], AH=hk.shape[1],
        LH=lists.shape[1], **widths, BL=BL, W=max(16, min(32, TILE // BL)),
        BZ=power_of_two(widths["DZ"]), BA=power_of_two(widths["DA"]), HAS_UNIT=unit is not None,
        HAS_OTHER=other is not None, HAS_BIAS=bias is not None, HAS_NEAR=near is not None,
        **{name.upper(): flag for name, flag in zip(FLAGS, flags, strict=True)}, BACKWARD=backward,
    )  # fmt: skip


def _forward(*inputs: Any) -> Tensor:
    out = _fake_forward(*inputs)
    _launch(inputs, out, out, [out] * 11, False)
    return out


def _backward(grad: Tensor, *inputs: Any) -> list[Tensor]:
    grads = _fake_backward(grad, *inputs)
    for t in grads:
        t.zero_()
    by_name = dict(zip(_present(inputs), grads, strict=True))
    names = ("q", "k", "unit", "v", "zq", "zk", "hq", "hk", "other", "bias", "numbers")
    spare = grad.new_zeros(1, dtype=torch.float32)
    _launch(inputs, grad, grad, [by_name.get(n, spare) for n in names], True)
    return grads


def _present(inputs: Inputs) -> list[str]:
    """The inputs that are there and have a gradient."""
    names = ("q", "k", "unit", "v", "zq", "zk", "hq", "hk", "other", "numbers", "bias")
    return [name for name, t in zip(names, inputs, strict=False) if t is not None]


def _fake_forward(*inputs: Any) -> Tensor:
    q, v = inputs[0], inputs[3]
    return v.new_empty(*q.shape[:3], v.shape[-1])


def _fake_backward(grad: Tensor, *inputs: Any) -> list[Tensor]:
    """Buffers of float32; those of z_q and h_q have a part for every head, those of the numbers
    one for every row."""
    B, H, N = inputs[0].shape[:3]
    shapes = {
        name: t.shape for name, t in zip(_present(inputs), filter(_there, inputs), strict=False)
    }
    for name in ("zq", "hq"):
        shapes[name] = torch.Size((B, H, N, shapes[name][-1]))
    shapes["numbers"] = torch.Size((B, H, N, 16))
    return [grad.new_empty(shape, dtype=torch.float32) for shape in shapes.values()]


def _there(t: Any) -> bool:
    return t is not None


class _Lists(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        ctx.save_for_backward(*inputs[:-1])
        ctx.flags = inputs[-1]
        return torch.ops.ascender.list_attention(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs = (*ctx.saved_tensors, ctx.flags)
        found = torch.ops.ascender.list_attention_backward(grad.contiguous(), *inputs)
        grads = dict(zip(_present(inputs), found, strict=True))
        grads["numbers"] = grads["numbers"].sum((0, 2))[:, :LEARNED]
        names = ("q", "k", "unit", "v", "zq", "zk", "hq", "hk", "other", "numbers", "bias")
        given = [
            None if t is None else grads[name].sum_to_size(t.shape).to(t.dtype)
            for name, t in zip(names, inputs, strict=False)
        ]
        return (*given, *[None] * 6)


def list_attention(
    tensors: Sequence[Tensor | None], *, lists: Tensor, near: Tensor | None, sizes: Sequence[int],
    p: Tensor, j: Tensor, **flags: bool,
) -> Tensor:  # fmt: skip
    """out = A v. `tensors`: q, k, k̃ (None: from k), v, z_q, z_k, h_q, h_k, other at the listed
    keys, the numbers by head (H, 11), the bias by distance; lists (b, h, N, L), −1 = none; near:
    which of a list are neighbours, or None (ranked). `raw`: k̃ is given at any length."""
    B = lists.shape[0] if tensors[0] is None else tensors[0].shape[0]
    own = tensors[1], tensors[2], tensors[3], tensors[5], tensors[7]
    keep = not torch.is_grad_enabled() and one_room(own, widest=tensors[5])
    if near is not None:
        near = near.expand(B, lists.shape[1], -1, -1).to(torch.uint8).contiguous()
    dense = [
        t if t is None or (keep and any(t is key for key in own)) else t.contiguous()
        for t in tensors
    ]
    count = filled(sizes, lists, torch.int32)
    return _Lists.apply(
        *dense, lists.expand(B, -1, -1, -1).int().contiguous(), near, p.contiguous(),
        j.contiguous(), count, [flags[name] for name in FLAGS],
    )  # fmt: skip


for device in ("CUDA", "CPU") if interpreted() else ("CUDA",):
    library.impl("list_attention", _forward, device)
    library.impl("list_attention_backward", _backward, device)
torch.library.register_fake("ascender::list_attention", _fake_forward, lib=library)
torch.library.register_fake("ascender::list_attention_backward", _fake_backward, lib=library)
