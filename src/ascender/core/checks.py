"""Argument checks: asc_attention's arguments in, a Flock out, or an error that names the argument,
its value and what was expected. Nothing after this checks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ascender.common.validate import (
    check_choice,
    check_flag,
    check_int,
    check_number,
    check_options,
)
from ascender.core.affinity import AFFINITIES
from ascender.core.combine import Bias, LowRank, repeat_kv, to_4d
from ascender.core.flock import CHOICES, Flock, make_flock
from ascender.core.normalizers import Normalizer
from ascender.core.rules import Rules
from ascender.core.scope import SCOPES, FlockScope
from ascender.core.visibility import Visibility

# Options of asc_attention and asc_parts.
OPTIONS = (
    "causal", "window", "n_global", "mask", "other", "neighbours", "cross", "bare", "key_norm",
    "dropout", "normalizer", "scope", "affinity", "affinity_term", "affinity_bias", "backend",
    "return_parts", "return_losses", "rows", "heads",
)  # fmt: skip
# Names of the same in torch and transformers, and what to write here.
KNOWN_ELSEWHERE = {
    "attn_mask": "mask=… (bool, True = may attend: as scaled_dot_product_attention has it, the "
    "opposite of nn.MultiheadAttention's), or other=… for numbers that are added to the scores",
    "key_padding_mask": "mask=~key_padding_mask[:, None, None, :] (here True = may attend)",
    "attention_mask": "mask=attention_mask.bool()[:, None, None, :] (True = a real token)",
    "is_causal": "causal=…",
    "need_weights": "return_parts=True, which gives (out, Parts): the weights are Parts.weights",
    "dropout_p": "dropout=…",
    "enable_gqa": "nothing: keys and values may have fewer heads as they are",
}


def build_flock(
    q: Tensor, k: Tensor, v: Tensor, z_q: Tensor, h_q: Tensor,
    z_k: Tensor | None = None, h_k: Tensor | None = None, *, rules: Rules, causal: bool = False,
    window: int | None = None, n_global: int = 0, mask: Tensor | None = None,
    other: Tensor | LowRank | None = None, neighbours: str | Tensor = "semantic",
    cross: bool = False, bare: Tensor | None = None, key_norm: float | Tensor | None = None,
    dropout: float = 0.0, pair_values: Callable[[Tensor], Tensor | None] | None = None,
    normalizer: Normalizer | None = None, scope: str = "visible", affinity: str = "tied",
    affinity_term: bool = False, affinity_bias: Tensor | None = None, **unknown: Any,
) -> Flock:  # fmt: skip
    """The checked call."""
    check_options("asc_attention", unknown, OPTIONS, KNOWN_ELSEWHERE)
    grouped = {"k": k, "v": v} | ({} if bare is None else {"bare": bare})
    for name, t in {"q": q, **grouped, "z_q": z_q, "h_q": h_q}.items():
        _check_rank(name, t)
    B, H, N, _ = q.shape
    M = k.shape[2]
    z_k = _keys_of("z", z_q, z_k, N, M)
    h_k = _keys_of("h", h_q, h_k, N, M)
    _check_shapes(q, grouped, {"z_q": z_q, "h_q": h_q, "z_k": z_k, "h_k": h_k})
    if not isinstance(rules, Rules):
        raise TypeError(f"rules is {type(rules).__name__}; expected Rules(…)")
    rules.check_heads(H)
    _check_key_norm(key_norm, H)
    if isinstance(key_norm, Tensor) and key_norm.numel() > 1:  # a length for each head of queries
        k, v = repeat_kv(k, H), repeat_kv(v, H)
        bare = None if bare is None else repeat_kv(bare, H)
    check_affinity(affinity, affinity_term, affinity_bias)
    if cross and affinity_bias is not None:
        raise ValueError(
            "affinity_bias with cross=True: queries have no distance from the keys there; "
            "expected affinity_bias=None"
        )
    vis, flock_scope = make_scope(
        q, M, scope=scope, far=rules.sizes("far"), causal=causal, window=window,
        n_global=n_global, mask=mask, cross=cross,
    )  # fmt: skip
    check_number("dropout", dropout, "a number in [0, 1)", 0, 1)
    check_other(other, B, H, N, M)
    return make_flock(
        q, k, v, z_q, z_k, h_q, h_k, rules=rules, vis=vis, other=other,
        neighbours=check_neighbours(neighbours, B, H, N), bare=bare, key_norm=key_norm,
        dropout=dropout, pair_values=pair_values, normalizer=normalizer, scope=flock_scope,
        affinity=affinity, affinity_term=affinity_term, affinity_bias=affinity_bias,
    )  # fmt: skip


def make_scope(
    q: Tensor, M: int, *, scope: str, far: tuple[int, ...] = (32,), window: int | None = None,
    n_global: int = 0, cross: bool = False, **masks: Any,
) -> tuple[Visibility, FlockScope | None]:  # fmt: skip
    """V of M keys for the queries q, and who is in a flock: None in visible scope."""
    check_choice("scope", scope, SCOPES)
    if scope == "visible":
        masks |= {"window": window, "n_global": n_global}
        return make_visibility(q, M, cross=cross, **masks), None
    check_window(0 if window is None else window, n_global)
    if cross and (window or n_global):
        which = f"window = {window}" if window else f"n_global = {n_global}"
        raise ValueError(
            f"{which} in flock scope with cross=True: a flock has neither window nor globals "
            "there; expected far=… only"
        )
    if cross and min(far) == 0:
        raise ValueError("far = 0 with cross=True: every flock would be empty; expected far ≥ 1")
    vis = make_visibility(q, M, cross=cross, **masks)
    return vis, FlockScope(vis, window or 0, n_global)


def check_affinity(affinity: str, term: bool, bias: Tensor | None) -> None:
    check_choice("affinity", affinity, AFFINITIES)
    check_flag("affinity_term", term)
    if bias is None:
        return
    if not isinstance(bias, Tensor) or not bias.is_floating_point() or bias.ndim != 1:
        got = tuple(bias.shape) if isinstance(bias, Tensor) else type(bias).__name__
        raise TypeError(f"affinity_bias is {got}; expected a floating-point tensor (buckets,)")
    if bias.numel() < 4 or bias.numel() % 2:
        raise ValueError(
            f"affinity_bias has {bias.numel()} buckets; expected an even number of at least 4"
        )
    if affinity != "query-key":
        raise ValueError(
            f"affinity_bias with affinity={affinity!r}, which ranks by the cosine; expected "
            "affinity='query-key'"
        )


def make_visibility(
    q: Tensor, M: int, *, causal: bool = False, window: int | None = None, n_global: int = 0,
    mask: Tensor | None = None, cross: bool = False,
) -> Visibility:  # fmt: skip
    """The visibility of M keys for the queries q (B, H, N, ·)."""
    B, H, N = q.shape[:3]
    _check_kind(N, M, causal, window, n_global, cross)
    return Visibility.of(
        N, M, device=q.device, causal=causal, window=window, n_global=n_global, cross=cross,
        mask=None if mask is None else _mask(mask, B, H, N, M),
    )  # fmt: skip


def _check_rank(name: str, t: Tensor) -> None:
    if not isinstance(t, Tensor) or t.ndim != 4:
        got = tuple(t.shape) if isinstance(t, Tensor) else type(t).__name__
        raise ValueError(f"{name} is {got}; expected a tensor (batch, heads, tokens, width)")
    if not t.is_floating_point():
        raise TypeError(f"{name} has dtype {t.dtype}; expected a floating-point dtype")


def _keys_of(letter: str, at_q: Tensor, at_k: Tensor | None, N: int, M: int) -> Tensor:
    if at_k is None:
        if N != M:
            raise ValueError(
                f"{letter}_k is missing with {N} queries and {M} keys; expected {letter}_k of "
                f"{M} tokens ({letter}_k defaults to {letter}_q only where they are the same)"
            )
        return at_q
    _check_rank(f"{letter}_k", at_k)
    return at_k


def _check_shapes(q: Tensor, grouped: dict[str, Tensor], spaces: dict[str, Tensor]) -> None:
    """`grouped`: k, v and bare, whose heads divide those of q; `spaces`: z and h of queries and
    keys, of as many heads as q or one."""
    B, H, N, d = q.shape
    k = grouped["k"]
    M = k.shape[2]
    if N == 0 or M == 0 or d == 0:
        raise ValueError(
            f"q has shape {tuple(q.shape)}, k {tuple(k.shape)}; expected no empty axis"
        )
    for name, t in {**grouped, **spaces}.items():
        shape = f"{name} has shape {tuple(t.shape)}"
        letter, of_q = name[0], name.endswith("_q")
        width = d if name in ("k", "bare") else None
        if name.endswith("_k"):
            width = spaces[f"{letter}_q"].shape[3]
        if t.shape[0] != B:
            raise ValueError(f"{shape}; expected batch {B} as q has")
        if name in spaces and t.shape[1] not in (1, H):
            raise ValueError(f"{shape}; expected {H} heads as q has, or 1 that all share")
        if name in grouped and (t.shape[1] == 0 or H % t.shape[1]):
            raise ValueError(f"{shape}; expected {H} heads as q has, or a divisor of {H} (grouped)")
        if t.shape[2] != (N if of_q else M):
            raise ValueError(f"{shape}; expected {N if of_q else M} tokens")
        if width is not None and t.shape[3] != width:
            raise ValueError(f"{shape}; expected width {width}")
        if name.endswith("_k") and t.shape[1] != (n := spaces[f"{letter}_q"].shape[1]):
            raise ValueError(f"{letter}_q has {n} heads and {name} {t.shape[1]}; expected the same")
        if name in grouped and t.dtype != q.dtype:
            raise TypeError(f"{name} has dtype {t.dtype}; expected {q.dtype} as q has")
        if t.device != q.device:
            raise ValueError(f"{name} is on {t.device}; expected {q.device} as q is")


def _check_key_norm(norm: float | Tensor | None, heads: int) -> None:
    if isinstance(norm, Tensor):
        if norm.ndim > 1 or norm.numel() not in (1, heads):
            raise ValueError(
                f"key_norm has shape {tuple(norm.shape)}; expected 1 value or one a head ({heads})"
            )
    elif norm is not None and not norm > 0:
        raise ValueError(f"key_norm = {norm:g}; expected a positive number")


def _check_kind(
    N: int, M: int, causal: bool, window: int | None, n_global: int, cross: bool
) -> None:
    if cross and (causal or window is not None):
        which = "causal=True" if causal else f"window={window}"
        raise ValueError(
            f"{which} with cross=True: queries have no position among the keys there; "
            "expected cross=False, or a bool mask"
        )
    if not cross and N > M:
        raise ValueError(
            f"{N} queries and {M} keys; expected N ≤ M in self-attention (the queries are the "
            "tail of the keys), or cross=True"
        )
    check_window(window, n_global)


def check_window(window: int | None, n_global: int) -> None:
    if window is not None:
        check_int("window", window, 0, ", or None")
    check_int("n_global", n_global, 0)
    if n_global and window is None:
        raise ValueError(f"n_global = {n_global} without a window; expected window=…")


def _broadcast(name: str, t: Tensor, *full: int) -> Tensor:
    """t with four axes, each 1 or as `full` has it."""
    if t.ndim <= 4 and all(x in (1, y) for x, y in zip(to_4d(t).shape, full, strict=True)):
        return to_4d(t)
    raise ValueError(f"{name} has shape {tuple(t.shape)}; expected one that broadcasts to {full}")


def _mask(mask: Tensor, B: int, H: int, N: int, M: int) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = f"dtype {mask.dtype}" if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"mask has {got}; expected torch.bool, True = may attend")
    mask = _broadcast("mask", mask, B, H, N, M)
    return mask if mask.shape[-1] == M else mask.expand(-1, -1, -1, M)


def check_other(other: Bias, B: int, H: int, N: int, M: int) -> None:
    if other is None:
        return
    if isinstance(other, LowRank):
        for name, side, tokens in (("left", other.left, N), ("right", other.right, M)):
            shape = to_4d(side).shape if 2 <= side.ndim <= 4 else (0, 0, 0, 0)
            if not (shape[0] in (1, B) and shape[1] in (1, H) and shape[2] == tokens):
                raise ValueError(
                    f"other.{name} has shape {tuple(side.shape)}; expected (…, {tokens}, rank) "
                    f"that broadcasts over {B} × {H} heads"
                )
        if other.left.shape[-1] != other.right.shape[-1]:
            raise ValueError(
                f"other has ranks {other.left.shape[-1]} and {other.right.shape[-1]}; "
                "expected the same on both sides"
            )
        return
    if not isinstance(other, Tensor) or not other.is_floating_point():
        got = other.dtype if isinstance(other, Tensor) else type(other).__name__
        raise TypeError(f"other is {got}; expected a floating-point tensor or LowRank")
    _broadcast("other", other, B, H, N, M)


def check_neighbours(neighbours: str | Tensor, B: int, H: int, N: int) -> str | Tensor:
    choices = f"one of {', '.join(CHOICES)}, or an index tensor"
    if isinstance(neighbours, str):
        if neighbours not in CHOICES:
            raise ValueError(f"unknown neighbours {neighbours!r}; expected {choices}")
        return neighbours
    if not isinstance(neighbours, Tensor):
        raise TypeError(f"neighbours = {neighbours!r}; expected {choices}")
    if neighbours.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"neighbours has dtype {neighbours.dtype}; expected int64 indices")
    n = neighbours.long()
    if n.ndim == 3:
        n = n.unsqueeze(1)  # (B, N, K): the same for all heads
    n = to_4d(n) if n.ndim < 4 else n
    fits = n.ndim == 4 and n.shape[0] in (1, B) and n.shape[1] in (1, H) and n.shape[2] == N
    if not fits or n.shape[3] == 0:
        raise ValueError(
            f"neighbours has shape {tuple(neighbours.shape)}; expected (N, K), (B, N, K) or "
            f"(B, heads or 1, N, K) with B = {B}, N = {N}"
        )
    return n.expand(B, -1, -1, -1)
