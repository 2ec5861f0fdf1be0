"""What a task is: data, a head, a metric, its chance level, slices of difficulty.

    batch = task.train(seed, step, n)        a pure function: the same call, the same batch
    for batch in task.eval_batches("test", n): …   the same examples in the same order, always
    task.grade(model, batch).score           one number an example: their mean is the metric

A batch depends on (seed, step) alone. So a resumed run gets the batches it would have got, and
every process of a group can take its share of the same batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

IGNORED = -100  # a label that does not count, as transformers has it
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Batch:
    """Examples side by side.

    inputs   what the model's forward takes, by name: input_ids, vectors, attention_mask, …
    labels   what it should say: a class (B,), or tokens or classes (B, N), −100 where none counts
    level    how hard each is: an index into the task's levels; (B, N) where tokens are graded one
             by one
    """

    inputs: Mapping[str, Shaped[Tensor, "B ..."]]
    labels: Shaped[Tensor, "B ..."]
    level: Int[Tensor, "B ..."]

    @classmethod
    def of(cls, labels: np.ndarray, level: np.ndarray | None = None, **inputs: np.ndarray) -> Batch:
        """From arrays; without levels all are 0."""
        level = np.zeros(len(labels), dtype=np.int64) if level is None else level
        tensors = {name: torch.from_numpy(x) for name, x in inputs.items()}
        return cls(tensors, torch.from_numpy(labels), torch.from_numpy(level))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, which: slice) -> Batch:
        inputs = {name: t[which] for name, t in self.inputs.items()}
        return Batch(inputs, self.labels[which], self.level[which])

    def split(self, n: int) -> Iterator[Batch]:
        """In pieces of n, the last one smaller."""
        for start in range(0, len(self), n):
            yield self[start : start + n]

    def to(self, device: torch.device) -> Batch:
        """On a device."""
        inputs = {name: t.to(device) for name, t in self.inputs.items()}
        return Batch(inputs, self.labels.to(device), self.level.to(device))

    def tokens(self) -> int:
        """How many a model reads."""
        mask = self.inputs.get("attention_mask")
        if mask is not None:
            return int(mask.sum())
        first = next(iter(self.inputs.values()))
        return first.shape[0] * first.shape[1]


@dataclass(frozen=True)
class Graded:
    """A model's results: one entry per example (in a graph: per node).

    score   whose mean is the metric        level   how hard it was
    loss    the mean loss of the batch
    predicted, target      what the model answered, and what is right
    """

    score: Float[Tensor, "n"]
    level: Int[Tensor, "n"]
    loss: float
    predicted: Sequence[Any] = ()
    target: Sequence[Any] = ()


@dataclass(frozen=True)
class Display:
    """How people see one example: a page shows what is given, and plain tokens otherwise.

    tokens  a name for each                          classes      names of the classes
    groups  the true one of each token, −100: none   group_names  what they are called
    images  a picture of each token, (N, h, w) or (N, h, w, 3) in [0, 1]
    grid    (rows, columns) where the tokens' pictures are the cells of one picture
    """

    tokens: Sequence[str] | None = None
    classes: Sequence[str] = ()
    groups: Sequence[int] | None = None
    group_names: Sequence[str] = ()
    images: Float[np.ndarray, "N h w ..."] | None = None
    grid: tuple[int, int] | None = None


class Task(ABC):
    """Data, head, metric and chance level under one name.

    head        sequence, token, causal, seq2seq: which model of ascender.hf
    metric      what the mean score is called; higher: whether more of it is better
    position    of a variant that names none: "none" where the order says nothing
    recipe      model size and training that suit it, where not the usual (train.Run)
    levels      names of the slices of difficulty
    neighbours  index lists (a grid, a graph) that all examples share, or None; lists of each
                example (a tree) are an input of the batch, "neighbours" (B, N, K)
    gives_lists False once they are hidden, for variants that find their own (hide_lists)
    code_options  names of its options that may be code of the user, by module:function
    """

    name: ClassVar[str]
    head: ClassVar[str] = "sequence"
    metric: str = "accuracy"
    higher: ClassVar[bool] = True
    position: ClassVar[str] = "rope"
    recipe: ClassVar[dict[str, Any]] = {}
    code_options: ClassVar[tuple[str, ...]] = ()
    levels: tuple[str, ...] = ("all",)
    length: int
    vocab_size: int = 1
    vector_size: int = 0
    num_labels: int = 2
    neighbours: Int[Tensor, "N k"] | None = None
    gives_lists: bool = True
    tokenizer: Any = None

    @abstractmethod
    def train(self, seed: int, step: int, n: int) -> Batch:
        """The n training examples of a step: a pure function."""

    @abstractmethod
    def eval_batches(self, split: str, n: int) -> Iterator[Batch]:
        """The examples of "validation" or "test", n at a time."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """The chance level: the score of the best guess that ignores the input."""

    @abstractmethod
    def example(self) -> str:
        """One real example, drawn for people to read."""

    def fields(self) -> dict[str, Any]:
        """What an AscenderConfig must know to fit."""
        ends = {} if self.tokenizer is None else {
            "pad_token_id": self.tokenizer.pad_token_id,
            "bos_token_id": self.tokenizer.bos_token_id,
            "eos_token_id": self.tokenizer.eos_token_id,
        }  # fmt: skip
        return {
            "vocab_size": self.vocab_size, "vector_size": self.vector_size,
            "num_labels": self.num_labels, "max_position_embeddings": self.length, **ends,
        }  # fmt: skip

    def score(self, logits: Float[Tensor, "B ..."], batch: Batch) -> Float[Tensor, "B"]:
        """One number per example. Here: the fraction of its labels that are predicted; for
        regression, whether the prediction is within 0.5."""
        labels = batch.labels
        if labels.is_floating_point() and logits.shape[-1] == 1:
            return ((logits[:, 0] - labels).abs() <= 0.5).double()
        if self.head == "causal":
            logits, labels = logits[:, :-1], labels[:, 1:]
        if labels.ndim == 1:
            return (logits.argmax(-1) == labels).double()
        right = (logits.argmax(-1) == labels).double().sum(-1)
        return right / (labels != IGNORED).sum(-1).clamp_min(1)

    def grade(self, model: Any, batch: Batch) -> Graded:
        """How the model does on a batch."""
        output = model(**self.inputs(batch), labels=batch.labels)
        logits = output.logits.float()
        predicted: Sequence[Any] = ()
        target: Sequence[Any] = ()
        if batch.labels.ndim == 1:
            predicted = (logits.argmax(-1) if logits.shape[-1] > 1 else logits[:, 0]).tolist()
            target = batch.labels.tolist()
        loss = float(output.loss)
        if batch.level.ndim == 2:
            return by_token(logits, batch, loss)
        return Graded(self.score(logits, batch), batch.level, loss, predicted, target)

    def counted(self, batch: Batch) -> int:
        """The labels that count."""
        labels = batch.labels[:, 1:] if self.head == "causal" else batch.labels
        return int((labels != IGNORED).sum())

    def hide_lists(self) -> None:
        """From now on no model gets index lists: neither shared ones nor those of an example."""
        self.neighbours, self.gives_lists = None, False

    def inputs(self, batch: Batch) -> dict[str, Tensor]:
        """The batch's inputs, and the neighbours that all examples share."""
        if self.neighbours is None:
            lists = () if self.gives_lists else ("neighbours",)
            return {name: t for name, t in batch.inputs.items() if name not in lists}
        return {**batch.inputs, "neighbours": self.neighbours.to(batch.labels.device)}

    def clusters(self, batch: Batch) -> Int[Tensor, "B N"] | None:
        """The true group of every token, −100 where it has none: what a clustering should find.
        None: the task knows of no groups."""
        return None

    def display(self, one: Batch) -> Display:
        """How people see it: a batch of one example."""
        groups = self.clusters(one)
        return Display(groups=None if groups is None else groups[0].tolist())

    def summary(self, predicted: Sequence[Any], target: Sequence[Any]) -> dict[str, float]:
        """More metrics than the mean score, where the field reports them: F1, …"""
        return {}


class Drawn(Task):
    """A task whose examples are drawn: `draw(rng, n)`, exact and seeded. Training, validation and
    test have streams of their own."""

    examples: ClassVar[int] = 1000  # of validation and of test

    @property
    def chance(self) -> float:
        """Labels are uniform, where a task does not say otherwise."""
        return 1 / self.num_labels

    @abstractmethod
    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        """n examples."""

    def train(self, seed: int, step: int, n: int) -> Batch:
        return self.draw(np.random.default_rng([0, seed, step]), n)

    def eval_batches(self, split: str, n: int) -> Iterator[Batch]:
        drawn = self.__dict__.setdefault("_drawn", {})
        if split not in drawn:  # once: a long or intricate example takes a while
            stream = SPLITS.index(check_split(split))
            drawn[split] = self.draw(np.random.default_rng([stream]), self.examples)
        yield from drawn[split].split(n)


class Stored(Task):
    """A task whose examples are rows: `rows(split)` gives how many there are, `collate` puts some
    of them side by side. Training goes through them in epochs, each in an order of its own."""

    @abstractmethod
    def rows(self, split: str) -> int:
        """How many examples a split has."""

    @abstractmethod
    def collate(self, split: str, which: Int[np.ndarray, "B"]) -> Batch:
        """The examples at these indices."""

    def train(self, seed: int, step: int, n: int) -> Batch:
        rows = self.rows("train")
        at = np.arange(step * n, (step + 1) * n)
        orders = {epoch: order(seed, epoch, rows) for epoch in np.unique(at // rows).tolist()}
        which = [
            orders[epoch][i] for epoch, i in zip((at // rows).tolist(), at % rows, strict=True)
        ]
        return self.collate("train", np.array(which))

    def eval_batches(self, split: str, n: int) -> Iterator[Batch]:
        rows = self.rows(check_split(split))
        for start in range(0, rows, n):
            yield self.collate(split, np.arange(start, min(start + n, rows)))


@lru_cache(maxsize=4)
def order(seed: int, epoch: int, rows: int) -> Int[np.ndarray, "rows"]:
    """The order in which an epoch goes through the rows."""
    return np.random.default_rng([seed, epoch]).permutation(rows)


def by_token(logits: Float[Tensor, "B N c"], batch: Batch, loss: float) -> Graded:
    """A score a labelled token: whether its label is predicted."""
    counts = batch.labels != IGNORED
    predicted, target = logits.argmax(-1)[counts], batch.labels[counts]
    right = (predicted == target).double()
    return Graded(right, batch.level[counts], loss, predicted.tolist(), target.tolist())


def check_split(split: str) -> str:
    if split not in SPLITS[1:]:
        raise ValueError(f"unknown split {split!r}; expected one of {', '.join(SPLITS[1:])}")
    return split


def commonest(labels: Int[np.ndarray, "n"]) -> float:
    """The frequency of the commonest label: the score of always guessing it."""
    return float(np.bincount(labels).max() / len(labels))


def padded(rows: Sequence[Sequence[int] | np.ndarray], fill: int) -> tuple[Tensor, Tensor]:
    """Rows of unequal length as (ids, mask), padded on the right."""
    longest = max(len(row) for row in rows)
    ids = np.full((len(rows), longest), fill, dtype=np.int64)
    mask = np.zeros((len(rows), longest), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)
