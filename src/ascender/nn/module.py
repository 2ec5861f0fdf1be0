"""AscenderAttention: the slot filled with alignment, separation and cohesion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ascender.common.validate import check_flag, lookup
from ascender.core.attention import BACKENDS, attend, find_neighbours, refusal
from ascender.core.checks import build_flock, check_neighbours
from ascender.core.combine import Parts
from ascender.core.flock import Flock
from ascender.core.geometry import unit
from ascender.core.losses import Source
from ascender.nn.cache import Cache
from ascender.nn.call import Call, broken
from ascender.nn.rule_parameters import (
    RuleParameters,
    check_heads,
    check_widths,
    counts,
    start_coordinates,
)
from ascender.nn.slot import Attention, ways


class AscenderAttention(Attention, RuleParameters, Source):
    """Multi-head attention with alignment, separation and cohesion.

        q, k, v = x W_Q, x W_K, x W_V      z = x U      h = x P      y = attention(…) W_O

    heads       query heads; kv_heads ≤ heads groups keys and values
    d_z, d_a    widths of latent coordinates and semantic projections
    k           neighbours: one number, or one a head
    geometry    "per_head", or "shared": one U, P and kernel width τ for all heads (cheaper)
    numbers     "per_head", or "shared": one ω, α, δ, κ and τ_score for all heads
    qk_norm     queries and keys of one learned length a head: alignment then costs no width
    omega, tau  where ω and the kernel widths τ_sep, τ_coh start
    roles       None (every rule in every head), or one of align, sep, coh, all a head: frozen roles
    gates       False: γ and η are the same for every token (½ and 1): only ω weighs a rule
    options     of the slot: position, normalizer, window, n_global, dropout, … (slot.Attention)
    """

    name = "ascender"
    windows = True
    of_context = ("k", "v", "z_k", "h_k")

    def __init__(
        self, dim: int, heads: int, *, d_z: int = 16, d_a: int = 16,
        k: int | Sequence[int] = 16, geometry: str = "per_head", numbers: str = "per_head",
        qk_norm: bool = False, neighbours: str = "semantic", standardise: bool = True,
        separation_scope: str = "neighbours", local_scope: str = "visible",
        roles: Sequence[str] | None = None, gates: bool = True, omega: float = 0.1,
        tau: float = 1.0, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(dim, heads, **options)
        if self.backend != "auto":
            lookup("backend", self.backend, BACKENDS)
        check_heads(heads, geometry, numbers, roles)
        check_widths(d_z, d_a)
        for name, flag in (("qk_norm", qk_norm), ("standardise", standardise), ("gates", gates)):
            check_flag(name, flag)
        if not isinstance(neighbours, Tensor):
            check_neighbours(neighbours, 1, heads, 1)
        self.d_z, self.d_a = d_z, d_a
        self.k = counts(k)
        self.geometry, self.numbers = geometry, numbers
        self.qk_norm, self.neighbours = qk_norm, neighbours
        self.standardise = standardise
        self.separation_scope, self.local_scope = separation_scope, local_scope
        self.lam_align = self.lam_sep = self.lam_coh = 1.0
        self.roles, self.gates = None if roles is None else tuple(roles), gates

        spaces = 1 if geometry == "shared" else heads
        self.U = nn.Linear(dim, spaces * d_z, bias=False)
        self.P = nn.Linear(dim, spaces * d_a, bias=False)
        self.U_context = self.P_context = None
        if self.source != dim:  # cross-attention from another width has its own way into z and h
            self.U_context = nn.Linear(self.source, spaces * d_z, bias=False)
            self.P_context = nn.Linear(self.source, spaces * d_a, bias=False)
        if qk_norm:
            self.log_gain = nn.Parameter(torch.empty(heads))
        self.make_numbers(omega, 1 if numbers == "shared" else heads, spaces, tau)
        self.reset_parameters()
        self.rules()  # checks the options now, not at the first call

    def reset_parameters(self) -> None:
        """The numbers, and U; the other maps are torch's own."""
        self.reset_numbers()
        if self.qk_norm:
            nn.init.constant_(self.log_gain, 0.5 * math.log(self.head_dim))
        self.reset_geometry()

    def reset_geometry(self) -> None:
        """U as it starts."""
        for U in (self.U, self.U_context):
            if U is not None:
                start_coordinates(U, self.d_z)

    def project(
        self, x: Float[Tensor, "B N dim"], context: Float[Tensor, "B M source"] | None = None
    ) -> dict[str, Any]:
        """q, k, v, z_q, h_q, z_k, h_k (and key_norm) by head."""
        made = super().project(x, context)
        z, h = self._split(self.U(x), self.d_z), self._split(self.P(x), self.d_a)
        made.update(z_q=z, h_q=h, z_k=z, h_k=h)
        if context is not None:
            made["z_k"] = self._split((self.U_context or self.U)(context), self.d_z)
            made["h_k"] = self._split((self.P_context or self.P)(context), self.d_a)
        if self.qk_norm:  # base score = gain · cos(q, k); all keys have length 1
            gain = (self.log_gain + 0.5 * math.log(self.head_dim)).exp().view(-1, 1, 1)
            made.update(q=unit(made["q"], gain), k=unit(made["k"]), key_norm=1.0)
        return made

    def new_cache(self) -> Cache:
        """An empty cache for decoding: bounded where there is a window."""
        return Cache(window=self.window, n_global=self.n_global)

    def read_cache(self, call: Call, mask: Bool[Tensor, "B n"] | None) -> Call:
        cache, first, n = call.cache, len(call.cache) == 0, call.q.shape[2]
        z, h, norm = (call.more.get(name) for name in ("z_k", "h_k", "key_norm"))
        cache.append(call.k, call.v, z, h, bare=call.bare, key_norm=norm, mask=mask)
        if first and n > 1:  # prefill: a full pass is cheaper than its rows
            backend = "auto" if call.backend == "decode" else call.backend
            return replace(call, vis=cache.visibility(n), cache=None, backend=backend)
        return replace(call, vis=cache.visibility(n))

    def flock(self, call: Call) -> Flock:
        """The call as what the backends take."""
        near = self.neighbours if call.neighbours is None else call.neighbours
        kinds: dict[str, Any] = dict(other=call.other, neighbours=near, normalizer=self.normalizer)
        if "values" in ways(type(call.position)):
            kinds["pair_values"] = call.pair_values
        vis = call.vis
        if call.cache is not None:
            rules = call.cache.remembered(self.stamp, self.rules)
            kinds["key_norm"] = call.more.get("key_norm")
            return call.cache.newest(call.q, rules=rules, vis=vis, **kinds)
        return build_flock(
            call.q, call.k, call.v, **call.more, **kinds, rules=self.rules(),
            causal=vis.causal, window=vis.window, n_global=vis.n_global, mask=vis.mask,
            cross=vis.cross, bare=call.bare, dropout=call.dropout,
        )  # fmt: skip

    def attend_heads(self, call: Call) -> Float[Tensor, "B H N e"]:
        return self._attend(call, call.backend)

    def parts(self, call: Call) -> tuple[Float[Tensor, "B H N e"], Parts]:
        return self._attend(call, call.backend, return_parts=True)

    def _attend(self, call: Call, backend: str, return_parts: bool = False) -> Any:
        """With losses where somebody collects them; rows decoded from a cache give none."""
        flock = self.flock(call)
        if call.cache is not None and not return_parts:  # a bounded cache has gaps: any layout
            able = backend != "dense" and refusal(flock, "decode") is None
            return attend(flock, "decode" if able else "dense")
        if call.cache is not None or not self.asked():
            return attend(flock, backend, return_parts)
        *found, losses = attend(flock, backend, return_parts, return_losses=True)
        self.give(losses)
        return tuple(found) if return_parts else found[0]

    def contained(self, call: Call, parts: bool) -> tuple[Any, ...]:
        """With a cache, or losses to give, what is not finite is left to `attend`. A query of that
        kind is marked by its z and h, so that a normaliser need not multiply it."""
        if call.cache is None and not self.asked():
            return super().contained(call, parts)
        call = replace(call, q=call.q.masked_fill(broken(call.q)[:, None, :, None], 0))
        return self.parts(call) if parts else (self.attend_heads(call),)

    def neighbours_of(self, call: Call) -> Int[Tensor, "B #H N K"]:
        flock = self.flock(call)
        if call.cache is None:
            return find_neighbours(flock)
        near, start = flock.members, call.vis.M - flock.vis.M  # a cache leaves out what none sees
        return near if start == 0 else torch.where(near < 0, near, near + start)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, k={self.k}, geometry={self.geometry!r}"
