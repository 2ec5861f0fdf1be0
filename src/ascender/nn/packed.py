"""A layer on packed sequences (core/varlen.py): attention within each of them, on a GPU by kernels
that read cu_seqlens, elsewhere on a padded batch."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from ascender.core.choose_backend import BACKENDS
from ascender.core.varlen import Packed, by_kernels
from ascender.kernels import gpu


def attend_packed(
    attention: Any, x: Float[Tensor, "1 total dim"], cu_seqlens: Int[Tensor, "sequences1"],
    max_seqlen: int | None, call: dict[str, Any], refused: dict[str, Any],
) -> Float[Tensor, "1 total dim"]:  # fmt: skip
    """y of tokens x; every sequence starts at position 0. `refused`: what must not be given."""
    for name, value in refused.items():
        if value is not None and value is not False:
            raise TypeError(f"{name} with cu_seqlens; expected no {name}, or no cu_seqlens")
    if not isinstance(x, Tensor) or x.ndim != 3 or x.shape[0] != 1 or x.shape[1] == 0:
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(f"x is {got} with cu_seqlens; expected (1, tokens, {attention.dim})")
    packed = Packed.of(cu_seqlens, x.shape[1], x.device, max_seqlen)
    if (call["backend"] or attention.backend) in ("auto", "fused") and gpu.on_gpu(x):
        flock = attention.packed_flock(x, packed.positions, call["causal"])
        if flock is not None and BACKENDS["fused"].refuses(flock) is None:
            out = by_kernels(packed, cu_seqlens, flock)
            return attention._merge(out.transpose(0, 1)[None])
    return packed.unpad(attention(packed.pad(x[0]), mask=packed.real, **call)).unsqueeze(0)
