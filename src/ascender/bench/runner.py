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
from ascender.measure.timing import CLOCKS, Row, TimingPlan, machine

BENCHMARKS = (*STUDIES, "choose", "import")
THREADS = torch.get_num_threads()  # torch's default


@dataclass(frozen=True)
class BenchResult:
    """The rows of a benchmark; of "import" one dict of seconds."""

    study: str
    rows: list[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def record(self, command: str = "") -> dict[str, Any]:
        """As `ascender bench report` reads it: the study, the command, the machine, the rows.
        ValueError where other work disturbed a baseline's time: such a run is not to be stored."""
        self._check()
        origin = {"study": self.study, "command": command, "machine": machine()}
        if self.study == "import":
            return {**origin, **self.rows[0]}
        rows = [asdict(row) for row in self.rows]
        return {**origin, **self.options, "goals": goals.reached(self.rows), "rows": rows}

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
    clock: str = "cpu", threads: int | None = None, only: Sequence[str] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> BenchResult:  # fmt: skip
    """Measure on this machine.

    study    one of BENCHMARKS                     lengths   numbers of tokens
    quick    a short run (attention, variants, model) instead of lengths
    causal   of attention and variants             memory    peak memory, too
    work     of model: training, decode, generate; default: all
    repeats  rounds, of which the best counts
    clock    "cpu": CPU time; "wall": the wall clock
    threads  of torch; default: 1 by CPU time, torch's own number by the wall clock
    only     candidates by name, beside whom their baselines are timed; default: all
    """
    lookup("benchmark", study, dict.fromkeys(BENCHMARKS))
    if quick and lengths is not None:
        raise ValueError(f"lengths = {tuple(lengths)} with quick; expected one of the two")
    for name in work or ():
        lookup("work", name, JOBS)
    lookup("clock", clock, CLOCKS)
    if only is not None:
        lookup("benchmark with candidates", study, STUDIES).chosen(only)
    if study == "import":
        say("importing, in processes of their own")
        return BenchResult(study, [imports.run(repeats or 5)])
    torch.set_num_threads(threads or (1 if clock == "cpu" else THREADS))
    if study == "choose":
        plan, lengths = _repeated(choose.PLAN, repeats), lengths or choose.LENGTHS
        chosen = choose.run(lengths, plan, clock=clock, memory=memory, say=say)
        return BenchResult(study, list(chosen), {"clock": clock})
    of = STUDIES[study]
    weighed: Collection[str] = of.quick_memory if quick else of.candidates
    if quick:
        timed, plan = [(n, w) for n, w in of.quick if w in (work or of.works)], of.quick_plan
    else:
        timed, plan = [(n, w) for w in work or of.works for n in lengths or of.lengths], of.plan
    rows = studies.run(
        study, timed, _repeated(plan, repeats), causal=causal, memory=weighed if memory else (),
        clock=clock, only=only, say=say,
    )  # fmt: skip
    return BenchResult(study, rows, {"causal": causal, "clock": clock})


def _repeated(plan: TimingPlan, repeats: int | None) -> TimingPlan:
    return plan if repeats is None else replace(plan, repeats=repeats, at_least=0.0)
