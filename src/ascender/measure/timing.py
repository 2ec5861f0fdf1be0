"""How all benchmarks measure time: candidates take turns, and the best of their turns counts.

    round 1:  a b c      round 2:  a b c      …      best_a = min of a's times

A machine that slows down slows all candidates alike, so ratios hold where times do not. Two
clocks: CPU time of the process, and the wall clock.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FORWARD, TRAINING = "forward", "training"
Clock = Callable[[Callable[[], Any]], float]
Now = Callable[[], float]
CLOCKS: dict[str, Now] = {"cpu": time.process_time, "wall": time.perf_counter}
NOISE = 0.1  # seconds: a turn that short may be slow by chance


@dataclass(frozen=True)
class TimingPlan:
    """`repeats` rounds, and on until `at_least` seconds have gone by. A call that has had its
    share of `at_most` seconds sits out, but no earlier than after two turns (one, if that took
    a third of `at_most`)."""

    repeats: int = 5
    at_least: float = 0.5
    at_most: float = 90.0

    def goes_on(self, rounds: int, elapsed: float) -> bool:
        return rounds < self.repeats or (elapsed < self.at_least and rounds < 100 * self.repeats)

    def sits_out(self, times: list[float], calls: int) -> bool:
        if len(times) < 2:
            return sum(times) > self.at_most / 3
        return sum(times) > self.at_most / calls


@dataclass(frozen=True)
class Row:
    """One measurement. ms and ratio are None where it was skipped, and `skipped` says why. Ratios
    and `speed` (tokens a second) are to the candidate `baseline` at the same n and work; what was
    not measured is None. `disturbed`: why the times are not to be relied on until they are measured
    again."""

    candidate: str
    n: int
    work: str
    ms: float | None
    ratio: float | None
    skipped: str | None
    baseline: str = ""
    gflop: float | None = None
    flop_ratio: float | None = None
    memory_mb: float | None = None
    memory_ratio: float | None = None
    process_mb: float | None = None
    process_ratio: float | None = None
    tokens_s: float | None = None
    speed: float | None = None
    disturbed: str | None = None


def elapsed(call: Callable[[], object], now: Now = time.perf_counter) -> float:
    """Seconds of a call."""
    before = now()
    call()
    return now() - before


def interleave(
    calls: Mapping[str, Callable[[], Any]], plan: TimingPlan, clock: Clock = elapsed,
    baselines: Collection[str] = (),
) -> dict[str, list[float]]:  # fmt: skip
    """Seconds of every turn of every call. A clock of one's own leaves out what a call only
    prepares. `baselines` have at least three turns, so that their median says something."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    start, rounds, turns = time.perf_counter(), 0, -1
    while turns and plan.goes_on(rounds, time.perf_counter() - start):
        turns = 0
        for name, call in calls.items():
            if plan.sits_out(seconds[name], len(calls)):
                continue
            seconds[name].append(clock(call))
            turns += 1
        rounds += 1
    for name in baselines:
        while len(seconds[name]) < 3:
            seconds[name].append(clock(calls[name]))
    return seconds


def disturbed(times: Sequence[float]) -> str | None:
    """Says so where a turn took more than twice the median of all turns: other work took the
    machine. Of calls below NOISE, which have many turns, single slow ones say nothing."""
    slowest, middle = max(times), statistics.median(times)
    if slowest <= max(NOISE, 2 * middle):
        return None
    return f"a turn took {slowest:.3g} s, more than twice the median of {middle:.3g} s"


def best(
    calls: Mapping[str, Callable[[], Any]], plan: TimingPlan, clock: Clock = elapsed
) -> dict[str, float]:
    """Seconds of the best turn of each call."""
    return {name: min(times) for name, times in interleave(calls, plan, clock).items()}


def median(calls: Mapping[str, Callable[[], object]], plan: TimingPlan) -> dict[str, float]:
    """Seconds of the median turn of each call: for what has no best, such as an import."""
    return {name: statistics.median(times) for name, times in interleave(calls, plan).items()}
