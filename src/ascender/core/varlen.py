"""asc_attention_varlen: attention within each of many sequences that lie one after another.

Sequence s of a packed batch has the tokens  cu_seqlens[s] … cu_seqlens[s+1] − 1,  as in flash
attention's varlen functions. Row i of it is row i of asc_attention on the sequence alone: nothing
passes from one to another.

On a GPU with Triton the kernels of the backend fused read cu_seqlens themselves, where that backend
serves the call; only h is padded, for the search of neighbours. Elsewhere the sequences are padded
to a batch (batch, longest) and computed by asc_attention, on any device and backend.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from ascender.common.validate import check_int
from ascender.core import neighbours as nb
from ascender.core.attention import asc_attention, attend
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS
from ascender.core.combine import LowRank
from ascender.core.flock import Flock
from ascender.core.normalizers import Normalizer
from ascender.core.rules import Rules
from ascender.core.visibility import Visibility
from ascender.kernels import gpu

REFUSED = {
    "mask": "no mask: sequences have no padding; causal, window and n_global say what is visible",
    "cross": "asc_attention with cross=True and a mask, on a padded batch",
    "return_parts": "asc_parts on one sequence",
}


@dataclass(frozen=True)
class Packed:
    """Where the tokens of packed sequences stand in a padded batch of (B, L)."""

    index: Int[Tensor, "B L"]  # of each place the token, or `total` where there is none
    place: Int[Tensor, "total"]  # of each token the place b · L + t
    real: Bool[Tensor, "B L"]  # which places have a token

    @staticmethod
    def of(
        cu_seqlens: Tensor, total: int, device: torch.device, max_seqlen: int | None = None
    ) -> Packed:
        """From checked cu_seqlens, whose numbers on a GPU are read only if max_seqlen is None."""
        _check_kind(cu_seqlens)
        if max_seqlen is not None:
            check_int("max_seqlen", max_seqlen, 1)
        if cu_seqlens.device.type == "cpu" or max_seqlen is None:
            longest = _check_numbers(cu_seqlens.tolist(), total, max_seqlen)
            max_seqlen = longest if max_seqlen is None else max_seqlen
        cu = cu_seqlens.to(device=device, dtype=torch.long)
        steps, tokens = torch.arange(max_seqlen, device=device), torch.arange(total, device=device)
        real = steps < cu.diff().unsqueeze(-1)
        index = torch.where(real, cu[:-1, None] + steps, total)
        sequence = torch.searchsorted(cu[1:].contiguous(), tokens, right=True)
        return Packed(index, sequence * max_seqlen + tokens - cu[sequence], real)

    @property
    def positions(self) -> Int[Tensor, "total"]:
        """The position of each token in its sequence."""
        return self.place % self.index.shape[1]

    def pad(self, t: Shaped[Tensor, "total ..."], value: float = 0) -> Shaped[Tensor, "B L ..."]:
        """The sequences as a batch, padded with `value`."""
        filled = torch.cat([t, t.new_full((1, *t.shape[1:]), value)])
        return filled.index_select(0, self.index.flatten()).unflatten(0, self.index.shape)

    def unpad(self, t: Shaped[Tensor, "B L ..."]) -> Shaped[Tensor, "total ..."]:
        return t.flatten(0, 1).index_select(0, self.place)


def asc_attention_varlen(
    q: Float[Tensor, "total H d"],
    k: Float[Tensor, "total G d"],
    v: Float[Tensor, "total G e"],
    z: Float[Tensor, "total Z z"],
    h: Float[Tensor, "total A a"],
    z_k: Float[Tensor, "total Z z"] | None = None,
    h_k: Float[Tensor, "total A a"] | None = None,
    *,
    cu_seqlens: Int[Tensor, "sequences1"],
    rules: Rules,
    max_seqlen: int | None = None,
    other: LowRank | None = None,
    neighbours: str | Int[Tensor, "total ..."] = "semantic",
    bare: Float[Tensor, "total G d"] | None = None,
    **options: Any,
) -> Any:
    """asc_attention within each sequence; the layout of tensors is (tokens, heads, width).

    cu_seqlens  (sequences + 1,) int32 or int64: where each sequence begins, then the number of
                tokens; the first is 0, and none is less than the one before
    max_seqlen  the longest length. If given, cu_seqlens on a GPU is neither read nor checked,
                and the host does not wait for the GPU
    other       LowRank, both sides (tokens, heads or 1, rank)
    neighbours  "semantic", "scores" or indices (tokens, K) or (tokens, heads or 1, K) that count
                from the start of the token's own sequence; −1 = none
    options     the others of asc_attention, but for mask, cross and return_parts

    Returns out (total, H, e), or (out, Losses) with return_losses, the means over all tokens.
    """
    for name, instead in REFUSED.items():
        value = options.pop(name, None)
        if value is not None and value is not False:
            raise TypeError(f"asc_attention_varlen has no option {name!r}; expected {instead}")
    tensors = {"q": q, "k": k, "v": v, "z": z, "h": h, "z_k": z_k, "h_k": h_k, "bare": bare}
    if other is not None:
        if not isinstance(other, LowRank):
            raise TypeError(
                f"other is {type(other).__name__}; expected LowRank with sides (tokens, heads, "
                "rank): a matrix of scores has no packed form"
            )
        tensors |= {"other.left": other.left, "other.right": other.right}
    if isinstance(neighbours, Tensor):
        wide = neighbours.unsqueeze(1) if neighbours.ndim == 2 else neighbours
        tensors["neighbours"] = wide
    for name, t in tensors.items():
        _check_tokens(name, t, q)
    packed = Packed.of(cu_seqlens, q.shape[0], q.device, max_seqlen)
    flock = _as_one(tensors, neighbours, rules, options)
    if flock is not None and BACKENDS["fused"].refuses(flock) is None:
        return by_kernels(packed, cu_seqlens, flock)
    return _by_padding(packed, tensors, neighbours, rules, options)


def _as_one(
    tensors: dict[str, Tensor | None], neighbours: str | Tensor, rules: Rules,
    options: dict[str, Any],
) -> Flock | None:  # fmt: skip
    """The call on all tokens as if they were one sequence; None where kernels that read packed
    sequences cannot serve it, whatever the device."""
    options, q = dict(options), tensors["q"]
    if q is None or not gpu.on_gpu(q) or not gpu.has_triton():
        return None
    normalizer, by_distance = options.get("normalizer"), options.get("affinity_bias")
    counts = isinstance(normalizer, Normalizer) and (
        type(normalizer).sharpen is not Normalizer.sharpen
    )
    losses, backend = options.pop("return_losses", False), options.pop("backend", "auto")
    visible = options.get("scope", "visible") == "visible"
    if losses or counts or by_distance is not None or not visible:
        return None
    if backend not in ("auto", "fused"):
        return None
    batch = {n: t.transpose(0, 1).unsqueeze(0) for n, t in tensors.items() if t is not None}
    other = None
    if "other.left" in batch:
        other = LowRank(batch["other.left"], batch["other.right"])
    return build_flock(
        *(batch.get(name) for name in ("q", "k", "v", "z", "h", "z_k", "h_k")),  # type: ignore[arg-type]
        rules=rules, other=other, neighbours=batch.get("neighbours", neighbours),
        bare=batch.get("bare"), **options,
    ).with_affinity_in_bias()  # fmt: skip


def by_kernels(packed: Packed, cu_seqlens: Tensor, flock: Flock) -> Float[Tensor, "total H e"]:
    """By kernels that read cu_seqlens; `flock` is the call as if all were one sequence."""
    total, device = flock.q.shape[2], flock.q.device
    cu = cu_seqlens.to(device=device, dtype=torch.int32)
    vis = Visibility.of(
        total, total, device=device, causal=flock.vis.causal, cu=cu, longest=packed.index.shape[1]
    )
    near: str | Tensor = flock.neighbours
    if flock.rules.needs_neighbours:
        near = _neighbours(packed, flock, vis)
    out = attend(replace(flock, vis=vis, neighbours=near), "fused")
    return out[0].transpose(0, 1)


def _neighbours(packed: Packed, flock: Flock, vis: Visibility) -> Int[Tensor, "1 h total K"]:
    """N_k(i) by tokens of all, from a search in a padded batch of what ranks them."""
    if isinstance(flock.neighbours, Tensor):
        index = flock.neighbours
    else:
        x, y = (packed.pad(t[0].transpose(0, 1)).transpose(1, 2) for t in flock.ranked_by)
        one = replace(
            Visibility.of(x.shape[2], x.shape[2], device=x.device, causal=vis.causal),
            mask=packed.real[:, None, None],
        )
        index = nb.top_k(x, y, one, flock.rules.sizes(), flock.by_cosine, flock.rank_bias)
        index = packed.unpad(index.transpose(1, 2)).transpose(0, 1)[None]
    return torch.where(index >= 0, index + vis.start[:, None], -1)


def _by_padding(
    packed: Packed, tensors: dict[str, Tensor | None], neighbours: str | Tensor, rules: Rules,
    options: dict[str, Any],
) -> Any:  # fmt: skip
    """On a batch in which every sequence has a row of its own."""
    batch = {
        name: packed.pad(t, -1 if name == "neighbours" else 0).transpose(1, 2)
        for name, t in tensors.items() if t is not None
    }  # fmt: skip
    other = None
    if "other.left" in batch:
        other = LowRank(batch["other.left"], batch["other.right"])
    result = asc_attention(
        *(batch.get(name) for name in ("q", "k", "v", "z", "h", "z_k", "h_k")),  # type: ignore[arg-type]
        rules=rules, mask=packed.real[:, None, None], other=other,
        neighbours=batch.get("neighbours", neighbours), bare=batch.get("bare"), **options,
    )  # fmt: skip
    out, *more = result if isinstance(result, tuple) else (result,)
    out = packed.unpad(out.transpose(1, 2))
    return (out, *more) if more else out


def _check_tokens(name: str, t: Any, q: Tensor) -> None:
    if t is None and name in ("z_k", "h_k", "bare"):
        return
    if not isinstance(t, Tensor) or t.ndim != 3:
        got = tuple(t.shape) if isinstance(t, Tensor) else type(t).__name__
        raise ValueError(f"{name} is {got}; expected a tensor (tokens, heads, width)")
    if name == "q" and t.shape[0] == 0:
        raise ValueError(f"q has shape {tuple(t.shape)}; expected at least one token")
    if t.shape[0] != q.shape[0]:
        raise ValueError(f"{name} has {t.shape[0]} tokens; expected {q.shape[0]} as q has")


def _check_kind(cu_seqlens: Any) -> None:
    if not isinstance(cu_seqlens, Tensor):
        raise TypeError(
            f"cu_seqlens is {type(cu_seqlens).__name__}; expected an int32 or int64 tensor "
            "(sequences + 1,)"
        )
    if cu_seqlens.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"cu_seqlens has dtype {cu_seqlens.dtype}; expected int32 or int64")
    if cu_seqlens.ndim != 1 or len(cu_seqlens) < 2:
        raise ValueError(
            f"cu_seqlens has shape {tuple(cu_seqlens.shape)}; expected (sequences + 1,)"
        )


def _check_numbers(ends: list[int], total: int, max_seqlen: int | None) -> int:
    """The length of the longest sequence."""
    if ends[0] != 0:
        raise ValueError(f"cu_seqlens starts at {ends[0]}; expected 0")
    if ends[-1] != total:
        raise ValueError(f"cu_seqlens ends at {ends[-1]}; expected {total}, the number of tokens")
    lengths = [b - a for a, b in pairwise(ends)]
    if min(lengths) < 0:
        s = lengths.index(min(lengths))
        raise ValueError(
            f"cu_seqlens goes from {ends[s]} to {ends[s + 1]} at sequence {s}; expected numbers "
            "that never decrease"
        )
    longest = max(lengths)
    if max_seqlen is not None and max_seqlen < longest:
        raise ValueError(
            f"max_seqlen = {max_seqlen}; expected at least {longest}, the longest sequence"
        )
    return longest
