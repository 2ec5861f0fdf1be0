"""Tasks by name: `task("listops", depth=4)`. A new one is one file and one line here."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from ascender.names import lookup, nearest
from ascender.tasks.base import Batch, Drawn, Graded, Stored, Task

# name: (where it is, options that the name stands for)
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "distinct": ("distinct:Distinct", {}),
    "digits": ("digits:Digits", {}),
    "mnist": ("images:Patches", {"pictures": "mnist"}),
    "fashion-mnist": ("images:Patches", {"pictures": "fashion-mnist"}),
    "cifar10": ("images:Patches", {"pictures": "cifar10"}),
    "lra-image": ("images:Pixels", {"pictures": "cifar10"}),
    "cora": ("citations:Citations", {"name": "cora"}),
    "citeseer": ("citations:Citations", {"name": "citeseer"}),
}

__all__ = ["TASKS", "Batch", "Drawn", "Graded", "Stored", "Task", "kind_of", "task"]


def kind_of(name: str) -> type[Task]:
    """The class of a task; its data is not touched. `module:Class` is a name too."""
    where = name if ":" in name else lookup("task", name, TASKS)[0]
    module, kind = where.split(":")
    try:
        home = importlib.import_module(module if ":" in name else f"ascender.tasks.{module}")
        found = getattr(home, kind)
    except (ImportError, AttributeError) as error:
        if ":" not in name:
            raise
        raise ValueError(f"no task {name!r} ({error}); expected module:Class") from None
    if not (isinstance(found, type) and issubclass(found, Task)):
        raise ValueError(f"{name!r} is {found!r}; expected a class derived from Task")
    return found


def task(name: str, **options: Any) -> Task:
    """A task by name; an option that it does not have is an error."""
    kind = kind_of(name)
    known = list(inspect.signature(kind).parameters)
    for option in options:
        if option not in known:
            expected = f"expected one of {', '.join(known)}" if known else "expected none"
            raise TypeError(
                f"task {name} has no option {option!r}{nearest(option, known)}; {expected}"
            )
    made = kind(**{**TASKS.get(name, ("", {}))[1], **options})
    made.name = name  # type: ignore[misc]  # a family's tasks share a class
    return made
