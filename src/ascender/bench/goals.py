"""What was asked of this package on a machine of two cores, and whether a run reached it."""

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
GOALS: dict[str, Goal] = {
    "folded forward, N = 4096, per-head geometry": Goal("folded", 4096, FORWARD, 4.0),
    "… one τ for both kernels": Goal("folded_one_tau", 4096, FORWARD, 4.0),
    "… shared geometry, QK-norm": Goal("folded_shared", 4096, FORWARD, 2.2),
    "… and neighbours reused": Goal("folded_reuse", 4096, FORWARD, 1.7),
    "… and local scope": Goal("folded_local", 4096, FORWARD, 1.4),
    "folded forward + backward, N = 4096, per-head": Goal("folded", 4096, TRAINING, 3.0),
    "folded forward + backward, shared, QK-norm": Goal("folded_shared", 4096, TRAINING, 1.8),
    "folded peak memory, N = 16384, per-head": Goal("folded", 16384, FORWARD, 2.0, "memory_ratio"),
    "folded peak memory, N = 16384, shared, QK-norm": Goal(
        "folded_shared", 16384, FORWARD, 2.0, "memory_ratio"
    ),
    "windowed (w = 128) forward, N = 4096": Goal("windowed", 4096, FORWARD, 0.5),
    "windowed (w = 128) forward, N = 16384": Goal("windowed", 16384, FORWARD, 0.15),
    "decode, one token at M = 4096": Goal("decode", 4096, FORWARD, 2.0),
    "layer, training step, B = 32, N = 64": Goal("per_head", 64, TRAINING, 1.6),
    "layer, training step, shared, QK-norm, N = 64": Goal("shared_norm", 64, TRAINING, 1.6),
    "layer, training step, B = 32, N = 128, per head": Goal("per_head", 128, TRAINING, 2.2),
    "… shared geometry": Goal("shared", 128, TRAINING, 1.45),
    "layer, 256 wide, B = 8, N = 128, per head": Goal("per_head_256", 128, TRAINING, 1.3),
    "… 256 wide, shared geometry": Goal("shared_256", 128, TRAINING, 1.15),
    "model, training, N = 128, per head": _speed("per_head", 128, TRAINING, 0.7),
    "… shared": _speed("shared", 128, TRAINING, 0.7),
    "… shared, QK-norm": _speed("shared_norm", 128, TRAINING, 0.7),
    "model, training, N = 1024, per head": _speed("per_head", 1024, TRAINING, 0.7),
    "… N = 1024, shared": _speed("shared", 1024, TRAINING, 0.7),
    "… N = 1024, shared, QK-norm": _speed("shared_norm", 1024, TRAINING, 0.7),
    "model, training, N = 4096, shared, QK-norm": _speed("shared_norm", 4096, TRAINING, 0.6),
    "… no rotary positions": _speed("shared_norm_none", 4096, TRAINING, 0.6),
    "… w = 128": _speed("window", 4096, TRAINING, 1.0),
    **{
        f"model, generation, N = {n}, {label}": _speed(name, n, "decode", 0.7)
        for n in (128, 1024, 4096)
        for name, label in GENERATING.items()
    },
}


def reached(rows: Iterable[Row]) -> list[dict[str, object]]:
    """The goals that this run has a measurement for: goal, limit, measured, reached."""
    by_name = {(row.candidate, row.n, row.work): row for row in rows}
    table: list[dict[str, object]] = []
    for name, goal in GOALS.items():
        row = by_name.get((goal.candidate, goal.n, goal.work))
        value = getattr(row, goal.measure, None)
        if goal.measure != "memory_ratio" and getattr(row, "disturbed", None):
            continue  # no time to judge by
        if value is not None:
            enough = value >= goal.limit if goal.least else value <= goal.limit
            table.append({"goal": name, "limit": goal.limit, "least": goal.least,
                          "measured": value, "reached": enough})  # fmt: skip
    return table
