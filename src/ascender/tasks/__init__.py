"""Tasks by name: `task("listops", depth=4)`. A new one is one file and one line here."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from ascender.names import lookup, nearest
from ascender.tasks.base import Batch, Drawn, Graded, Stored, Task

# name: (where it is, options that the name stands for)
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "listops": ("listops:ListOps", {}),
    "listops-short": ("listops:ListOps", {
        "min_length": 10, "max_length": 100, "max_depth": 5, "max_args": 5, "slices": "depth",
    }),
    "recall": ("recall:Recall", {}),
    "copy-noise": ("copy_noise:CopyNoise", {}),
    "needle": ("needle:Needle", {}),
    "pathfinder": ("pathfinder:Pathfinder", {}),
    "distinct": ("distinct:Distinct", {}),
    "grouping": ("grouping:Grouping", {}),
    "digits": ("digits:Digits", {}),
    "fewshot-digits": ("fewshot_digits:FewShotDigits", {}),
}  # fmt: skip

__all__ = ["TASKS", "Batch", "Drawn", "Graded", "Stored", "Task", "kind_of", "task"]


def kind_of(name: str) -> type[Task]:
    """The class of a task; its data is not touched."""
    where, _ = lookup("task", name, TASKS)
    module, kind = where.split(":")
    found: type[Task] = getattr(importlib.import_module(f"ascender.tasks.{module}"), kind)
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
    made = kind(**{**TASKS[name][1], **options})
    made.name = name  # type: ignore[misc]  # a family's tasks share a class
    return made
