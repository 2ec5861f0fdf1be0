"""How many different prototypes are in a noisy crowd."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ascender.tasks.base import Batch, Display, Drawn


class Distinct(Drawn):
    """How many different prototypes stand in a crowd of 64 noisy copies?

        prototypes  p_1 … p_c ~ N(0, 1) in 16 dimensions, new for every example
        tokens      x_i = p_{a(i)} + σ ε_i, every prototype at least once
        label       c, from 1 to 12: class c − 1

    >>> print(Distinct().example())
     -1.3   0.1  -0.6   0.5  -0.1   0.4  -0.2  -0.9 …
     -2.0   0.8   1.7   0.6   0.6  -0.4   1.6  -0.3 …
      2.6  -0.6   1.1  -1.4   0.3   0.3  -1.7   0.1 …
     -0.0  -0.0   0.5   0.6   1.9  -0.4  -0.2  -0.4 …
      1.5   0.3   1.2  -0.4   0.7  -1.0  -1.1  -0.5 …
    … 64 rows → 11 prototypes

    One has to tell near duplicates from others, which is what separation is for. Levels: few
    (1–4), some (5–8), many (9–12).
    """

    name = "distinct"
    position = "none"
    levels = ("few", "some", "many")
    recipe: ClassVar[dict[str, Any]] = {"steps": 600, "batch": 64, "rate": 1e-3}

    def __init__(self, crowd: int = 64, most: int = 12, noise: float = 0.3, dim: int = 16) -> None:
        if not 1 <= most <= crowd:
            raise ValueError(f"most = {most}; expected a number from 1 to crowd = {crowd}")
        self.length, self.vector_size, self.num_labels = crowd, dim, most
        self.noise = noise

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        N, most = self.length, self.num_labels
        c = rng.integers(1, most + 1, n)
        p = rng.standard_normal((n, most, self.vector_size), dtype=np.float32)
        a = (rng.random((n, N)) * c[:, None]).astype(np.int64)
        first = np.arange(N)[None] < c[:, None]  # every prototype once, then anyhow
        a = rng.permuted(np.where(first, np.arange(N), a), axis=1)
        x = np.take_along_axis(p, a[..., None], 1)
        x += self.noise * rng.standard_normal(x.shape, dtype=np.float32)
        level = (c - 1) * len(self.levels) // most
        return Batch.of(c - 1, level, vectors=x)

    def display(self, one: Batch) -> Display:
        return Display(classes=[str(c + 1) for c in range(self.num_labels)])

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        x = one.inputs["vectors"][0]
        rows = "\n".join(" ".join(f"{v:5.1f}" for v in row[:8]) + " …" for row in x[:5].tolist())
        return f"{rows}\n… {self.length} rows → {int(one.labels[0]) + 1} prototypes"
