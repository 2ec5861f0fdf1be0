"""One pass through the slot, and tokens that no pass can compute with.

A token outside V(i) changes nothing in row i, whatever it holds: NaN, ±∞ or 1e30. A weight of 0
does not hide it: 0 · NaN and 0 · ∞ are NaN in the sum over the keys, in the gradient of every query
(through k_j) and in that of W_K (through x_j). So, of a token that is not finite or too large,

    rows that do not see it      are computed with 0 in its place
    rows that see it             are NaN where it is not finite, else computed apart, with a
                                 gradient of 0 wherever that of their outputs is 0

Ordinary tokens need none of this, and `ordinary` tells in one pass over them. It cannot look while
compiling, nor inside a transform of torch.func: there nothing is contained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ascender.core.combine import Bias, LowRank
from ascender.core.neighbours import inside_transform
from ascender.core.visibility import Visibility
from ascender.nn.positions import Position

# From here on exp(s − lse), which flash attention's backward pass makes again from rounded scores
# of about LARGE², may be infinite.
LARGE = {torch.float64: 1e8}
LARGE_ELSE = 1e4


@dataclass(frozen=True)
class Call:
    """What one pass asks for: rows q (B, H, N, d), keys and values (B, G, M, ·) with G dividing H,
    who sees whom, and everything else that shapes the scores. `more` is what the attention's own
    `project` added."""

    q: Float[Tensor, "B H N d"]
    k: Float[Tensor, "B G M d"]
    v: Float[Tensor, "B G M e"]
    vis: Visibility
    position: Position
    other: Bias = None
    neighbours: str | Int[Tensor, "..."] | None = None
    bare: Float[Tensor, "B G M d"] | None = None  # the keys before rotation
    dropout: float = 0.0
    backend: str = "auto"
    cache: Any = None
    more: dict[str, Any] = field(default_factory=dict)

    def pair_values(self, weights: Tensor) -> Tensor | None:
        """Σ_j A_ij a^V_ij, where the position has values of pairs (Shaw)."""
        return None if self.vis.cross else self.position.values(weights, self.vis.p, self.vis.j)

    def marked(
        self, bad_q: Bool[Tensor, "B N"], bad_k: Bool[Tensor, "B M"], of_keys: tuple[str, ...]
    ) -> Call:
        """Made from tokens that `emptied` has emptied, with NaN for these: as if they had been
        projected, but no gradient reaches a projection through them."""
        return self._filled(bad_q, bad_k, of_keys, torch.nan)

    def without(
        self, bad_q: Bool[Tensor, "B N"], bad_k: Bool[Tensor, "B M"], of_keys: tuple[str, ...]
    ) -> Call:
        """With 0 for these queries and keys."""
        return self._filled(bad_q, bad_k, of_keys, 0.0)

    def _filled(self, bad_q: Tensor, bad_k: Tensor, of_keys: tuple[str, ...], value: float) -> Call:
        """`of_keys` names what of `more` belongs to the keys. A tuple there are tokens of both,
        from the first on."""
        known: dict[int, Tensor] = {}  # what is one tensor stays one

        def fill(t: Any, bad: Tensor) -> Any:
            if isinstance(t, tuple):
                return tuple(fill(x, bad[:, : x.shape[2]]) for x in t)
            if not isinstance(t, Tensor) or t.ndim != 4:
                return t
            return known.setdefault(id(t), t.masked_fill(bad[:, None, :, None], value))

        q = fill(self.q, bad_q)
        k, v, bare = (fill(t, bad_k) for t in (self.k, self.v, self.bare))
        own = {name: fill(t, bad_k if name in of_keys else bad_q) for name, t in self.more.items()}
        return replace(self, q=q, k=k, v=v, bare=bare, more=own)

    def each(self, change: Callable[[Tensor], Tensor]) -> Call:
        """With everything in it that may have a gradient changed."""
        known: dict[int, Tensor] = {}

        def of(t: Any) -> Any:
            if isinstance(t, LowRank):
                return LowRank(of(t.left), of(t.right))
            if isinstance(t, tuple):
                return tuple(of(x) for x in t)
            if not isinstance(t, Tensor) or not t.is_floating_point():
                return t
            if id(t) not in known:
                known[id(t)] = change(t)
            return known[id(t)]

        names = ("q", "k", "v", "bare", "other")
        more = {name: of(t) for name, t in self.more.items()}
        return replace(self, **{name: of(getattr(self, name)) for name in names}, more=more)


def large(t: Tensor) -> float:
    return LARGE.get(t.dtype, LARGE_ELSE)


def ordinary(t: Tensor) -> bool:
    """Whether all numbers are finite and none is too large."""
    if torch.compiler.is_compiling() or inside_transform():
        return True
    if not isinstance(t, Tensor) or t.is_meta or not t.numel():  # checked elsewhere
        return True
    low, high = (float(end) for end in t.detach().aminmax())  # NaN if any number is
    return -large(t) <= low and high <= large(t)


def broken(*tokens: Float[Tensor, "B ... _ _"], most: float = math.inf) -> Bool[Tensor, "B n"]:
    """Those that hold NaN or an infinity, or a number above `most`, in whichever head."""
    found = [~(t.detach().abs() <= most) | t.detach().isinf() for t in tokens]
    each = [bad.any(-1) if bad.ndim == 3 else bad.any(-1).any(1) for bad in found]
    return torch.stack(each).any(0)


def emptied(x: Float[Tensor, "B N w"]) -> tuple[Float[Tensor, "B N w"], Bool[Tensor, "B N"]]:
    """The tokens with 0 for those that are not finite, and which these are."""
    bad = broken(x)
    return x.masked_fill(bad[..., None], 0), bad


def apart(
    run: Callable[[Call], Tensor], call: Call, parameters: Iterable[nn.Parameter]
) -> Float[Tensor, "B H N e"]:
    """run(call), whose gradient is made only if that of its result is not 0: 0 by everything
    else, and not 0 · ∞. `parameters`: those that `run` uses itself."""
    inputs: list[Tensor] = []
    call.each(lambda t: inputs.append(t) or t)  # type: ignore[func-returns-value]

    def again(*given: Tensor) -> Tensor:
        queue = iter(given)
        return run(call.each(lambda _: next(queue)))

    return _Apart.apply(again, len(inputs), *inputs, *parameters)


class _Apart(torch.autograd.Function):
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
            found = torch.autograd.grad(out, [*tokens, *own], g, allow_unused=True)
        rest = iter(found[ctx.n :])
        grads = (next(rest) if t.requires_grad else None for t in ctx.inputs[ctx.n :])
        return None, None, *found[: ctx.n], *grads
