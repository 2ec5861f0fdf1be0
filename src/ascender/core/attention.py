"""asc_attention: attention with the three rules as one function, on any backend."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.backends.base import Backend
from ascender.core.backends.dense import dense
from ascender.core.backends.windowed import Blocks
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, backend_for
from ascender.core.combine import LowRank, Parts, RowStats, to_4d
from ascender.core.flock import Flock
from ascender.core.losses import losses
from ascender.core.normalizers import Normalizer
from ascender.core.rules import Rules
from ascender.kernels import gpu


def asc_attention(
    q: Float[Tensor, "B H N d"],
    k: Float[Tensor, "B G M d"],
    v: Float[Tensor, "B G M e"],
    z_q: Float[Tensor, "B Z N z"],
    h_q: Float[Tensor, "B A N a"],
    z_k: Float[Tensor, "B Z M z"] | None = None,
    h_k: Float[Tensor, "B A M a"] | None = None,
    *,
    rules: Rules,
    causal: bool = False,
    window: int | None = None,
    n_global: int = 0,
    mask: Bool[Tensor, "..."] | None = None,
    other: Tensor | LowRank | None = None,
    neighbours: str | Int[Tensor, "..."] = "semantic",
    cross: bool = False,
    bare: Float[Tensor, "B G M d"] | None = None,
    key_norm: float | Tensor | None = None,
    dropout: float = 0.0,
    normalizer: Normalizer | None = None,
    scope: str = "visible",
    affinity: str = "tied",
    affinity_term: bool = False,
    affinity_bias: Float[Tensor, "n"] | None = None,
    backend: str = "auto",
    return_parts: bool = False,
    return_losses: bool = False,
    **unknown: Any,
) -> Any:
    """softmax over V(i) of ( q_i·k_j/√d + alignment + separation + cohesion + affinity + other )
    / τ_score, times v.

    q, k, v: (batch, heads, tokens, width); k and v may have fewer heads (grouped). z, h: latent
    coordinates and semantic projections, per head or one that all share; z_k and h_k default to
    z_q and h_q. With fewer queries than keys the queries are the tail of the keys.

    mask       bool, True = may attend, broadcastable to (B, H, N, M); padding is (B, 1, 1, M)
    other      an additive bias that broadcasts to (B, H, N, M), or LowRank (folds)
    neighbours "semantic", "scores", or indices (N, K), (B, N, K) or (B, heads, N, K); −1 = none
    bare       the keys before rotation, where k is rotated: alignment uses these
    key_norm   the one length of all keys of a head (QK-norm): alignment then costs no width
    normalizer how scores become weights (normalizers.py); None is the softmax
    scope      "visible", or "flock": attend to F(i) only, which is i itself, `window` keys on each
               side, the first `n_global` keys, and the rules.far others of highest affinity
    affinity   what ranks keys: "tied", the cosine of h, or "query-key", g = h_q·h_k/√d_a
    affinity_term   whether ω_aff · g is a term of the score
    affinity_bias   (buckets,): added to g by the distance of query and key, in T5's buckets
    backend    "auto", "dense", "compact", "native", "folded", "fused", "windowed", "decode" or
               "flock"

    Returns out, or (out, Parts) with return_parts (dense), or (out, Losses) with return_losses,
    or (out, Parts, Losses).
    """
    flock = build_flock(
        q, k, v, z_q, h_q, z_k, h_k, rules=rules, causal=causal, window=window,
        n_global=n_global, mask=mask, other=other, neighbours=neighbours, cross=cross,
        bare=bare, key_norm=key_norm, dropout=dropout, normalizer=normalizer, scope=scope,
        affinity=affinity, affinity_term=affinity_term, affinity_bias=affinity_bias, **unknown,
    )  # fmt: skip
    return attend(flock, backend, return_parts, return_losses)


def attend(
    flock: Flock, backend: str, return_parts: bool = False, return_losses: bool = False
) -> Any:
    """A checked call on the backend it asks for; returns as asc_attention does."""
    if torch.is_autocast_enabled(flock.q.device.type):
        with torch.autocast(flock.q.device.type, enabled=False):
            return attend(flock, backend, return_parts, return_losses)
    extra: list[Any] = []
    if return_parts:
        if backend not in ("auto", "dense"):
            raise ValueError(
                f"return_parts with backend={backend!r}: Parts are N×M matrices; expected "
                "backend='dense' or 'auto', or asc_parts(rows=…) for some rows"
            )
        out, parts, stats = dense(flock.repeat_kv(), return_losses)
        extra.append(parts)
    else:
        if backend != "dense" and flock.affinity_term and flock.scope is None:
            flock = flock.with_affinity_in_bias()
        chosen = backend_for(flock, backend, return_losses)
        if return_losses and not chosen.gives_stats:
            chosen = BACKENDS["dense"]
        if chosen is BACKENDS["dense"]:
            out, stats = chosen.run(flock, return_losses)
        elif torch.compiler.is_compiling() and chosen.traceable:
            flock, nonfinite = flock.repeat_kv().without_nonfinite()
            out, stats = _once(flock, chosen, return_losses)
            out = out.masked_fill(nonfinite[..., None], torch.nan)
        elif torch.compiler.is_compiling():  # own kernels and index lists: not traced
            out, stats = torch.compiler.disable(_run)(flock, chosen, return_losses)
        else:
            out, stats = _run(flock, chosen, return_losses)
    if return_losses:
        assert stats is not None
        extra.append(losses(flock, stats))
    return (out, *extra) if extra else out


def _run(flock: Flock, backend: Backend, stats: bool) -> tuple[Tensor, RowStats | None]:
    """backend.run; once more, without them, where there are tokens that are not finite."""
    if gpu.on_gpu(flock.q):  # a second pass would wait for the numbers of the first
        return _finite_only(flock, backend, stats)
    out, row_stats = _once(flock, backend, stats)
    nan = math.isnan(float(out.detach().sum()))  # inf − inf too: costs only a second pass
    if nan or not _geometry_is_finite(flock):
        return _finite_only(flock, backend, stats)
    return out, row_stats


def _finite_only(flock: Flock, backend: Backend, stats: bool) -> tuple[Tensor, RowStats | None]:
    """backend.run without the tokens that are not finite; NaN in the rows that see one."""
    flock, nonfinite = flock.without_nonfinite()
    nonfinite = nonfinite[..., None]
    out, row_stats = _once(flock, backend, stats)
    out = out.masked_fill(nonfinite, torch.nan)
    return out, None if row_stats is None else replace(row_stats, nonfinite=nonfinite)


def _once(flock: Flock, backend: Backend, stats: bool) -> tuple[Tensor, RowStats | None]:
    """backend.run, with F(i) as a mask where the backend has no lists, and a key for every head
    of queries where it takes no groups."""
    if flock.scope is not None and not backend.lists:
        flock = flock.narrowed().with_affinity_in_bias()
    if not backend.takes_groups(flock):
        flock = flock.repeat_kv()
    return backend.run(flock, stats)


def _geometry_is_finite(flock: Flock) -> bool:
    """Whether z and h are finite, in flock scope all tokens; checked only where a NaN in them may
    not reach the output."""
    r = flock.rules
    if flock.by_cosine and flock.scope is None and r.active("sep") and r.active("coh"):
        return True  # a NaN in h is the largest cosine, one in z is in every centre
    tokens = [flock.z_q, flock.h_q]
    if flock.scope is None:
        tokens += [flock.z_k, flock.h_k]
    elif not flock.keys_are_finite:  # keys that no flock holds
        return False
    else:
        other = flock.other
        tokens += [other.right] if isinstance(other, LowRank) else []
        tokens += [other] if isinstance(other, Tensor) and to_4d(other).shape[-2] == 1 else []
    return all(math.isfinite(float(t.detach().sum())) for t in tokens)


def find_neighbours(flock: Flock) -> Int[Tensor, "B #H N K"]:
    """N_k(i) of a call as index lists, to hand to another layer."""
    if flock.vis.window is not None and BACKENDS["windowed"].refuses(flock) is None:
        return Blocks(flock.vis, flock.accum_dtype).all_members(flock)
    return flock.members


def asc_parts(
    *args: Tensor,
    rows: Int[Tensor, "R"] | Sequence[int],
    heads: Int[Tensor, "h"] | Sequence[int] | None = None,
    rules: Rules,
    **options: Any,
) -> Parts:
    """Every term of the scores of some rows (and heads): Parts of (B, h, R, M), without the
    whole matrix. The other arguments are those of asc_attention."""
    flock = build_flock(*args, rules=rules, **options)
    device = flock.q.device
    which = torch.as_tensor(rows, device=device, dtype=torch.long)
    N, H = flock.vis.N, flock.q.shape[1]
    which = _indices("rows", which, N)
    some = None if heads is None else _indices("heads", torch.as_tensor(heads, device=device), H)
    return dense(flock.repeat_kv().rows(which, some))[1]


def _indices(name: str, index: Tensor, size: int) -> Tensor:
    if index.ndim != 1 or (index.numel() and not (-size <= index.min() and index.max() < size)):
        raise ValueError(f"{name} = {index.tolist()}; expected a list of indices in 0 … {size - 1}")
    return torch.where(index < 0, index + size, index).long()
