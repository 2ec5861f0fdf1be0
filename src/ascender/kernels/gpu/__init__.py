"""Kernels for GPUs in Triton, as torch operators; nothing here needs triton to be imported."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

from torch import Tensor


def on_gpu(t: Tensor) -> bool:
    """Whether t is on a GPU, where reading a number makes the host wait."""
    return t.device.type == "cuda"


@lru_cache(1)
def has_triton() -> bool:
    """Whether triton is installed; the CUDA builds of torch bring it."""
    return find_spec("triton") is not None
