"""Attention over index lists by the C kernel (kernels/lists.c), as one autograd node."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ascender.kernels.library import ListToken, View, functions, outer_strides, run, views

NUMBERS = 11  # of a head: those of operators.py, and ω_aff
INPUTS = ("q", "k", "unit", "v", "zq", "zk", "hq", "hk", "other")
FLAGS = ("tied", "term", "standardise", "local", "align", "sep", "coh", "causal", "cross")


class ListArgs(c.Structure):
    """Arguments of asc_list_tasks, asc_list_forward and asc_list_backward."""

    _fields_ = [
        *((name, c.c_int) for name in ("B", "H", "G", "N", "M", "L", "d", "e", "dz", "da", *FLAGS)),
        *((name, View) for name in (*INPUTS, "out", "g")),
        *((f"d{name}", View) for name in INPUTS),
        ("list", c.c_void_p),
        *((name, c.c_long) for name in ("list_b", "list_h", "list_n")),
        ("near", c.c_void_p),
        *((name, c.c_long) for name in ("near_b", "near_h", "near_n")),
        *((name, c.c_void_p) for name in ("p", "j", "sizes", "numbers", "bias")),
        *((name, c.c_void_p) for name in ("dnumbers", "dbias")),
    ]


def _rows(t: Tensor | None) -> Tensor | None:
    return t if t is None or t.stride(-1) == 1 else t.contiguous()


class _ListAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rest: dict[str, Any], *tensors: Any) -> Tensor:
        q, v = tensors[0], tensors[3]
        out = q.new_empty(*q.shape[:3], v.shape[-1])
        args, kept = _arguments(rest, tensors)
        args.out = View.of(out)
        tasks = functions().asc_list_tasks(c.addressof(args))
        run(functions().asc_list_forward, args, tasks)
        ctx.rest = rest
        ctx.save_for_backward(*tensors)
        del kept
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        args, kept = _arguments(ctx.rest, tensors)
        g = _rows(grad)
        args.g = View.of(g)
        grads = [None if t is None else torch.zeros(t.shape) for t in tensors[:9]]
        unit = grads[2] if grads[2] is not None else torch.zeros(tensors[1].shape)
        for name, t in zip(INPUTS, grads, strict=True):
            setattr(args, f"d{name}", View.of(unit if name == "unit" else t))
        numbers = torch.zeros(args.B, args.H, NUMBERS)
        args.dnumbers = numbers.data_ptr()
        bias = tensors[10]
        dbias = None if bias is None else torch.zeros(args.B * args.H, bias.numel())
        if dbias is not None:
            args.dbias = dbias.data_ptr()
        run(functions().asc_list_backward, args, args.B * args.G)
        del kept
        return (None, *grads, numbers.sum(0), None if dbias is None else dbias.sum(0))


def _arguments(rest: dict[str, Any], tensors: Sequence[Any]) -> tuple[ListArgs, list[Any]]:
    """The C arguments, and what must stay alive while they are used."""
    *inputs, numbers, bias = tensors
    inputs = [_rows(t) for t in inputs]
    q, k, _, v, _, zk, _, hk, _ = inputs
    near, lists = _rows(rest["near"]), rest["lists"].contiguous()
    B, H, N, d = q.shape
    sizes = (c.c_int * H)(*rest["sizes"])
    numbers = numbers.contiguous()
    a = ListArgs(
        B, H, k.shape[1], N, k.shape[2], lists.shape[-1], d, v.shape[-1], zk.shape[-1],
        hk.shape[-1], *(rest[name] for name in FLAGS), *map(View.of, inputs),
    )  # fmt: skip
    a.list = lists.data_ptr()
    a.list_b, a.list_h, a.list_n = outer_strides(lists)
    if near is not None:
        a.near = near.data_ptr()
        a.near_b, a.near_h, a.near_n = outer_strides(near)
    a.p, a.j, a.sizes = rest["p"].data_ptr(), rest["j"].data_ptr(), c.addressof(sizes)
    a.numbers, a.bias = numbers.data_ptr(), None if bias is None else bias.data_ptr()
    return a, [inputs, lists, near, sizes, numbers, bias]


def list_attention(tensors: Sequence[Tensor | None], **rest: Any) -> Tensor:
    """out = A v. `tensors`: INPUTS, the numbers by head (H, 11), the bias by distance. In `rest`:
    lists (b, h, N, L) of int64, −1 = none; near: which of a list are neighbours, or None, where
    the kernel ranks them; sizes, p, j and FLAGS."""
    return _ListAttention.apply(rest, *tensors)


def one_list_token(
    q: Tensor, k: Tensor, v: Tensor, bare: Tensor | None, scale: Tensor, z: tuple[Tensor, Tensor],
    h: tuple[Tensor, Tensor], numbers: Tensor, bias: Tensor | None, far: int | Tensor, count: int,
    near: tuple[int, int], flags: Sequence[bool], M: int | None = None,
) -> Tensor:  # fmt: skip
    """out = A v of one query that is the last of the keys and sees all of them; no gradients.

    z      (of the query, of the keys with ‖z‖² appended), one head or H
    h      (of the query, of the keys), one head; z and h of the keys may be stored by column
    scale  1/‖k_j‖, (B, G, M, 1), or one per head, (H,)
    far    how many far keys, or a given list (b, 1, 1, m), −1 = none
    count  how many neighbours
    near   (window, globals)
    flags  term, standardise, local, the rules
    M      how many of the keys count
    """
    B, H, _, d = q.shape
    M = k.shape[2] if M is None else M
    by_column = [t.mT if t.mT.stride(-1) == 1 else t.mT.contiguous() for t in (z[1], h[1])]
    out = q.new_empty(B, H, 1, v.shape[-1])
    by_key = scale.mT if scale.ndim == 4 else None
    given = _rows(far) if isinstance(far, Tensor) else None
    tensors = [_rows(t) for t in (q, k, bare, by_key, v, z[0], by_column[0], h[0], by_column[1])]
    token = ListToken(
        B, H, k.shape[1], z[0].shape[1], M, d, v.shape[-1], z[0].shape[-1],
        h[0].shape[-1], far if given is None else given.shape[-1], count, *near, *flags,
        views([*tensors, out]),
        None if by_key is not None else scale.data_ptr(), numbers.data_ptr(),
        None if bias is None else bias.data_ptr(),
        *((None, 0) if given is None else (given.data_ptr(), outer_strides(given)[0])),
    )  # fmt: skip
    run(functions().asc_list_token, token, B)
    return out
