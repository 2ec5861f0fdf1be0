"""What was asked of this package on a machine of two cores, and whether a run reached it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ascender.bench.timing import FORWARD, TRAINING, Row


@dataclass(frozen=True)
class Goal:
    """`measure` of this candidate's row is to be at most `limit`."""

    candidate: str
    n: int
    work: str
    limit: float
    measure: str = "ratio"


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
}


def reached(rows: Iterable[Row]) -> list[dict[str, object]]:
    """The goals that this run has a measurement for: goal, limit, measured, reached."""
    found = {(row.candidate, row.n, row.work): row for row in rows}
    table: list[dict[str, object]] = []
    for name, goal in GOALS.items():
        row = found.get((goal.candidate, goal.n, goal.work))
        value = getattr(row, goal.measure, None)
        if value is not None:
            table.append(
                {
                    "goal": name,
                    "limit": goal.limit,
                    "measured": value,
                    "reached": value <= goal.limit,
                }
            )
    return table
