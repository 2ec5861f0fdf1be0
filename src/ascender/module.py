"""AscenderAttention: projections, the rules' parameters, and asc_attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ascender.attention import attend, find_neighbours
from ascender.cache import Cache
from ascender.checks import enter
from ascender.combine import LowRank
from ascender.rules import RULES, Rules

GEOMETRIES = ("per_head", "shared")


class AscenderAttention(nn.Module):
    """Multi-head attention with alignment, separation and cohesion.

        q, k, v = x W_Q, x W_K, x W_V      z = x U      h = x P      y = attention(…) W_O

    heads       query heads; kv_heads ≤ heads groups keys and values
    d_z, d_a    widths of latent coordinates and semantic projections
    k           neighbours: one number, or one a head
    geometry    "per_head", or "shared": one U, P and kernel width τ for all heads (cheaper)
    qk_norm     queries and keys of one learned length a head: alignment then costs no width
    window, n_global   look w tokens around, and at the first g tokens
    dropout     on the weights while training (dense backend only)
    roles       None (every rule in every head), or one of align, sep, coh, all a head: frozen roles
    """

    lam_align: float
    lam_sep: float
    lam_coh: float
    omega_align: Tensor
    omega_sep: Tensor
    omega_coh: Tensor
    role_align: Tensor
    role_sep: Tensor
    role_coh: Tensor

    def __init__(
        self, dim: int, heads: int, *, head_dim: int | None = None, kv_heads: int | None = None,
        d_z: int = 16, d_a: int = 16, k: int | Sequence[int] = 16, geometry: str = "per_head",
        qk_norm: bool = False, window: int | None = None, n_global: int = 0,
        dropout: float = 0.0, neighbours: str = "semantic", standardise: bool = True,
        separation_scope: str = "neighbours", local_scope: str = "visible",
        roles: Sequence[str] | None = None, omega: float = 0.1, bias: bool = False,
        context_dim: int | None = None, backend: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        _check(dim, heads, head_dim, kv_heads, geometry, roles)
        self.dim, self.heads, self.kv_heads = dim, heads, kv_heads
        self.head_dim = dim // heads if head_dim is None else head_dim
        self.d_z, self.d_a = d_z, d_a
        self.k = k if isinstance(k, int) else tuple(k)
        self.geometry, self.qk_norm, self.neighbours = geometry, qk_norm, neighbours
        self.window, self.n_global = window, n_global
        self.dropout, self.backend = dropout, backend
        self.standardise = standardise
        self.separation_scope, self.local_scope = separation_scope, local_scope
        self.lam_align = self.lam_sep = self.lam_coh = 1.0
        for rule, factor in zip(RULES, _roles(roles, heads), strict=True):
            self.register_buffer(f"role_{rule}", factor, persistent=False)

        source = dim if context_dim is None else context_dim
        spaces = 1 if geometry == "shared" else heads
        self.W_Q = nn.Linear(dim, heads * self.head_dim, bias=bias)
        self.W_K = nn.Linear(source, kv_heads * self.head_dim, bias=bias)
        self.W_V = nn.Linear(source, kv_heads * self.head_dim, bias=bias)
        self.W_O = nn.Linear(heads * self.head_dim, dim, bias=bias)
        self.U = nn.Linear(dim, spaces * d_z, bias=False)
        self.P = nn.Linear(dim, spaces * d_a, bias=False)
        self.U_context = self.P_context = None
        if source != dim:  # cross-attention from another width needs its own way into z and h
            self.U_context = nn.Linear(source, spaces * d_z, bias=False)
            self.P_context = nn.Linear(source, spaces * d_a, bias=False)
        if qk_norm:
            self.log_gain = nn.Parameter(torch.full((heads,), 0.5 * math.log(self.head_dim)))
        self._numbers(omega, spaces)
        self.reset_geometry()
        self.rules()  # checks the options now, not at the first call

    def _numbers(self, omega: float, spaces: int) -> None:
        """The rules' learned numbers; positive ones as logarithms."""
        H = self.heads

        def number(value: float, size: int = H) -> nn.Parameter:
            return nn.Parameter(torch.full((size,), float(value)))

        for rule in RULES:
            setattr(self, f"omega_{rule}", number(omega))
        self.alpha_align, self.alpha_coh = number(1.0), number(1.0)
        self.log_tau_sep, self.log_tau_coh = number(0.0, spaces), number(0.0, spaces)
        self.delta = number(0.2)
        self.log_kappa = number(math.log(32.0))
        self.log_tau_score = number(0.0)

    def reset_geometry(self) -> None:
        """U: entries of variance 1/(dim · d_z), so that tokens of unit variance lie √2 apart."""
        for U in (self.U, self.U_context):
            if U is not None:
                nn.init.normal_(U.weight, std=(U.in_features * self.d_z) ** -0.5)

    def rules(self) -> Rules:
        """The numbers as they are now."""
        return Rules(
            omega_align=self.omega_align * self.role_align,
            omega_sep=self.omega_sep * self.role_sep,
            omega_coh=self.omega_coh * self.role_coh,
            alpha_align=self.alpha_align, alpha_coh=self.alpha_coh,
            tau_sep=self.log_tau_sep.exp(), tau_coh=self.log_tau_coh.exp(),
            delta=self.delta, kappa=self.log_kappa.exp(), tau_score=self.log_tau_score.exp(),
            k=self.k, lam_align=self.lam_align, lam_sep=self.lam_sep, lam_coh=self.lam_coh,
            standardise=self.standardise, separation_scope=self.separation_scope,
            local_scope=self.local_scope,
        )  # fmt: skip

    def project(
        self, x: Float[Tensor, "B N dim"], context: Float[Tensor, "B M source"] | None = None
    ) -> dict[str, Any]:
        """q, k, v, z_q, h_q, z_k, h_k (and key_norm) by head."""
        source = x if context is None else context
        q = self._split(self.W_Q(x))
        k, v = self._split(self.W_K(source)), self._split(self.W_V(source))
        z_q, h_q = self._split(self.U(x), self.d_z), self._split(self.P(x), self.d_a)
        z_k, h_k = z_q, h_q
        if context is not None:
            z_k = self._split((self.U_context or self.U)(source), self.d_z)
            h_k = self._split((self.P_context or self.P)(source), self.d_a)
        made: dict[str, Any] = {
            "q": q,
            "k": k,
            "v": v,
            "z_q": z_q,
            "h_q": h_q,
            "z_k": z_k,
            "h_k": h_k,
        }
        if self.qk_norm:  # base score = gain · cos(q, k); all keys have length 1
            gain = (self.log_gain.exp() * self.head_dim**0.5).view(-1, 1, 1)
            made.update(q=gain * F.normalize(q, dim=-1), k=F.normalize(k, dim=-1), key_norm=1.0)
        return made

    def _split(self, t: Float[Tensor, "B N w"], width: int | None = None) -> Tensor:
        return t.unflatten(-1, (-1, self.head_dim if width is None else width)).transpose(1, 2)

    def new_cache(self) -> Cache:
        """An empty cache for decoding: bounded where there is a window."""
        return Cache(window=self.window, n_global=self.n_global)

    def forward(
        self,
        x: Float[Tensor, "B N dim"],
        context: Float[Tensor, "B M source"] | None = None,
        causal: bool = False,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        other: Tensor | LowRank | None = None,
        neighbours: str | Int[Tensor, "..."] | None = None,
        cache: Cache | None = None,
        backend: str | None = None,
        return_parts: bool = False,
        return_neighbours: bool = False,
    ) -> Any:
        """y, or (y, Parts) with return_parts, or (y, index lists) with return_neighbours.

        context    keys come from here instead of x: cross-attention
        mask       bool, True = may attend: (B, M) for padding, or broadcastable to (B, H, N, M)
        neighbours index lists instead of this layer's own search, such as another layer's
        cache      x are the next tokens; attends causally to them and to all that it holds
        """
        near = self.neighbours if neighbours is None else neighbours
        made = self.project(x, context)
        kinds: dict[str, Any] = dict(rules=self.rules(), other=other, neighbours=near)
        backend = self.backend if backend is None else backend
        if cache is not None:
            if context is not None or return_parts or return_neighbours:
                raise ValueError(
                    "cache serves self-attention and plain output; expected no context, "
                    "return_parts or return_neighbours with it"
                )
            return self._merge(self._decode(made, kinds, cache, mask, backend))
        flock = enter(
            **made, **kinds, causal=causal, cross=context is not None,
            mask=self._mask(mask, x if context is None else context),
            window=None if context is not None else self.window,
            n_global=0 if context is not None else self.n_global,
            dropout=self.dropout if self.training else 0.0,
        )  # fmt: skip
        if return_neighbours:
            flock = replace(flock, neighbours=find_neighbours(flock))
        if return_parts:
            out, parts = attend(flock, backend, True)
            return self._merge(out), parts
        y = self._merge(attend(flock, backend))
        return (y, flock.neighbours) if return_neighbours else y

    def _decode(
        self, made: dict[str, Any], kinds: dict[str, Any], cache: Cache,
        mask: Tensor | None, backend: str,
    ) -> Tensor:  # fmt: skip
        if cache.window != self.window and self.window is not None:
            raise ValueError(f"the cache has window {cache.window}; expected {self.window}")
        n, first = made["q"].shape[2], len(cache) == 0
        if mask is not None:
            if (
                mask.ndim != 2
                or mask.dtype != torch.bool
                or mask.shape[1] not in (n, len(cache) + n)
            ):
                raise ValueError(
                    f"mask is {mask.dtype} {tuple(mask.shape)}; expected bool (B, {n}) for the new "
                    f"tokens, or (B, {len(cache) + n}) for all"
                )
            mask = mask[:, -n:]
        norm = made.get("key_norm")
        cache.append(made["k"], made["v"], made["z_k"], made["h_k"], key_norm=norm, mask=mask)
        if first and n > 1:  # prefill: a full pass is cheaper than its rows
            flock = enter(
                **made, **kinds, causal=True, window=cache.window, n_global=cache.n_global,
                mask=None if mask is None else mask[:, None, None, :],
            )  # fmt: skip
            return attend(flock, "auto" if backend == "decode" else backend)
        flock = cache.flock(made["q"], made["z_q"], made["h_q"], key_norm=norm, **kinds)
        return attend(flock, "decode")

    def _mask(self, mask: Tensor | None, keys: Tensor) -> Tensor | None:
        if mask is None or mask.ndim != 2:
            return mask
        if mask.shape != keys.shape[:2]:
            raise ValueError(
                f"mask has shape {tuple(mask.shape)}; expected padding (B, M) = "
                f"{tuple(keys.shape[:2])}, or four axes that broadcast to (B, H, N, M)"
            )
        return mask[:, None, None, :]

    def _merge(self, out: Float[Tensor, "B H N d"]) -> Float[Tensor, "B N dim"]:
        return self.W_O(out.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        shape = f"dim={self.dim}, heads={self.heads}, k={self.k}, geometry={self.geometry!r}"
        return shape + (f", window={self.window}" if self.window is not None else "")


def _roles(roles: Sequence[str] | None, heads: int) -> list[Tensor]:
    """For each rule, 1 in the heads that have it."""
    roles = ["all"] * heads if roles is None else roles
    return [torch.tensor([float(r in (rule, "all")) for r in roles]) for rule in RULES]


def _check(
    dim: int, heads: int, head_dim: int | None, kv_heads: int, geometry: str,
    roles: Sequence[str] | None,
) -> None:  # fmt: skip
    if heads < 1 or (head_dim is None and dim % heads):
        raise ValueError(f"heads = {heads}; expected a divisor of dim = {dim}, or head_dim=…")
    if kv_heads < 1 or heads % kv_heads:
        raise ValueError(f"kv_heads = {kv_heads}; expected a divisor of heads = {heads}")
    if geometry not in GEOMETRIES:
        raise ValueError(f"unknown geometry {geometry!r}; expected one of {', '.join(GEOMETRIES)}")
    if roles is not None:
        allowed = (*RULES, "all", "none")
        if len(roles) != heads:
            raise ValueError(f"roles has {len(roles)} entries; expected one a head ({heads})")
        for role in roles:
            if role not in allowed:
                raise ValueError(f"unknown role {role!r}; expected one of {', '.join(allowed)}")
