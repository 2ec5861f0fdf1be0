"""Image patches and the words of a caption in one sequence: does the caption match the image?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ascender.core.neighbours import grid
from ascender.tasks.base import SPLITS, Batch, Display, Drawn, check_split
from ascender.tasks.digits import SHADES, SIDE, load_digits, parts

NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
WORDS = ["", *NAMES, "not", "a", "even", "odd", "between", "and", "more", "ink", "left", "right",
         "top", "bottom"]  # fmt: skip
IDS = {word: i for i, word in enumerate(WORDS)}
LONGEST = 4  # words of a caption
PATCH = 2
ACROSS = SIDE // PATCH
SIDES = ("left", "right", "top", "bottom")


class Captions(Drawn):
    """Does the caption say what the picture shows? Patches and words in one sequence.

        picture   a digit of 8 × 8 pixels as 4 × 4 patches of 2 × 2, their shades in `vectors`
        caption   up to four words in `input_ids` (0 at patches and behind the last word):
                  "a seven", "not a seven", "even" or "odd", "between three and six" (both
                  count), "more ink left" (right, top, bottom: than in the other half)
        label     1 where it is true; half of the captions are

    >>> print(Captions().example())
        ==%%%%..
      ..##++%%==
            ##++
        ..####
        ..%%@@--
            ##%%
      ::##::--@@
        ++####++
    odd → 1

    A patch's neighbours are the patches beside it; a word has none of its own, so that with
    `ascender+lists=add` it goes by likeness, and a patch by both. Pictures of training, validation
    and test are disjoint. Levels: by the kind of caption. Chance: 1/2.
    """

    name = "captions"
    position = "learned"
    levels = ("name", "not", "parity", "range", "half")
    length, vocab_size, vector_size = ACROSS**2 + LONGEST, len(WORDS), PATCH**2
    num_labels = 2
    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 64, "rate": 1e-3}

    def __init__(self, radius: int = 1) -> None:
        images, self.digits = load_digits()
        cut = images.reshape(-1, ACROSS, PATCH, ACROSS, PATCH).swapaxes(2, 3)
        self.patches = (cut.reshape(len(images), ACROSS**2, PATCH**2) / 16).astype(np.float32)
        self.where = parts(len(images))
        half = SIDE // 2
        ink = [images[:, :, :half], images[:, :, half:], images[:, :half], images[:, half:]]
        self.ink = np.stack([part.sum((1, 2)) for part in ink], 1)  # by side
        near = grid(ACROSS, ACROSS, radius)
        self.neighbours = torch.cat([near, near.new_full((LONGEST, near.shape[1]), -1)])

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        return self.pairs(rng, n, "train")

    def eval_batches(self, split: str, n: int) -> Iterator[Batch]:
        rng = np.random.default_rng([SPLITS.index(check_split(split))])
        yield from self.pairs(rng, self.examples, split).split(n)

    def pairs(self, rng: np.random.Generator, n: int, split: str) -> Batch:
        """n pictures of a split, each with a caption."""
        at = rng.choice(self.where[split], n)
        level, true = rng.integers(0, len(self.levels), n), rng.integers(0, 2, n)
        ids = np.zeros((n, self.length), dtype=np.int64)
        for row, (picture, kind, says) in enumerate(zip(at, level, true, strict=True)):
            words = self._caption(rng, int(picture), int(kind), bool(says))
            ids[row, ACROSS**2 : ACROSS**2 + len(words)] = [IDS[word] for word in words]
        x = np.zeros((n, self.length, PATCH**2), dtype=np.float32)
        x[:, : ACROSS**2] = self.patches[at]
        return Batch.of(true, level, input_ids=ids, vectors=x)

    def _caption(self, rng: np.random.Generator, picture: int, kind: int, true: bool) -> list[str]:
        """A caption of a kind that is true, or false, of a picture."""
        digit = int(self.digits[picture])
        other = int((digit + rng.integers(1, 10)) % 10)
        if kind == 0:
            return ["a", NAMES[digit if true else other]]
        if kind == 1:
            return ["not", "a", NAMES[other if true else digit]]
        if kind == 2:
            return ["even" if (digit % 2 == 0) == true else "odd"]
        if kind == 3:
            ends = [(a, b) for a in range(9) for b in range(a + 1, 10) if b - a < 9]
            fits = [(a, b) for a, b in ends if (a <= digit <= b) == true]
            a, b = fits[rng.integers(len(fits))]
            return ["between", NAMES[a], "and", NAMES[b]]
        ink = self.ink[picture]
        more = [side for side in range(4) if (ink[side] > ink[side ^ 1]) == true]
        return ["more", "ink", SIDES[more[rng.integers(len(more))]]]

    @property
    def chance(self) -> float:
        return 0.5

    def clusters(self, batch: Batch) -> Int[Tensor, "B N"]:
        """Patches, and words."""
        return (batch.inputs["vectors"].shape[1] - LONGEST <= torch.arange(self.length)).expand(
            len(batch), -1
        ).long()  # fmt: skip

    def display(self, one: Batch) -> Display:
        ids = one.inputs["input_ids"][0].tolist()
        names = [f"patch {i // ACROSS},{i % ACROSS}" for i in range(ACROSS**2)]
        words = [WORDS[i] or "·" for i in ids[ACROSS**2 :]]
        return Display(
            tokens=names + words, classes=("false", "true"),
            groups=self.clusters(one)[0].tolist(), group_names=("picture", "caption"),
        )  # fmt: skip

    def example(self) -> str:
        one = self.draw(np.random.default_rng(1), 1)
        x = one.inputs["vectors"][0, : ACROSS**2].numpy().reshape(ACROSS, ACROSS, PATCH, PATCH)
        image = (x.swapaxes(1, 2).reshape(SIDE, SIDE) * 16).round().astype(int)
        lines = ["".join(2 * SHADES[v * 10 // 17] for v in row).rstrip() for row in image.tolist()]
        words = [WORDS[i] for i in one.inputs["input_ids"][0, ACROSS**2 :].tolist() if i]
        return "\n".join(lines) + f"\n{' '.join(words)} → {int(one.labels[0])}"
