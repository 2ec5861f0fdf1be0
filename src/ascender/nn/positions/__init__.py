"""Positions, each one object in the same slot: `position("rope", dim=…, heads=…, head_dim=…)`."""

from __future__ import annotations

import inspect
from typing import Any

from ascender.common.validate import check_options, lookup
from ascender.nn.positions.absolute import Learned, Sinusoidal
from ascender.nn.positions.alibi import Alibi
from ascender.nn.positions.base import Position
from ascender.nn.positions.rope import Rope
from ascender.nn.positions.shaw import Shaw
from ascender.nn.positions.t5 import T5

__all__ = [
    "POSITIONS",
    "T5",
    "Alibi",
    "Learned",
    "Position",
    "Rope",
    "Shaw",
    "Sinusoidal",
    "position",
    "position_options",
]

POSITIONS: dict[str, type[Position]] = {
    "none": Position,
    "rope": Rope,
    "alibi": Alibi,
    "t5": T5,
    "shaw": Shaw,
    "learned": Learned,
    "sinusoidal": Sinusoidal,
}

SIZES = ("dim", "heads", "head_dim")


def position(
    which: str | Position | None, *, dim: int, heads: int, head_dim: int, **options: Any
) -> Position:
    """A position by its name, of the sizes of an attention and with its own options; or the one
    given, if it fits. None is "none"."""
    sizes = {"dim": dim, "heads": heads, "head_dim": head_dim}
    if isinstance(which, Position):
        if options:
            raise ValueError(
                f"{', '.join(options)} with a position already made ({which!r}); expected its name"
            )
        for size, want in sizes.items():
            if (have := getattr(which, size, want)) != want:
                raise ValueError(f"position {which!r} has {size} = {have}; expected {want}")
        return which
    name = "none" if which is None else which
    kind, takes = lookup("position", name, POSITIONS), inspect.signature(POSITIONS[name]).parameters
    check_options(f"position {name!r}", options, position_options(name))
    return kind(**{size: sizes[size] for size in takes if size in sizes}, **options)


def position_options(name: str) -> list[str]:
    """What a position takes beyond the sizes of an attention."""
    takes = inspect.signature(lookup("position", name, POSITIONS)).parameters
    return [option for option in takes if option not in SIZES]
