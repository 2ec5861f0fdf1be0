"""From scores to weights."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ascender.combine import masked_softmax


class Normalizer(nn.Module):
    name = "softmax"
    temperature = 1.0
    softmax = True

    def sharpen(self, q: Tensor, n: Tensor) -> Tensor:
        return q

    def weights(self, total: Tensor, visible: Tensor) -> Tensor:
        return masked_softmax(total, visible)


NORMALIZERS: dict[str, type[Normalizer]] = {"softmax": Normalizer}


def normalizer(which: str | Normalizer | None, **sizes: Any) -> Normalizer:
    if isinstance(which, Normalizer):
        return which
    return NORMALIZERS["softmax" if which is None else which]()
