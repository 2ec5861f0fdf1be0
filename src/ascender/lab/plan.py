"""What fits into a budget: paces measured from a few steps, seeds taken in order."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ascender.lab.store import Store
from ascender.lab.suite import Suite
from ascender.train import Run
from ascender.train.display import TrainingDisplay
from ascender.train.loop import Trainer

STEPS = 3  # measured, after one that is not
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """
    >>> seconds("30m"), seconds("1h30m"), seconds("45s")
    (1800.0, 5400.0, 45.0)
    """
    pieces = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not pieces or "".join(a + b for a, b in pieces) != text:
        raise ValueError(f"budget {text!r}; expected a time such as 30m, 2h or 1h30m")
    return float(sum(float(n) * UNITS[unit] for n, unit in pieces))


@dataclass(frozen=True)
class Budget:
    """A time as it was asked for, and when it is over: all suites of a bundle share it."""

    text: str
    end: float

    @classmethod
    def of(cls, text: str) -> Budget:
        return cls(text, time.monotonic() + seconds(text))

    @property
    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())


@dataclass(frozen=True)
class BudgetPlan:
    """What is run, what is left out, and how long it should take."""

    runs: tuple[Run, ...]
    out: tuple[Run, ...]
    seconds: float

    def left_out(self) -> list[str]:
        """A line for every cell that loses seeds."""
        cells: dict[str, list[Run]] = {}
        for run in self.out:
            cells.setdefault(run.cell, []).append(run)
        names = Counter((runs[0].task, runs[0].variant) for runs in cells.values())
        lines = []
        for first, *rest in cells.values():
            more = f", {dict(first.options)}" if names[first.task, first.variant] > 1 else ""
            lost = ", ".join(str(run.seed) for run in (first, *rest))
            lines.append(f"left out: {first.task}, {first.variant}{more}, seeds {lost}")
        return lines


def plan(
    suite: Suite, store: Store, budget: float, workers: int, data_dir: str | None,
    say: Callable[[str], None],
) -> BudgetPlan:  # fmt: skip
    """The trials in the suite's order (seed by seed) as long as they fit; what is done is free."""
    paces: dict[str, float] = {}
    chosen: list[Run] = []
    out: list[Run] = []
    used = 0.0
    for run in suite.runs:
        if store.done(run.key):
            chosen.append(run)
            continue
        if run.cell not in paces:
            paces[run.cell] = pace(run, data_dir)
            say(f"{run.task}, {run.variant}: {paces[run.cell] * 1000:.0f} ms a step")
        begun, _ = store.step(run.key)
        cost = (run.steps - begun) * paces[run.cell] / workers
        if used + cost <= budget and run.seed not in {r.seed for r in out if r.task == run.task}:
            chosen.append(run)
            used += cost
        else:
            out.append(run)
    return BudgetPlan(tuple(chosen), tuple(out), used)


def pace(run: Run, data_dir: str | None) -> float:
    """Seconds a step, validations shared out, measured on the real model and data."""
    short = replace(run, every=10**9, patience=0)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(short, Path(folder), data_dir, TrainingDisplay(), None)
        trainer.try_once()
        trainer.open(resume=False)
        trainer.one()
        start = time.perf_counter()
        for _ in range(STEPS):
            trainer.one()
        step = (time.perf_counter() - start) / STEPS
        start = time.perf_counter()
        trainer.evaluate("validation")
        judged = time.perf_counter() - start
    return step + judged / run.every
