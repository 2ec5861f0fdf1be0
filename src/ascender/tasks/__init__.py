"""Tasks by name: `task("listops", depth=4)`. A new one is one file and one line here."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from ascender.common.user_code import code, import_code, is_code
from ascender.common.validate import check_options, lookup
from ascender.tasks.base import Batch, Display, Drawn, Graded, Stored, Task

# name: (class, one line for `ascender list tasks`, options that the name stands for)
TASKS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "listops": ("listops:ListOps", "What is the value of a nested operation on digits?", {}),
    "listops-short": (
        "listops:ListOps", "The same with at most 100 tokens and depth 5.",
        {"min_length": 10, "max_length": 100, "max_depth": 5, "max_args": 5, "slices": "depth"},
    ),
    "recall": ("recall:Recall", "Pairs of keys and values, then each key again: its value?", {}),
    "copy-noise": (
        "copy_noise:CopyNoise", "Repeat the symbols scattered in noise, in their order.",
        {},
    ),
    "needle": ("needle:Needle", "A key and its value somewhere in filler: which value?", {}),
    "pathfinder": (
        "pathfinder:Pathfinder", "Are two dots the ends of one dashed curve, or of two?",
        {},
    ),
    "distinct": ("distinct:Distinct", "How many prototypes stand in a crowd of noisy copies?", {}),
    "grouping": ("grouping:Grouping", "One member of each cluster is named: name the others.", {}),
    "retrieval": (
        "retrieval:Retrieval", "Passages, some of them copies: what do most sources say?",
        {},
    ),
    "captions": (
        "captions:Captions", "Does a sentence say what the picture beside it shows?", {},
    ),
    "digits": ("digits:Digits", "Which digit is it? 8 × 8 pixels, a token each.", {}),
    "fewshot-digits": (
        "fewshot:FewShotDigits", "Five kinds of digits under random names: name the last.", {},
    ),
    "fewshot-fashion": (
        "fewshot:FewShotFashion", "Five kinds of clothing under random names: name the last.", {},
    ),
    "pylib": ("pylib:Pylib", "What comes next in the source of Python's library?", {}),
    "cola": ("glue:Glue", "Is a sentence grammatical? (GLUE)", {"subset": "cola"}),
    "sst2": ("glue:Glue", "Is a sentence of a film review positive? (GLUE)", {"subset": "sst2"}),
    "mrpc": ("glue:Glue", "Do two sentences of the news say the same? (GLUE)", {"subset": "mrpc"}),
    "qqp": ("glue:Glue", "Do two questions ask the same? (GLUE)", {"subset": "qqp"}),
    "stsb": ("glue:Glue", "How similar are two sentences, from 0 to 5? (GLUE)", {"subset": "stsb"}),
    "mnli": (
        "glue:Glue", "Does one sentence entail or contradict another? (GLUE)",
        {"subset": "mnli"},
    ),
    "qnli": ("glue:Glue", "Does a sentence answer a question? (GLUE)", {"subset": "qnli"}),
    "rte": ("glue:Glue", "Does one text entail another? (GLUE)", {"subset": "rte"}),
    "wnli": (
        "glue:Glue", "Does a sentence with its pronoun resolved follow? (GLUE)",
        {"subset": "wnli"},
    ),
    "boolq": (
        "glue:SuperGlue", "A yes-or-no question about a passage. (SuperGLUE)",
        {"subset": "boolq"},
    ),
    "cb": (
        "glue:SuperGlue", "How far does a text commit to a clause? (SuperGLUE)",
        {"subset": "cb"},
    ),
    "copa": (
        "glue:SuperGlue", "Which of two is the cause or the effect? (SuperGLUE)",
        {"subset": "copa"},
    ),
    "multirc": (
        "glue:SuperGlue", "Is an answer to a question right? (SuperGLUE)",
        {"subset": "multirc"},
    ),
    "record": (
        "glue:SuperGlue", "Which name fills the gap in the news? (SuperGLUE)",
        {"subset": "record"},
    ),
    "superglue-rte": (
        "glue:SuperGlue", "Does one text entail another? (SuperGLUE)",
        {"subset": "rte"},
    ),
    "wic": (
        "glue:SuperGlue", "Does a word mean the same in both sentences? (SuperGLUE)",
        {"subset": "wic"},
    ),
    "wsc": (
        "glue:SuperGlue", "Does a pronoun mean this person or thing? (SuperGLUE)",
        {"subset": "wsc"},
    ),
    "gsm8k": ("maths:Gsm8k", "The number that answers a word problem.", {}),
    "math": ("maths:Math", "The answer to a competition problem.", {}),
    "lra-text": ("lra:LraText", "Is a film review positive? Bytes. (Long Range Arena)", {}),
    "lra-retrieval": ("lra:LraRetrieval", "Does one paper cite the other? (Long Range Arena)", {}),
    "lra-image": (
        "images:Pixels", "What is in the picture? Pixels. (Long Range Arena)",
        {"pictures": "cifar10"},
    ),
    "longbench": ("long:LongBench", "Questions about long documents, and summaries.", {}),
    "scrolls": ("long:Scrolls", "Questions about long texts, and summaries.", {}),
    "translation": ("translation:Translation", "A sentence in another language.", {}),
    "mnist": ("images:Patches", "Which digit is in the picture? Patches.", {"pictures": "mnist"}),
    "fashion-mnist": (
        "images:Patches", "Which piece of clothing is in the picture? Patches.",
        {"pictures": "fashion-mnist"},
    ),
    "cifar10": (
        "images:Patches", "What is in the picture? Patches of CIFAR-10.",
        {"pictures": "cifar10"},
    ),
    "ud-tags": (
        "trees:Trees", "Which part of speech is a word, in its tree? (UD)",
        {"target": "tags"},
    ),
    "ud-relations": (
        "trees:Trees", "Which relation has a word to its head? (UD)",
        {"target": "relations"},
    ),
    "cora": (
        "citations:Citations", "Which field is a paper of, in a graph of citations?",
        {"name": "cora"},
    ),
    "citeseer": (
        "citations:Citations", "Which field is a paper of, in a graph of citations?",
        {"name": "citeseer"},
    ),
}  # fmt: skip

__all__ = [
    "TASKS", "Batch", "Display", "Drawn", "Graded", "Stored", "Task", "code_named", "kind_of",
    "task",
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


def code_named(name: str, options: Mapping[str, Any]) -> list[str]:
    """The code of the user that a task (imported, where it is code itself) and its options name."""
    given = (options.get(option) for option in kind_of(name).code_options)
    return [text for text in given if isinstance(text, str) and is_code(text)]


def task(name: str, **options: Any) -> Task:
    """A task by name, or your own by module:Class; an unknown option is an error."""
    if is_code(name):
        import_code(name)
    kind = kind_of(name)
    known = list(inspect.signature(kind).parameters)
    check_options(f"task {name}", options, known)
    result = kind(**{**(TASKS[name][2] if name in TASKS else {}), **options})
    result.name = name  # type: ignore[misc]  # a family's tasks share a class
    return result
