"""What all Triton kernels share: how they are compiled, and with which configurations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import triton

from ascender.kernels.gpu import interpreted

T = TypeVar("T")


def jit(kernel: Callable[..., Any]) -> Any:
    """triton.jit of the function itself, also where a hook wrapped it to check arguments."""
    return triton.jit(inspect.unwrap(kernel))


def first_or_all(configs: list[T]) -> list[T]:
    """The configurations to try: in the interpreter there is nothing to measure."""
    return configs[:1] if interpreted() else configs
