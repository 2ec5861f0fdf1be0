"""Checks of arguments: errors name the value, what was expected and the nearest known name."""

from __future__ import annotations

import difflib
import importlib.util
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, TypeVar

T = TypeVar("T")


def lookup(what: str, name: str, registry: Mapping[str, T]) -> T:
    """registry[name], or an error with the nearest name and all of them."""
    if not isinstance(name, str) or name not in registry:
        raise ValueError(
            f"unknown {what} {name!r}{nearest(name, registry)}; expected one of "
            f"{', '.join(registry)}"
        )
    return registry[name]


def check_options(
    what: str, given: Iterable[str], known: Collection[str], hints: Mapping[str, str] | None = None
) -> None:
    """Refuse an option that is not known, with the nearest that is. `hints`: what to write instead
    of a name that is known elsewhere."""
    for name in given:
        if name in known:
            continue
        if hints is not None and name in hints:
            raise TypeError(f"{what} has no option {name!r}; expected {hints[name]}")
        expected = f"one of {', '.join(known)}" if known else "none"
        raise TypeError(f"{what} has no option {name!r}{nearest(name, known)}; expected {expected}")


def nearest(name: str, known: Iterable[str]) -> str:
    """' (did you mean …?)', or nothing where no name is near."""
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def need(module: str, extra: str, also: str = "") -> None:
    """ModuleNotFoundError with the `pip install` that brings a missing package. `also`: another way
    to proceed."""
    if importlib.util.find_spec(module) is None:
        raise ModuleNotFoundError(
            f'{module} is not installed; expected: pip install "ascender-attention[{extra}]"{also}',
            name=module,
        )


def check_int(name: str, value: Any, least: int, also: str = "") -> None:
    """An int of at least so much."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} = {value!r}; expected an int ≥ {least}{also}")


def check_number(
    name: str, value: Any, expected: str, low: float = -math.inf, high: float = math.inf
) -> None:
    """A finite number in [low, high)."""
    fits = isinstance(value, Real) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or not low <= value < high:
        raise ValueError(f"{name} = {value!r}; expected {expected}")


def check_by_head(name: str, value: Any, heads: int, expected: str, low: float = -math.inf) -> None:
    """A finite number of at least `low`, or a list of one a head."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        lists = f", or a list of {heads} (one a head)" if heads > 1 else ""
        check_number(name, value, f"{expected}{lists}", low)
        return
    if len(value) not in (1, heads):
        many = f"1 or {heads} (one a head)" if heads > 1 else "1, which all heads share"
        raise ValueError(f"{name} has {len(value)} values; expected {many}")
    for i, one in enumerate(value):
        check_number(f"{name}[{i}]", one, expected, low)


def check_positive(name: str, value: Any) -> None:
    check_number(name, value, "a positive number", math.ulp(0.0))


def check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{name} = {value!r}; expected True or False")


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(
            f"unknown {name} {value!r}{nearest(value, allowed)}; expected one of "
            f"{', '.join(allowed)}"
        )
