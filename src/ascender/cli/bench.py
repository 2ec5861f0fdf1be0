"""`ascender bench …`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Annotated, Any

import torch
import typer
from rich.console import RenderableType

from ascender.cli.terminal import (
    Json,
    Lengths,
    Repeats,
    Threads,
    note,
    parse_lengths,
    print_json,
    progress,
    show,
)  # fmt: skip

app = typer.Typer(
    help="Time the attention, a layer, the backends or the import, on this machine.",
    no_args_is_help=True,
    epilog="Example: ascender bench attention --quick",
)
Quick = Annotated[bool, typer.Option("--quick", help="About a minute: N up to 4096, few repeats.")]
Causal = Annotated[bool, typer.Option("--causal", help="Causal attention.")]
Memory = Annotated[bool, typer.Option(help="Measure peak memory too.")]


@app.command(epilog="Example: ascender bench attention --lengths 1024,4096 --causal --json")
def attention(
    lengths: Lengths = None, quick: Quick = False, causal: Causal = False, memory: Memory = True,
    as_json: Json = False, repeats: Repeats = None, threads: Threads = 1,
) -> None:  # fmt: skip
    """Every backend against stock SDPA: time, peak memory, counted FLOPs.

    The whole run, up to N = 16384, takes many minutes; --quick takes one.
    """
    from ascender.bench import attention as study
    from ascender.bench import goals
    from ascender.bench import show as tables

    if quick and lengths is not None:
        raise typer.BadParameter(
            f"{lengths!r} with --quick; expected one of the two", param_hint="--lengths"
        )
    if quick:
        plan = study.Study.quick(causal, repeats or 3, memory)
    else:
        chosen = parse_lengths(lengths, study.LENGTHS)
        plan = study.Study.full(chosen, causal, repeats or 5, memory)
    torch.set_num_threads(threads)
    with _timing() as say:
        rows = study.run(plan, say)
    reached = goals.reached(rows)
    shown = [tables.attention(rows, causal), *([tables.goals(reached)] if reached else [])]
    _report(as_json, rows, shown, causal=causal, goals=reached)


@app.command(epilog="Example: ascender bench layer --lengths 64")
def layer(
    lengths: Lengths = None, as_json: Json = False, repeats: Repeats = None, threads: Threads = 1
) -> None:
    """The training step of a whole layer against a vanilla layer with the same projections."""
    from ascender.bench import goals
    from ascender.bench import layer as study
    from ascender.bench import show as tables

    rows = _run(study, lengths, repeats, threads)
    reached = goals.reached(rows)
    shown = [tables.layer(rows), *([tables.goals(reached)] if reached else [])]
    _report(as_json, rows, shown, goals=reached)


@app.command(epilog="Example: ascender bench choose --lengths 64,256,1024")
def choose(
    lengths: Lengths = None, as_json: Json = False, repeats: Repeats = None, threads: Threads = 1
) -> None:
    """Which backend is fastest here, by length and mask, and which one "auto" takes."""
    from ascender.bench import choose as study
    from ascender.bench import show as tables

    rows = _run(study, lengths, repeats, threads)
    _report(as_json, rows, [tables.choose(rows)])


@app.command("import", epilog="Example: ascender bench import --repeats 9")
def import_(as_json: Json = False, repeats: Repeats = None) -> None:
    """What "import ascender" takes beyond "import torch"."""
    from ascender.bench import imports
    from ascender.bench import show as tables
    from ascender.bench.timing import machine

    with _timing() as say:
        say("importing, in processes of their own")
        found = imports.run(repeats or 5)
    if as_json:
        print_json({"machine": machine(), **found})
    else:
        show(tables.imports(found))


@contextmanager
def _timing() -> Iterator[Callable[[str], None]]:
    """progress(), and a note where others keep this machine busy."""
    cores = os.cpu_count() or 1
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5 * cores:
        load = os.getloadavg()[0]
        note(f"this machine is busy (load {load:.1f} on {cores} cores): the ratios will be off")
    with progress() as say:
        yield say


def _run(study: Any, lengths: str | None, repeats: int | None, threads: int) -> list[Any]:
    """The rows of a study that goes by lengths: LENGTHS, PLAN, run(lengths, plan, say)."""
    chosen = parse_lengths(lengths, study.LENGTHS)
    plan = study.PLAN if repeats is None else replace(study.PLAN, repeats=repeats, at_least=0.0)
    torch.set_num_threads(threads)
    with _timing() as say:
        rows: list[Any] = study.run(chosen, plan, say)
    return rows


def _report(
    as_json: bool, rows: Sequence[Any], shown: Sequence[RenderableType], **more: object
) -> None:
    from ascender.bench.timing import machine

    here = machine()
    if as_json:
        print_json({"machine": here, **more, "rows": [asdict(row) for row in rows]})
    else:
        show(*shown)
        note(f"torch {here['torch']}, {here['processor']}, threads: {here['threads']}")
