"""Shared by the commands: options, printing, progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from ascender.common.user_code import import_code, is_code

WIDTH = 110  # of tables where the output is no terminal


def whole_number(least: int) -> Callable[[str | int], int]:
    """A parser of whole numbers. (typer's own errors do not name the value.)"""

    def parse(text: str | int) -> int:
        if not str(text).isdecimal() or int(text) < least:
            raise typer.BadParameter(f"{text!r}; expected a whole number from {least}")
        return int(text)

    return parse


def number(text: str, *names: str, least: int = 1) -> Any:
    """An option for a whole number."""
    return typer.Option(*names, parser=whole_number(least), metavar="N", help=text)


DataDir = Annotated[Path | None, typer.Option(help="Local copies of data (docs/tasks.md).")]
Adapter = Annotated[Path | None, typer.Option(help="Retrofit adapter for the model.")]
OutFolder = Annotated[Path | None, typer.Option(help="Folder for tables, figures, a page.")]
Lang = Annotated[str, typer.Option(help="Headings and captions: en, ko or both.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
TrustCode = Annotated[
    bool,
    typer.Option("--trust-code", help="Import code (module:Class) that a model or record names."),
]
Lengths = Annotated[
    str | None, typer.Option(help="Numbers of tokens, separated by commas.", metavar="N,N,…")
]
Repeats = Annotated[int | None, number("Repetitions; the fastest counts.")]
Threads = Annotated[
    int | None, number("CPU threads; default: 1 by CPU time, torch's own by the wall clock.")
]


def parse_lengths(text: str | None) -> tuple[int, ...] | None:
    """--lengths: whole numbers, each once, in order."""
    if text is None:
        return None
    lengths = []
    for piece in text.split(","):
        if not piece.strip().isdecimal() or int(piece) < 1:
            raise typer.BadParameter(
                f"{piece.strip()!r} in {text!r}; expected whole numbers from 1, such as 64,256",
                param_hint="--lengths",
            )
        lengths.append(int(piece))
    return tuple(sorted(set(lengths)))


def import_named(*names: str | None) -> None:
    """Import code that the command line names as module:Class (of a variant, its first part); the
    current folder is searched too."""
    for name in names:
        first = (name or "").split("+")[0]
        if is_code(first):
            import_code(first, here=True)


def print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def text_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Rows of plain text under their headings."""
    table = Table(*headings, title=title)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def show(*shown: RenderableType) -> None:
    """Print; tables have a fixed width where the output is not a terminal."""
    width = None if sys.stdout.isatty() else WIDTH
    Console(width=width, highlight=False).print(*shown, sep="\n")


def check_out(out: Path | None, folder: bool = False) -> None:
    """ValueError where --out is not a writable file or folder; checked before any work."""
    if out is None:
        return
    kind = "folder" if folder else "file"
    if out.exists() and out.is_dir() != folder:
        raise ValueError(f"out = {out} is a {'file' if folder else 'folder'}; expected a {kind}")
    above = out if out.is_dir() else out.parent
    while not above.exists():
        above = above.parent
    if not above.is_dir() or not os.access(above, os.W_OK):
        why = "cannot be written" if above.is_dir() else "is no folder"
        raise ValueError(f"out = {out}: {above} {why}; expected a place for a {kind}")


def note(text: str) -> None:
    typer.echo(text, err=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """say(line): a status line on a terminal, plain lines otherwise."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield note
        return
    with console.status("") as status:
        yield lambda line: status.update(line)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A line that moves while something is done, on a terminal; nothing elsewhere."""
    console = Console(stderr=True, highlight=False)
    with console.status(text) if console.is_terminal else nullcontext():
        yield
