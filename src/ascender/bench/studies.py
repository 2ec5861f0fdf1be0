"""Studies: candidates timed in turns at every length, with their FLOPs and peak memory.

Memory of the CPU is measured in a process of its own, which first makes one small call, so that
libraries are loaded and threads started. On a GPU torch counts what it allocates there, so that
this process will do; and what fails there, out of memory say, is skipped and says why.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from ascender.bench.candidates import CANDIDATES, Candidate
from ascender.bench.layer import LAYERS
from ascender.bench.model import JOBS, MODELS, tokens_per_call
from ascender.bench.variants import VARIANTS
from ascender.common.validate import lookup
from ascender.measure.device import CPU, Device, find
from ascender.measure.flops import Problem
from ascender.measure.memory import fresh, used
from ascender.measure.timing import (
    FORWARD,
    TRAINING,
    Now,
    Row,
    TimingPlan,
    disturbed,
    elapsed,
    interleave,
)  # fmt: skip

ATTEMPTS = 3  # at times that other work does not disturb
SMALL = 256  # tokens of the first, unmeasured call
COUNTED = 4096  # tokens up to which FLOPs of a call on a GPU are counted, on the CPU
Timed = tuple[int, str]  # n, work


@dataclass(frozen=True)
class Study:
    """Candidates, and what a full run measures: every work at every length.

    quick, quick_plan, quick_memory   a short run: (n, work) pairs, and candidates whose memory
                                      it measures; a full run measures that of all
    clock                             seconds of a turn, by the clock that it is called with
    tokens                            of one call, where the speed in tokens a second counts
    """

    candidates: Mapping[str, Candidate]
    lengths: tuple[int, ...]
    works: tuple[str, ...] = (FORWARD, TRAINING)
    plan: TimingPlan = TimingPlan()  # noqa: RUF009 (a frozen value)
    quick: tuple[Timed, ...] = ()
    quick_plan: TimingPlan = TimingPlan(3, at_least=0.3, at_most=12.0)  # noqa: RUF009
    quick_memory: tuple[str, ...] = ()
    clock: Callable[[Callable[..., Any], Now], float] = elapsed
    tokens: Callable[[int, str], int] | None = None

    def labels(self) -> dict[str, str]:
        return {name: candidate.label for name, candidate in self.candidates.items()}

    def chosen(self, only: Collection[str] | None) -> Mapping[str, Candidate]:
        """The candidates of these names and their baselines; None: all."""
        if only is None:
            return self.candidates
        names = {*only, *(lookup("candidate", who, self.candidates).baseline for who in only)}
        return {who: c for who, c in self.candidates.items() if who in names}

    def is_baseline(self, name: str) -> bool:
        return self.candidates[name].baseline == name


ABOUT_A_MINUTE = ((256, FORWARD), (1024, FORWARD), (4096, FORWARD), (1024, TRAINING))
STUDIES: dict[str, Study] = {
    "attention": Study(
        CANDIDATES, (64, 256, 1024, 4096, 16384), quick=ABOUT_A_MINUTE,
        quick_memory=("stock", "folded", "folded_shared", "flock"),
    ),
    "variants": Study(
        VARIANTS, (256, 1024, 4096, 16384), quick=ABOUT_A_MINUTE,
        quick_memory=("stock", "ascender", "longformer", "performer"),
    ),
    "layer": Study(LAYERS, (64, 128, 256), (TRAINING,), TimingPlan(repeats=20, at_least=3.0)),
    "model": Study(
        MODELS, (128, 1024, 4096), tuple(JOBS), TimingPlan(5, at_least=0.0, at_most=600.0),
        quick=tuple((n, work) for work in JOBS for n in (128, 1024)),
        quick_plan=TimingPlan(2, at_least=0.0, at_most=120.0),
        clock=lambda call, now: call(now), tokens=tokens_per_call,
    ),
}  # fmt: skip


def run(
    name: str, timed: Iterable[Timed], plan: TimingPlan, *, causal: bool = False,
    memory: Collection[str] = (), clock: str | None = None, only: Collection[str] | None = None,
    on: Device = CPU, dtype: str = "float32", say: Callable[[str], None] = lambda line: None,
) -> list[Row]:  # fmt: skip
    """A row per pair (n, work) and candidate; `memory`: candidates whose peak is measured;
    `clock`: one of the device's; `only`: candidates to time besides their baselines."""
    study, rows = STUDIES[name], []
    candidates = study.chosen(only)
    for n, work in timed:
        p = Problem(n, causal, on.heads, device=on.name, dtype=dtype)
        able = {who: c for who, c in candidates.items() if work in c.works}
        if not able:
            continue
        skipped = {who: c.refuses(p, work) for who, c in able.items()}
        running = {who: c for who, c in able.items() if skipped[who] is None}
        say(f"timing {work}, N = {n}")
        calls = {who: c.make(p).run(work) for who, c in running.items()}
        for who, why in on.warm(calls).items():
            skipped[who] = why
            del calls[who], running[who]
        seconds, slow = _best(study, calls, plan, on.now(clock))
        del calls
        say(f"FLOPs {work}, N = {n}")
        flops = {w: f for w, c in running.items() if (f := _flops(c, p, work)) is not None}
        weight: dict[str, dict[str, float]] = {}
        for who in (who for who in running if who in memory):
            say(f"memory of {study.candidates[who].label}, {work}, N = {n}")
            weight[who] = peak_memory(name, who, p, work, torch.get_num_threads(), on)
        tokens = study.tokens(n, work) if study.tokens else None
        for who, candidate in able.items():
            base = candidate.baseline
            row = Row(who, n, work, None, None, skipped[who], base)
            if who in running:
                row = _measured(row, seconds, flops, weight, tokens)
            rows.append(replace(row, disturbed=slow.get(base)))
    return rows


def _best(
    study: Study, calls: Mapping[str, Callable[..., Any]], plan: TimingPlan, now: Now
) -> tuple[dict[str, float], dict[str, str]]:
    """Seconds of the best turn of each call, and of which baselines a turn was disturbed and how.
    Where one was, all are timed again."""
    baselines = [who for who in calls if study.is_baseline(who)]
    for _ in range(ATTEMPTS):
        turns = interleave(calls, plan, lambda call: study.clock(call, now), baselines)
        slow = {who: why for who in baselines if (why := disturbed(turns[who]))}
        if not slow:
            break
    return {who: min(times) for who, times in turns.items()}, slow


def _flops(candidate: Candidate, p: Problem, work: str) -> float | None:
    """Those of the CPU's operators, wherever it runs."""
    if candidate.flops is None or (p.device != "cpu" and p.n > COUNTED and not candidate.formula):
        return None
    return candidate.flops(replace(p, device="cpu", dtype="float32"), work == TRAINING)


def _measured(
    row: Row, seconds: Mapping[str, float], flops: Mapping[str, float],
    weight: Mapping[str, Mapping[str, float]], tokens: int | None,
) -> Row:  # fmt: skip
    who, base = row.candidate, row.baseline
    s, ratio = seconds[who], seconds[who] / seconds[base] if base in seconds else None
    numbers: dict[str, Any] = {}
    if who in flops and base in flops:
        numbers |= {"gflop": flops[who] / 1e9, "flop_ratio": flops[who] / flops[base]}
    for name, key in (("memory", "call"), ("process", "process")):
        if who in weight:
            numbers[f"{name}_mb"] = weight[who][key]
            if base in weight:
                numbers[f"{name}_ratio"] = weight[who][key] / weight[base][key]
    if tokens is not None:
        numbers |= {"tokens_s": tokens / s, "speed": None if ratio is None else 1 / ratio}
    return Row(who, row.n, row.work, 1e3 * s, ratio, None, base, **numbers)


def peak_memory(
    study: str, candidate: str, problem: Problem, work: str, threads: int, on: Device = CPU
) -> dict[str, float]:
    """{"call": MB of the call (measure.memory), "process": MB of the whole process}."""
    if not on.own_process:
        return _used(study, candidate, problem, work, on)
    order = {"study": study, "candidate": candidate, "work": work, "threads": threads}
    order |= {"problem": asdict(problem)}
    return fresh("ascender.bench.studies", order, f"{candidate} at N = {problem.n}")


def child(
    study: str, candidate: str, problem: dict[str, Any], work: str, threads: int
) -> dict[str, float]:
    """What the subprocess does."""
    torch.set_num_threads(threads)
    return _used(study, candidate, Problem(**problem), work, find(problem["device"]))


def _used(study: str, candidate: str, p: Problem, work: str, on: Device) -> dict[str, float]:
    make = STUDIES[study].candidates[candidate].make
    make(replace(p, n=min(p.n, SMALL))).run(work)()
    job = make(p)
    return used(job.run(work), job.nbytes(), on)


if __name__ == "__main__":
    print(json.dumps(child(**json.loads(sys.argv[1]))))
