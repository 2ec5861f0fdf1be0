"""Which tokens belong together."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ascender.tasks.base import IGNORED, Batch, Display, Drawn


class Grouping(Drawn):
    """Several clusters, one member of each has a name: what are the others called?

        centres  p_1 … p_c ~ N(0, 1) in 16 dimensions, new for every example
        tokens   x_i = p_{a(i)} + σ ε_i, in `vectors`; every cluster has two members or more
        names    c of `most` names at random; one member of each cluster carries it in input_ids
                 (name + 1), the others carry 0
        labels   the name of a token's cluster, nothing at those that carry it

    >>> print(Grouping().example())
     -0.2   0.6   1.6  -0.8   2.1  -0.8   1.6  -1.0 …  H (given)
     -1.9   2.0   1.5  -0.2   0.6  -0.3   0.5  -0.1 …  ? → H
      2.0   1.7  -0.8  -0.0   0.8   0.2  -3.0   1.8 …  ? → B
      1.4   0.4   1.6  -0.7  -0.9  -0.3  -1.2   0.3 …  ? → D
     -0.7  -1.1  -0.9   1.8   0.9  -1.1  -0.1  -0.4 …  ? → F
     -2.1   0.5  -1.3  -0.0   0.0   0.8   0.7   0.0 …  ? → A
      1.4   0.6   0.9   0.1   0.1  -0.4   0.2   1.2 …  ? → D
      0.3   1.7  -3.2   0.2  -1.7   2.5   1.1  -0.4 …  ? → G
    … 64 rows, 7 clusters

    The nearest named token is now and then of another cluster; the mean of a cluster's members
    hardly ever is, so it pays to go with the group. `clusters` gives the true groups, for
    NMI and ARI. Levels: by c, in thirds. Chance: 1 / most; names say nothing by themselves.
    """

    name = "grouping"
    head = "token"
    position = "none"
    recipe: ClassVar[dict[str, Any]] = {"steps": 3000, "batch": 32, "rate": 3e-3}

    def __init__(self, crowd: int = 64, most: int = 8, noise: float = 0.6, dim: int = 16) -> None:
        if not 2 <= most <= crowd // 2:
            raise ValueError(f"most = {most}; expected from 2 to half of crowd = {crowd}")
        if noise < 0:
            raise ValueError(f"noise = {noise}; expected a number ≥ 0")
        self.length, self.vector_size, self.noise = crowd, dim, noise
        self.num_labels, self.vocab_size = most, most + 1
        thirds = np.array_split(np.arange(2, most + 1), min(3, most - 1))
        self.levels = tuple(f"{part[0]}–{part[-1]} clusters" for part in thirds)
        self.level_of = np.repeat(np.arange(len(thirds)), [len(part) for part in thirds])

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        N, most = self.length, self.num_labels
        c = rng.integers(2, most + 1, n)
        p = rng.standard_normal((n, most, self.vector_size), dtype=np.float32)
        a = (rng.random((n, N)) * c[:, None]).astype(np.int64)
        twice = np.arange(N)[None] < 2 * c[:, None]
        a = np.where(twice, np.arange(N) % c[:, None], a)
        carries = np.arange(N)[None] < c[:, None]  # the first of each cluster
        order = np.argsort(rng.random((n, N)))
        a, carries = np.take_along_axis(a, order, 1), np.take_along_axis(carries, order, 1)
        x = np.take_along_axis(p, a[..., None], 1)
        x += self.noise * rng.standard_normal(x.shape, dtype=np.float32)
        named = np.take_along_axis(np.argsort(rng.random((n, most))), a, 1)
        labels, ids = np.where(carries, IGNORED, named), np.where(carries, named + 1, 0)
        return Batch.of(labels, self.level_of[c - 2], vectors=x, input_ids=ids)

    @staticmethod
    def clusters(batch: Batch) -> Int[Tensor, "B N"]:
        """The true cluster of every token, those that carry its name too."""
        return torch.where(batch.labels == IGNORED, batch.inputs["input_ids"] - 1, batch.labels)

    def display(self, one: Batch) -> Display:
        """The names that tokens carry; · for the others."""
        ids = one.inputs["input_ids"][0].tolist()
        names = [self.called(c) for c in range(self.num_labels)]
        return Display(
            tokens=[names[i - 1] if i else "·" for i in ids], classes=names,
            groups=self.clusters(one)[0].tolist(), group_names=names,
        )  # fmt: skip

    @staticmethod
    def called(cluster: int) -> str:
        """A, B, …, Z, then by number."""
        return chr(ord("A") + cluster) if cluster < 26 else str(cluster)

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        x, ids = one.inputs["vectors"][0].tolist(), one.inputs["input_ids"][0].tolist()
        belongs = self.clusters(one)[0].tolist()
        first = next(i for i, carried in enumerate(ids) if carried)
        rows = []
        for i in [first, *(i for i in range(7) if i != first)]:
            name = self.called(belongs[i])
            label = f"{name} (given)" if ids[i] else f"? → {name}"
            rows.append(" ".join(f"{v:5.1f}" for v in x[i][:8]) + f" …  {label}")
        clusters = sum(carried > 0 for carried in ids)
        return "\n".join(rows) + f"\n… {self.length} rows, {clusters} clusters"
