"""Registries are literal dicts; asking one for a name it lacks gets an error that teaches."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def lookup(what: str, name: str, registry: Mapping[str, T]) -> T:
    """registry[name], or an error with the nearest name and all of them."""
    if name not in registry:
        raise ValueError(
            f"unknown {what} {name!r}{nearest(name, registry)}; expected one of "
            f"{', '.join(registry)}"
        )
    return registry[name]


def nearest(name: str, known: Iterable[str]) -> str:
    """' (did you mean …?)', or nothing where no name is near."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
