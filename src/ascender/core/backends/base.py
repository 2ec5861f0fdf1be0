"""Backend: one way to compute the attention of a call, and the calls that it refuses.

What a call may need, and which calls do:

    columns   a few more columns of q and k                    every call: biases that fold
    matrix    an N×M matrix of scores, added or masked out     T5's bias, masks that differ by query
    rows      the scores of a whole row at once                normalisers that are not the softmax
    weights   the weights, or another quantity of every pair   dropout, separation_scope="all"
    pairs     the weights times a value of each pair           values of pairs (Shaw)

Positions and normalisers declare what they need, a backend what it provides. A new backend is one
file here and one line in core/choose_backend.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core.combine import RowStats, folds
from ascender.core.flock import Flock

Need = Literal["columns", "matrix", "rows", "weights", "pairs"]


class Backend(ABC):
    """Computes the attention of a Flock. `gives_stats`: run(…, stats=True) works; where it does
    not, losses are computed by the dense backend. `traceable`: torch.compile keeps it in its
    graph. `grouped`: keys and values may have fewer heads than queries; elsewhere they are repeated
    before `run`."""

    name: ClassVar[str]
    provides: ClassVar[tuple[Need, ...]] = ("columns",)
    gives_stats: ClassVar[bool] = False
    lists: ClassVar[bool] = False  # flock scope by index lists, without a mask of N×M
    traceable: ClassVar[bool] = False
    grouped: ClassVar[bool] = False

    @abstractmethod
    def run(
        self, flock: Flock, stats: bool = False
    ) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
        """(A v, what the losses need where `stats` asks for it)."""

    def takes_groups(self, flock: Flock) -> bool:
        """Whether it reads the grouped keys of a call without copying them for each head."""
        return self.grouped

    def refuses(self, flock: Flock) -> str | None:
        """Why it cannot run a call and what to change in it, or None."""
        if flock.q.dtype == torch.float16 and flock.q.device.type == "cpu":
            return "float16 on the CPU; expected bfloat16, float32 or float64"
        return next((why for need, why in needs(flock) if need not in self.provides), None)


def needs(flock: Flock) -> Iterator[tuple[Need, str]]:
    """What a call needs beyond columns, each with what to say where a backend lacks it."""
    vis, rules, other = flock.vis, flock.rules, flock.other
    if flock.dropout:
        yield "weights", f"dropout = {flock.dropout} needs the weights; expected dropout=0"
    if flock.pair_values is not None:
        yield "pairs", "values of pairs need the weights; expected a position other than shaw"
    if flock.normalise is not None:
        name = getattr(flock.normalise, "name", flock.normalise)
        yield "rows", f"normalizer {name} needs whole rows of scores; expected softmax"
    if rules.separation_scope == "all" and rules.active("sep"):
        why = "separation_scope = 'all' needs an N×M matrix of penalties; expected 'neighbours'"
        yield "weights", why
    if flock.scope is not None:
        yield "matrix", "flock scope is a mask that differs by query; expected scope='visible'"
    if isinstance(other, Tensor) and not folds(other):
        shape = tuple(other.shape)
        why = (
            f"other of shape {shape} is a matrix of scores; expected LowRank or a (…, 1, M) tensor"
        )
        yield "matrix", why
    if not vis.by_key_only:
        assert vis.mask is not None
        why = (
            f"mask of shape {tuple(vis.mask.shape)} differs by query; expected a padding mask "
            "(B, 1, 1, M) with causal or window"
        )
        yield "matrix", why
