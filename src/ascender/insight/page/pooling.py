"""Blocks of neighbouring tokens where there are too many to draw.

a term of a block of rows and one of keys: its mean over the pairs that see each other
weights: what a row of the block gives to the whole block of keys, on average
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BLOCKS = 192  # pooled matrices are written out, so there are fewer of them


@dataclass(frozen=True)
class Pooling:
    """`size` tokens to a block, of `tokens`. With size 1 nothing changes."""

    tokens: int
    size: int = 1

    @classmethod
    def fitting(cls, tokens: int, most: int) -> Pooling:
        """None up to `most` tokens; above, at most that many blocks, and at most BLOCKS."""
        if tokens <= most:
            return cls(tokens)
        return cls(tokens, -(-tokens // min(most, BLOCKS)))

    @property
    def starts(self) -> np.ndarray:
        return np.arange(0, self.tokens, self.size)

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(np.append(self.starts, self.tokens))

    @property
    def lasts(self) -> np.ndarray:
        """The last token of each block."""
        return self.starts + self.lengths - 1

    def sums(self, x: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(x, self.starts, 0), self.starts, 1)

    def mean(self, x: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Over the pairs of V; 0 where there are none."""
        if self.size == 1:
            return x
        return self.sums(np.where(V, x, 0)) / np.maximum(self.sums(V.astype(float)), 1)

    def any(self, V: np.ndarray) -> np.ndarray:
        return V if self.size == 1 else self.sums(V.astype(float)) > 0

    def share(self, A: np.ndarray) -> np.ndarray:
        """Rows still sum to what they did."""
        return A if self.size == 1 else self.sums(A) / self.lengths[:, None]

    def rows(self, x: np.ndarray) -> np.ndarray:
        """Means of the rows of (N, w)."""
        if self.size == 1:
            return x
        return np.add.reduceat(x, self.starts, 0) / self.lengths[:, None]

    def labels(self, tokens: list[str]) -> list[str]:
        """A block is called by its first and last token."""
        if self.size == 1:
            return tokens
        ends = zip(self.starts, self.lasts, strict=True)
        return [tokens[a] if a == b else f"{tokens[a]} … {tokens[b]}" for a, b in ends]
