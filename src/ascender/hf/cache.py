"""The caches of all layers, as transformers' generate() wants them."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import Cache as HFCache

from ascender.slot import Attention


class AscenderCache(HFCache):
    """One cache a layer, of the kind its attention makes (bounded where there is a window), and in
    an encoder–decoder what the cross-attentions made of the encoder's states."""

    is_compileable = False

    def __init__(self, attentions: list[Attention]) -> None:
        self.own: list[Any] = [a.new_cache() for a in attentions]
        self.layers: list[Any] = []  # transformers' own kind of layer: none

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, layer: int) -> Any:
        return self.own[layer]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens seen so far."""
        return len(self.own[layer_idx])

    def reorder_cache(self, beam_idx: Int[Tensor, "b"]) -> None:
        """Follow the beams."""
        for cache in self.own:
            cache.reorder(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        for cache in self.own:
            cache.reorder(torch.arange(cache.batch).repeat_interleave(repeats))

    def batch_select_indices(self, indices: Int[Tensor, "b"]) -> None:
        self.reorder_cache(indices)

    def crop(self, max_length: int) -> None:
        raise NotImplementedError(
            "an AscenderCache cannot forget its newest tokens; expected greedy, sampling or beam "
            "search, without an assistant model"
        )
