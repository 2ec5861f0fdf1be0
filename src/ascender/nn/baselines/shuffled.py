"""The control: ASCender whose neighbourhoods are as large, but random.

If it does as well as ASCender, the neighbourhoods were not what helped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ascender.common.validate import check_int
from ascender.core.attention import find_neighbours
from ascender.core.flock import Flock
from ascender.core.geometry import accum_dtype
from ascender.nn.baselines.hashing import mix64
from ascender.nn.module import AscenderAttention
from ascender.nn.slot import Call

WIDTH = 16  # of the random directions


class Shuffled(AscenderAttention):
    """ASCender with N_k(i) drawn at random from P(i): as many members as it would have, anew at
    every training step, and by `seed` and position alone when evaluating, so that rows decoded
    one at a time equal the full pass. In flock scope it is the far keys L_m(i) that are drawn, and
    N_k(i) is chosen among them, window and globals as ever."""

    name = "shuffled"

    def __init__(self, dim: int, heads: int, *, seed: int = 0, **options: Any) -> None:
        super().__init__(dim, heads, **options)
        check_int("seed", seed, 0)
        self.seed = seed

    def flock(self, call: Call) -> Flock:
        flock = super().flock(call)
        seed = int(torch.randint(1 << 31, ())) if self.training else self.seed
        if flock.scope is not None:
            return flock if flock.far_keys is not None else random_far_keys(flock, seed)
        given = flock.members if isinstance(flock.neighbours, Tensor) else None
        blind = replace(
            flock,
            h_q=directions(flock.vis.p, self.heads, 2 * seed, flock.q),
            h_k=directions(flock.vis.j, self.heads, 2 * seed + 1, flock.q),
            neighbours="semantic",
            rules=flock.rules if given is None else replace(flock.rules, k=given.shape[-1]),
        )
        near = find_neighbours(blind) if call.cache is None else blind.members
        if given is not None:  # as many as each list has
            near = _cut(near, (given >= 0).sum(-1, keepdim=True))
        return flock.keeping_cached(neighbours=near)


def random_far_keys(flock: Flock, seed: int) -> Flock:
    """The same flocks with L_m(i) at random: as many lists, and as many members."""
    given = flock.far if isinstance(flock.neighbours, Tensor) else None
    lists = flock.h_q.shape[1]
    blind = replace(
        flock,
        h_q=directions(flock.vis.p, lists, 2 * seed, flock.q),
        h_k=directions(flock.vis.j, lists, 2 * seed + 1, flock.q),
        neighbours="semantic", affinity="tied", affinity_bias=None, affinity_term=False,
        rules=flock.rules if given is None else replace(flock.rules, far=given.shape[-1]),
    )  # fmt: skip
    far = blind.far if given is None else _cut(blind.far, (given >= 0).sum(-1, keepdim=True))
    return flock.keeping_cached(neighbours="semantic", far_keys=far)


def _cut(near: Int[Tensor, "B #H N K"], sizes: Int[Tensor, "B #H N 1"]) -> Tensor:
    rank = (near >= 0).cumsum(-1)
    return near.masked_fill(rank > sizes, -1)


def directions(
    p: Int[Tensor, "N"], heads: int, seed: int, like: Float[Tensor, "B _ n _"]
) -> Float[Tensor, "B H N w"]:
    """A random direction for each position and head, from a hash of (seed, head, position): the
    same for any other tokens."""
    head = torch.arange(heads, device=p.device).view(-1, 1, 1)
    column = torch.arange(WIDTH, device=p.device)
    x = ((seed * 1_000_003 + head) * 1_000_003 + p.view(1, -1, 1)) * 1_000_003 + column
    uniform = (mix64(x) & ((1 << 24) - 1)).to(accum_dtype(like.dtype)) / (1 << 23) - 1
    return uniform.expand(like.shape[0], -1, -1, -1)
