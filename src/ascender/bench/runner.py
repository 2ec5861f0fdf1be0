"""Run a benchmark by name: the function behind `ascender bench`.

from ascender import bench
result = bench.run("attention", quick=True)
result.rows                                    # measurements; result.record() as JSON
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from ascender.bench import attention, choose, goals, imports, layer, model
from ascender.common.validate import lookup
from ascender.measure.timing import machine

BENCHMARKS = ("attention", "variants", "layer", "model", "choose", "import")
Say = Callable[[str], None]


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
    threads: int = 1, say: Say = lambda line: None,
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
        lookup("work", name, model.JOBS)
    if study == "import":
        say("importing, in processes of their own")
        return BenchResult(study, [imports.run(repeats or 5)])
    torch.set_num_threads(threads)
    if study in attention.LENGTHS:
        if quick:
            plan = attention.AttentionBenchmark.quick(causal, repeats or 3, memory, study)
        else:
            chosen = lengths or attention.LENGTHS[study]
            plan = attention.AttentionBenchmark.full(chosen, causal, repeats or 5, memory, study)
        return BenchResult(study, attention.run(plan, say), {"causal": causal})
    rows: list[Any]
    if study == "model":
        chosen, plan_ = model.QUICK if quick else (lengths or model.LENGTHS, model.PLAN)
        plan_ = plan_ if repeats is None else replace(plan_, repeats=repeats)
        rows = list(model.run(chosen, plan_, say, works=work or tuple(model.JOBS)))
    else:
        module: Any = {"layer": layer, "choose": choose}[study]
        plan_ = module.PLAN
        plan_ = plan_ if repeats is None else replace(plan_, repeats=repeats, at_least=0.0)
        rows = list(module.run(lengths or module.LENGTHS, plan_, say))
    return BenchResult(study, rows)
