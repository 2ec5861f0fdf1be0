"""`ascender bench attention` and `… variants`: every candidate at every length, in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from ascender.bench import memory
from ascender.bench.candidates import Candidate
from ascender.bench.studies import STUDIES
from ascender.measure.flops import Problem
from ascender.measure.timing import FORWARD, TRAINING, Row, TimingPlan, best

LENGTHS = {"attention": (64, 256, 1024, 4096, 16384), "variants": (256, 1024, 4096, 16384)}
MEMORY_FROM = 4096  # below this a call's memory drowns in the process's own
QUICK = {  # whose memory a quick run measures
    "attention": ("stock", "folded", "folded_shared"),
    "variants": ("stock", "ascender", "longformer", "performer"),
}
Say = Callable[[str], None]
Key = tuple[str, int, str]  # candidate, n, work


@dataclass(frozen=True)
class AttentionRow(Row):
    """ratio, flop_ratio, memory_ratio, process_ratio are to the candidate `baseline` at the
    same n. Memory is None where it was not measured. `disturbed`: why the times are not to be
    relied on until they are measured again."""

    baseline: str
    gflop: float | None = None
    flop_ratio: float | None = None
    memory_mb: float | None = None
    memory_ratio: float | None = None
    process_mb: float | None = None
    process_ratio: float | None = None
    disturbed: str | None = None


@dataclass(frozen=True)
class AttentionBenchmark:
    """What to run: (n, work) pairs to time, and (candidate, n, work) whose memory to measure."""

    timed: tuple[tuple[int, str], ...]
    weighed: tuple[Key, ...]
    causal: bool
    plan: TimingPlan
    name: str = "attention"

    @staticmethod
    def full(
        lengths: Sequence[int], causal: bool, repeats: int, weigh: bool, name: str = "attention"
    ) -> AttentionBenchmark:
        timed = tuple((n, work) for work in (FORWARD, TRAINING) for n in lengths)
        study = AttentionBenchmark(timed, (), causal, TimingPlan(repeats), name)
        weighed = ((n, work) for n, work in timed if weigh and n >= MEMORY_FROM)
        keys = tuple((who, n, work) for n, work in weighed for who in study.entrants(n, work))
        return AttentionBenchmark(timed, keys, causal, TimingPlan(repeats), name)

    @staticmethod
    def quick(
        causal: bool, repeats: int, weigh: bool, name: str = "attention"
    ) -> AttentionBenchmark:
        """About a minute on two cores."""
        timed = ((256, FORWARD), (1024, FORWARD), (4096, FORWARD), (1024, TRAINING))
        weighed = tuple((who, 4096, FORWARD) for who in (QUICK[name] if weigh else ()))
        return AttentionBenchmark(
            timed, weighed, causal, TimingPlan(repeats, at_least=0.3, at_most=12.0), name
        )

    def problem(self, n: int) -> Problem:
        return Problem(n, self.causal)

    def entrants(self, n: int, work: str) -> dict[str, Candidate]:
        """The candidates that do this work at this length."""
        return {
            name: candidate
            for name, candidate in STUDIES[self.name].items()
            if work in candidate.works and candidate.refuses(self.problem(n), work) is None
        }


def run(study: AttentionBenchmark, say: Say = lambda line: None) -> list[AttentionRow]:
    """All rows, in the order of the study."""
    times: dict[Key, float] = {}
    flops: dict[Key, float] = {}
    weights: dict[Key, dict[str, float]] = {}
    for n, work in study.timed:
        entrants, p = study.entrants(n, work), study.problem(n)
        say(f"timing {work}, N = {n}")
        calls = {name: candidate.make(p).run(work) for name, candidate in entrants.items()}
        times.update({(name, n, work): s for name, s in best(calls, study.plan).items()})
        del calls
        say(f"FLOPs {work}, N = {n}")
        for name, candidate in entrants.items():
            flops[name, n, work] = candidate.flops(p, work == TRAINING)
    for done, (name, n, work) in enumerate(study.weighed, 1):
        label = STUDIES[study.name][name].label
        say(f"memory {done}/{len(study.weighed)}: {label}, {work}, N = {n}")
        weights[name, n, work] = memory.measure(
            study.name, name, study.problem(n), work, torch.get_num_threads()
        )
    return list(_rows(study, times, flops, weights))


def _rows(
    study: AttentionBenchmark, times: dict[Key, float], flops: dict[Key, float],
    weights: dict[Key, dict[str, float]],
) -> Iterable[AttentionRow]:  # fmt: skip
    for n, work in study.timed:
        for name, candidate in STUDIES[study.name].items():
            if work not in candidate.works:
                continue
            own, base = (name, n, work), (candidate.baseline, n, work)
            skipped = candidate.refuses(study.problem(n), work)
            if skipped is not None:
                yield AttentionRow(name, n, work, None, None, skipped, candidate.baseline)
                continue
            weight, stock = weights.get(own, {}), weights.get(base, {})
            yield AttentionRow(
                name, n, work,
                ms=1e3 * times[own], ratio=times[own] / times[base], skipped=None,
                baseline=candidate.baseline,
                gflop=flops[own] / 1e9, flop_ratio=flops[own] / flops[base],
                memory_mb=weight.get("call"), process_mb=weight.get("process"),
                memory_ratio=weight["call"] / stock["call"] if weight and stock else None,
                process_ratio=weight["process"] / stock["process"] if weight and stock else None,
            )  # fmt: skip
