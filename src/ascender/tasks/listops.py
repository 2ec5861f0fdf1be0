"""Nested operations on digits, as Long Range Arena draws them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from textwrap import fill
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int

from ascender.tasks.base import Batch, Display, Drawn, commonest

TOKENS = ("·", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")  # · fills up
DIGIT, OPERATOR, END = 1, 11, 15
MIN, MAX, MED, SM = range(4)
NESTED = 0.25  # probability that a node is an operation, not a digit
CANDIDATES = 256  # trees grown at once
SHOWN = 60  # tokens of an example


@dataclass(frozen=True)
class TreeLayer:
    """The nodes of one depth of many trees, side by side, siblings next to each other.

    tree       which tree a node is in               op     its operator, −1: a digit
    arguments  how many it has, 0: a digit           digit  its value if it has none
    """

    tree: Int[np.ndarray, "n"]
    op: Int[np.ndarray, "n"]
    arguments: Int[np.ndarray, "n"]
    digit: Int[np.ndarray, "n"]

    def keep(self, which: Int[np.ndarray, "trees"]) -> TreeLayer:
        """The trees with which ≥ 0, under these numbers."""
        here = which[self.tree] >= 0
        return TreeLayer(
            which[self.tree[here]], self.op[here], self.arguments[here], self.digit[here]
        )


def grow(rng: np.random.Generator, trees: int, max_depth: int, max_args: int) -> list[TreeLayer]:
    """Trees as Long Range Arena grows them: above max_depth a node is an operation with
    probability 1/4, its operator and its number of arguments (2 … max_args) uniform."""
    layers, tree = [], np.arange(trees)
    for depth in range(1, max_depth + 1):
        nested = (rng.random(len(tree)) <= NESTED) & (depth < max_depth)
        op = np.where(nested, rng.integers(0, 4, len(tree)), -1)
        arguments = np.where(nested, rng.integers(2, max_args + 1, len(tree)), 0)
        layers.append(TreeLayer(tree, op, arguments, rng.integers(0, 10, len(tree))))
        tree = np.repeat(tree, arguments)
    return layers


def evaluate(layers: list[TreeLayer]) -> Int[np.ndarray, "trees"]:
    """The values of the roots, from the deepest layer up. MED is ⌊median⌋."""
    below = layers[-1].digit
    for layer in reversed(layers[:-1]):
        value, inner = layer.digit.copy(), layer.op >= 0
        if inner.any():
            op, k = layer.op[inner], layer.arguments[inner]
            first = np.cumsum(k) - k
            node = np.repeat(np.arange(len(k)), k)
            ranked = below[np.lexsort((below, node))]
            lower, upper = ranked[first + (k - 1) // 2], ranked[first + k // 2]
            choices = [ranked[first], ranked[first + k - 1], (lower + upper) // 2,
                       np.add.reduceat(below, first) % 10]  # fmt: skip
            value[inner] = np.choose(op, choices)
        below = value
    return below


def spell(
    layers: list[TreeLayer], sizes: list[np.ndarray], ids: Int[np.ndarray, "trees N"]
) -> None:
    """Writes the trees into rows of tokens: [OP, the arguments one after the other, ]."""
    at = np.zeros(len(ids), dtype=np.int64)
    for layer, size, below in zip(layers, sizes, [*sizes[1:], None], strict=True):
        inner = layer.op >= 0
        ids[layer.tree, at] = np.where(inner, OPERATOR + layer.op, DIGIT + layer.digit)
        ids[layer.tree[inner], (at + size - 1)[inner]] = END
        if below is None or not inner.any():
            return
        k = layer.arguments[inner]
        before = np.cumsum(below) - below  # tokens of the nodes to the left, of all parents
        at = np.repeat(at[inner] + 1 - before[np.cumsum(k) - k], k) + before


def measure(layers: list[TreeLayer]) -> list[np.ndarray]:
    """Tokens of every node: 1 of a digit, 2 more than its arguments of an operation."""
    sizes = [np.ones(len(layers[-1].tree), dtype=np.int64)]
    for layer in reversed(layers[:-1]):
        size, inner = np.ones(len(layer.tree), dtype=np.int64), layer.op >= 0
        if inner.any():
            k = layer.arguments[inner]
            size[inner] = 2 + np.add.reduceat(sizes[0], np.cumsum(k) - k)
        sizes.insert(0, size)
    return sizes


class ListOps(Drawn):
    """What is the value of a nested operation on digits?

        node      an operation with probability 1/4, else a digit; at max_depth always a digit
        operator  MIN, MAX, MED (⌊median⌋) or SM (sum modulo 10) of 2 … max_args arguments
        example   a tree of more than min_length and fewer than max_length tokens
        label     its value, from 0 to 9

    >>> print(ListOps(20, 40, max_depth=5, max_args=5).example())
    [SM [SM [MED 5 [MIN 9 7 8 2 3 ] ] 3 ] [MED 3 5 3 [SM 0 [MAX 2 7 4 ] ] 4 ] ] → 0

    The settings of Long Range Arena (lra_benchmarks/data/listops.py) are the defaults: lengths
    500–2000, max_depth 10, max_args 10; `listops-short` has 10–100, 5, 5. A bracket and its
    operator are one token, as there. Levels: by length, in thirds of its range, or by how deep
    operations nest (slices="depth"; at most max_depth − 1, where all trees of the published
    setting go). Chance is the frequency of the commonest value in the test set (0.18, short 0.13):
    the values are not uniform, since MIN draws to 0 and MAX to 9.
    """

    name = "listops"
    vocab_size, num_labels = len(TOKENS), 10
    recipe: ClassVar[dict[str, Any]] = {"steps": 5000, "batch": 32, "rate": 1e-3}

    def __init__(
        self, min_length: int = 500, max_length: int = 2000, max_depth: int = 10,
        max_args: int = 10, slices: str = "length",
    ) -> None:  # fmt: skip
        if slices not in ("length", "depth"):
            raise ValueError(f"slices = {slices!r}; expected one of length, depth")
        if max_args < 2:
            raise ValueError(f"max_args = {max_args}; expected at least 2")
        if max_depth < 3:
            raise ValueError(f"max_depth = {max_depth}; expected at least 3")
        most = 1
        for _ in range(max_depth - 1):
            most = min(2 + max_args * most, 10**9)
        if not 3 <= min_length < most:
            raise ValueError(
                f"min_length = {min_length}; expected from 3 to {most - 1}, below the largest "
                f"tree of max_depth = {max_depth} and max_args = {max_args}"
            )
        if max_length < min_length + max_args + 1:
            raise ValueError(
                f"max_length = {max_length}; expected at least min_length + max_args + 1 = "
                f"{min_length + max_args + 1}"
            )
        self.min_length, self.length = min_length, max_length - 1
        self.max_depth, self.max_args = max_depth, max_args
        third = -(-(self.length - min_length) // 3)
        self.borders = (max_depth - 2, max_depth - 1)
        if slices == "length":
            self.borders = (min_length + third + 1, min_length + 2 * third + 1)
        low, high = self.borders
        self.slices, self.levels = slices, (f"{slices} < {low}", f"< {high}", f"≥ {high}")

    def candidates(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Of some trees those of the right length: ids, lengths, values, depths."""
        layers = grow(rng, CANDIDATES, self.max_depth, self.max_args)
        tokens = np.zeros(CANDIDATES, dtype=np.int64)
        for layer in layers:
            tokens += np.bincount(layer.tree[layer.op >= 0], minlength=CANDIDATES)
            tokens += np.bincount(layer.tree, minlength=CANDIDATES)
        fit = (tokens > self.min_length) & (tokens <= self.length)
        layers = [layer.keep(np.where(fit, np.cumsum(fit) - 1, -1)) for layer in layers]
        fitting, n = tokens[fit], int(fit.sum())
        ids = np.zeros((n, self.length), dtype=np.int64)
        depth = np.zeros(n, dtype=np.int64)
        for d, layer in enumerate(layers, 1):
            depth[layer.tree[layer.op >= 0]] = d
        if n:
            spell(layers, measure(layers), ids)
        return ids, fitting, evaluate(layers) if n else fitting, depth

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        drawn, have = [], 0
        while have < n:
            drawn.append(self.candidates(rng))
            have += len(drawn[-1][1])
        ids, tokens, value, depth = (np.concatenate(kind)[:n] for kind in zip(*drawn, strict=True))
        longest = int(tokens.max())
        mask = np.arange(longest) < tokens[:, None]
        level = np.digitize(tokens if self.slices == "length" else depth, self.borders)
        ids = ids[:, :longest].copy()
        return Batch.of(value, level, input_ids=ids, attention_mask=mask.astype(np.int64))

    def display(self, one: Batch) -> Display:
        return Display(tokens=[TOKENS[i] for i in one.inputs["input_ids"][0].tolist()])

    @cached_property
    def chance(self) -> float:
        return commonest(
            torch.cat([batch.labels for batch in self.eval_batches("test", 100)]).numpy()
        )

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        tokens = [TOKENS[i] for i in one.inputs["input_ids"][0].tolist()]
        if len(tokens) > SHOWN:
            tokens = [*tokens[: SHOWN - 10], "…", *tokens[-10:], f"({len(tokens)} tokens)"]
        return f"{fill(' '.join(tokens), 96)} → {int(one.labels[0])}"
