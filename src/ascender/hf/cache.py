"""The caches of all layers, with the interface of transformers' generate()."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from transformers import Cache as HFCache

from ascender.nn.cache import CrossKV
from ascender.nn.slot import Attention


class AscenderCache(HFCache):
    """One cache a layer, of its attention's kind (bounded where there is a window), and in an
    encoder–decoder the keys and values of each cross-attention."""

    is_compileable = False

    def __init__(self, attentions: list[Attention]) -> None:
        self.own: list[Any] = [a.new_cache() for a in attentions]
        self.cross = [CrossKV() for _ in attentions]
        self.layers: list[Any] = []  # transformers' own kind of layer: none

    def __len__(self) -> int:
        return len(self.own)

    def __getitem__(self, layer: int) -> Any:
        return self.own[layer]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Tokens seen so far."""
        return len(self.own[layer_idx])

    def nbytes(self) -> int:
        """Memory of all layers, without that of cross-attentions."""
        return sum(cache.nbytes() for cache in self.own)

    def reorder_cache(self, beam_idx: Int[Tensor, "b"]) -> None:
        """Follow the beams."""
        for cache in (*self.own, *self.cross):
            cache.reorder(beam_idx)

    batch_select_indices = reorder_cache

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Every sequence `repeats` times."""
        if self.get_seq_length():
            self.reorder_cache(torch.arange(self.batch_size).repeat_interleave(repeats))

    @property
    def batch_size(self) -> int:
        """How many sequences; −1 before the first."""
        return self.own[0].batch if self.get_seq_length() else -1

    @property
    def is_croppable(self) -> bool:
        """Whether the newest tokens can be forgotten: not where all is one state."""
        return all(hasattr(cache, "crop") for cache in self.own)

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the newest −tokens_to_remove tokens."""
        if tokens_to_remove > 0:
            raise ValueError(
                f"tokens_to_remove = {tokens_to_remove}; expected 0, or less: −3 forgets three"
            )
        if not self.is_croppable:
            raise NotImplementedError(
                "a cache that is one running state (performer, linear) cannot forget its newest "
                "tokens; expected greedy, sampling or beam search, without an assistant model"
            )
        for cache in self.own:
            cache.crop(-tokens_to_remove)

    def reset(self) -> None:
        raise NotImplementedError("expected a new cache: model.new_cache()")
