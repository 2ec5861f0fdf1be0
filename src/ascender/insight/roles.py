"""Which head does what, and whether other seeds say the same.

A head is described by its contributions: the vector of its shares and of the attention that its
rules move (insight.contribution): 5 + 3 numbers, 6 + 4 with the affinity term. Heads of one
layer are exchangeable between seeds, so they are matched first: Hungarian assignment, the least
Σ ‖a_i − b_π(i)‖².

agreement   r = correlation of a_i and b_π(i) over heads and entries, each less its mean over the
            heads of its own seed: do heads differ from one another in the same way?
null        the same with the heads of all seeds dealt to the seeds anew, at random, and matched
            again: what matching alone makes of heads like these
layers      the same question of layers, which are not exchangeable: r of the layers' mean vectors,
            less their mean over layers; null: the heads of each seed dealt to its layers anew
roles       k-means over the heads of all layers and seeds, k by the largest silhouette; one role
            where none reaches 0.25 (no structure: Kaufman and Rousseeuw 1990). A role has the name
            of the rules that move 5 % of its attention or more, most first; else "base".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

from ascender.common.validate import need
from ascender.insight.capture import MUTABLE

DRAWS = 1000
MOST = 6  # roles
STRUCTURE = 0.25  # silhouette below which there is none
NAMED = 0.05  # attention that a rule moves, for its name


@dataclass(frozen=True)
class Agreement:
    """Of one layer, or of layers: mean r over pairs of seeds, the mean of the null's, and how often
    the null's is as large: p = (1 + #{null ≥ r}) / (1 + draws). None where nothing differs."""

    r: float | None
    null: float | None
    p: float | None
    pairs: int


@dataclass(frozen=True)
class Roles:
    """`which` role each head has, the roles' names and mean vectors, the silhouette of the choice
    (None: one role)."""

    which: Int[np.ndarray, "n"]
    names: tuple[str, ...]
    centres: Float[np.ndarray, "k f"]
    silhouette: float | None


def vectors(
    share: Float[np.ndarray, "L H t"], moved: Float[np.ndarray, "L H r"]
) -> Float[np.ndarray, "L H f"]:
    """The description of every head: shares and moved attention."""
    return np.concatenate([share, moved], -1)


def match(a: Float[np.ndarray, "H f"], b: Float[np.ndarray, "H f"]) -> Int[np.ndarray, "H"]:
    """π: head π(i) of b is head i of a."""
    need("scipy", "lab")
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(((a[:, None] - b[None]) ** 2).sum(-1))[1]


def aligned(seeds: Sequence[Float[np.ndarray, "L H f"]]) -> list[Int[np.ndarray, "L H"]]:
    """The order of every seed's heads, layer by layer, that brings them closest to their mean:
    matched to the first seed, then to the mean of all until nothing changes."""
    L = len(seeds[0])
    orders = [np.tile(np.arange(s.shape[1]), (L, 1)) for s in seeds]
    for layer in range(L):
        of = [s[layer] for s in seeds]
        centre = of[0]
        for _ in range(len(seeds) + 1):
            order = [match(centre, s) for s in of]
            same = all((o == f[layer]).all() for o, f in zip(order, orders, strict=True))
            for f, o in zip(orders, order, strict=True):
                f[layer] = o
            centre = np.mean([s[o] for s, o in zip(of, order, strict=True)], 0)
            if same:
                break
    return orders


def agreement(
    seeds: Sequence[Float[np.ndarray, "H f"]], draws: int = DRAWS, seed: int = 0
) -> Agreement:
    """Of the heads of one layer, over all pairs of seeds."""
    rng = np.random.default_rng(seed)
    pool = np.concatenate([s - s.mean(0) for s in seeds])
    dealt = (np.split(rng.permutation(pool), len(seeds)) for _ in range(draws))
    return _against(seeds, dealt, matched_correlation)


def layer_agreement(
    seeds: Sequence[Float[np.ndarray, "L H f"]], draws: int = DRAWS, seed: int = 0
) -> Agreement:
    """Whether layers differ in the same way, over all pairs of seeds."""
    rng = np.random.default_rng(seed)

    def dealt(s: np.ndarray) -> np.ndarray:
        return rng.permutation(s.reshape(-1, s.shape[-1])).reshape(s.shape).mean(1)

    anew = ([dealt(s) for s in seeds] for _ in range(draws))
    return _against([s.mean(1) for s in seeds], anew, correlation)


def _against(
    seeds: Sequence[np.ndarray], null: Iterable[Sequence[np.ndarray]],
    r: Callable[[np.ndarray, np.ndarray], float | None],
) -> Agreement:  # fmt: skip
    """Mean r over pairs of seeds, beside that of the null's draws."""

    def mean(of: Sequence[np.ndarray]) -> float | None:
        pairs = [r(a, b) for a, b in combinations(of, 2)]
        known = [x for x in pairs if x is not None]
        return float(np.mean(known)) if pairs and len(known) == len(pairs) else None

    pairs, here = len(seeds) * (len(seeds) - 1) // 2, mean(seeds)
    if here is None:
        return Agreement(None, None, None, pairs)
    there = np.array([mean(some) or 0.0 for some in null])
    p = (1 + int((there >= here - 1e-12).sum())) / (1 + len(there))
    return Agreement(here, float(there.mean()), p, pairs)


def matched_correlation(
    a: Float[np.ndarray, "H f"], b: Float[np.ndarray, "H f"]
) -> float | None:  # fmt: skip
    """r of the matched heads; None where those of a or b are all alike."""
    y = b - b.mean(0)
    return correlation(a, y[match(a - a.mean(0), y)])


def correlation(a: Float[np.ndarray, "n f"], b: Float[np.ndarray, "n f"]) -> float | None:
    """r of rows about their means; None where those of a or b are all alike."""
    x, y = (t - t.mean(0) for t in (a, b))
    size = float(np.sqrt((x**2).sum() * (y**2).sum()))
    return float((x * y).sum()) / size if size > 1e-12 else None


def roles_of(heads: Float[np.ndarray, "n f"], seed: int = 0) -> Roles:
    """Of heads, by their vectors; the last entries are the attention their rules move."""
    which, silhouette = _clustered(heads, seed)
    order = np.argsort(-np.bincount(which), kind="stable")  # the commonest role first
    which = np.argsort(order)[which]
    centres = np.stack([heads[which == k].mean(0) for k in range(len(order))])
    return Roles(which, tuple(named(c[len(c) // 2 + 1 :]) for c in centres), centres, silhouette)


def named(moved: Float[np.ndarray, "r"]) -> str:
    """The rules that move 5 % of the attention or more.

    >>> named(np.array([0.06, 0.31, 0.02])), named(np.array([0.01, 0.0, 0.04]))
    ('sep+align', 'base')
    """
    names = [MUTABLE[i] for i in np.argsort(-moved, kind="stable") if moved[i] >= NAMED]
    return "+".join(names) or "base"


def _clustered(heads: np.ndarray, seed: int) -> tuple[np.ndarray, float | None]:
    need("sklearn", "tasks")
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    one = np.zeros(len(heads), dtype=np.int64)
    best: tuple[float, np.ndarray] = (STRUCTURE, one)
    distinct = len(np.unique(heads.round(9), axis=0))
    for k in range(2, min(MOST, distinct, len(heads) - 1) + 1):
        labels = KMeans(k, n_init=10, random_state=seed).fit_predict(heads)
        score = float(silhouette_score(heads, labels))
        if score > best[0]:
            best = score, labels.astype(np.int64)
    return best[1], None if best[1] is one else best[0]
