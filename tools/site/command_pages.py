"""The reference: every command of `ascender`, written from its help."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

UNINTERESTING = ("help", "install_completion", "show_completion")


def commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(words, command) of a command and those below it."""
    yield words, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


def cell(text: str) -> str:
    """One line that is safe in a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def section(words: tuple[str, ...], command: Any) -> str:
    """Heading, help, arguments and options, example."""
    import typer

    title = " ".join(words) if len(words) > 1 else "Commands"
    parts = [f"{'#' * min(len(words), 3)} {title}", inspect.cleandoc(command.help or "")]
    context = typer.Context(command, info_name=" ".join(words))
    shown = (p for p in command.params if p.name not in UNINTERESTING)
    records = filter(None, (param.get_help_record(context) for param in shown))
    rows = [f"| `{' '.join(names.split())}` | {cell(text)} |" for names, text in records]
    if rows:
        parts.append("\n".join(["| | |", "|---|---|", *rows]))
    if command.epilog:
        parts.append(f"```sh\n{command.epilog.removeprefix('Example:').strip()}\n```")
    return "\n\n".join(parts)


def command_pages() -> dict[str, str]:
    """Place on the site → Markdown."""
    import typer

    from ascender.cli import app

    root = typer.main.get_command(app)
    parts = [section(words, command) for words, command in commands(root, ("ascender",))]
    return {"reference/commands.md": "\n\n".join(parts) + "\n"}
