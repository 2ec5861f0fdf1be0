"""Papers that cite each other: the Planetoid files, without trusting them.

    DIR/planetoid/ind.cora.{x, tx, allx, y, ty, ally, graph, test.index}

They are pickles; only plain containers, numpy arrays and scipy's sparse matrices are let out of
them. Everything else in a pickle is refused by name.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from ascender.common.validate import lookup
from ascender.core.neighbours import graph
from ascender.tasks.base import IGNORED, Batch, Task

NAMES = {"cora": 7, "citeseer": 6, "pubmed": 3}  # classes
PIECES = ("x", "tx", "allx", "y", "ty", "ally", "graph")
PLAIN = {
    ("collections", "defaultdict"), ("builtins", "list"), ("__builtin__", "list"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"), ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "scalar"), ("scipy.sparse.csr", "csr_matrix"),
    ("scipy.sparse._csr", "csr_matrix"), ("_codecs", "encode"),
}  # fmt: skip


class Careful(pickle.Unpickler):
    """Arrays, sparse matrices and containers; nothing that runs."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in PLAIN:
            raise pickle.UnpicklingError(
                f"{module}.{name} in the file; expected arrays and sparse matrices only"
            )
        if module.startswith("scipy"):
            from scipy.sparse import csr_matrix

            return csr_matrix
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def _read(path: Path) -> Any:
    if not path.exists():
        raise FileNotFoundError(
            f"no file {path}; expected the Planetoid files there (kimiyoung/planetoid, data/)"
        )
    try:
        with path.open("rb") as file:
            return Careful(file, encoding="latin1").load()
    except (pickle.UnpicklingError, EOFError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def planetoid(name: str, data_dir: str) -> tuple[np.ndarray, np.ndarray, dict[int, list[int]], Any]:
    """(features, classes, who cites whom, rows of the test nodes) in the files' own order."""
    folder = Path(data_dir) / "planetoid"
    files = {piece: _read(folder / f"ind.{name}.{piece}") for piece in PIECES}
    listed = folder / f"ind.{name}.test.index"
    if not listed.exists():
        raise FileNotFoundError(f"no file {listed}; expected a number a line")
    test = np.array([int(line) for line in listed.read_text().split()])
    first, last = test.min(), test.max()
    x = np.zeros((last + 1, files["allx"].shape[1]), np.float32)
    y = np.zeros((last + 1, files["ally"].shape[1]), np.float32)
    x[:first], y[:first] = files["allx"].toarray(), files["ally"]
    x[test], y[test] = files["tx"].toarray(), files["ty"]  # Citeseer lacks some: they stay 0
    edges = {int(node): [int(other) for other in others] for node, others in files["graph"].items()}
    return x, y.argmax(1), edges, test


class Citations(Task):
    """Which field is a paper of? One graph: a node is a paper, its vector the words it has, its
    neighbours (at most k) the papers that it cites or is cited by. Planetoid's Cora and Citeseer,
    and its split: 20 labelled papers a class, 500 for validation, 1000 for test.

        every batch is the whole graph (B = 1); labels count in the split's nodes alone

    Levels: lone (no or one neighbour), few (2–3), many (4 and more). Floor: the commonest class
    of the test nodes.
    """

    head = "token"
    position = "none"
    levels = ("lone", "few", "many")
    recipe: ClassVar[dict[str, Any]] = {
        "steps": 200, "batch": 1, "rate": 5e-3, "dropout": 0.5, "decay": 0.05, "every": 10,
    }  # fmt: skip

    def __init__(self, name: str = "cora", k: int = 16, data_dir: str | None = None) -> None:
        self.num_labels = lookup("citations", name, NAMES)
        if data_dir is None:
            raise FileNotFoundError(
                f"{name} has no data_dir; expected --data-dir DIR with planetoid/ind.{name}.x "
                "and the other Planetoid files in it"
            )
        x, y, edges, test = planetoid(name, data_dir)
        norm = np.maximum(x.sum(1, keepdims=True), 1)
        self.x, self.y = torch.from_numpy(x / norm), torch.from_numpy(y)
        self.length, self.vector_size = x.shape
        pairs = [(i, j) for i, others in edges.items() for j in others if max(i, j) < len(x)]
        near = graph(torch.tensor(pairs).T, len(x))
        self.neighbours = near[:, :k]
        labelled = 20 * self.num_labels
        self.nodes = {
            "train": torch.arange(labelled),
            "validation": torch.arange(labelled, min(labelled + 500, test.min())),
            "test": torch.from_numpy(np.sort(test)),
        }
        degree = (near >= 0).sum(1)
        self.level = (degree >= 2).long() + (degree >= 4).long()

    def _batch(self, split: str) -> Batch:
        at, labels = self.nodes[split], torch.full((1, self.length), IGNORED)
        labels[0, at] = self.y[at]
        return Batch({"vectors": self.x[None]}, labels, self.level[None])

    def train(self, seed: int, step: int, n: int) -> Batch:
        if n != 1:
            raise ValueError(f"batch = {n}; expected 1: there is one graph")
        return self._batch("train")

    def eval_batches(self, split: str, n: int) -> Any:
        yield self._batch(split)

    @property
    def chance(self) -> float:
        labels = self.y[self.nodes["test"]]
        return float(labels.bincount().max() / len(labels))

    def example(self) -> str:
        node = int(self.nodes["train"][0])
        assert self.neighbours is not None
        near = [int(j) for j in self.neighbours[node] if j >= 0]
        words = self.x[node].nonzero()[:8, 0].tolist()
        return (
            f"paper {node}: words {', '.join(map(str, words))} …, cites or is cited by "
            f"{', '.join(map(str, near)) or 'none'}\n→ class {int(self.y[node])}"
        )
