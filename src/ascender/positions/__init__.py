"""Where a token stands."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from ascender.combine import LowRank


class Position(nn.Module):
    """none: attention that does not know where a token stands. Every method does nothing."""

    name = "none"

    def embed(self, x: Float[Tensor, "B N dim"], p: Int[Tensor, "..."]) -> Float[Tensor, "B N dim"]:
        return x

    def rotate(self, t: Float[Tensor, "B H N d"], p: Int[Tensor, "..."]) -> Tensor:
        return t

    def bias(
        self, p: Int[Tensor, "N"], j: Int[Tensor, "M"], causal: bool
    ) -> Tensor | LowRank | None:
        return None

    def scores(
        self, q: Float[Tensor, "B H N d"], p: Int[Tensor, "N"], j: Int[Tensor, "M"]
    ) -> Tensor | None:
        return None

    def values(
        self, weights: Float[Tensor, "B H N M"], p: Int[Tensor, "N"], j: Int[Tensor, "M"]
    ) -> Tensor | None:
        return None


POSITIONS: dict[str, type[Position]] = {"none": Position}


def position(which: str | Position | None, **sizes: Any) -> Position:
    if isinstance(which, Position):
        return which
    return POSITIONS["none" if which is None else which]()
