"""The main pass of the fold on a GPU, with separation, as torch operators and one autograd node.

    s_ij = σ_h q_i·k_j + a_i·u_j + c_i·z_j + Σ_r x_ir y_jr      over the keys that i sees
    lse_i = log Σ_j exp s_ij                                    out_i = Σ_j exp(s_ij − lse_i) v_j

and, where lists and biases b are given, the same with b_il added to the scores of listed keys,

    m_i = Σ_j exp(s_ij + b_ij − lse_i)                          out'_i, lse'_i

`definition` is all of this with a matrix of scores, for tests. Kernels: main_pass_kernels.py,
main_pass_backward_kernels.py, moved_mass_kernels.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ascender.kernels.gpu import interpreted, power_of_two

INPUTS = ("q", "a", "c", "x", "k", "u", "z", "y", "v", "scale", "mask", "cu", "lists", "bias")
OPTIONAL = ("a", "c", "x", "u", "z", "y", "mask", "cu", "lists", "bias")
GRADIENTS = ("q", "a", "c", "x", "k", "u", "z", "y", "v", "bias")
LEAST = {torch.float16: 2.0**-10}  # mass left that is divided by: exp(s − lse') stays in range
SCHEMA = ", ".join(f"Tensor{'?' if name in OPTIONAL else ''} {name}" for name in INPUTS)
library = torch.library.Library("ascender", "FRAGMENT")
library.define(f"main_pass({SCHEMA}, bool causal, int longest) -> (Tensor, Tensor, Tensor)")
library.define(
    f"main_pass_backward(Tensor grad, Tensor? grad_lse, Tensor out, Tensor lse, {SCHEMA}, "
    "bool causal, int longest) -> Tensor[]"
)


@dataclass(frozen=True)
class Pass:
    """The inputs of a pass.

    q, a    (B, H, N, d)      k, u (B, G, M, d)      v (B, G, M, e)     in one type
    c       (B, H, N, w)      z    (B, Z, M, w)                         of the same type
    x       (B, H, N, r)      y    (B, Y, M, r)      scale (H,)         of float32
    mask    (B, 1 or H, M) of bool, True = may be attended to
    lists   (B, 1 or H, N, K), −1 = none, and bias (B, H, N, K) of float32: separation
    cu      (S + 1,) of int32: B is 1 then, and sequence s has the tokens cu[s] … cu[s+1] − 1, at
            most `longest`; lists count from the first token of all

    G, Z and Y divide H; queries are the tail of the keys where causal.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    scale: Tensor
    a: Tensor | None = None
    u: Tensor | None = None
    c: Tensor | None = None
    z: Tensor | None = None
    x: Tensor | None = None
    y: Tensor | None = None
    mask: Tensor | None = None
    lists: Tensor | None = None
    bias: Tensor | None = None
    cu: Tensor | None = None
    causal: bool = False
    longest: int = 0

    def inputs(self) -> list[Tensor | None]:
        return [getattr(self, name) for name in INPUTS]


def main_pass(of: Pass) -> tuple[Tensor, Tensor, Tensor | None]:
    """(out', lse', m): out' (B, H, N, e) in the type of v, of float32 where lists are given;
    lse' (B, H, N), −∞ in a row that sees nothing; m (B, H, N) is the mass that separation leaves,
    without a gradient. The division is by at least 2⁻²³ (2⁻¹⁰ in float16)."""
    inputs = [None if t is None else t.contiguous() for t in of.inputs()]
    out, lse, left = _MainPass.apply(of.causal, of.longest, *inputs)
    return out, lse, None if of.lists is None else left


class _MainPass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, causal: bool, longest: int, *inputs: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        out, lse, left = torch.ops.ascender.main_pass(*inputs, causal, longest)
        ctx.save_for_backward(*inputs, out, lse)
        ctx.causal, ctx.longest = causal, longest
        ctx.mark_non_differentiable(left)
        ctx.set_materialize_grads(False)
        return out, lse, left

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, grad: Tensor | None, grad_lse: Tensor | None, _: Any
    ) -> tuple[Tensor | None, ...]:
        *inputs, out, lse = ctx.saved_tensors
        if grad is None and grad_lse is None:
            return (None,) * (2 + len(inputs))
        grad = torch.zeros_like(out) if grad is None else grad
        by_name = dict(zip(INPUTS, inputs, strict=True))
        grad = grad.to(by_name["v"].dtype).contiguous()
        found = torch.ops.ascender.main_pass_backward(
            grad, grad_lse, out, lse, *inputs, ctx.causal, ctx.longest
        )
        names = [name for name in GRADIENTS if by_name[name] is not None]
        grads = dict(zip(names, found, strict=True))
        raw, scale = grads["q"], by_name["scale"]
        grads["scale"] = (raw * by_name["q"]).sum((0, 2, 3))
        grads["q"] = raw * scale.view(-1, 1, 1)
        for name in ("z", "y"):  # these have a part for every head
            if name in grads:
                B, heads, M, w = by_name[name].shape
                grads[name] = grads[name].view(B, heads, -1, M, w).sum(2)
        given = [grads[n].to(t.dtype) if n in grads else None for n, t in by_name.items()]
        return (None, None, *given)


def _of(inputs: Sequence[Any]) -> Pass:
    *tensors, causal, longest = inputs
    by_name = dict(zip(INPUTS, tensors, strict=True))
    return Pass(**by_name, causal=causal, longest=longest)


def _options(of: Pass) -> dict[str, Any]:
    """The constants of the kernels."""
    D, E, DZ = of.q.shape[-1], of.v.shape[-1], 1 if of.z is None else of.z.shape[-1]
    heads = {"H": of.q.shape[1], "G": of.k.shape[1]}
    for name, t in (("ZH", of.z), ("YH", of.y), ("MH", of.mask), ("LH", of.lists)):
        heads[name] = 1 if t is None else t.shape[1]
    R = 0 if of.y is None else of.y.shape[-1]
    blocks = {"BD": power_of_two(D), "BZ": power_of_two(DZ), "BE": power_of_two(E)}
    return {
        **heads, **blocks, "D": D, "DZ": DZ, "E": E, "R": R, "BR": power_of_two(R, 1) if R else 1,
        "CAUSAL": of.causal, "ALIGN": of.a is not None, "NARROW": of.c is not None,
        "HAS_MASK": of.mask is not None, "PACKED": of.cu is not None,
        "SPLIT": of.lists is not None and of.q.dtype != torch.float32,
        "UP": interpreted() and of.q.dtype == torch.bfloat16,
    }  # fmt: skip


def _launch(kernel: Any, grid: Any, of: Pass, tensors: dict[str, Tensor], **numbers: Any) -> None:
    """A kernel with those of the pass's tensors and options that it takes, by name."""
    pairs = zip(INPUTS, of.inputs(), strict=True)
    given: dict[str, Any] = {name.upper(): of.scale if t is None else t for name, t in pairs}
    given["LIST"] = given.pop("LISTS")
    if of.mask is not None:
        given["MASK"] = of.mask.view(torch.uint8)
    numbers = {"N": of.q.shape[2], "M": of.k.shape[2], **numbers, **_options(of)}
    given |= tensors | numbers
    names = kernel.arg_names
    kernel[grid](**{name: value for name, value in given.items() if name in names})


def _sequences(of: Pass) -> tuple[int, int, int]:
    """(how many sequences, the most queries and the most keys of one)."""
    if of.cu is not None:
        return of.cu.numel() - 1, of.longest, of.longest
    return of.q.shape[0], of.q.shape[2], of.k.shape[2]


def _forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    from ascender.kernels.gpu import main_pass_kernels, moved_mass_kernels

    of, (out, lse, left) = _of(inputs), _fake_forward(*inputs)
    H, (count, queries, _) = of.q.shape[1], _sequences(of)
    if of.cu is not None:  # rows of no sequence
        out.zero_()
        lse.zero_()
    _launch(
        main_pass_kernels.forward, lambda given: (-(-queries // given["BM"]), count * H), of,
        {"OUT": out, "LSE": lse},
    )  # fmt: skip
    if of.lists is not None:
        B, _, N = of.q.shape[:3]
        least = LEAST.get(of.q.dtype, torch.finfo(torch.float32).eps)
        _launch(
            moved_mass_kernels.move, lambda given: (-(-N // given["BM"]), B * H), of,
            {"OUT": out, "LSE": lse, "LEFT": left}, length=of.lists.shape[-1], least=least,
        )  # fmt: skip
    return out, lse, left


def _backward(
    grad: Tensor, grad_lse: Tensor | None, out: Tensor, lse: Tensor, *inputs: Any
) -> list[Tensor]:
    """∂s_ij = p_ij (g_i·v_j − Δ_i) with Δ_i = g_i·out_i − ∂lse_i."""
    from ascender.kernels.gpu import main_pass_backward_kernels as kernels
    from ascender.kernels.gpu import moved_mass_kernels

    of, grads = _of(inputs), _fake_backward(grad, grad_lse, out, lse, *inputs)
    if of.cu is not None:
        for t in grads:
            t.zero_()
    present = [n for n in GRADIENTS if getattr(of, n) is not None]
    spare, by_name = lse, dict(zip(present, grads, strict=True))
    delta = (grad.float() * out.float()).sum(-1)
    if grad_lse is not None:
        delta = delta - torch.where(lse == -torch.inf, 0, grad_lse)
    tensors = {"GRAD": grad, "LSE": lse, "DELTA": delta}
    for name in GRADIENTS:
        tensors["D" + {"z": "Z_"}.get(name, name.upper())] = by_name.get(name, spare)
    (count, queries, keys), (H, G) = _sequences(of), (of.q.shape[1], of.k.shape[1])
    _launch(kernels.keys, lambda given: (-(-keys // given["BN"]), count * G), of, tensors)
    _launch(kernels.queries, lambda given: (-(-queries // given["BM"]), count * H), of, tensors)
    if of.lists is not None:
        B, _, N = of.q.shape[:3]
        _launch(
            moved_mass_kernels.move_back, lambda given: (-(-N // given["BM"]), B * H), of, tensors,
            length=of.lists.shape[-1],
        )  # fmt: skip
    return grads


def _fake_forward(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    of = _of(inputs)
    dtype = of.v.dtype if of.lists is None else torch.float32
    lse = of.q.new_empty(of.q.shape[:3], dtype=torch.float32)
    left = torch.empty_like(lse) if of.lists is not None else lse.new_empty(0)
    return of.v.new_empty(*of.q.shape[:3], of.v.shape[-1], dtype=dtype), lse, left


def _fake_backward(
    grad: Tensor, grad_lse: Tensor | None, out: Tensor, lse: Tensor, *inputs: Any
) -> list[Tensor]:
    """Those of z and y have a part for every head; that of q is of σ q, in float32."""
    of = _of(inputs)
    grads = []
    for name in GRADIENTS:
        t = getattr(of, name)
        if t is None:
            continue
        shape = (t.shape[0], of.q.shape[1], *t.shape[2:]) if name in ("z", "y") else t.shape
        wide = of.lists is not None or name in ("q", "x", "z", "y")
        grads.append(t.new_empty(shape, dtype=torch.float32 if wide else t.dtype))
    return grads


def definition(of: Pass) -> tuple[Tensor, Tensor, Tensor]:
    """(out', lse', m) with a matrix of scores; differentiable."""
    (H, N), M, device = of.q.shape[1:3], of.k.shape[2], of.q.device

    def wide(t: Tensor) -> Tensor:
        return t.repeat_interleave(H // t.shape[1], 1)

    s = of.scale.view(-1, 1, 1) * (of.q @ wide(of.k).mT)
    for x, y in ((of.a, of.u), (of.c, of.z), (of.x, of.y)):
        if x is not None and y is not None:
            s = s + x @ wide(y).mT
    i, j = torch.arange(N, device=device)[:, None], torch.arange(M, device=device)
    hidden = j > i + M - N if of.causal else (j < 0) | (i < 0)
    if of.mask is not None:
        hidden = hidden | ~wide(of.mask)[:, :, None]
    if of.cu is not None:
        sequence = torch.searchsorted(of.cu[1:].contiguous(), j, right=True)
        hidden = hidden | (sequence[:, None] != sequence)
    empty = hidden.all(-1)
    s = s.masked_fill(hidden & ~empty[..., None], -torch.inf)
    lse = s.logsumexp(-1)
    if of.lists is not None and of.bias is not None:
        lists = wide(of.lists)
        b = s.new_zeros(*s.shape[:3], M + 1)
        b = b.scatter(-1, torch.where(lists < 0, M, lists).long(), of.bias)[..., :M]
        s = s + b.masked_fill(hidden, 0)
    new = s.logsumexp(-1)
    p = torch.exp(s - new[..., None]).masked_fill(hidden, 0)
    return p @ wide(of.v), new.masked_fill(empty, -torch.inf), torch.exp(new - lse)


for device in ("CUDA", "CPU") if interpreted() else ("CUDA",):
    library.impl("main_pass", _forward, device)
    library.impl("main_pass_backward", _backward, device)
torch.library.register_fake("ascender::main_pass", _fake_forward, lib=library)
torch.library.register_fake("ascender::main_pass_backward", _fake_backward, lib=library)
