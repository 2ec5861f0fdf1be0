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
from ascender.measure.timing import TimingPlan, machine

BENCHMARKS = (*STUDIES, "choose", "import")


@dataclass(frozen=True)
class BenchResult:
    """The rows of a benchmark; of "import" one dict of seconds."""

    study: str
    rows: list[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def record(self, command: str = "") -> dict[str, Any]:
        """As `ascender bench report` reads it: the study, the command, the machine, the rows."""
        origin = {"study": self.study, "command": command, "machine": machine()}
        if self.study == "import":
            return {**origin, **self.rows[0]}
        rows = [asdict(row) for row in self.rows]
        return {**origin, **self.options, "goals": goals.reached(self.rows), "rows": rows}


def run(
    study: str, *, lengths: Sequence[int] | None = None, quick: bool = False, causal: bool = False,
    memory: bool = True, work: Sequence[str] | None = None, repeats: int | None = None,
    threads: int = 1, say: Callable[[str], None] = lambda line: None,
) -> BenchResult:  # fmt: skip
    """Measure on this machine.

    study    one of BENCHMARKS                     lengths   numbers of tokens
    quick    a short run (attention, variants, model) instead of lengths
    causal, memory                                 of attention and variants
    work     of model: training, decode, generate; default: all
    repeats  rounds, of which the best counts      threads   of torch
    """
    lookup("benchmark", study, dict.fromkeys(BENCHMARKS))
    if quick and lengths is not None:
        raise ValueError(f"lengths = {tuple(lengths)} with quick; expected one of the two")
    for name in work or ():
        lookup("work", name, JOBS)
    if study == "import":
        say("importing, in processes of their own")
        return BenchResult(study, [imports.run(repeats or 5)])
    torch.set_num_threads(threads)
    if study == "choose":
        plan = _repeated(choose.PLAN, repeats)
        return BenchResult(study, list(choose.run(lengths or choose.LENGTHS, plan, say)))
    of = STUDIES[study]
    weighed: Collection[str] = of.quick_memory
    if quick:
        timed, plan = [(n, w) for n, w in of.quick if w in (work or of.works)], of.quick_plan
    else:
        timed, plan = [(n, w) for w in work or of.works for n in lengths or of.lengths], of.plan
        weighed = of.candidates if weighed else ()
    rows = studies.run(
        study, timed, _repeated(plan, repeats), causal=causal, memory=weighed if memory else (),
        say=say,
    )  # fmt: skip
    return BenchResult(study, rows, {"causal": causal} if of.quick_memory else {})


def _repeated(plan: TimingPlan, repeats: int | None) -> TimingPlan:
    return plan if repeats is None else replace(plan, repeats=repeats, at_least=0.0)
