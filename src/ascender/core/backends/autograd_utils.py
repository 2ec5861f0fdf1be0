"""A backward written by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor


def backward(rule: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Differentiable once, and in the precision of its tensors even where backward() is called
    under autocast."""

    @wraps(rule)
    def run(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        kinds = [g.device.type for g in grads if g is not None]
        if not kinds or not torch.is_autocast_enabled(kinds[0]):
            return rule(ctx, *grads)
        with torch.autocast(kinds[0], enabled=False):
            return rule(ctx, *grads)

    return torch.autograd.function.once_differentiable(run)
