"""Tasks by name: `task("listops", depth=4)`. A new one is one file and one line here."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from ascender.names import check_options, lookup
from ascender.tasks.base import Batch, Display, Drawn, Graded, Stored, Task

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
    "pylib": ("pylib:Pylib", {}),
    "cola": ("glue:Glue", {"subset": "cola"}),
    "sst2": ("glue:Glue", {"subset": "sst2"}),
    "mrpc": ("glue:Glue", {"subset": "mrpc"}),
    "qqp": ("glue:Glue", {"subset": "qqp"}),
    "stsb": ("glue:Glue", {"subset": "stsb"}),
    "mnli": ("glue:Glue", {"subset": "mnli"}),
    "qnli": ("glue:Glue", {"subset": "qnli"}),
    "rte": ("glue:Glue", {"subset": "rte"}),
    "wnli": ("glue:Glue", {"subset": "wnli"}),
    "boolq": ("superglue:SuperGlue", {"subset": "boolq"}),
    "cb": ("superglue:SuperGlue", {"subset": "cb"}),
    "copa": ("superglue:SuperGlue", {"subset": "copa"}),
    "multirc": ("superglue:SuperGlue", {"subset": "multirc"}),
    "record": ("superglue:SuperGlue", {"subset": "record"}),
    "superglue-rte": ("superglue:SuperGlue", {"subset": "rte"}),
    "wic": ("superglue:SuperGlue", {"subset": "wic"}),
    "wsc": ("superglue:SuperGlue", {"subset": "wsc"}),
    "gsm8k": ("maths:Gsm8k", {}),
    "math": ("maths:Math", {}),
    "lra-text": ("lra:LraText", {}),
    "lra-retrieval": ("lra:LraRetrieval", {}),
    "lra-image": ("images:Pixels", {"pictures": "cifar10"}),
    "longbench": ("long:LongBench", {}),
    "scrolls": ("long:Scrolls", {}),
    "translation": ("translation:Translation", {}),
    "mnist": ("images:Patches", {"pictures": "mnist"}),
    "fashion-mnist": ("images:Patches", {"pictures": "fashion-mnist"}),
    "cifar10": ("images:Patches", {"pictures": "cifar10"}),
    "cora": ("citations:Citations", {"name": "cora"}),
    "citeseer": ("citations:Citations", {"name": "citeseer"}),
}  # fmt: skip

__all__ = ["TASKS", "Batch", "Display", "Drawn", "Graded", "Stored", "Task", "kind_of", "task"]


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
    check_options(f"task {name}", options, known)
    made = kind(**{**TASKS.get(name, ("", {}))[1], **options})
    made.name = name  # type: ignore[misc]  # a family's tasks share a class
    return made
