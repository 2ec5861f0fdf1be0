"""Few-shot classification in context: images of digits or clothing with random labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ascender.tasks.base import IGNORED, SPLITS, Batch, Display, Drawn, check_split
from ascender.tasks.digits import SHADES, SIDE, load_digits, parts
from ascender.tasks.images import SOURCES, splits

TEN = 10


class FewShot(Drawn):
    """Some kinds of pictures under random names: what is the last one called? The base of tasks
    with ten kinds of pictures.

        kinds    `ways` of the ten, named 1 … ways at random, anew in every example
        context  of each kind one image with its name and `unlabelled` without, in any order
        query    one more image of one of the kinds, marked
        tokens   an image each, its shades in [0, 1] in `vectors`; in input_ids its name, 0 for
                 none, ways + 1 for the query
        label    the name of the query − 1, at the query

    Images of training, validation and test are disjoint. `seen`: training has the kinds
    0 … seen − 1. If these are all ten, so have validation and test; if fewer, validation and test
    have the others only. Levels: "near" where the named image nearest to the query has its name,
    "far" where it has another and the unlabelled ones must help. Chance: 1 / ways.
    """

    head = "token"
    position = "none"
    levels = ("near", "far")
    kind_names: tuple[str, ...]
    recipe: ClassVar[dict[str, Any]] = {"steps": 4000, "batch": 32, "rate": 1e-3}

    def __init__(
        self, images: Float[np.ndarray, "n pixels"], kind: Int[np.ndarray, "n"],
        rows: Mapping[str, np.ndarray], ways: int, unlabelled: int, seen: int,
    ) -> None:  # fmt: skip
        """`rows`: of each split, in `images`; `kind`: what each image shows."""
        if not 2 <= seen <= TEN:
            raise ValueError(f"seen = {seen}; expected from 2 to {TEN}")
        new = np.arange(TEN) if seen == TEN else np.arange(seen, TEN)
        self.drawn = {"train": np.arange(seen), "validation": new, "test": new}
        most = min(seen, len(new))
        if not 2 <= ways <= most:
            but = "" if seen == TEN else f" (seen = {seen} leaves {len(new)} new ones)"
            raise ValueError(f"ways = {ways}; expected from 2 to {most}{but}")
        self.images, self.side = images, int(images.shape[1] ** 0.5)
        self.of = {split: [at[kind[at] == d] for d in range(TEN)] for split, at in rows.items()}
        fewest = min(len(self.of[split][d]) for split, kinds in self.drawn.items() for d in kinds)
        if not 0 <= unlabelled <= fewest - 2:
            raise ValueError(
                f"unlabelled = {unlabelled}; expected from 0 to {fewest - 2}, as some kind has "
                f"{fewest} images in a split"
            )
        self.kind = dict(zip((image.tobytes() for image in images), kind, strict=True))
        self.ways, self.unlabelled = ways, unlabelled
        self.vector_size = images.shape[1]
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
        drawn = self.drawn[split]
        kind = drawn[np.argsort(rng.random((n, len(drawn))))[:, : self.ways]]  # by their names
        pick = np.argpartition(rank[np.arange(n)[:, None], kind], each - 1, -1)[..., :each]
        pick = rng.permuted(pick, axis=-1)
        table = np.zeros((TEN, rank.shape[-1]), dtype=np.int64)
        for d, at in enumerate(pools):
            table[d, : len(at)] = at
        image = table[kind[..., None], pick]  # (n, ways, each)
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
        """Which kind every image shows, the query's too."""
        x = batch.inputs["vectors"].numpy()
        return torch.tensor([[int(self.kind[image.tobytes()]) for image in row] for row in x])

    def display(self, one: Batch) -> Display:
        """Images under the names they are given; their groups are the kinds."""
        names = [str(w + 1) for w in range(self.ways)]
        shown = ["·", *names, "?"]
        images = one.inputs["vectors"][0].reshape(-1, self.side, self.side).numpy()
        return Display(
            tokens=[shown[i] for i in one.inputs["input_ids"][0].tolist()], classes=names,
            groups=self.clusters(one)[0].tolist(), group_names=list(self.kind_names),
            images=images,
        )  # fmt: skip

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        x, ids = one.inputs["vectors"][0].numpy(), one.inputs["input_ids"][0].numpy()
        shown = [*(int(np.flatnonzero(ids == w)[0]) for w in range(1, self.ways + 1)), -1]
        images = (x[shown] * 16).round().astype(int).reshape(len(shown), self.side, self.side)
        lines = ["  ".join("".join(SHADES[v * 10 // 17] for v in row) for row in line).rstrip()
                 for line in images.transpose(1, 0, 2).tolist()]  # fmt: skip
        heads = "".join(f"{w:<{self.side + 2}}" for w in [*range(1, self.ways + 1), "?"]).rstrip()
        rest = self.ways * self.unlabelled
        last = f"and {rest} more without names → {int(one.labels[0, -1]) + 1}"
        return "\n".join([heads, *lines, last])


class FewShotDigits(FewShot):
    """Five of the ten digits under random names: what is the last one called? (See FewShot.)

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

    1797 images of 8 × 8 pixels, a fifth of them for validation and test.
    """

    name = "fewshot-digits"
    vector_size = SIDE * SIDE
    kind_names = tuple(str(d) for d in range(TEN))

    def __init__(self, ways: int = 5, unlabelled: int = 8, seen: int = TEN) -> None:
        images, digits = load_digits()
        shades = (images.reshape(len(images), -1) / 16).astype(np.float32)
        super().__init__(shades, digits, parts(len(digits)), ways, unlabelled, seen)


class FewShotFashion(FewShot):
    """Five of ten pieces of clothing under random names: what is the last one called? (See
    FewShot.) Fashion-MNIST's pictures, 2 × 2 pixels averaged to one: 14 × 14. Of each kind 400
    for training, 100 for validation and 100 of the official test. Files or the Hub.
    """

    name = "fewshot-fashion"
    vector_size = 14 * 14
    kind_names = SOURCES["fashion-mnist"].classes
    each: ClassVar[dict[str, int]] = {"train": 400, "validation": 100, "test": 100}

    def __init__(
        self, ways: int = 5, unlabelled: int = 8, seen: int = TEN, data_dir: str | None = None
    ) -> None:
        images, kinds, rows, first = [], [], {}, 0
        for split, (pictures, labels) in splits("fashion-mnist", data_dir).items():
            some = [np.flatnonzero(labels == d)[: self.each[split]] for d in range(TEN)]
            at = np.sort(np.concatenate(some))
            images.append(pictures[at, ..., 0].reshape(-1, 14, 2, 14, 2).mean((2, 4)) / 255)
            kinds.append(labels[at])
            rows[split] = np.arange(first, first + len(at))
            first += len(at)
        shades = np.concatenate(images).reshape(first, -1).astype(np.float32)
        super().__init__(shades, np.concatenate(kinds), rows, ways, unlabelled, seen)
