"""Progress of training: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ascender.core.rules import RULES


@dataclass
class News:
    """The state of a run, as far as it is shown."""

    step: int
    steps: int
    loss: float
    rate: float
    tokens_a_second: float
    seconds_left: float
    metric: str = ""
    value: float | None = None
    best: float | None = None
    omega: Mapping[str, list[list[float]]] = field(default_factory=dict)
    note: str = ""

    def line(self) -> str:
        """All of it on one line."""
        parts = [
            f"step {self.step}/{self.steps}", f"loss {self.loss:.4f}",
            f"{self.tokens_a_second:,.0f} tokens/s", f"{clock(self.seconds_left)} left",
        ]  # fmt: skip
        if self.value is not None:
            parts.insert(2, f"{self.metric} {self.value:.4f} (best {self.best:.4f})")
        if self.omega:
            parts.append("ω " + " ".join(f"{r} {mean(self.omega[r]):+.3f}" for r in RULES))
        return "  ".join(parts)


class TrainingDisplay:
    """Shows the progress of a run; this base class shows nothing."""

    def show(self, news: News, whole: bool = False) -> None:
        """`whole`: after a validation; a plain log prints only those."""

    def say(self, text: str) -> None:
        """A note."""


class Lines(TrainingDisplay):
    """Plain lines, where there is no terminal."""

    def __init__(self, echo: Any) -> None:
        self.echo = echo

    def show(self, news: News, whole: bool = False) -> None:
        if whole:
            self.echo(news.line())

    def say(self, text: str) -> None:
        self.echo(text)


class Live(TrainingDisplay):
    """A panel that moves: bar, numbers, ω of each rule."""

    def __init__(self, live: Any, title: str) -> None:
        self.live, self.title, self.last = live, title, 0.0

    def show(self, news: News, whole: bool = False) -> None:
        now = time.monotonic()
        if whole or now - self.last > 0.2:
            self.last = now
            self.live.update(panel(news, self.title), refresh=True)

    def say(self, text: str) -> None:
        self.live.console.print(text, markup=False)


def panel(news: News, title: str) -> Any:
    """The news as rich draws them."""
    from rich.panel import Panel
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", justify="right")
    table.add_column()
    table.add_row("step", f"{news.step} of {news.steps}")
    table.add_row("", ProgressBar(total=news.steps, completed=news.step, width=40))
    table.add_row("loss", f"{news.loss:.4f}   rate {news.rate:.2e}")
    if news.value is not None:
        table.add_row(news.metric, f"{news.value:.4f}   best {news.best:.4f}")
    table.add_row("speed", f"{news.tokens_a_second:,.0f} tokens/s")
    table.add_row("left", clock(news.seconds_left))
    for rule in RULES if news.omega else ():
        layers = "  ".join(f"{mean([row]):+.3f}" for row in news.omega[rule])
        table.add_row(f"ω {rule}", f"{layers}   (a layer each)")
    if news.note:
        table.add_row("", Text(news.note))
    return Panel(table, title=Text(title), expand=False)


@contextmanager
def display(title: str, echo: Any) -> Iterator[TrainingDisplay]:
    """Live on a terminal (stderr), lines otherwise."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        echo(title)
        yield Lines(echo)
        return
    from rich.live import Live as Moving

    with Moving(console=console, auto_refresh=False, transient=False) as live:
        yield Live(live, title)


def mean(rows: list[list[float]]) -> float:
    flat = [x for row in rows for x in row]
    return sum(flat) / max(len(flat), 1)


def clock(seconds: float) -> str:
    """
    >>> clock(3725), clock(42), clock(130)
    ('1 h 02 min', '42 s', '2 min 10 s')
    """
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{whole} s"
