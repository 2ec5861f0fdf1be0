"""Progress of a suite: a row per cell (task × variant), a mark per seed, the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from ascender.lab.store import TRIES, Store
from ascender.lab.suite import Suite
from ascender.train import Run
from ascender.train.display import clock

DONE, RUNNING, OPEN, FAILED = "✓", "▶", "·", "✗"


class State(NamedTuple):
    """The state of one trial."""

    run: Run
    mark: str
    step: int
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
        trials.append(State(run, mark, step, seconds))
    return trials


def left(trials: list[State], workers: int) -> float | None:
    """Seconds left: the remaining steps at the pace of their cell, or of the mean cell
    where it has none yet; None before any step."""
    pace = {t.run.cell: t.seconds / t.step for t in trials if t.step and t.seconds}
    if not pace:
        return None
    usual = sum(pace.values()) / len(pace)
    todo = [t for t in trials if t.mark in (RUNNING, OPEN)]
    work = sum((t.run.steps - t.step) * pace.get(t.run.cell, usual) for t in todo)
    return work / max(1, min(workers, len(todo)))


def headline(trials: list[State], workers: int) -> str:
    """How many are done and have failed, and the time left."""
    seconds, marks = left(trials, workers), [t.mark for t in trials]
    failed = f", {marks.count(FAILED)} failed" if FAILED in marks else ""
    rest = f", {clock(seconds)} left" if seconds else ""
    return f"{marks.count(DONE)} of {len(trials)} trials done{failed}{rest}"


def table(trials: list[State], workers: int, title: str) -> Any:
    """A rich table."""
    from rich.table import Table
    from rich.text import Text

    result = Table(title=Text(f"{title}: {headline(trials, workers)}"), min_width=60)
    for name in ("task", "variant", "seeds", "running"):
        result.add_column(name)
    cells: dict[str, list[State]] = {}
    for t in trials:
        cells.setdefault(t.run.cell, []).append(t)
    for cell in cells.values():
        running = [f"{t.run.seed}: {t.step}/{t.run.steps}" for t in cell if t.mark == RUNNING]
        run, marks = cell[0].run, "".join(t.mark for t in cell)
        result.add_row(Text(run.task), Text(run.variant), marks, "  ".join(running))
    return result


@contextmanager
def watched(
    suite: Suite, store: Store, workers: int, note: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """tick(): show the progress, at most twice a second; plain lines where there is no terminal."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    last, printed = 0.0, -1

    def draw() -> None:
        nonlocal printed
        trials = states(suite, store)
        ended = sum(t.mark in (DONE, FAILED) for t in trials)
        if live is not None:
            live.update(table(trials, workers, suite.name), refresh=True)
        elif ended != printed:
            note(f"{suite.name}: {headline(trials, workers)}")
        printed = ended

    def tick() -> None:
        nonlocal last
        if time.monotonic() - last > (2.0 if live is None else 0.5):
            last = time.monotonic()
            draw()

    with live or nullcontext():
        yield tick
        draw()
