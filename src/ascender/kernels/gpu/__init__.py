"""Kernels for GPUs in Triton, as torch operators; nothing here needs triton to be imported."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby
from typing import TypeVar

import torch
from torch import Tensor

Item = TypeVar("Item")

LONGEST = 256  # index list that fits into the registers of a program
MOST = 64  # keys of a query that the search for the best of them may return


def on_gpu(t: Tensor) -> bool:
    """Whether t is on a GPU, where reading a number makes the host wait."""
    return t.device.type == "cuda"


@lru_cache(1)
def has_triton() -> bool:
    """Whether triton is installed; the CUDA builds of torch bring it."""
    return find_spec("triton") is not None


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter: on the CPU, slowly, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def runs(items: Sequence[Item]) -> list[tuple[Item, int]]:
    """Equal neighbours of a sequence and how many they are."""
    return [(item, len(list(same))) for item, same in groupby(items)]


def filled(items: Sequence[float], like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The numbers on the device of `like`, filled in there: copying from the host would sync."""
    parts = [like.new_full((n,), item, dtype=dtype) for item, n in runs(items)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def keys_of_room(t: Tensor) -> int:
    """Rows from one head of keys (B, G, M, w) to the next: more than M where a cache has room."""
    (B, G, M, _), (b, g, row, _) = t.shape, t.stride()
    if t.is_contiguous() or B == G == 1:  # then strides of axes of one mean nothing
        return M
    return g // row if G > 1 else b // row


def one_room(keys: Iterable[Tensor | None], widest: Tensor | None = None) -> bool:
    """Whether all keys lie row by row in buffers with the same room; only in `widest` a row may be
    longer than what is read of it."""
    there = [t for t in keys if t is not None]
    room = keys_of_room(there[0])
    return all(_in_rows(t, room, t is widest) for t in there)


def _in_rows(t: Tensor, room: int, wider: bool) -> bool:
    (B, G, _, w), (b, g, row, one) = t.shape, t.stride()
    rows = one == 1 and (row == w or wider)
    return rows and (G == 1 or g == room * row) and (B == 1 or b == G * room * row)


def power_of_two(n: int, least: int = 16) -> int:
    """The block that holds n."""
    return max(least, 1 << (n - 1).bit_length())
