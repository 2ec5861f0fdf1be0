"""Progress of a suite: a row per cell (task × variant), a mark per seed, the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ascender.lab.store import TRIES, Store
from ascender.lab.suite import Suite
from ascender.train.display import clock

DONE, RUNNING, OPEN, FAILED = "✓", "▶", "·", "✗"


@dataclass(frozen=True)
class State:
    """The state of one trial."""

    cell: str
    task: str
    variant: str
    seed: int
    mark: str
    step: int
    steps: int
    seconds: float


def states(suite: Suite, store: Store) -> list[State]:
    """The state of every trial, read from the folder."""
    trials = []
    for run in suite.runs:
        step, seconds = store.step(run.key)
        if store.done(run.key):
            mark, step = DONE, run.steps
        elif len(store.failures(run.key)) >= TRIES:
            mark = FAILED
        else:
            mark = RUNNING if store.busy(run.key) else OPEN
        trials.append(
            State(run.cell, run.task, run.variant, run.seed, mark, step, run.steps, seconds)
        )
    return trials


def left(trials: list[State], workers: int) -> float | None:
    """Seconds left: the remaining steps at the pace of their cell, or of the mean cell
    where it has none yet; None before any step."""
    pace: dict[str, float] = {}
    for t in trials:
        if t.step and t.seconds:
            pace[t.cell] = t.seconds / t.step
    if not pace:
        return None
    usual = sum(pace.values()) / len(pace)
    todo = [t for t in trials if t.mark in (RUNNING, OPEN)]
    work = sum((t.steps - t.step) * pace.get(t.cell, usual) for t in todo)
    return work / max(1, min(workers, len(todo)))


def table(trials: list[State], workers: int, title: str) -> Any:
    """A rich table."""
    from rich.table import Table
    from rich.text import Text

    seconds = left(trials, workers)
    done = sum(t.mark == DONE for t in trials)
    rest = f", {clock(seconds)} left" if seconds else ""
    result = Table(title=Text(f"{title}: {done} of {len(trials)} trials{rest}"), min_width=60)
    for name in ("task", "variant", "seeds", "running"):
        result.add_column(name)
    cells: dict[str, list[State]] = {}
    for t in trials:
        cells.setdefault(t.cell, []).append(t)
    for cell in cells.values():
        running = [f"{t.seed}: {t.step}/{t.steps}" for t in cell if t.mark == RUNNING]
        marks = "".join(t.mark for t in cell)
        result.add_row(Text(cell[0].task), Text(cell[0].variant), marks, "  ".join(running))
    return result


@contextmanager
def watched(
    suite: Suite, store: Store, workers: int, note: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """tick(): show the progress, at most twice a second; plain lines where there is no terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    last, printed = [0.0], [-1]

    def line() -> None:
        trials = states(suite, store)
        done = sum(t.mark in (DONE, FAILED) for t in trials)
        if done != printed[0]:
            printed[0] = done
            seconds = left(trials, workers)
            rest = f", {clock(seconds)} left" if seconds else ""
            failed = sum(t.mark == FAILED for t in trials)
            note(f"{suite.name}: {done - failed} of {len(trials)} trials done"
                 f"{f', {failed} failed' if failed else ''}{rest}")  # fmt: skip

    def often(call: Callable[[], None], every: float) -> Callable[[], None]:
        def tick() -> None:
            if time.monotonic() - last[0] > every:
                last[0] = time.monotonic()
                call()

        return tick

    if not console.is_terminal:
        yield often(line, 2.0)
        line()
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:

        def draw() -> None:
            live.update(table(states(suite, store), workers, suite.name), refresh=True)

        yield often(draw, 0.5)
        draw()
