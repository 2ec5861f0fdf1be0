"""Do the coordinates, the neighbourhoods or the attention of a model find given groups of tokens?

    z           k-means on the latent coordinates, those of all heads side by side
    neighbours  spectral clustering of the neighbour graph, W_ij = share of heads with j ∈ N_k(i)
    flock       in flock scope: the same of the flocks, W_ij = share of heads with j ∈ F(i)
    attention   spectral clustering of the weights, W = A, mean over heads
    states      k-means on the states that a layer reads; layer 0: what the model is given, the
                number of layers: what leaves the last

Layers count from 0.

Graphs are symmetrised, (W + Wᵀ)/2; one that links all tokens alike (k ≥ their number) says nothing
and is skipped. There are as many clusters as groups in the example; tokens without a group are left
out before clustering. NMI and ARI are scikit-learn's; chance is the same clusters against the same
labels shuffled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from ascender.common.validate import need
from ascender.insight.capture import Layer, capture, without_scores

SOURCES = ("z", "neighbours", "flock", "attention", "states")
ONCE = {"near": "neighbours", "hidden": "states"}  # what older records call them, layers from 1
SHUFFLES = 1  # of the labels, an example
STARTS = 5  # of k-means
LEVEL = 0.95
IGNORED = -100


@dataclass(frozen=True)
class GroupScores:
    """How well one source of one layer finds the groups, an entry an example."""

    of: str
    layer: int
    nmi: Float[np.ndarray, "n"]
    ari: Float[np.ndarray, "n"]
    chance_nmi: Float[np.ndarray, "n"]
    chance_ari: Float[np.ndarray, "n"]


def groups_found(
    model: nn.Module, examples: Iterable[tuple[Mapping[str, Any], Tensor]], seed: int = 0
) -> list[GroupScores]:
    """Of a model over (inputs, groups (B, N)) in batches; groups < 0: none. An example with fewer
    than two groups is skipped. Attention without a matrix of scores has only states."""
    rng = np.random.default_rng(seed)
    results: dict[tuple[str, int], list[tuple[float, ...]]] = {}
    for inputs, groups in examples:
        output, layers = _capture(model, **inputs, output_hidden_states=True)
        states = getattr(output, "hidden_states", None) or ()
        for name, predicted, target in clustered(layers, states, groups, seed):
            nmi, ari = scores(predicted, target)
            by_chance = np.mean(
                [scores(predicted, rng.permutation(target)) for _ in range(SHUFFLES)], 0
            )
            results.setdefault(name, []).append((nmi, ari, *by_chance.tolist()))
    order = sorted(results, key=lambda name: (SOURCES.index(name[0]), name[1]))
    return [GroupScores(*name, *np.array(results[name]).T) for name in order]


@torch.no_grad()
def _capture(model: nn.Module, **inputs: Any) -> tuple[Any, list[Layer]]:
    if not without_scores(model):
        return capture(model, **inputs)
    model.eval()
    return model(**inputs), []


def clustered(
    layers: Sequence[Layer], states: Sequence[Tensor], groups: Int[Tensor, "B N"], seed: int = 0
) -> Iterator[tuple[tuple[str, int], np.ndarray, np.ndarray]]:
    """((source, layer), clusters, groups) of every example."""
    of = list(sources(layers, states, groups.shape[1]))
    for b, row in enumerate(groups):
        at = torch.nonzero(row >= 0)[:, 0]
        target = row[at].numpy()
        k = len(np.unique(target))
        if k < 2:
            continue
        for name, t, graph in of:
            x = t[b].double().cpu()
            if graph:
                W = x[at][:, at].numpy()
                if np.ptp(W[~np.eye(len(W), dtype=bool)]) == 0:
                    continue
                predicted = spectral(W, k, seed)
            else:
                predicted = kmeans(x[at].numpy(), k, seed)
            yield name, predicted, target


def sources(
    layers: Sequence[Layer], states: Sequence[Tensor], N: int
) -> Iterator[tuple[tuple[str, int], Tensor, bool]]:
    """((source, layer), what is clustered (B, N, ·), whether it is a graph)."""
    square = [a for a in layers if a.visible.shape[-2:] == (N, N) and "cross" not in a.name]
    for i, layer in enumerate(square):
        g = layer.geometry
        if g is not None:
            yield ("z", i), g.z.transpose(1, 2).flatten(2), False
            yield ("neighbours", i), g.near.double().mean(1), True
        if layer.all_visible is not None:  # visible is then F(i), a part of it
            yield ("flock", i), layer.visible.double().mean(1), True
        yield ("attention", i), layer.parts.weights.mean(1), True
    for i, state in enumerate(states):
        yield ("states", i), state, False


def as_now(grouping: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The entries of a record: those of an older one with today's names, layers from 0.

    >>> as_now([{"of": "z", "layer": 1}, {"of": "hidden", "layer": 1}])
    [{'of': 'z', 'layer': 0}, {'of': 'states', 'layer': 0}]
    """
    if not any(g["of"] in ONCE for g in grouping):
        return grouping
    return [{**g, "of": ONCE.get(g["of"], g["of"]), "layer": g["layer"] - 1} for g in grouping]


def kmeans(x: Float[np.ndarray, "N f"], k: int, seed: int = 0) -> Int[np.ndarray, "N"]:
    """The best of five starts."""
    need("sklearn", "tasks")
    from sklearn.cluster import KMeans

    k = min(k, len(np.unique(x.round(9), axis=0)))
    return KMeans(k, n_init=STARTS, random_state=seed).fit_predict(x).astype(np.int64)


def spectral(W: Float[np.ndarray, "N N"], k: int, seed: int = 0) -> Int[np.ndarray, "N"]:
    """k-means on the k leading eigenvectors of D^{−½} W D^{−½}, rows of length 1 (Ng, Jordan and
    Weiss 2001). All eigenvectors at once, so that a graph in pieces is no trouble."""
    W = (W + W.T) / 2
    scale = 1 / np.sqrt(np.maximum(W.sum(1), 1e-12))
    _, vectors = np.linalg.eigh(scale[:, None] * W * scale[None])
    lead = vectors[:, -k:]
    return kmeans(lead / np.maximum(np.linalg.norm(lead, axis=1, keepdims=True), 1e-12), k, seed)


def scores(predicted: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """NMI (arithmetic mean of the entropies) and ARI."""
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return (
        float(normalized_mutual_info_score(target, predicted)),
        float(adjusted_rand_score(target, predicted)),
    )


def mean_interval(
    x: Float[np.ndarray, "n"], least: float = -inf, most: float = inf
) -> tuple[float, float | None, float | None]:
    """Mean and 95 % t interval over examples, what of it lies in the range of x; no interval of
    one."""
    from scipy.stats import t

    mean, n = float(x.mean()), len(x)
    if n < 2:
        return mean, None, None
    half = float(t.ppf((1 + LEVEL) / 2, n - 1)) * float(x.std(ddof=1)) / n**0.5
    return mean, max(mean - half, least), min(mean + half, most)
