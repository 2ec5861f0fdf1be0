"""`ascender bench attention`: every candidate at every length, in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from ascender.bench import memory
from ascender.bench.candidates import CANDIDATES
from ascender.bench.flops import Problem
from ascender.bench.timing import FORWARD, TRAINING, Plan, Row, best

LENGTHS = (64, 256, 1024, 4096, 16384)
MEMORY_FROM = 4096  # below this a call's memory drowns in the process's own
Say = Callable[[str], None]


@dataclass(frozen=True)
class AttentionRow(Row):
    """ratio, flop_ratio, memory_ratio, process_ratio are to the candidate `baseline` at the
    same n. Memory is None where it was not measured."""

    baseline: str
    gflop: float
    flop_ratio: float
    memory_mb: float | None = None
    memory_ratio: float | None = None
    process_mb: float | None = None
    process_ratio: float | None = None


@dataclass(frozen=True)
class Study:
    """What to run: (n, work) pairs to time, and (candidate, n, work) whose memory to measure."""

    timed: tuple[tuple[int, str], ...]
    weighed: tuple[tuple[str, int, str], ...]
    causal: bool
    plan: Plan

    @staticmethod
    def full(lengths: Sequence[int], causal: bool, repeats: int, weigh: bool) -> Study:
        timed = tuple((n, work) for work in (FORWARD, TRAINING) for n in lengths)
        weighed = tuple(
            (name, n, work)
            for n, work in timed
            if weigh and n >= MEMORY_FROM
            for name, candidate in CANDIDATES.items()
            if work in candidate.works and candidate.refuses(Problem(n, causal), work) is None
        )
        return Study(timed, weighed, causal, Plan(repeats))

    @staticmethod
    def quick(causal: bool, repeats: int, weigh: bool) -> Study:
        """About a minute on two cores."""
        timed = ((256, FORWARD), (1024, FORWARD), (4096, FORWARD), (1024, TRAINING))
        names = ("stock", "folded", "folded_shared") if weigh else ()
        weighed = tuple((name, 4096, FORWARD) for name in names)
        return Study(timed, weighed, causal, Plan(repeats, at_least=0.3, at_most=12.0))


def run(study: Study, say: Say = lambda line: None) -> list[AttentionRow]:
    """All rows, in the order of the study."""
    times: dict[tuple[str, int, str], float] = {}
    for n, work in study.timed:
        say(f"timing {work}, N = {n}")
        times.update(_time(Problem(n, study.causal), work, study.plan))
    weights: dict[tuple[str, int, str], dict[str, float]] = {}
    for done, (name, n, work) in enumerate(study.weighed, 1):
        say(f"memory {done}/{len(study.weighed)}: {CANDIDATES[name].label}, {work}, N = {n}")
        found = memory.measure(name, Problem(n, study.causal), work, torch.get_num_threads())
        weights[name, n, work] = found
    return list(_rows(study, times, weights))


def _time(problem: Problem, work: str, plan: Plan) -> dict[tuple[str, int, str], float]:
    calls = {
        name: candidate.make(problem).run(work)
        for name, candidate in CANDIDATES.items()
        if work in candidate.works and candidate.refuses(problem, work) is None
    }
    return {(name, problem.n, work): s for name, s in best(calls, plan).items()}


def _rows(
    study: Study,
    times: dict[tuple[str, int, str], float],
    weights: dict[tuple[str, int, str], dict[str, float]],
) -> Iterable[AttentionRow]:
    for n, work in study.timed:
        problem = Problem(n, study.causal)
        for name, candidate in CANDIDATES.items():
            if work not in candidate.works:
                continue
            own, base = (name, n, work), (candidate.baseline, n, work)
            weight, stock = weights.get(own, {}), weights.get(base, {})
            flop = candidate.flops(problem, work == TRAINING)
            base_flop = CANDIDATES[candidate.baseline].flops(problem, work == TRAINING)
            seconds = times.get(own)
            yield AttentionRow(
                name, n, work,
                ms=None if seconds is None else 1e3 * seconds,
                ratio=None if seconds is None else seconds / times[base],
                skipped=candidate.refuses(problem, work),
                baseline=candidate.baseline,
                gflop=flop / 1e9, flop_ratio=flop / base_flop,
                memory_mb=weight.get("call"), process_mb=weight.get("process"),
                memory_ratio=weight["call"] / stock["call"] if weight and stock else None,
                process_ratio=weight["process"] / stock["process"] if weight and stock else None,
            )  # fmt: skip
