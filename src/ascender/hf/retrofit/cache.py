"""A model's own cache, made to carry what the rules need of past tokens.

Keys get further columns: z, h (and cos, sin) of their tokens, spread over the key heads. So
whatever befalls keys (beams reordered, batches repeated, sliding windows, cropping, offloading)
befalls them too, and nothing has to be kept in step.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def pack(streams: list[Tensor], heads: int) -> Float[Tensor, "B G N c"]:
    """Streams (B, ·, N, ·) as columns of `heads` heads."""
    flat = torch.cat([t.transpose(1, 2).flatten(2) for t in streams], -1)
    flat = F.pad(flat, (0, -flat.shape[-1] % heads))
    return flat.unflatten(-1, (heads, -1)).transpose(1, 2)


def unpack(columns: Float[Tensor, "B G M c"], like: list[Tensor]) -> list[Tensor]:
    """The streams again, of all M tokens, with heads and widths as `like` has them."""
    flat = columns.transpose(1, 2).flatten(2)
    sizes = [t.shape[1] * t.shape[3] for t in like]
    parts = flat[..., : sum(sizes)].split(sizes, -1)
    shaped = (p.unflatten(-1, (t.shape[1], -1)) for p, t in zip(parts, like, strict=True))
    return [t.transpose(1, 2) for t in shaped]


class ExtendedCache:
    """The cache of a call, as one attention module sees it."""

    def __init__(self, cache: Any, streams: list[Tensor]) -> None:
        if getattr(cache, "is_compileable", False):
            raise ValueError(
                f"{type(cache).__name__} holds room for tokens to come, and the rules know rows by "
                "their place at the end; expected a dynamic cache (cache_implementation=None)"
            )
        self.cache, self.streams = cache, streams

    def update(
        self, key: Tensor, value: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Remember the new tokens; returns all that the cache lets this call see."""
        extra = pack(self.streams, key.shape[1]).to(key.dtype)
        wide = torch.cat([key, extra], -1)
        self._check(layer_idx, wide)
        return self.cache.update(wide, value, layer_idx, *args, **kwargs)

    def _check(self, layer_idx: int, wide: Tensor) -> None:
        layers = getattr(self.cache, "layers", [])
        held = getattr(layers[layer_idx], "keys", None) if layer_idx < len(layers) else None
        if isinstance(held, Tensor) and held.numel() and held.shape[-1] != wide.shape[-1]:
            raise ValueError(
                f"the cache has keys of width {held.shape[-1]}; expected {wide.shape[-1]}: it was "
                "filled before the retrofit, or by another one. Start with an empty cache"
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)
