"""Handwritten digits learned from the context alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ascender.tasks.base import IGNORED, SPLITS, Batch, Display, Drawn, check_split
from ascender.tasks.digits import SHADES, SIDE, load_digits, parts

TEN = 10


class FewShotDigits(Drawn):
    """Five kinds of digits under random names: what is the last one called?

        kinds    `ways` of the ten digits, named 1 … ways at random, anew in every example
        context  of each kind one image with its name and `unlabelled` without, in any order
        query    one more image of one of the kinds, marked
        tokens   an image each, 64 shades in [0, 1] in `vectors`; in input_ids its name, 0 for
                 none, ways + 1 for the query
        label    the name of the query − 1, at the query

    >>> print(FewShotDigits().example())
    1         2         3         4         5         ?
      .#@+       .#       .%#       =%@-      -@@.      #+#
     .%+-%       +%.      +%%=      ####      =@@#      %@@=
     .= :%      :@@=     .@=:%      .-@+       :%*     .@+.%.
        ++      #+%-     :@: #=      .@.      -@@@#    :@  @:
        #.     :% #=     :@  +=       ++      *@@:     :#  @:
       =%      +%#@@:    :@: #*       :%       %=      .% :@:
      %@%+:    .=+@+      %%#@.     =:*@      :@        %#%%
       ==*@-      #.      .##:      =@@=      **        =##.
    and 40 more without names → 3

    Images of training, validation and test are disjoint, the digits are the same. Levels: "near"
    where the named image nearest to the query has its name, "far" where it has another and the
    unlabelled ones must help. Chance: 1 / ways.
    """

    name = "fewshot-digits"
    head = "token"
    position = "none"
    levels = ("near", "far")
    vector_size = SIDE * SIDE
    recipe: ClassVar[dict[str, Any]] = {"steps": 4000, "batch": 32, "rate": 1e-3}

    def __init__(self, ways: int = 5, unlabelled: int = 8) -> None:
        if not 2 <= ways <= TEN:
            raise ValueError(f"ways = {ways}; expected from 2 to {TEN}")
        images, digits = load_digits()
        self.images = (images.reshape(len(images), -1) / 16).astype(np.float32)
        self.of = {  # rows of each digit, by split
            split: [at[digits[at] == d] for d in range(TEN)]
            for split, at in parts(len(digits)).items()
        }
        fewest = min(len(at) for by_digit in self.of.values() for at in by_digit)
        if not 0 <= unlabelled <= fewest - 2:
            raise ValueError(
                f"unlabelled = {unlabelled}; expected from 0 to {fewest - 2}, as some digit has "
                f"{fewest} images in a split"
            )
        self.digit = dict(zip((image.tobytes() for image in self.images), digits, strict=True))
        self.ways, self.unlabelled = ways, unlabelled
        self.length = ways * (1 + unlabelled) + 1
        self.num_labels, self.vocab_size = ways, ways + 2

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        return self.episodes(rng, n, "train")

    def eval_batches(self, split: str, n: int) -> Iterator[Batch]:
        rng = np.random.default_rng([SPLITS.index(check_split(split))])
        yield from self.episodes(rng, self.examples, split).split(n)

    def episodes(self, rng: np.random.Generator, n: int, split: str) -> Batch:
        """n examples from the images of a split."""
        pools, each = self.of[split], 2 + self.unlabelled  # named, query, the rest
        rank = rng.random((n, TEN, max(len(at) for at in pools)))
        for d, at in enumerate(pools):
            rank[:, d, len(at) :] = 2  # past the end of a pool
        digit = np.argsort(rng.random((n, TEN)))[:, : self.ways]  # in the order of their names
        pick = np.argpartition(rank[np.arange(n)[:, None], digit], each - 1, -1)[..., :each]
        pick = rng.permuted(pick, axis=-1)
        table = np.zeros((TEN, rank.shape[-1]), dtype=np.int64)
        for d, at in enumerate(pools):
            table[d, : len(at)] = at
        image = table[digit[..., None], pick]  # (n, ways, each)
        name = rng.integers(0, self.ways, n)
        query = image[np.arange(n), name, 1]
        context = np.delete(image, 1, -1).reshape(n, -1)
        label = np.zeros_like(image[..., 1:])
        label[..., 0] = np.arange(1, self.ways + 1)
        order = np.argsort(rng.random(context.shape))
        context, label = (np.take_along_axis(t, order, 1) for t in (context, label.reshape(n, -1)))
        return self.batch(context, label, query, name, image[..., 0])

    def batch(self, context: np.ndarray, label: np.ndarray, query: np.ndarray, name: np.ndarray,
              named: np.ndarray) -> Batch:  # fmt: skip
        """Rows of images and names as tokens; how far the query is from the named ones."""
        x = self.images[np.column_stack([context, query])]
        ids = np.column_stack([label, np.full(len(query), self.ways + 1)])
        labels = np.full_like(ids, IGNORED)
        labels[:, -1] = name
        apart = ((self.images[named] - self.images[query][:, None]) ** 2).sum(-1)
        level = (apart.argmin(-1) != name).astype(np.int64)
        return Batch.of(labels, level, vectors=x, input_ids=ids)

    def clusters(self, batch: Batch) -> Int[Tensor, "B N"]:
        """Which digit every image shows, the query's too."""
        x = batch.inputs["vectors"].numpy()
        return torch.tensor([[int(self.digit[image.tobytes()]) for image in row] for row in x])

    def display(self, one: Batch) -> Display:
        """Images under the names they are given; their groups are the digits."""
        names = [str(w + 1) for w in range(self.ways)]
        shown = ["·", *names, "?"]
        images = one.inputs["vectors"][0].reshape(-1, SIDE, SIDE).numpy()
        return Display(
            tokens=[shown[i] for i in one.inputs["input_ids"][0].tolist()], classes=names,
            groups=self.clusters(one)[0].tolist(), group_names=[str(d) for d in range(TEN)],
            images=images,
        )  # fmt: skip

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        x, ids = one.inputs["vectors"][0].numpy(), one.inputs["input_ids"][0].numpy()
        shown = [*(int(np.flatnonzero(ids == w)[0]) for w in range(1, self.ways + 1)), -1]
        images = (x[shown] * 16).round().astype(int).reshape(len(shown), SIDE, SIDE)
        lines = ["  ".join("".join(SHADES[v * 10 // 17] for v in row) for row in line).rstrip()
                 for line in images.transpose(1, 0, 2).tolist()]  # fmt: skip
        heads = "".join(f"{w:<{SIDE + 2}}" for w in [*range(1, self.ways + 1), "?"]).rstrip()
        rest = self.ways * self.unlabelled
        last = f"and {rest} more without names → {int(one.labels[0, -1]) + 1}"
        return "\n".join([heads, *lines, last])
