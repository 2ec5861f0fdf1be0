"""Performance goals of this package on a machine of two cores, and whether a run reached them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ascender.measure.timing import FORWARD, TRAINING, Row


@dataclass(frozen=True)
class Goal:
    """`measure` of this candidate's row is to be at most `limit`; `least`: at least."""

    candidate: str
    n: int
    work: str
    limit: float
    measure: str = "ratio"
    least: bool = False


def _speed(model: str, n: int, work: str, limit: float) -> Goal:
    return Goal(f"model_{model}", n, work, limit, "speed", least=True)


GENERATING = {"per_head": "per head", "shared_norm": "shared, QK-norm", "window": "w = 128"}
GENERATED = {128: 0.8, 1024: 0.8, 4096: 0.7}  # by N
TIMES = ("ratio", "speed")
GOALS: dict[str, Goal] = {
    "folded forward, N = 4096, per-head geometry": Goal("folded", 4096, FORWARD, 3.0),
    "… one τ for both kernels": Goal("folded_one_tau", 4096, FORWARD, 4.0),
    "… shared geometry, QK-norm": Goal("folded_shared", 4096, FORWARD, 1.5),
    "… and neighbours reused": Goal("folded_reuse", 4096, FORWARD, 1.7),
    "… and local scope": Goal("folded_local", 4096, FORWARD, 1.4),
    "native forward, N = 4096, per-head geometry": Goal("native", 4096, FORWARD, 3.0),
    "native forward, N = 4096, shared, QK-norm": Goal("native_shared", 4096, FORWARD, 1.5),
    "folded forward + backward, N = 4096, per-head": Goal("folded", 4096, TRAINING, 3.0),
    "folded forward + backward, shared, QK-norm": Goal("folded_shared", 4096, TRAINING, 1.8),
    "folded peak memory, N = 16384, per-head": Goal("folded", 16384, FORWARD, 2.0, "memory_ratio"),
    "folded peak memory, N = 16384, shared, QK-norm": Goal(
        "folded_shared", 16384, FORWARD, 2.0, "memory_ratio"
    ),
    "windowed (w = 128) forward, N = 4096": Goal("windowed", 4096, FORWARD, 0.45),
    "windowed (w = 128) forward, N = 16384": Goal("windowed", 16384, FORWARD, 0.13),
    "native, w = 128, forward, N = 4096": Goal("native_windowed", 4096, FORWARD, 0.45),
    "native, w = 128, forward, N = 16384": Goal("native_windowed", 16384, FORWARD, 0.13),
    "decode, one token at M = 4096": Goal("decode", 4096, FORWARD, 1.5),
    "flock forward, N = 1024": Goal("flock", 1024, FORWARD, 1.0),
    "flock forward, N = 4096": Goal("flock", 4096, FORWARD, 0.5),
    "flock forward, N = 16384": Goal("flock", 16384, FORWARD, 0.2),
    "flock forward + backward, N = 4096": Goal("flock", 4096, TRAINING, 0.5),
    "flock forward + backward, N = 16384": Goal("flock", 16384, TRAINING, 0.2),
    "flock FLOPs, forward, N = 1024": Goal("flock", 1024, FORWARD, 0.25, "flop_ratio"),
    "flock peak memory, N = 16384": Goal("flock", 16384, FORWARD, 1.5, "memory_ratio"),
    "flock decode, one token at M = 4096": Goal("flock_decode", 4096, FORWARD, 0.7),
    "flock decode, one token at M = 16384": Goal("flock_decode", 16384, FORWARD, 0.3),
    "layer, training step, B = 32, N = 64, per head": Goal("per_head", 64, TRAINING, 2.3),
    "layer, training step, shared, N = 64": Goal("shared", 64, TRAINING, 1.5),
    "layer, training step, shared, QK-norm, N = 64": Goal("shared_norm", 64, TRAINING, 1.6),
    "layer, training step, B = 32, N = 128, per head": Goal("per_head", 128, TRAINING, 2.2),
    "… shared geometry": Goal("shared", 128, TRAINING, 1.45),
    "layer, 256 wide, B = 8, N = 128, per head": Goal("per_head_256", 128, TRAINING, 1.3),
    "… 256 wide, shared geometry": Goal("shared_256", 128, TRAINING, 1.15),
    "model, training, N = 128, per head": _speed("per_head", 128, TRAINING, 0.7),
    "… shared": _speed("shared", 128, TRAINING, 0.7),
    "… shared, QK-norm": _speed("shared_norm", 128, TRAINING, 0.7),
    "model, training, N = 1024, per head": _speed("per_head", 1024, TRAINING, 0.75),
    "… N = 1024, shared": _speed("shared", 1024, TRAINING, 0.7),
    "… N = 1024, shared, QK-norm": _speed("shared_norm", 1024, TRAINING, 0.7),
    "model, training, N = 4096, shared, QK-norm": _speed("shared_norm", 4096, TRAINING, 0.6),
    "… no rotary positions": _speed("shared_norm_none", 4096, TRAINING, 0.6),
    "… w = 128": _speed("window", 4096, TRAINING, 1.0),
    **{
        f"model, generation, N = {n}, {label}": _speed(name, n, "decode", limit)
        for n, limit in GENERATED.items()
        for name, label in GENERATING.items()
    },
    "model, flock, training, N = 4096": _speed("flock", 4096, TRAINING, 1.5),
    "model, flock, generation, N = 4096": _speed("flock", 4096, "decode", 1.3),
}


def reached(rows: Iterable[Row]) -> list[dict[str, object]]:
    """The goals that this run has a measurement for: goal, limit, measured, reached."""
    by_name = {(row.candidate, row.n, row.work): row for row in rows}
    table: list[dict[str, object]] = []
    for name, goal in GOALS.items():
        row = by_name.get((goal.candidate, goal.n, goal.work))
        value = getattr(row, goal.measure, None)
        if goal.measure in TIMES and getattr(row, "disturbed", None):
            continue  # no time to judge by
        if value is not None:
            enough = value >= goal.limit if goal.least else value <= goal.limit
            table.append({"goal": name, "limit": goal.limit, "least": goal.least,
                          "measured": value, "reached": enough})  # fmt: skip
    return table
