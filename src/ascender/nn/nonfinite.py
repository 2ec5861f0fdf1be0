"""Tokens that are not finite, or too large to compute with, change only the rows that see them.

A token outside V(i) must not change row i, whatever it is: NaN, ±∞ or 1e30. A weight of 0 does not
hide it: 0 · NaN and 0 · ∞ are NaN in the sum over the keys, in the gradient of every query (through
k_j) and in that of W_K (through x_j). So, of a token that is not finite or too large,

    rows that do not see it      are computed with 0 in its place
    rows that see it             are NaN where it is not finite, else computed in a second pass,
                                 with a gradient of 0 wherever that of their outputs is 0

`within_limits` detects such tokens in one pass over x. While compiling and inside torch.func it
cannot read values, and on a GPU the host would wait for them: there nothing is contained here, and
rows that do not see a token that is not finite are kept apart by core/attention.py alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ascender.core.neighbours import inside_transform
from ascender.core.visibility import Visibility
from ascender.kernels import gpu
from ascender.nn.call import Call

# From here on exp(s − lse), which flash attention's backward pass computes from rounded scores of
# about LIMIT², may be infinite.
LIMITS = {torch.float64: 1e8}
LIMIT = 1e4


def limit(t: Tensor) -> float:
    """The largest magnitude that a token may have."""
    return LIMITS.get(t.dtype, LIMIT)


def within_limits(t: Tensor) -> bool:
    """Whether all numbers are finite and none is too large."""
    if torch.compiler.is_compiling() or inside_transform():
        return True
    if not isinstance(t, Tensor) or t.is_meta or not t.numel():  # checked elsewhere
        return True
    if gpu.on_gpu(t):
        return True
    low, high = (float(end) for end in t.detach().aminmax())  # NaN if any number is
    return -limit(t) <= low and high <= limit(t)


def nonfinite_tokens(
    *tokens: Float[Tensor, "B ... _ _"], most: float = math.inf
) -> Bool[Tensor, "B n"]:
    """Those with a NaN, an infinity or a number above `most` in any head."""
    marks = [~(t.detach().abs() <= most) | t.detach().isinf() for t in tokens]
    each = [bad.any(-1) if bad.ndim == 3 else bad.any(-1).any(1) for bad in marks]
    return torch.stack(each).any(0)


def zero_nonfinite(
    x: Float[Tensor, "B N w"],
) -> tuple[Float[Tensor, "B N w"], Bool[Tensor, "B N"]]:
    """The tokens with 0 for those that are not finite, and which these are."""
    bad = nonfinite_tokens(x)
    return x.masked_fill(bad[..., None], 0), bad


def contain(attention: Any, call: Call, parts: bool) -> tuple[Any, ...]:
    """(out,) or (out, Parts) of a call with tokens that are not finite or too large. `attention`:
    the nn.slot.Attention whose call it is."""
    once = call.cache is None or attention.repeats  # else large tokens must reach the state
    bad, huge = (
        (nonfinite_tokens(call.q, most=most), nonfinite_tokens(call.k, call.v, most=most))
        for most in (math.inf, limit(call.q) if once else math.inf)
    )
    of_keys = attention.of_context
    clean = call.fill_tokens(*huge, of_keys, 0.0)
    out, *more = attention.parts(clean) if parts else (attention.attend_heads(clean),)
    sees_bad = sees(attention, call.vis, *bad)
    if any(bool((h & ~b).any()) for b, h in zip(bad, huge, strict=True)):
        finite = replace(call.fill_tokens(*bad, of_keys, 0.0), dropout=0.0)
        second = run_isolated(attention.attend_heads, finite, attention.parameters())
        out = torch.where(sees(attention, call.vis, *huge), second, out)
    if parts:
        weights = more[0].weights.masked_fill(sees_bad & call.vis.visible, torch.nan)
        more = [replace(more[0], weights=weights)]
    return out.masked_fill(sees_bad, torch.nan), *more


def sees(
    attention: Any, vis: Visibility, queries: Bool[Tensor, "B N"], keys: Bool[Tensor, "B M"]
) -> Bool[Tensor, "B #H #N 1"]:
    """Which rows see one of these keys, or anything if they are one of these queries."""
    own, marked = queries[:, None, :, None], keys[:, None, None, :]
    mask = marked if vis.mask is None else marked & vis.mask
    count = attention.count
    return (count(replace(vis, mask=mask)) > 0) | (own & (count(vis) > 0))


def run_isolated(
    run: Callable[[Call], Tensor], call: Call, parameters: Iterable[nn.Parameter]
) -> Float[Tensor, "B H N e"]:
    """run(call), with a backward pass that is skipped where the gradient of its result is 0: then
    all gradients are 0, and not 0 · ∞. `parameters`: those that `run` uses itself."""
    inputs: list[Tensor] = []
    call.map_tensors(lambda t: inputs.append(t) or t)  # type: ignore[func-returns-value]

    def again(*tensors: Tensor) -> Tensor:
        queue = iter(tensors)
        return run(call.map_tensors(lambda _: next(queue)))

    return _Isolated.apply(again, len(inputs), *inputs, *parameters)


class _Isolated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Callable[..., Tensor], n: int, *inputs: Tensor) -> Tensor:
        ctx.run, ctx.n, ctx.inputs = run, n, inputs
        return run(*inputs[:n])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if not bool(g.any()):
            return None, None, *(None for _ in ctx.inputs)
        tokens = [t.detach().requires_grad_() for t in ctx.inputs[: ctx.n]]
        own = [t for t in ctx.inputs[ctx.n :] if t.requires_grad]
        with torch.enable_grad():
            out = ctx.run(*tokens)
            grads = torch.autograd.grad(out, [*tokens, *own], g, allow_unused=True)
        rest = iter(grads[ctx.n :])
        of_own = (next(rest) if t.requires_grad else None for t in ctx.inputs[ctx.n :])
        return None, None, *grads[: ctx.n], *of_own
