"""Detect a diverging loss, NaN or infinity, and name the layer where it began."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WINDOW, FACTOR = 20, 3.0  # diverged: the mean loss of 20 steps is 3 × that of the first 20


class TrainingDiverged(RuntimeError):
    """NaN, infinity, or a loss that runs away."""


class LossMonitor:
    """Checks the loss of every step.

    >>> monitor = LossMonitor()
    >>> monitor.check(3, float("nan"))
    'the loss is nan'
    """

    def __init__(self) -> None:
        self.first: list[float] = []
        self.last: deque[float] = deque(maxlen=WINDOW)

    def check(self, step: int, loss: float) -> str | None:
        """A description of the problem, or None."""
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if len(self.first) < WINDOW:
            self.first.append(loss)
        self.last.append(loss)
        start, now = (sum(x) / len(x) for x in (self.first, self.last))
        if len(self.last) == WINDOW and step >= 2 * WINDOW and now > FACTOR * max(start, 0.1):
            return (
                f"the loss diverges: {now:.3g} over the last {WINDOW} steps, {start:.3g} over the "
                f"first"
            )
        return None

    def state(self) -> dict[str, list[float]]:
        return {"first": self.first, "last": list(self.last)}

    def restore(self, state: dict[str, list[float]]) -> None:
        self.first, self.last = list(state["first"]), deque(state["last"], maxlen=WINDOW)


def culprit(model: nn.Module, call: Callable[[], Any]) -> str:
    """The first module in a forward pass that gives NaN or infinity; else the first parameter
    that is so itself, or whose gradient is."""
    first: list[str] = []

    def hook(name: str) -> Callable[..., None]:
        def check(_: nn.Module, __: Any, out: Any) -> None:
            if not first and any(not bool(t.isfinite().all()) for t in _floats(out)):
                first.append(f"the output of {name}")

        return check

    for name, p in model.named_parameters():
        if not bool(p.isfinite().all()):
            return f"the weight {name}"
    handles = [m.register_forward_hook(hook(n)) for n, m in model.named_modules() if n]
    try:
        with torch.no_grad():
            call()
    finally:
        for handle in handles:
            handle.remove()
    if first:
        return first[0]
    for name, p in model.named_parameters():
        if p.grad is not None and not bool(p.grad.isfinite().all()):
            return f"the gradient of {name}"
    return "no single layer: all outputs are finite"


def _floats(out: Any) -> list[Tensor]:
    if isinstance(out, Tensor):
        return [out] if out.is_floating_point() else []
    if isinstance(out, dict):
        return [t for value in out.values() for t in _floats(value)]
    if isinstance(out, list | tuple):
        return [t for value in out for t in _floats(value)]
    return []
