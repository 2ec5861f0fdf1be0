"""torch operators of the C kernels: ascender::attention and its backward.

Registered with torch.library, so that torch.compile, checkpointing and autograd see ordinary
operators. Their arguments are those of a checked call; core/backends/native.py makes them.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ascender.kernels.library import (
    Args,
    Token,
    Top,
    View,
    Visible,
    functions,
    outer_strides,
    run,
    views,
)

SEARCH = ("none", "semantic", "scores", "given")
RULES = ("align", "sep", "coh")
INPUTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? unit, Tensor? zq, Tensor zk, Tensor? hq, Tensor hk, "
    "Tensor? other, Tensor numbers"
)
REST = (
    "Tensor? mask, Tensor? lists, Tensor p, Tensor j, int[] sizes, int search, str[] rules, "
    "bool causal, int window, int n_global, bool cross, bool standardise, bool local"
)
library = torch.library.Library("ascender", "DEF")
library.define(f"attention({INPUTS}, {REST}) -> (Tensor, Tensor)")
library.define(
    f"attention_backward(Tensor grad, Tensor out, Tensor saved, bool bias, {INPUTS}, {REST}) "
    "-> Tensor[]"
)


def by_heads(B: int, h: int, n: int, w: int, like: Tensor) -> Tensor:
    """An empty (B, h, n, w) whose heads lie side by side: merging them costs nothing."""
    return like.new_empty(B, n, h, w).transpose(1, 2)


def _plain(t: Tensor | None) -> Tensor | None:
    return t if t is None or t.stride(-1) == 1 else t.contiguous()


class _KernelCall:
    """The arguments of a call as the C code takes them; keeps their memory alive."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, unit: Tensor | None, zq: Tensor | None, zk: Tensor,
        hq: Tensor | None, hk: Tensor, other: Tensor | None, numbers: Tensor, mask: Tensor | None,
        lists: Tensor | None, p: Tensor, j: Tensor, sizes: Sequence[int], search: int,
        rules: Sequence[str], causal: bool, window: int, n_global: int, cross: bool,
        standardise: bool, local: bool,
    ) -> None:  # fmt: skip
        given = dict(q=q, k=k, v=v, unit=unit, zq=zq, zk=zk, hq=hq, hk=hk, other=other)
        self.tensors = {name: _plain(t) for name, t in given.items()}
        self.numbers, self.mask, self.lists = numbers.contiguous(), _plain(mask), _plain(lists)
        B, H, _, d = q.shape
        self.groups, M = len(sizes), k.shape[2]
        K = min(max(sizes), M) if lists is None else lists.shape[-1]
        self.p, self.j = p, j
        self.sizes = (c.c_int * len(sizes))(*(min(n, M) for n in sizes))
        self.nonfinite = c.c_int(0)
        a = self.args = Args(
            B, H, self.groups, d, v.shape[-1], zk.shape[-1], hk.shape[-1], K, search, standardise,
            local, *(rule in rules for rule in RULES), zq is None, hq is None,
        )  # fmt: skip
        a.see = Visible.of(p, j, self.mask, causal, window, n_global, cross)
        for name, t in self.tensors.items():
            setattr(a, name, View.of(t))
        if self.lists is not None:
            a.list = self.lists.data_ptr()
            a.list_b, a.list_h, a.list_n = outer_strides(self.lists)
        a.sizes, a.numbers = c.addressof(self.sizes), self.numbers.data_ptr()
        a.nonfinite = c.addressof(self.nonfinite)

    @property
    def saved(self) -> int:
        return functions().asc_saved(c.addressof(self.args))


def _forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    call = _KernelCall(*inputs)
    q, v = inputs[0], inputs[2]
    B, H, N, _ = q.shape
    out = by_heads(B, H, N, v.shape[-1], q)
    saved = q.new_empty(call.saved)
    call.args.out, call.args.saved = View.of(out), saved.data_ptr()
    run(functions().asc_forward, call.args, B * call.groups)
    if call.nonfinite.value:
        out.fill_(torch.nan)
    return out, saved


def _backward(grad: Tensor, out: Tensor, saved: Tensor, bias: bool, *inputs: Any) -> list[Tensor]:
    call = _KernelCall(*inputs)
    a, g = call.args, _plain(grad)
    B, H = out.shape[:2]
    grads = _empty_grads(out, bias, *inputs)
    numbers = out.new_zeros(B, H, 10)
    a.g, a.out, a.saved, a.dnumbers = (
        View.of(g),
        View.of(out),
        saved.data_ptr(),
        numbers.data_ptr(),
    )
    for name, t in grads.items():
        setattr(a, f"d{name}", View.of(t))
    run(functions().asc_backward, a, B * call.groups)
    return [*grads.values(), numbers.sum(0)]


def _empty_grads(out: Tensor, bias: bool, *inputs: Any) -> dict[str, Tensor]:
    """The gradients that a call has, by the name of the input; 0 where no active rule uses it."""
    names = ("q", "k", "v", "unit", "zq", "zk", "hq", "hk")
    rules = inputs[16]
    unused = {
        "zq": "sep" not in rules and "coh" not in rules,
        "hq": "sep" not in rules,
        "unit": "align" not in rules,
    }
    unused |= {"zk": unused["zq"], "hk": unused["hq"]}
    grads = {}
    for name, t in zip(names, inputs, strict=False):
        if t is not None:
            B, h, n, w = t.shape
            grads[name] = by_heads(B, h, n, w, t)
            if unused.get(name):
                grads[name].zero_()
    if bias:
        grads["other"] = out.new_empty(*out.shape[:3], inputs[1].shape[2])
    return grads


def _fake_forward(*inputs: Any) -> tuple[Tensor, Tensor]:
    q, v = inputs[0], inputs[2]
    B, H, N, _ = q.shape
    saved = torch.library.get_ctx().new_dynamic_size()
    return by_heads(B, H, N, v.shape[-1], q), q.new_empty(saved)


def _fake_backward(
    grad: Tensor, out: Tensor, saved: Tensor, bias: bool, *inputs: Any
) -> list[Tensor]:
    grads = _empty_grads(out, bias, *inputs)
    return [*grads.values(), torch.empty_like(inputs[9])]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tensors = [t for t in (*inputs[:14], *output) if t is not None]
    ctx.present = [t is not None for t in inputs[:14]]
    ctx.rest = inputs[14:]
    ctx.save_for_backward(*tensors)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad: Tensor | None, _: Any, backward: Any = None) -> tuple[Any, ...]:
    """The gradients of the inputs; `backward`: the function or operator that computes them."""
    none = (None,) * 23
    if grad is None:
        return none
    saved = iter(ctx.saved_tensors)
    inputs = [next(saved) if there else None for there in ctx.present]
    out, kept = saved
    bias = ctx.present[8] and ctx.needs_input_grad[8]
    backward = backward or torch.ops.ascender.attention_backward
    grads = iter(backward(grad, out, kept, bias, *inputs, *ctx.rest))
    by_input = [next(grads) if there else None for there in ctx.present[:8]]
    other = inputs[8]
    by_input.append(next(grads).sum_to_size(other.shape) if bias and other is not None else None)
    return (*by_input, next(grads), *none[10:])


class _Eager(torch.autograd.Function):
    """The operator without the dispatcher, whose checks take longer than a short sequence."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        output = _forward(*inputs)
        _setup(ctx, inputs, output)
        ctx.mark_non_differentiable(output[1])
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Any, ...]:
        return _differentiate(ctx, grad, _, _backward)


def attention(*inputs: Any) -> Tensor:
    """ascender::attention, and its output only."""
    traced = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
    return (torch.ops.ascender.attention if traced else _Eager.apply)(*inputs)[0]


def one_token(
    q: Tensor, k: Tensor, v: Tensor, bare: Tensor | None, scale: Tensor, z: tuple[Tensor, Tensor],
    h: tuple[Tensor, Tensor], numbers: Tensor, near: int, rules: Sequence[str], causal: bool,
    shared: bool, M: int | None = None,
) -> Tensor:  # fmt: skip
    """Attention of one query that sees every key and is the last of them; without gradients.

    z: (the query's, the keys' with their squares appended); h: both at length 1; the keys' may be
    stored column by column. scale: 1/‖k_j‖, (B, G, M, 1), or one a head, (H,). shared: all heads
    have the same z, h and kernel widths. M: how many of the keys count."""
    B, H, _, d = q.shape
    M = k.shape[2] if M is None else M
    groups = 1 if shared and (B > 1 or torch.get_num_threads() == 1) else H
    by_column = [t.mT if t.mT.stride(-1) == 1 else t.mT.contiguous() for t in (z[1], h[1])]
    z_q, h_q, z_k, h_k = (t.expand(-1, groups, -1, -1) for t in (z[0], h[0], *by_column))
    out = q.new_empty(B, H, 1, v.shape[-1])
    tensors = [
        _plain(t)
        for t in (q, k, bare, scale.mT if scale.ndim == 4 else None, v, z_q, z_k, h_q, h_k)
    ]
    token = Token(
        B, H, groups, H // k.shape[1], M, d, v.shape[-1], z_q.shape[-1], h_q.shape[-1], near,
        *(rule in rules for rule in RULES), causal, views([*tensors, out]),
        scale.data_ptr() if scale.ndim == 1 else None, numbers.data_ptr(),
    )  # fmt: skip
    run(functions().asc_token, token, B * groups)
    return out


def top_lists(
    x: Tensor, y: Tensor, p: Tensor, j: Tensor, mask: Tensor | None, sizes: Sequence[int],
    bounded: bool, causal: bool, window: int, n_global: int, cross: bool, beyond: int,
    bias: Tensor | None,
) -> Tensor:  # fmt: skip
    """The sizes[h] keys of P(i) with the largest x_i·y_j, as (B, heads, N, K) lists, −1 = none.
    `bias`: added by distance."""
    heads, (B, _, N, w), M = len(sizes), x.shape, y.shape[2]
    x, y = (t if t.stride(-1) == 1 else t.contiguous() for t in (x, y))
    x, y = (t.expand(-1, heads, -1, -1) for t in (x, y))
    mask, K = _plain(mask), min(max(sizes), M)
    index = torch.empty(B, heads, N, K, dtype=torch.int64)
    each = (c.c_int * heads)(*(min(n, M) for n in sizes))
    top = Top(
        B, heads, w, K, bounded, Visible.of(p, j, mask, causal, window, n_global, cross, beyond),
        View.of(x), View.of(y), c.addressof(each), index.data_ptr(),
        None if bias is None else bias.data_ptr(),
    )  # fmt: skip
    run(functions().asc_top, top, functions().asc_top_tasks(c.addressof(top)))
    return index


library.impl("attention", _forward, "CPU")
library.impl("attention_backward", _backward, "CPU")
torch.library.register_fake("ascender::attention", _fake_forward, lib=library)
torch.library.register_fake("ascender::attention_backward", _fake_backward, lib=library)
torch.library.register_autograd(
    "ascender::attention", _differentiate, setup_context=_setup, lib=library
)
