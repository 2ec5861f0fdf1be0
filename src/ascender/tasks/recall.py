"""Which value went with this key: multi-query associative recall."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any, ClassVar

import numpy as np

from ascender.tasks.base import IGNORED, Batch, Display, Drawn


class Recall(Drawn):
    """Pairs of a key and a value, then every key once more: which value follows?

        pairs    k_1 v_1 … k_P v_P, all different
        queries  each k_p once, at random even places after the pairs, v_p behind it
        filler   the places between hold any tokens
        labels   v_p behind its query, nothing elsewhere

    >>> print(Recall(length=24, pairs=[3], keys=8).example())
    k3 v3 k2 v5 k1 v7
    … k7 k6 k3 [v3] k0 k1 k0 v2 k2 [v5] k4 v1 v4 k6 k7 v7 k1 [v7]

    Multi-query associative recall as Zoology draws it (Arora et al. 2023,
    arxiv.org/abs/2312.04927), queries spread evenly. Levels: by the number of pairs.
    Chance: 1 / keys, as there are as many values (1 / P for a guess among the values present).
    """

    name = "recall"
    head = "causal"
    recipe: ClassVar[dict[str, Any]] = {"steps": 3000, "batch": 32, "rate": 2e-3}

    def __init__(
        self, length: int = 128, pairs: Sequence[int] = (4, 8, 16, 32), keys: int = 64
    ) -> None:
        for p in pairs:
            if not 1 <= p <= min(keys, length // 4):
                raise ValueError(
                    f"pairs = {list(pairs)}; expected numbers from 1 to {min(keys, length // 4)}, "
                    f"the smaller of keys = {keys} and a fourth of length = {length}"
                )
        if not pairs:
            raise ValueError("pairs = []; expected at least one number of pairs")
        self.length, self.pairs, self.keys = length, tuple(pairs), keys
        self.vocab_size = 2 * keys  # keys, then values
        self.levels = tuple(f"{p} pairs" for p in pairs)

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        level = rng.integers(0, len(self.pairs), n)
        P, most = np.array(self.pairs)[level][:, None], max(self.pairs)
        k, v = (np.argsort(rng.random((n, self.keys)))[:, :most] for _ in range(2))
        v = v + self.keys
        ids = rng.integers(0, self.vocab_size, (n, self.length))
        labels = np.full_like(ids, IGNORED)
        slots = np.arange(self.length // 2)  # of two places each
        order = np.argsort(np.where(slots < P, 2, rng.random((n, len(slots)))))[:, :most]
        row, p = np.nonzero(np.arange(most) < P)
        ids[row, 2 * p], ids[row, 2 * p + 1] = k[row, p], v[row, p]
        query = 2 * order[row, p]
        ids[row, query], ids[row, query + 1] = k[row, p], v[row, p]
        labels[row, query + 1] = v[row, p]
        return Batch.of(labels, level, input_ids=ids)

    def display(self, one: Batch) -> Display:
        names = [self.word(i) for i in range(self.vocab_size)]
        return Display([names[i] for i in one.inputs["input_ids"][0].tolist()], names)

    def word(self, i: int) -> str:
        """A token as people read it: k a key, v a value."""
        return f"k{i}" if i < self.keys else f"v{i - self.keys}"

    @property
    def chance(self) -> float:
        return 1 / self.keys

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        ids, due = one.inputs["input_ids"][0].tolist(), (one.labels[0] != IGNORED).tolist()
        word = [self.word(i) for i in ids]
        P = self.pairs[int(one.level[0])]
        words = [f"[{w}]" if d else w for w, d in zip(word, due, strict=True)]
        return "\n".join(
            fill(" ".join(part), 96) for part in (words[: 2 * P], ["…", *words[2 * P :]])
        )
