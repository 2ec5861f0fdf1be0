"""Tasks by name: `task("listops", depth=4)`. A new one is one file and one line here."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from ascender.names import check_options, lookup
from ascender.own_code import code, import_code, is_code
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
    """The class of a task; its data is not touched. `module:Class` is a name too, of a module that
    is imported."""
    found: type[Task]
    if is_code(name):
        found = code("task", name, Task)
        return found
    module, kind = lookup("task", name, TASKS)[0].split(":")
    found = getattr(importlib.import_module(f"ascender.tasks.{module}"), kind)
    return found


def task(name: str, **options: Any) -> Task:
    """A task by name, or of your own by module:Class; an option that it does not have is an
    error."""
    if is_code(name):
        import_code(name)
    kind = kind_of(name)
    known = list(inspect.signature(kind).parameters)
    check_options(f"task {name}", options, known)
    made = kind(**{**TASKS.get(name, ("", {}))[1], **options})
    made.name = name  # type: ignore[misc]  # a family's tasks share a class
    return made
