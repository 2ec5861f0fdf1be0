"""Costs of dense attention and of flock scope by formula, for models and contexts of any size.

N tokens of a causal sequence, M keys at decoding; H query and G key heads of width d; A affinity
heads of width d_a, Z spaces of z of width d_z; L = m + w + 1 + g keys in a flock. A multiply and an
add are two FLOPs; only products are counted, as in flops.py, not top-k, softmax and other
elementwise arithmetic. "Numbers" are tensor elements; scaling_tables.py turns them into bytes.

    FLOPs       dense   4 d H               per query and visible key
                flock   2 d_a A             per query and visible key, in the index
                        4 d H + rules       per query and key of its flock
    cache       dense   2 d G               numbers per token and layer
                flock   + d_a A             + what the rules read of a key
    decoding    dense   M · 2 d G           numbers read of the cache, per layer
                flock   (M − w − 1 − g) · d_a A + L · (2 d G + rules)

Law: at small sizes these are the FLOPs of the operators and the sizes of the caches
(tests/measure/test_scaling.py).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelShape:
    """A Llama-like decoder, with its published sizes."""

    name: str
    layers: int
    dim: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    tied: bool  # whether the output layer is the embedding

    @property
    def kv(self) -> int:
        """Numbers of K and V of a token and layer: 2 d G."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Weights that are multiplied with a token in one layer: W_Q, W_K, W_V, W_O and the MLP."""
        queries = 2 * self.dim * self.heads * self.head_dim
        return queries + self.dim * self.kv + 3 * self.dim * self.inner

    @property
    def multiplied(self) -> int:
        """Weights that are multiplied with a token: of all layers and of the output layer."""
        return self.layers * self.layer_weights + self.vocab * self.dim

    @property
    def parameters(self) -> int:
        """With the norms, and the embedding where it is another matrix."""
        norms = (2 * self.layers + 1) * self.dim
        return self.multiplied + norms + (0 if self.tied else self.vocab * self.dim)


MODELS = (
    ModelShape("SmolLM2-135M", 30, 576, 9, 3, 64, 1536, 49152, True),
    ModelShape("Llama-3.2-1B", 16, 2048, 32, 8, 64, 8192, 128256, True),
    ModelShape("Llama-3.2-3B", 28, 3072, 24, 8, 128, 8192, 128256, True),
    ModelShape("Llama-3.1-8B", 32, 4096, 32, 8, 128, 14336, 128256, False),
    ModelShape("Llama-3.1-70B", 80, 8192, 64, 8, 128, 28672, 128256, False),
)  # config.json of each on huggingface.co


@dataclass(frozen=True)
class FlockShape:
    """Flock scope of one layer. `rules`: alignment, separation and cohesion act; `term`: the
    affinity term is in the scores; `rotary`: keys are rotated, so that alignment needs them without
    rotation too."""

    far: int = 2048
    window: int = 128
    n_global: int = 4
    d_a: int = 64
    affinity_heads: int = 1
    rules: bool = False
    term: bool = False
    d_z: int = 16
    spaces: int = 1
    rotary: bool = True

    @property
    def near(self) -> int:
        """w + 1 + g: keys of a flock that need no ranking."""
        return self.window + 1 + self.n_global

    @property
    def size(self) -> int:
        """L."""
        return self.far + self.near

    @property
    def index(self) -> int:
        """Numbers of h^k of a token and layer: d_a A."""
        return self.d_a * self.affinity_heads

    def listed(self, M: int) -> int:
        """|F(i)| of a query that sees M keys."""
        return min(M, self.size)

    def ranked(self, M: int) -> int:
        """Keys that the index ranks for a query that sees M keys."""
        return max(0, M - self.near)


def pairs(N: int) -> int:
    """Σ_i |V(i)| = N (N + 1)/2."""
    return N * (N + 1) // 2


def flock_pairs(N: int, flock: FlockShape) -> int:
    """Σ_i |F(i)| = Σ_i min(i, L), i = 1 … N."""
    full = min(N, flock.size)
    return pairs(full) + (N - full) * full


# FLOPs of a layer.


def dense_flops(model: ModelShape, pairs: int) -> int:
    """q·k and p·v over pairs that see each other."""
    return 4 * model.head_dim * model.heads * pairs


def index_flops(flock: FlockShape, ranked: int) -> int:
    """h^q·h^k; `ranked`: pairs of a query and a key that the index ranks."""
    return 2 * flock.index * ranked


def listed_flops(model: ModelShape, flock: FlockShape, listed: int) -> int:
    """`listed`: pairs of a query and a key of its flock. For every head: q·k and p·v (d each); the
    affinity (d_a); with the rules the heading and k̃·u (d each), a cosine (d_a), distances, the
    centre and distances to it (d_z + 1 each)."""
    products = 2 * model.head_dim
    if flock.rules or flock.term:
        products += flock.d_a
    if flock.rules:
        products += 2 * model.head_dim + flock.d_a + 3 * (flock.d_z + 1)
    return 2 * model.heads * products * listed


def map_flops(model: ModelShape, flock: FlockShape) -> int:
    """A token's h^q and h^k, and z for the rules."""
    z = flock.d_z * flock.spaces if flock.rules else 0
    return 2 * model.dim * (2 * flock.index + z)


def prefill_flops(model: ModelShape, flock: FlockShape, N: int) -> dict[str, float]:
    """FLOPs per token of a prompt of N, all layers: the products with the weights, dense attention,
    the index with its maps, attention over flocks."""
    maps, L = map_flops(model, flock), model.layers
    return {
        "weights": 2 * model.multiplied,
        "dense": L * dense_flops(model, pairs(N)) / N,
        "index": L * (maps + index_flops(flock, pairs(N)) / N),
        "listed": L * listed_flops(model, flock, flock_pairs(N, flock)) / N,
    }


def decode_flops(model: ModelShape, flock: FlockShape, M: int) -> dict[str, float]:
    """The same of one token against M keys."""
    maps, L = map_flops(model, flock), model.layers
    return {
        "weights": 2 * model.multiplied,
        "dense": L * dense_flops(model, M),
        "index": L * (maps + index_flops(flock, flock.ranked(M))),
        "listed": L * listed_flops(model, flock, flock.listed(M)),
    }


# Numbers of a layer: in the cache, read at decoding, exchanged between processes.


def row_numbers(model: ModelShape, flock: FlockShape) -> int:
    """Numbers of a key in a flock: k and v; for the rules k before rotation, 1/‖k‖ by head, and
    (z, ‖z‖²)."""
    if not flock.rules:
        return model.kv
    bare = model.kv // 2 if flock.rotary else 0
    return model.kv + bare + model.kv_heads + flock.spaces * (flock.d_z + 1)


def cache_numbers(model: ModelShape, flock: FlockShape | None = None) -> int:
    """Numbers per token in the cache; None: dense."""
    return model.kv if flock is None else row_numbers(model, flock) + flock.index


def decode_reads(model: ModelShape, flock: FlockShape | None, M: int) -> int:
    """Numbers of the cache that are read for one token against M keys; None: dense. With the rules
    or the term h^k of the listed keys is read again."""
    if flock is None:
        return M * model.kv
    row = row_numbers(model, flock) + (flock.index if flock.rules or flock.term else 0)
    return flock.ranked(M) * flock.index + flock.listed(M) * row


def sent_row(model: ModelShape, flock: FlockShape) -> int:
    """Numbers of a key that another process requested; lengths are computed where it arrives."""
    if not flock.rules:
        return model.kv
    bare = model.kv // 2 if flock.rotary else 0
    return model.kv + bare + flock.spaces * flock.d_z


def remote_rows(N: int, processes: int) -> int:
    """Pairs of a token and a later process, of N tokens in equal blocks: N (P − 1)/2. What is sent
    to every process that may attend to it is sent so often in total."""
    return N * (processes - 1) // 2


def expected_rows(N: int, processes: int, far: int) -> float:
    """The pairs of remote_rows in which a query of the process has the key in its flock, if far
    keys were chosen at random among all visible: each of the r·n keys before block r is in none of
    its flocks with probability Π_i (1 − m/i) ≈ (r/(r + 1))^m."""
    n = N / processes
    return sum(r * n * (1 - (r / (r + 1)) ** far) for r in range(1, processes))


def exchanged(
    model: ModelShape, flock: FlockShape | None, N: int, processes: int, rows: float = 0
) -> dict[str, float]:
    """Numbers received by all processes together in a forward pass, a layer: h^k of all tokens and
    `rows` requested rows, with one integer each; None: dense, k and v of all tokens."""
    every = remote_rows(N, processes)
    if flock is None:
        return {"index": 0, "requests": 0, "rows": every * model.kv}
    return {
        "index": every * flock.index,
        "requests": rows,
        "rows": rows * sent_row(model, flock),
    }


def break_even(model: ModelShape, flock: FlockShape) -> float:
    """The share of remote_rows that may be requested before flock scope exchanges more than dense
    attention: (2 d G − d_a A)/(numbers of a row); requests are left out."""
    return (model.kv - flock.index) / sent_row(model, flock)


def decode_exchanged(model: ModelShape, flock: FlockShape | None, M: int, processes: int) -> int:
    """Numbers for one new token, a layer, whose M keys are spread over the processes: the query
    goes to every other process; back come its part of the output and the log of its sum. In flock
    scope h^q goes too, and each process first returns its best far keys, a score and a place."""
    out = 2 * model.heads * model.head_dim + model.heads
    if flock is not None:
        out += flock.index + 2 * min(flock.far, M // processes)
    return (processes - 1) * out
