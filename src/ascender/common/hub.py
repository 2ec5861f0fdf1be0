"""Loading from the Hub: every failure is one error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ascender.common.files import reason

T = TypeVar("T")


def from_hub(what: str, instead: str, load: Callable[[], T]) -> T:
    """load(), or FileNotFoundError: `what` cannot be loaded; expected a network, or `instead`.

    Every exception counts. Without a network `datasets` raises an OSError for one data set and
    for another an httpx.ConnectError, which is none.
    """
    try:
        return load()
    except Exception as error:
        raise FileNotFoundError(unavailable(what, error, instead)) from error


def unavailable(what: str, error: Exception, instead: str) -> str:
    """The text of the error of `from_hub`."""
    said = str(error).strip().splitlines()
    why = f"{type(error).__name__}: {reason(said[0])}" if said else type(error).__name__
    return f"cannot load {what} from the Hub here ({why}); expected a network, or {instead}"
