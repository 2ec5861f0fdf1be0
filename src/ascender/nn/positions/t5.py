"""T5's relative buckets (Raffel et al. 2019, https://arxiv.org/abs/1910.10683): near distances one
by one, far ones in bins that grow with the logarithm, all beyond max_distance together."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ascender.common.validate import check_int
from ascender.core.affinity import bucket
from ascender.core.shapes import KeyPositions, QueryPositions
from ascender.nn.positions.base import INIT, Position, distance


class T5(Position):
    """T5's relative bias: acts on the scores, one learned number a bucket and head.

        β_ij = table[bucket(j − p(i)), h]        one-sided buckets where causal, else two-sided

    Laws: adding one number to all positions changes nothing; a table of one value (so 0 too) is
    vanilla.
    """

    name = "t5"
    needs = "matrix"

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128) -> None:
        super().__init__()
        check_int("heads", heads, 1)
        check_int("buckets", buckets, 4)
        if buckets % 2:
            raise ValueError(f"buckets = {buckets}; expected an even number of at least 4")
        check_int("max_distance", max_distance, 1)
        if max_distance <= buckets // 2:
            raise ValueError(
                f"max_distance = {max_distance}; expected more than buckets/2 = {buckets // 2}"
            )
        self.heads, self.buckets, self.max_distance = heads, buckets, max_distance
        self.table = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=INIT)

    def bias(self, p: QueryPositions, j: KeyPositions, causal: bool) -> Float[Tensor, "H N M"]:
        D = self.max_distance  # beyond it nothing changes: 2D + 1 distances are all there are
        r = torch.arange(-D, D + 1, device=p.device)
        by_distance = self.table[bucket(r, causal, self.buckets, D)].mT  # (H, 2D + 1)
        which = distance(p, j).clamp(-D, D) + D
        return by_distance.index_select(1, which.flatten()).unflatten(1, which.shape)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}"
