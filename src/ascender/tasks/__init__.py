"""Tasks by name: `task("listops", depth=4)`. A new one is one file and one line here."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from ascender.common.user_code import code, import_code, is_code
from ascender.common.validate import check_options, lookup
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

# One line for `ascender list tasks`; default: the first sentence of the docstring.
ABOUT = {
    "listops": "What is the value of a nested operation on digits?",
    "listops-short": "The same with at most 100 tokens and depth 5.",
    "recall": "Pairs of keys and values, then each key again: its value?",
    "copy-noise": "Repeat the symbols scattered in noise, in their order.",
    "needle": "A key and its value somewhere in filler: which value?",
    "pathfinder": "Are two dots the ends of one dashed curve, or of two?",
    "distinct": "How many prototypes stand in a crowd of noisy copies?",
    "grouping": "One member of each cluster is named: name the others.",
    "digits": "Which digit is it? 8 × 8 pixels, a token each.",
    "fewshot-digits": "Five kinds of digits under random names: name the last.",
    "pylib": "What comes next in the source of Python's library?",
    "cola": "Is a sentence grammatical? (GLUE)",
    "sst2": "Is a sentence of a film review positive? (GLUE)",
    "mrpc": "Do two sentences of the news say the same? (GLUE)",
    "qqp": "Do two questions ask the same? (GLUE)",
    "stsb": "How similar are two sentences, from 0 to 5? (GLUE)",
    "mnli": "Does one sentence entail or contradict another? (GLUE)",
    "qnli": "Does a sentence answer a question? (GLUE)",
    "rte": "Does one text entail another? (GLUE)",
    "wnli": "Does a sentence with its pronoun resolved follow? (GLUE)",
    "boolq": "A yes-or-no question about a passage. (SuperGLUE)",
    "cb": "How far does a text commit to a clause? (SuperGLUE)",
    "copa": "Which of two is the cause or the effect? (SuperGLUE)",
    "multirc": "Is an answer to a question right? (SuperGLUE)",
    "record": "Which name fills the gap in the news? (SuperGLUE)",
    "superglue-rte": "Does one text entail another? (SuperGLUE)",
    "wic": "Does a word mean the same in both sentences? (SuperGLUE)",
    "wsc": "Does a pronoun mean this person or thing? (SuperGLUE)",
    "gsm8k": "The number that answers a word problem.",
    "math": "The answer to a competition problem.",
    "lra-text": "Is a film review positive? Bytes. (Long Range Arena)",
    "lra-retrieval": "Does one paper cite the other? (Long Range Arena)",
    "lra-image": "What is in the picture? Pixels. (Long Range Arena)",
    "longbench": "Questions about long documents, and summaries.",
    "scrolls": "Questions about long texts, and summaries.",
    "translation": "A sentence in another language.",
    "mnist": "Which digit is in the picture? Patches.",
    "fashion-mnist": "Which piece of clothing is in the picture? Patches.",
    "cifar10": "What is in the picture? Patches of CIFAR-10.",
    "cora": "Which field is a paper of, in a graph of citations?",
    "citeseer": "Which field is a paper of, in a graph of citations?",
}

__all__ = [
    "ABOUT", "TASKS", "Batch", "Display", "Drawn", "Graded", "Stored", "Task", "kind_of", "task",
]  # fmt: skip


def kind_of(name: str) -> type[Task]:
    """The class of a task, by its name or by module:Class of an imported module. No data is
    loaded."""
    kind: type[Task]
    if is_code(name):
        kind = code("task", name, Task)
        return kind
    module, _, attribute = lookup("task", name, TASKS)[0].partition(":")
    kind = getattr(importlib.import_module(f"ascender.tasks.{module}"), attribute)
    return kind


def task(name: str, **options: Any) -> Task:
    """A task by name, or your own by module:Class; an unknown option is an error."""
    if is_code(name):
        import_code(name)
    kind = kind_of(name)
    known = list(inspect.signature(kind).parameters)
    check_options(f"task {name}", options, known)
    result = kind(**{**TASKS.get(name, ("", {}))[1], **options})
    result.name = name  # type: ignore[misc]  # a family's tasks share a class
    return result
