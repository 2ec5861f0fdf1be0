"""Selective copying: what stood in the noise, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ascender.tasks.base import IGNORED, Batch, Display, Drawn

NOISE, GO, FIRST = 0, 1, 2  # then the symbols


class CopyNoise(Drawn):
    """Repeat the m symbols that were scattered in noise, in their order.

        noise    `noise` places, m of them, chosen at random, with one of `symbols` each
        answer   a mark, then the m symbols; the rest is filled up
        labels   the m symbols behind the mark, nothing elsewhere

    >>> print(CopyNoise(noise=32, remember=[6]).example())
    ..oc.......j.l......ni.......... → ocjlni

    After Gu and Dao 2023 (arxiv.org/abs/2312.00752), section 4.1.1. Levels: by m. Chance is
    1 / symbols.
    """

    name = "copy-noise"
    head = "causal"
    recipe: ClassVar[dict[str, Any]] = {"steps": 3000, "batch": 32, "rate": 2e-3}

    def __init__(
        self, noise: int = 96, remember: Sequence[int] = (4, 8, 16), symbols: int = 16
    ) -> None:
        if not remember or not all(1 <= m <= noise for m in remember):
            raise ValueError(
                f"remember = {list(remember)}; expected numbers from 1 to noise = {noise}"
            )
        if symbols < 2:
            raise ValueError(f"symbols = {symbols}; expected at least 2")
        self.noise, self.remember, self.symbols = noise, tuple(remember), symbols
        self.length, self.vocab_size = noise + 1 + max(remember), FIRST + symbols
        self.levels = tuple(f"{m} symbols" for m in remember)

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        level = rng.integers(0, len(self.remember), n)
        m, most = np.array(self.remember)[level][:, None], max(self.remember)
        counts = np.arange(most) < m
        place = np.argsort(rng.random((n, self.noise)))[:, :most]
        place = np.sort(np.where(counts, place, self.noise))  # those that count come first
        symbol = rng.integers(FIRST, self.vocab_size, (n, most))
        ids = np.full((n, self.length), NOISE)
        labels = np.full_like(ids, IGNORED)
        row, s = np.nonzero(counts)
        ids[row, place[row, s]] = symbol[row, s]
        ids[:, self.noise] = GO
        ids[row, self.noise + 1 + s] = labels[row, self.noise + 1 + s] = symbol[row, s]
        return Batch.of(labels, level, input_ids=ids)

    @property
    def chance(self) -> float:
        return 1 / self.symbols

    def display(self, one: Batch) -> Display:
        return Display([self.names[i] for i in one.inputs["input_ids"][0].tolist()], self.names)

    @property
    def names(self) -> list[str]:
        """Tokens as people read them."""
        return [".", "|", *(chr(ord("a") + s) for s in range(self.symbols))]

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        text = "".join(self.names[i] for i in one.inputs["input_ids"][0].tolist())
        return f"{text[: self.noise]} → {text[self.noise + 1 :]}"
