"""Run a benchmark by name: the function behind `ascender bench`.

from ascender import bench
result = bench.run("attention", quick=True)
result.rows                                    # measurements; result.record() as JSON
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from ascender.bench import choose, goals, imports, studies
from ascender.bench.model import JOBS
from ascender.bench.studies import STUDIES
from ascender.common.validate import lookup
from ascender.measure.device import CPU, DTYPES, Device, find
from ascender.measure.machine import facts
from ascender.measure.timing import Row, TimingPlan

BENCHMARKS = (*STUDIES, "choose", "import")
THREADS = torch.get_num_threads()  # torch's default


@dataclass(frozen=True)
class BenchResult:
    """The rows of a benchmark; of "import" one dict of seconds."""

    study: str
    rows: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)  # of a GPU: what it is, and its clocks

    def record(self, command: str = "") -> dict[str, Any]:
        """As `ascender bench report` reads it: the study, the command, the machine, the rows.
        ValueError where other work disturbed a baseline's time: such a run is not to be stored."""
        self._check()
        here = {**facts(), **self.machine}
        origin = {"study": self.study, "command": command, "machine": here}
        if self.study == "import":
            return {**origin, **self.rows[0]}
        rows = [asdict(row) for row in self.rows]
        return {**origin, **self.options, "goals": self.goals(), "rows": rows}

    def goals(self) -> list[dict[str, object]]:
        """Those of the CPU in float32; there are none of a GPU."""
        usual = (self.options.get("device", "cpu"), self.options.get("dtype", "float32"))
        return goals.reached(self.rows) if usual == ("cpu", "float32") else []

    def _check(self) -> None:
        for row in self.rows:
            if isinstance(row, Row) and row.disturbed and row.candidate == row.baseline:
                raise ValueError(
                    f"{row.candidate}, {row.work}, N = {row.n}: {row.disturbed}; the run is not "
                    "stored. Repeat it while nothing else runs on this machine: ascender bench "
                    f"{self.study} --lengths {row.n} --json"
                )


def run(
    study: str, *, lengths: Sequence[int] | None = None, quick: bool = False, causal: bool = False,
    memory: bool = True, work: Sequence[str] | None = None, repeats: int | None = None,
    clock: str | None = None, threads: int | None = None, only: Sequence[str] | None = None,
    device: str = "cpu", dtype: str = "float32", say: Callable[[str], None] = lambda line: None,
) -> BenchResult:  # fmt: skip
    """Measure on this machine.

    study    one of BENCHMARKS                     lengths   numbers of tokens
    quick    a short run (attention, variants, model) instead of lengths
    causal   of attention and variants             memory    peak memory, too
    work     of model: training, decode, generate; default: all
    repeats  rounds, of which the best counts
    clock    "cpu": CPU time; "wall": the wall clock; on a GPU "events" (of its stream) or "wall"
    device   "cpu", "cuda", "cuda:1", …            dtype     "float32", "bfloat16" or "float16"
    threads  of torch; default: 1 by CPU time, torch's own number by the wall clock
    only     candidates by name, beside whom their baselines are timed; default: all
    """
    lookup("benchmark", study, dict.fromkeys(BENCHMARKS))
    if quick and lengths is not None:
        raise ValueError(f"lengths = {tuple(lengths)} with quick; expected one of the two")
    for name in work or ():
        lookup("work", name, JOBS)
    lookup("dtype", dtype, DTYPES)
    on = find(device)
    on.now(clock)
    if only is not None:
        lookup("benchmark with candidates", study, STUDIES).chosen(only)
    if study == "import":
        say("importing, in processes of their own")
        return BenchResult(study, [imports.run(repeats or 5)])
    clock = on.clock(clock)
    torch.set_num_threads(threads or (1 if clock == "cpu" else THREADS))
    options = {"clock": clock, "device": on.name, "dtype": dtype}
    gpu, before = on.facts(), on.state()
    if study == "choose":
        plan, lengths = _repeated(choose.PLAN, repeats), lengths or choose.LENGTHS
        rows: list[Any] = list(
            choose.run(lengths, plan, clock=clock, memory=memory, on=on, dtype=dtype, say=say)
        )
        return BenchResult(study, rows, options, _about(on, gpu, before))
    of = STUDIES[study]
    weighed: Collection[str] = of.quick_memory if quick else of.candidates
    if quick:
        timed, plan = [(n, w) for n, w in of.quick if w in (work or of.works)], of.quick_plan
    else:
        timed, plan = [(n, w) for w in work or of.works for n in lengths or of.lengths], of.plan
    rows = list(studies.run(
        study, timed, _repeated(plan, repeats), causal=causal, memory=weighed if memory else (),
        clock=clock, only=only, on=on, dtype=dtype, say=say,
    ))  # fmt: skip
    return BenchResult(study, rows, {"causal": causal, **options}, _about(on, gpu, before))


def _about(on: Device, gpu: dict[str, Any], before: dict[str, str]) -> dict[str, Any]:
    """A GPU, and its clocks before and after the run; nothing more of the CPU."""
    return {} if on is CPU else {**gpu, "state": {"before": before, "after": on.state()}}


def _repeated(plan: TimingPlan, repeats: int | None) -> TimingPlan:
    return plan if repeats is None else replace(plan, repeats=repeats, at_least=0.0)
