"""Which backend computes a call: BACKENDS has them all, choose_backend picks one for "auto"."""

from __future__ import annotations

import math
import warnings

import torch

from ascender.common.validate import lookup
from ascender.core.backends.base import Backend, Need
from ascender.core.backends.compact import Compact
from ascender.core.backends.decode import Decode
from ascender.core.backends.dense import Dense
from ascender.core.backends.flock import FlockLists
from ascender.core.backends.folded import Folded
from ascender.core.backends.fused import Fused
from ascender.core.backends.native import Native, lanes
from ascender.core.backends.windowed import Windowed
from ascender.core.flock import Flock
from ascender.core.neighbours import inside_transform
from ascender.core.rules import RULES

BACKENDS: dict[str, Backend] = {
    "dense": Dense(),
    "compact": Compact(),
    "native": Native(),
    "folded": Folded(),
    "fused": Fused(),
    "windowed": Windowed(),
    "decode": Decode(),
    "flock": FlockLists(),
}

# Up to this many scores a head, N×M matrices are cheaper than avoiding them: about 180 tokens
# (`ascender bench choose` measures the crossover on a machine).
SMALL = 1 << 15
# Up to this many scores a head the C kernel is faster than the fold: 4,096 tokens with vectors of 8
# numbers, 16,384 with 16 (AVX-512).
NATIVE = 1 << 24
LARGE = 1 << 22  # from here on N×M matrices are worth a warning


def choose_backend(flock: Flock, stats: bool = False) -> str:
    """The backend that "auto" takes, by mask, size and context; one that gives the statistics of
    the losses where `stats` asks for them."""
    vis = flock.vis
    if inside_transform():
        return "dense"  # vmap and grad of torch.func need plain operations
    preferred = []
    if flock.scope is not None:
        preferred.append("flock")
    if vis.N <= 8 < vis.M:
        preferred.append("decode")
    small = SMALL if vis.window is None else 4 * SMALL  # blocks pay off later than the fold
    if _native_limit(flock, small) >= vis.N * vis.M:
        preferred.append("native")
    if small < vis.N * vis.M:
        ruled = any(flock.rules.active(rule) for rule in RULES)
        whole = ["fused", "folded"] if ruled else ["folded", "fused"]  # else others' kernels do
        preferred += whole if vis.window is None else ["windowed"]
    elif not torch.compiler.is_compiling():  # a compiler fuses the dense path itself
        preferred.append("compact")
    for name in preferred:
        backend = BACKENDS[name]
        if backend.refuses(flock) is None and (backend.gives_stats or not stats):
            return name
    # Where rows of scores must be written out, decode writes fewer matrices of them than dense.
    rows = flock.normalise is not None and small < vis.N * vis.M and not stats
    name = "decode" if rows and BACKENDS["decode"].refuses(flock) is None else "dense"
    if vis.N * vis.M > LARGE:
        fast = "folded" if vis.window is None else "windowed"
        warnings.warn(
            f"attention over {vis.N} × {vis.M} scores runs on {name}, with N×M matrices: "
            f"{fast} cannot: {BACKENDS[fast].refuses(flock)}",
            stacklevel=5,
        )
    return name


def _native_limit(flock: Flock, small: int) -> float:
    """Up to how many scores a head the C kernel is the fastest."""
    if flock.vis.window is not None:  # without globals it visits the window only
        return small if flock.vis.n_global else math.inf
    wide = lanes() == 16
    if flock.key_norm is None:
        return NATIVE << 4 if wide else NATIVE
    return NATIVE if wide else NATIVE >> 2  # less: alignment folds into q there


def check_backend(name: str) -> None:
    """ "auto", or a name in BACKENDS."""
    lookup("backend", name, {"auto": None, **BACKENDS})


def backend_for(flock: Flock, name: str, stats: bool = False) -> Backend:
    """The backend of a name, if it can run the call."""
    check_backend(name)
    backend = BACKENDS[choose_backend(flock, stats) if name == "auto" else name]
    if reason := backend.refuses(flock):
        able = (f"backend={n!r}" for n, b in BACKENDS.items() if b.refuses(flock) is None)
        raise ValueError(f"backend={name!r} cannot: {reason}, or {' or '.join(able)}")
    return backend


def backends_for(need: Need) -> tuple[str, ...]:
    """The names of the backends that provide what a position or normaliser needs."""
    return tuple(name for name, backend in BACKENDS.items() if need in backend.provides)
