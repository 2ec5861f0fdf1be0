"""Handwritten digits, a pixel a token."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ascender.common.validate import need
from ascender.core.neighbours import grid
from ascender.tasks.base import Batch, Display, Stored, commonest

SIDE = 8
SHADES = " .:-=+*#%@"


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's 1797 real images of 8 × 8 with 17 shades, and which digit each is."""
    need("sklearn", "tasks")
    from sklearn import datasets

    digits = datasets.load_digits()
    return digits.images.astype(np.int64), digits.target.astype(np.int64)


def parts(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Row numbers of train (80%), validation (10%) and test (10%), shuffled once and for all."""
    order = np.random.default_rng(seed).permutation(rows)
    tenth = rows // 10
    return {
        "train": np.sort(order[2 * tenth :]),
        "validation": np.sort(order[:tenth]),
        "test": np.sort(order[tenth : 2 * tenth]),
    }


class Digits(Stored):
    """Which digit is it? 8 × 8 pixels as 64 tokens, one of 17 shades each; a pixel's neighbours
    are those beside it.

    >>> print(Digits().example())
        ::##++
        ##%%++%%::
      ..%%..  **==
      ::##    ====
      ::==    ++==
      ::**    ##==
      ..%%::++##
        --##++
    → 0
    """

    name = "digits"
    position = "learned"
    length, vocab_size, num_labels = SIDE * SIDE, 17, 10
    recipe: ClassVar[dict[str, Any]] = {"steps": 1000, "batch": 64, "rate": 1e-3}

    def __init__(self, radius: int = 1) -> None:
        images, digits = load_digits()
        self.images, self.digits = images.reshape(len(images), -1), digits
        self.where = parts(len(digits))
        self.neighbours = grid(SIDE, SIDE, radius)

    def rows(self, split: str) -> int:
        return len(self.where[split])

    def collate(self, split: str, which: np.ndarray) -> Batch:
        at = self.where[split][which]
        return Batch.of(self.digits[at], input_ids=self.images[at])

    def display(self, one: Batch) -> Display:
        image = one.inputs["input_ids"][0].numpy() / 16
        return Display(images=image[:, None, None], grid=(SIDE, SIDE))

    @property
    def chance(self) -> float:
        return commonest(self.digits[self.where["test"]])

    def example(self) -> str:
        image = self.images[self.where["train"][0]].reshape(SIDE, SIDE)
        lines = ["".join(2 * SHADES[v * 10 // 17] for v in row).rstrip() for row in image.tolist()]
        return "\n".join(lines) + f"\n→ {self.digits[self.where['train'][0]]}"
