"""Call: the checked inputs of one pass, as an attention's `attend_heads` takes them, and the checks
of its tokens and masks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.combine import Bias, LowRank
from ascender.core.scope import FarKeys
from ascender.core.visibility import Visibility
from ascender.nn.cache import CrossKV
from ascender.nn.positions import Position


class Unsupported(ValueError):
    """A combination that does not work; the message names one that does."""


@dataclass(frozen=True)
class Call:
    """The checked inputs of one pass: queries (B, H, N, d), keys and values (B, G, M, ·) with G
    dividing H, the visibility, and everything else that shapes the scores. `more` is what the
    attention's own `project` added."""

    q: Float[Tensor, "B H N d"]
    k: Float[Tensor, "B G M d"]
    v: Float[Tensor, "B G M e"]
    vis: Visibility
    position: Position
    other: Bias = None
    neighbours: str | Int[Tensor, "..."] | FarKeys | None = None
    bare: Float[Tensor, "B G M d"] | None = None  # the keys before rotation
    dropout: float = 0.0
    backend: str = "auto"
    cache: Any = None
    more: dict[str, Any] = field(default_factory=dict)

    def pair_values(self, weights: Tensor) -> Tensor | None:
        """Σ_j A_ij a^V_ij, where the position has values of pairs (Shaw)."""
        return None if self.vis.cross else self.position.values(weights, self.vis.p, self.vis.j)

    def fill_tokens(
        self, bad_q: Bool[Tensor, "B N"], bad_k: Bool[Tensor, "B M"], of_keys: tuple[str, ...],
        value: float,
    ) -> Call:  # fmt: skip
        """With `value` for these queries and keys; no gradient passes through them. `of_keys` names
        what of `more` belongs to the keys. A tuple there holds tokens of both, the first ones."""
        filled: dict[int, Tensor] = {}  # the same tensor stays the same tensor

        def fill(t: Any, bad: Tensor) -> Any:
            if isinstance(t, tuple):
                return tuple(fill(x, bad[:, : x.shape[2]]) for x in t)
            if not isinstance(t, Tensor) or t.ndim != 4:
                return t
            return filled.setdefault(id(t), t.masked_fill(bad[:, None, :, None], value))

        q = fill(self.q, bad_q)
        k, v, bare = (fill(t, bad_k) for t in (self.k, self.v, self.bare))
        own = {name: fill(t, bad_k if name in of_keys else bad_q) for name, t in self.more.items()}
        return replace(self, q=q, k=k, v=v, bare=bare, more=own)

    def map_tensors(self, change: Callable[[Tensor], Tensor]) -> Call:
        """With `change` applied once to every tensor that may have a gradient."""
        changed: dict[int, Tensor] = {}

        def apply(t: Any) -> Any:
            if isinstance(t, LowRank):
                return LowRank(apply(t.left), apply(t.right))
            if isinstance(t, tuple):
                return tuple(apply(x) for x in t)
            if not isinstance(t, Tensor) or not t.is_floating_point():
                return t
            if id(t) not in changed:
                changed[id(t)] = change(t)
            return changed[id(t)]

        names = ("q", "k", "v", "bare", "other")
        more = {name: apply(t) for name, t in self.more.items()}
        return replace(self, **{name: apply(getattr(self, name)) for name in names}, more=more)


def check_tokens(attention: Any, x: Any, context: Any = None, cache: Any = None) -> None:
    """Tokens of the widths of an attention, and a cache that goes with them."""
    for name, t, width in (("x", x, attention.dim), ("context", context, attention.source)):
        if t is None and name == "context":
            continue
        if not isinstance(t, Tensor):
            raise TypeError(f"{name} = {t!r}; expected a tensor (batch, tokens, {width})")
        if t.ndim != 3 or t.shape[-1] != width:
            raise ValueError(
                f"{name} has shape {tuple(t.shape)}; expected (batch, tokens, {width})"
            )
    if context is None and attention.source != attention.dim:
        raise ValueError(f"no context; expected keys of width {attention.source} (context_dim)")
    if cache is None:
        return
    if context is not None:
        if not isinstance(cache, CrossKV):
            raise ValueError(
                f"cache is {type(cache).__name__}; expected no context with it, or CrossKV()"
            )
        return
    if not attention.decodes:
        raise Unsupported(
            f"{attention.name} attention cannot decode with a cache; expected cache=None and the "
            "whole sequence"
        )
    if isinstance(cache, CrossKV):
        raise ValueError("cache is CrossKV, without a context; expected new_cache()")
    window = getattr(cache, "window", None)
    if window != attention.window and attention.window is not None:
        raise ValueError(f"the cache has window {window}; expected {attention.window}")


def new_token_mask(mask: Any, n: int, before: int) -> Bool[Tensor, "B n"] | None:
    """Which of n new tokens are real; `before`: the number of tokens in the cache."""
    if mask is None:
        return None
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask = {mask!r}; expected torch.bool, True = a real token")
    if mask.ndim != 2 or mask.dtype != torch.bool or mask.shape[1] not in (n, before + n):
        raise ValueError(
            f"mask is {mask.dtype} {tuple(mask.shape)}; expected bool (B, {n}) for the new "
            f"tokens, or (B, {before + n}) for all"
        )
    return mask[:, -n:]


def padding(mask: Any, keys: Tensor) -> Any:
    """A mask (B, M) of the keys as (B, 1, 1, M); make_visibility() checks all others."""
    if not isinstance(mask, Tensor) or mask.ndim != 2:
        return mask
    if mask.shape != keys.shape[:2]:
        raise ValueError(
            f"mask has shape {tuple(mask.shape)}; expected padding (B, M) = "
            f"{tuple(keys.shape[:2])}, or four axes that broadcast to (B, H, N, M)"
        )
    return mask[:, None, None, :]
