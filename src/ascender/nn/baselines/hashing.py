"""Random bits as a pure function of their keys: the same on every machine and in any order."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

STEP = 0x9E3779B97F4A7C15 - (1 << 64)  # as a signed 64-bit integer


def mix64(x: Int[Tensor, "*s"]) -> Int[Tensor, "*s"]:
    """The finaliser of splitmix64 (https://prng.di.unimi.it/splitmix64.c): every bit of x changes
    every bit of the result. 64-bit arithmetic wraps around."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = _xor_shifted(x, shift) * (factor - (1 << 64))
    return _xor_shifted(x, 31)


def hash64(*keys: int | Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """64 bits that depend on every key."""
    x = torch.zeros((), dtype=torch.int64)
    for key in keys:
        x = mix64((x ^ torch.as_tensor(key)) + STEP)
    return x


def _xor_shifted(x: Tensor, shift: int) -> Tensor:
    """x ^ (x >> shift), of unsigned numbers."""
    return x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))
