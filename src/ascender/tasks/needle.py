"""A fact in a long text."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ascender.tasks.base import IGNORED, Batch, Display, Drawn

FIFTHS = 5


class Needle(Drawn):
    """A fact (a key and its value) lies somewhere in filler; the key comes once more at the end:
    which value follows?

        filler   length tokens of `words` kinds
        facts    1 + decoys keys, all different, each with a value behind it, at random places
        query    one of the keys, then its value, which is the only label

    >>> print(Needle().example())
    w54 w40 w32 w17 w19 w2 … w42 w0 w25 w54 w35 w2 K13 V14 w54 w11 w5 w55 w1 w34 … | K13 → V14
    1024 tokens, the fact at 28

    For how a model fares as the text grows: `length` from 1024 to 16384, nothing else changes.
    With no decoys any value is the value; with some, the key must match. Levels: in which fifth of
    the text the fact lies. Chance: 1 / values.
    """

    name = "needle"
    head = "causal"
    levels = tuple(f"{20 * f}–{20 * f + 20}%" for f in range(FIFTHS))
    recipe: ClassVar[dict[str, Any]] = {"steps": 1000, "batch": 8, "rate": 1e-3}

    def __init__(
        self, length: int = 1024, decoys: int = 0, keys: int = 16, values: int = 16, words: int = 64
    ) -> None:
        if not 0 <= decoys < keys:
            raise ValueError(f"decoys = {decoys}; expected from 0 to keys − 1 = {keys - 1}")
        if length < max(4 * (decoys + 1) + 2, 2 * FIFTHS + 2):
            raise ValueError(
                f"length = {length}; expected at least "
                f"{max(4 * (decoys + 1) + 2, 2 * FIFTHS + 2)} for {decoys + 1} facts"
            )
        self.length, self.decoys = length, decoys
        self.keys, self.values, self.words = keys, values, words
        self.vocab_size = words + keys + values

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        facts, slots = self.decoys + 1, (self.length - 2) // 2  # of two places each
        ids = rng.integers(0, self.words, (n, self.length))
        slot = rng.permuted(np.tile(np.arange(slots), (n, 1)), axis=1)[:, :facts]
        key = np.argsort(rng.random((n, self.keys)))[:, :facts] + self.words
        value = rng.integers(0, self.values, (n, facts)) + self.words + self.keys
        row = np.arange(n)[:, None]
        ids[row, 2 * slot], ids[row, 2 * slot + 1] = key, value
        ids[:, -2], ids[:, -1] = key[:, 0], value[:, 0]
        labels = np.full_like(ids, IGNORED)
        labels[:, -1] = ids[:, -1]
        level = slot[:, 0] * FIFTHS // slots
        return Batch.of(labels, level, input_ids=ids)

    @property
    def chance(self) -> float:
        return 1 / self.values

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        *text, key, value = (self.word(i) for i in one.inputs["input_ids"][0].tolist())
        at = text.index(key)
        around = text[max(0, at - 6) : at + 8]
        return (f"{' '.join(text[:6])} … {' '.join(around)} … | {key} → {value}\n"
                f"{self.length} tokens, the fact at {at}")  # fmt: skip

    def display(self, one: Batch) -> Display:
        names = [self.word(i) for i in range(self.vocab_size)]
        return Display([names[i] for i in one.inputs["input_ids"][0].tolist()], names)

    def word(self, i: int) -> str:
        """A token as people read it: w a word of the filler, K a key, V a value."""
        if i < self.words:
            return f"w{i}"
        i -= self.words
        return f"K{i}" if i < self.keys else f"V{i - self.keys}"
