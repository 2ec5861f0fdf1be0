"""What the commands share: options, printing, progress."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console, RenderableType


def count(text: str | int) -> int:
    """A whole number from 1; typer's own errors do not name the value."""
    if not str(text).isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r}; expected a whole number from 1")
    return int(text)


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Lengths = Annotated[
    str | None, typer.Option(help="Numbers of tokens, separated by commas.", metavar="N,N,…")
]
Repeats = Annotated[
    int | None, typer.Option(parser=count, metavar="N", help="Rounds; the best one counts.")
]
Threads = Annotated[
    int, typer.Option(parser=count, metavar="N", help="CPU threads. One is disturbed least.")
]


def parse_lengths(text: str | None, default: Sequence[int]) -> tuple[int, ...]:
    """--lengths: whole numbers, each once, in order."""
    if text is None:
        return tuple(default)
    found = []
    for piece in text.split(","):
        if not piece.strip().isdecimal() or int(piece) < 1:
            raise typer.BadParameter(
                f"{piece.strip()!r} in {text!r}; expected whole numbers from 1, such as 64,256",
                param_hint="--lengths",
            )
        found.append(int(piece))
    return tuple(sorted(set(found)))


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def show(*shown: RenderableType) -> None:
    """Tables keep their width where the output is no terminal."""
    width = None if sys.stdout.isatty() else 110
    Console(width=width, highlight=False).print(*shown, sep="\n")


def note(text: str) -> None:
    typer.echo(text, err=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """say(line): one line that moves on a terminal, lines otherwise."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield note
        return
    with console.status("") as status:
        yield lambda line: status.update(line)
