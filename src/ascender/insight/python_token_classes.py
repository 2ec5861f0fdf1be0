"""Classes of the tokens of real text: source of Python's standard library.

`tokenize` says what every character of a file is; a token of a model's tokenizer has the class of
its first character that is no space, by its offsets in the text (of bytes: of the character they
belong to). Files are the test files of the task pylib, so a model of pylib has not read them.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ascender.tasks.base import IGNORED
from ascender.tasks.pylib import sources, split_of

CLASSES = ("keyword", "name", "number", "string", "operator", "comment", "whitespace")
KINDS = {tokenize.NUMBER: "number", tokenize.STRING: "string", tokenize.OP: "operator",
         tokenize.COMMENT: "comment"}  # fmt: skip
CHARACTERS = 8  # of a file for each token that is asked for: enough for any tokenizer


def classes(source: str) -> Int[np.ndarray, "n"]:
    """The class of every character, an index into CLASSES; what `tokenize` does not name is
    whitespace.

    >>> "".join(CLASSES[c][0] for c in classes("if x: # so"))
    'kkwnowcccc'
    """
    lines = np.cumsum([0, *(len(line) for line in source.splitlines(keepends=True))])
    classes = np.full(len(source), CLASSES.index("whitespace"))
    for token in tokenize.generate_tokens(io.StringIO(source, newline="").readline):
        kind = _kind(token)
        if kind is not None:
            start, end = (lines[row - 1] + column for row, column in (token.start, token.end))
            classes[start:end] = CLASSES.index(kind)
    return classes


def _kind(token: tokenize.TokenInfo) -> str | None:
    if token.type == tokenize.NAME:
        return "keyword" if keyword.iskeyword(token.string) else "name"
    if tokenize.tok_name[token.type].startswith("FSTRING"):
        return "string"
    return KINDS.get(token.type)


def examples(
    tokenizer: Any, n: int, length: int, batch: int
) -> Iterator[tuple[dict[str, Tensor], Int[Tensor, "B N"]]]:
    """(inputs, classes of their tokens) of n stretches of `length` tokens, each from the middle of
    a file of its own; −100 for what is no text."""
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(f"{type(tokenizer).__name__} has no offsets; expected a fast tokenizer")
    rows = []
    for path, source in sources().items():
        if split_of(path) == "test" and len(source) >= CHARACTERS * length:
            row = _row(tokenizer, source, length)
            rows += [row] if row is not None else []
        if len(rows) == n:
            break
    for start in range(0, len(rows), batch):
        ids, kinds = zip(*rows[start : start + batch], strict=True)
        yield {"input_ids": torch.tensor(ids)}, torch.tensor(np.array(kinds))


def _row(tokenizer: Any, source: str, length: int) -> tuple[list[int], list[int]] | None:
    """Token numbers and classes, or None where the file is no Python of today."""
    try:
        of = classes(source)
    except (tokenize.TokenError, SyntaxError):
        return None
    half = source.rfind("\n", 0, len(source) // 2) + 1
    text = source[half : half + CHARACTERS * length]
    coded = tokenizer(text, return_offsets_mapping=True, truncation=True, max_length=length)
    if len(coded.input_ids) < length:
        return None
    spaces = np.array([c.isspace() for c in text])
    kinds = [_class(of[half:], spaces, *span) for span in coded.offset_mapping]
    return coded.input_ids, kinds


def _class(of: np.ndarray, spaces: np.ndarray, start: int, end: int) -> int:
    if start >= end:
        return IGNORED
    ink = np.flatnonzero(~spaces[start:end])
    return int(of[start + (ink[0] if len(ink) else 0)])
