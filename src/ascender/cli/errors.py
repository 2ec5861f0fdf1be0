"""Errors that a user can cause are one line on stderr; others are bugs and show their traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from ascender.common.files import reason

# The modules that an extra of pyproject.toml brings, those of the extras in it too. The smallest
# come first: where a command has no extra of its own, the first that brings a module is named.
_HF = {"huggingface_hub", "safetensors", "tokenizers", "transformers"}
_TASKS = {*_HF, "accelerate", "datasets", "sklearn"}
_CLI = {"rich", "typer"}
_LAB = {*_CLI, *_TASKS, "jinja2", "matplotlib", "scipy"}
EXTRAS: dict[str, set[str]] = {
    "cli": _CLI,
    "figures": {"matplotlib"},
    "normalizers": {"entmax"},
    "triton": {"triton"},
    "hf": _HF,
    "train": {*_HF, "accelerate"},
    "retrofit": {*_HF, "peft"},
    "view": {*_CLI, *_HF, "jinja2"},
    "tasks": _TASKS,
    "eval": {*_HF, "lm_eval"},
    "lab": _LAB,
    "ray": {*_LAB, "ray"},
    "slurm": {*_LAB, "submitit"},
}
OF_COMMANDS = {
    "demo": "figures", "train": "train", "eval": "eval", "view": "view", "insight": "lab",
    "limits": "lab", "lab": "lab", "paper": "lab",
}  # fmt: skip


class Commands(TyperGroup):
    """The root of the command line: its handler stands around every command."""

    def invoke(self, ctx: Any) -> Any:  # click's Context, or that of the copy in typer
        os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # else ten lines of retries offline
        if ctx.params.get("traceback"):
            return super().invoke(ctx)
        with one_line_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def one_line_errors(ctx: Any) -> Iterator[None]:
    """An expected error as one line and exit code 1."""
    try:
        yield
    except BrokenPipeError:  # whoever read our output has closed it
        raise
    except Exception as error:
        usage = hasattr(error, "exit_code")  # click's own
        text = None if usage else message(error, ctx.invoked_subcommand or "")
        if text is None:
            raise
        typer.echo(f"error: {text}", err=True)
        raise typer.Exit(1) from None


def message(error: Exception, command: str = "") -> str | None:
    """What to say, or None for a bug.

    ValueError, OSError and ImportError are what bad values, files and installations give. Other
    types count where they say what was expected, as the errors of this package do."""
    if isinstance(error, ModuleNotFoundError) and (extra := extra_for(error.name or "", command)):
        return (
            f"ascender {command} needs {error.name}; expected: "
            f'pip install "ascender-attention[{extra}]"'
        )
    text = reason(error, 2000)
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError) or "allocate memory" in text or "out of memory" in text:
        return f"not enough memory ({reason(error)}); expected a smaller model or input"
    if isinstance(error, (ValueError, OSError, ImportError)) or "; expected" in text:
        return text
    return None


def extra_for(module: str, command: str = "") -> str | None:
    """The extra that brings a module: the command's own where it does."""
    name = module.partition(".")[0]
    own = OF_COMMANDS.get(command)
    if own is not None and name in EXTRAS[own]:
        return own
    return next((extra for extra, brings in EXTRAS.items() if name in brings), None)
