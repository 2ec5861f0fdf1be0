"""asc_attention: the three rules as one function, over any backend."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.backends.compact import compact
from ascender.core.backends.decode import decode
from ascender.core.backends.dense import dense
from ascender.core.backends.folded import folded
from ascender.core.backends.windowed import Blocks, windowed
from ascender.core.checks import build_flock
from ascender.core.combine import LowRank, Parts, folds
from ascender.core.flock import Flock
from ascender.core.losses import losses
from ascender.core.neighbours import inside_transform
from ascender.core.normalizers import WRITTEN, Normalizer
from ascender.core.rules import Rules


def _dense(flock: Flock) -> Tensor:
    return dense(flock)[0]


BACKENDS: dict[str, Callable[[Flock], Tensor]] = {
    "dense": _dense,
    "compact": compact,
    "folded": folded,
    "windowed": windowed,
    "decode": decode,
}

# What these serve is short: where losses are asked for, the definition gives both.
SHORT = ("decode", "compact")


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
    backend: str = "auto",
    return_parts: bool = False,
    return_losses: bool = False,
    **unknown: Any,
) -> Any:
    """softmax over V(i) of ( q_i·k_j/√d + alignment + separation + cohesion + other ) / τ_score,
    times v.

    q, k, v: (batch, heads, tokens, width); k and v may have fewer heads (grouped). z, h: latent
    coordinates and semantic projections, per head or one that all share; z_k and h_k default to
    z_q and h_q. With fewer queries than keys the queries are the tail of the keys.

    mask       bool, True = may attend, broadcastable to (B, H, N, M); padding is (B, 1, 1, M)
    other      an additive bias that broadcasts to (B, H, N, M), or LowRank (folds)
    neighbours "semantic", "scores", or indices (N, K), (B, N, K) or (B, heads, N, K); −1 = none
    bare       the keys before rotation, where k is rotated: alignment uses these
    key_norm   the one length of all keys of a head (QK-norm): alignment then costs no width
    normalizer how scores become weights (normalizers.py); None is the softmax
    backend    "auto", "dense", "compact", "folded", "windowed" or "decode"

    Returns out, or (out, Parts) with return_parts (dense), or (out, Losses) with return_losses,
    or (out, Parts, Losses).
    """
    flock = build_flock(
        q, k, v, z_q, h_q, z_k, h_k, rules=rules, causal=causal, window=window,
        n_global=n_global, mask=mask, other=other, neighbours=neighbours, cross=cross,
        bare=bare, key_norm=key_norm, dropout=dropout, normalizer=normalizer, **unknown,
    )  # fmt: skip
    return attend(flock, backend, return_parts, return_losses)


def attend(
    flock: Flock, backend: str, return_parts: bool = False, return_losses: bool = False
) -> Any:
    """A checked call on the backend it asks for."""
    if torch.is_autocast_enabled(flock.q.device.type):
        with torch.autocast(flock.q.device.type, enabled=False):
            return attend(flock, backend, return_parts, return_losses)
    if return_losses:
        flock = flock.watched()
        found = attend(flock, backend, return_parts)
        return (*found, losses(flock)) if return_parts else (found, losses(flock))
    if return_parts:
        if backend not in ("auto", "dense"):
            raise ValueError(
                f"return_parts with backend={backend!r}: Parts are whole matrices; expected "
                "backend='dense' or 'auto', or asc_parts(rows=…) for some rows"
            )
        return dense(flock.repeat_kv())
    name = choose(flock) if backend == "auto" else backend
    if name not in BACKENDS:
        raise ValueError(
            f"unknown backend {backend!r}; expected one of auto, {', '.join(BACKENDS)}"
        )
    if reason := refusal(flock, name):
        raise ValueError(f"backend={name!r} cannot: {reason}")
    if name == "dense" or (name in SHORT and flock.local is not None):
        return dense(flock.repeat_kv())[0]
    if torch.compiler.is_compiling():  # kernels and index lists of its own: step around it
        return torch.compiler.disable(_run)(flock, name)
    return _run(flock, name)


def _run(flock: Flock, name: str) -> Tensor:
    out = BACKENDS[name](flock)
    spoilt_sum = math.isnan(float(out.detach().sum()))  # inf − inf too: then only a second look
    if spoilt_sum or not _geometry_is_finite(flock):
        flock, spoilt = flock.repeat_kv().without_bad()
        out = BACKENDS[name](flock).masked_fill(spoilt[..., None], torch.nan)
        if flock.local is not None:
            flock.local.spoilt = spoilt[..., None]
    return out


def _geometry_is_finite(flock: Flock) -> bool:
    """Whether z and h are; looked at only where a NaN in them need not have reached the output."""
    r = flock.rules
    if (
        isinstance(flock.neighbours, str)
        and flock.neighbours == "semantic"
        and r.active("sep")
        and r.active("coh")
    ):
        return True  # a NaN in h is the largest cosine, one in z is in every centre
    return all(bool(t.sum().isfinite()) for t in (flock.z_q, flock.z_k, flock.h_q, flock.h_k))


def refusal(flock: Flock, backend: str) -> str | None:
    """Why a backend cannot serve this call, or None."""
    vis, rules = flock.vis, flock.rules
    if backend == "dense":
        return None
    if flock.dropout:
        return f"dropout = {flock.dropout} needs the weights; expected backend='dense' or dropout=0"
    if flock.pair_values is not None:
        return "values of pairs (Shaw) need the weights; expected backend='dense'"
    if flock.normalise is not None:
        able = getattr(flock.normalise, "backends", WRITTEN)
        if backend not in able:
            name = getattr(flock.normalise, "name", flock.normalise)
            expected = " or ".join(f"backend={b!r}" for b in able)
            return f"normalizer {name} needs the scores themselves; expected {expected}"
    if rules.separation_scope == "all" and rules.active("sep"):
        return "separation_scope='all' needs the whole matrix; expected backend='dense'"
    if flock.q.dtype == torch.float16 and flock.q.device.type == "cpu":
        return "float16 on the CPU; expected bfloat16, float32 or float64"
    if backend in SHORT:
        return None
    other = flock.other
    if isinstance(other, Tensor) and not folds(other):
        return (
            f"other of shape {tuple(other.shape)} is a matrix of scores; expected LowRank, a "
            "(…, 1, M) tensor, or backend='dense'"
        )
    if not vis.by_key_only:
        assert vis.mask is not None
        return (
            f"mask of shape {tuple(vis.mask.shape)} differs by query; expected a padding mask "
            "(B, 1, 1, M) with causal or window, or backend='dense'"
        )
    if backend == "folded" and vis.window is not None:
        return f"window = {vis.window}; expected backend='windowed'"
    if backend == "windowed" and vis.window is None:
        return "there is no window; expected window=…"
    return None


# Up to this many scores a head, whole matrices are cheaper than avoiding them: about 180 tokens
# (`ascender bench choose` shows where the crossings are on a machine).
SMALL = 1 << 15
LARGE = 1 << 22  # from here on whole matrices are worth a warning


def choose(flock: Flock) -> str:
    """The backend that `auto` takes: by mask, size and surroundings."""
    vis = flock.vis
    if inside_transform():
        return "dense"  # vmap and grad of torch.func see only plain operations
    order = []
    if vis.N <= 8 < vis.M:
        order.append("decode")
    small = SMALL if vis.window is None else 4 * SMALL  # blocks pay off later than the fold
    if small < vis.N * vis.M:
        order.append("folded" if vis.window is None else "windowed")
    elif not torch.compiler.is_compiling():  # a compiler fuses the dense path itself
        order.append("compact")
    for name in order:
        if refusal(flock, name) is None:
            return name
    # Where the scores must be written out, decode writes fewer matrices of them.
    written = flock.normalise is not None and small < vis.N * vis.M
    name = "decode" if written and refusal(flock, "decode") is None else "dense"
    if vis.N * vis.M > LARGE:
        warnings.warn(
            f"attention over {vis.N} × {vis.M} scores runs {name}, with whole matrices: "
            f"{order[-1]} cannot: {refusal(flock, order[-1])}",
            stacklevel=4,
        )
    return name


def find_neighbours(flock: Flock) -> Int[Tensor, "B #H N K"]:
    """N_k(i) of a call as index lists, to hand to another layer."""
    if flock.vis.window is not None and refusal(flock, "windowed") is None:
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
    return dense(flock.rows(which, some))[1]


def _indices(name: str, index: Tensor, size: int) -> Tensor:
    if index.ndim != 1 or (index.numel() and not (-size <= index.min() and index.max() < size)):
        raise ValueError(f"{name} = {index.tolist()}; expected a list of indices in 0 … {size - 1}")
    return torch.where(index < 0, index + size, index).long()
