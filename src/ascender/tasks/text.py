"""Text as tokens, and classes of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ascender.common.validate import need
from ascender.tasks.base import Batch, Display, Stored, commonest, padded
from ascender.tasks.metrics import more
from ascender.tasks.rows import parted

LEVELS = ("short", "medium", "long", "cut")
LEARNED_FROM = 4_000_000  # characters, at most, that a BPE is trained on


class Coder:
    """Texts to rows of token numbers.

    bytes       one token a byte, no download
    bpe:4096    byte pairs learned from the task's own training texts until there are 4096
                tokens; from every n-th text where they have more than 4 million characters
    other       a name or folder that transformers' AutoTokenizer knows
    """

    def __init__(self, name: str, texts: Callable[[], Iterable[str]]) -> None:
        self.name, self.raw = name, name == "bytes"
        self.tokenizer = _tokenizer(name, texts)
        t = self.tokenizer
        ends = [t.sep_token_id, t.eos_token_id, t.bos_token_id]
        known = [end for end in ends if end is not None]
        if not known:
            raise ValueError(f"tokenizer {name!r} has neither a separator nor an end; expected one")
        if t.eos_token_id is None:
            t.eos_token = t.convert_ids_to_tokens(known[0])
        if t.pad_token_id is None:
            t.pad_token = t.eos_token
        self.sep, self.end, self.pad = known[0], t.eos_token_id, t.pad_token_id

    def __call__(self, texts: Sequence[str]) -> list[np.ndarray]:
        if self.raw:
            return [np.frombuffer(text.encode(errors="replace"), np.uint8) for text in texts]
        if not texts:
            return []
        ids = self.tokenizer(list(texts), add_special_tokens=False, verbose=False).input_ids
        return [np.array(row, np.int64) for row in ids]

    def text(self, tokens: Sequence[int]) -> str:
        """Read back, up to the end."""
        row = list(tokens)
        cut = next((i for i, token in enumerate(row) if token in (self.end, self.pad)), len(row))
        return str(self.tokenizer.decode(row[:cut], clean_up_tokenization_spaces=False))

    @property
    def size(self) -> int:
        return len(self.tokenizer)


def _tokenizer(name: str, texts: Callable[[], Iterable[str]]) -> Any:
    need("transformers", "tasks")
    from ascender.hf.tokens import BYTES, bytes_tokenizer, train_tokenizer

    if name == "bytes":
        return bytes_tokenizer()
    if name.startswith("bpe:"):
        size = name.removeprefix("bpe:")
        if not size.isdecimal() or int(size) < BYTES:
            raise ValueError(f"tokenizer {name!r}; expected bpe:SIZE with a size from {BYTES}")
        every = list(texts())
        return train_tokenizer(every[:: 1 + sum(map(len, every)) // LEARNED_FROM], int(size))
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        why = (str(error).strip().splitlines() or [""])[0]
        raise ValueError(
            f"unknown tokenizer {name!r} ({why}); expected bytes, bpe:SIZE, or a name or folder "
            "that AutoTokenizer can load"
        ) from error


def kept(lengths: Sequence[int], room: int) -> list[int]:
    """How much of each part stays where all together have room: the longest are cut, to the same
    length.

    >>> kept([3, 50, 9], 30)
    [3, 18, 9]
    """
    stays = [0] * len(lengths)
    for i, left in zip(np.argsort(lengths, kind="stable"), range(len(lengths), 0, -1), strict=True):
        stays[i] = min(lengths[i], room // left)
        room -= stays[i]
    return stays


def joined(parts: Sequence[np.ndarray], sep: int, length: int) -> np.ndarray:
    """Parts of a text behind each other with a separator between them, cut to the length."""
    stays = kept([len(part) for part in parts], length - len(parts) + 1)
    pieces: list[np.ndarray] = []
    for part, n in zip(parts, stays, strict=True):
        pieces += [np.array([sep]), part[:n]]
    return np.concatenate(pieces[1:])


class Example(NamedTuple):
    """Texts, what they are, and what must not be in training and in validation at once."""

    texts: tuple[str, ...]
    label: float
    group: str = ""

    @property
    def key(self) -> str:
        return self.group or "\n".join(self.texts)


def level_of(whole: int, length: int) -> int:
    """Which of LEVELS a text of this many tokens is."""
    return int(np.searchsorted([0.25, 0.5, 1.0], whole / length))


class TextClasses(Stored):
    """Which class is the text, or the pair of texts? Parts are joined by a separator, cut to
    `length` tokens (the longest part first) and filled up on the right.

    Levels, by the length before it is cut: short (to a quarter of `length`), medium (to a half),
    long, and cut (what did not fit). Floor: the share of the commonest class in the test.
    """

    levels = LEVELS
    recipe: ClassVar[dict[str, Any]] = {"steps": 1000, "batch": 32, "rate": 1e-3}
    class_names: Mapping[int, str] | Sequence[str] = ()
    reports: tuple[str, ...] = ()

    def part(
        self, train: list[Example], test: list[Example], tokenizer: str, length: int,
        most: int = 8192,
    ) -> None:  # fmt: skip
        """Fill it with these, validation carved from train."""
        self.fill(parted(train, test, lambda e: e.key), tokenizer, length, most)

    def fill(
        self, examples: dict[str, list[Example]], tokenizer: str, length: int, most: int = 8192
    ) -> None:
        """The examples of every split, and how they are written."""
        if not 16 <= length <= most:
            raise ValueError(f"length = {length}; expected a number from 16 to {most}")
        self.examples, self.length = examples, length
        self.known: dict[tuple[str, int], tuple[np.ndarray, int]] = {}
        self.coder = Coder(tokenizer, lambda: (t for e in examples["train"] for t in e.texts))
        self.tokenizer, self.vocab_size = self.coder.tokenizer, self.coder.size

    def rows(self, split: str) -> int:
        return len(self.examples[split])

    def collate(self, split: str, which: np.ndarray) -> Batch:
        self._encode(split, which.tolist())
        rows, level = zip(*(self.known[split, i] for i in which.tolist()), strict=True)
        ids, mask = padded(rows, self.coder.pad)
        inputs = {"input_ids": ids, "attention_mask": mask}
        labels = self.labels([self.examples[split][i] for i in which.tolist()])
        return Batch(inputs, labels, torch.tensor(level))

    def _encode(self, split: str, which: Sequence[int]) -> None:
        """Rows that were not asked for before become known: tokens and level."""
        new = [i for i in dict.fromkeys(which) if (split, i) not in self.known]
        texts = [self.examples[split][i].texts for i in new]
        parts = iter(self.coder([text for each in texts for text in each]))
        for i, each in zip(new, texts, strict=True):
            own = [next(parts) for _ in each]
            whole = sum(map(len, own)) + len(own) - 1
            row = joined(own, self.coder.sep, self.length).astype(np.int32)
            self.known[split, i] = (row, level_of(whole, self.length))

    def labels(self, some: Sequence[Example]) -> Tensor:
        kind = torch.float32 if self.num_labels == 1 else torch.int64
        return torch.tensor([example.label for example in some]).to(kind)

    def display(self, one: Batch) -> Display:
        return Display(
            classes=[self.class_names[c] for c in range(self.num_labels)]
            if self.class_names
            else ()
        )

    @property
    def chance(self) -> float:
        return commonest(np.array([int(e.label) for e in self.examples["test"]]))

    def summary(self, predicted: Sequence[Any], target: Sequence[Any]) -> dict[str, float]:
        return more(self.reports, predicted, target)

    def example(self) -> str:
        one = self.examples["train"][0]
        texts = "\n".join(text if len(text) <= 200 else text[:199] + "…" for text in one.texts)
        label = self.class_names[int(one.label)] if self.class_names else f"{one.label:g}"
        return f"{texts}\n→ {label}"
