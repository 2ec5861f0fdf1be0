"""The same text at several lengths.

A window's beginning stays where it is while the window grows, so that what changes with the length
is the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ascender.insight.loading import fed
from ascender.tasks import Task
from ascender.tasks.pylib import sources, split_of

LENGTHS = (32, 64, 128, 256)
BATCH = 4
ENOUGH = 200_000  # characters of the default text


def default_text() -> str:
    """Python's own standard library, the files that `pylib` tests on."""
    texts = (text for path, text in sorted(sources().items()) if split_of(path) == "test")
    return "".join(texts)[:ENOUGH]


def text_inputs(
    tokenizer: Any, text: str, lengths: Sequence[int] = LENGTHS, batch: int = BATCH
) -> dict[int, dict[str, Tensor]]:
    """`batch` windows evenly spread over a text, cut to each length, with the special tokens that
    the tokenizer puts around a text."""
    ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    before, behind = _around(tokenizer)
    longest = max(lengths)
    room = len(ids) - longest
    if room < 0:
        raise ValueError(f"{len(ids)} tokens of text; expected at least {longest}, or less lengths")
    places = [round(i * room / max(1, batch - 1)) for i in range(batch if room else 1)]
    windows = {}
    for length in lengths:
        inner = length - len(before) - len(behind)
        if inner < 1:
            raise ValueError(
                f"length {length}; expected more than {len(before) + len(behind)}, the special "
                "tokens around a text"
            )
        rows = [before + ids[place : place + inner] + behind for place in places]
        windows[length] = {"input_ids": torch.tensor(rows)}
    return windows


def task_inputs(
    task: Task, lengths: Sequence[int] | None = None, batch: int = 16
) -> dict[int, dict[str, Any]]:
    """The first held-out examples of a task, cut to their first L tokens. None: a quarter, a half
    and all of them. Lists of neighbours that all examples share go with the whole length only."""
    first = next(iter(task.eval_batches("validation", batch)))
    whole = max(t.shape[1] for t in first.inputs.values() if t.ndim > 1)
    wanted = lengths or sorted({max(2, whole // 4), max(2, whole // 2), whole})
    cut: dict[int, dict[str, Any]] = {}
    for length in wanted:
        if length > whole:
            raise ValueError(f"length {length}; expected at most {whole}, the task's")
        if length == whole or task.neighbours is None:
            inputs = fed(task, first)
            shared = {"neighbours": inputs.pop("neighbours")} if task.neighbours is not None else {}
            cut[length] = shared | {
                name: t[:, :length] if t.ndim > 1 else t for name, t in inputs.items()
            }
    if not cut:
        raise ValueError(
            f"lengths {', '.join(map(str, wanted))}; expected {whole}: the task's lists of "
            "neighbours are for all its tokens"
        )
    return cut


def longest_of(model: Any) -> int | None:
    """How many tokens a model has positions for; None: any number."""
    positions = getattr(model.config, "max_position_embeddings", None)
    return positions if isinstance(positions, int) and positions > 0 else None


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """What it puts before and behind a text."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    dressed = tokenizer("a")["input_ids"]
    for i in range(len(dressed) - len(bare) + 1):
        if dressed[i : i + len(bare)] == bare:
            return dressed[:i], dressed[i + len(bare) :]
    return [], []
