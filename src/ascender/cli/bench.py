"""`ascender bench …`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

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
)
from ascender.common.files import write

app = typer.Typer(
    help="Time the attention, its rivals, a layer, a model, the backends or the import, here.",
    no_args_is_help=True,
    epilog="Example: ascender bench attention --quick",
)
Quick = Annotated[bool, typer.Option("--quick", help="About a minute: N up to 4096, few repeats.")]
Shorter = Annotated[bool, typer.Option("--quick", help="Minutes: N up to 1024, few repeats.")]
Causal = Annotated[bool, typer.Option("--causal", help="Causal attention.")]
Works = Annotated[
    list[str] | None,
    typer.Option("--work", help="training, decode or generate (may be given again); else all."),
]
Memory = Annotated[bool, typer.Option(help="Measure peak memory too.")]


@app.command(epilog="Example: ascender bench attention --lengths 1024,4096 --causal --json")
def attention(
    lengths: Lengths = None, quick: Quick = False, causal: Causal = False, memory: Memory = True,
    as_json: Json = False, repeats: Repeats = None, threads: Threads = 1,
) -> None:  # fmt: skip
    """Every backend against stock SDPA: time, peak memory, counted FLOPs.

    The whole run, up to N = 16384, takes many minutes; --quick takes one.
    """
    _against_stock("attention", lengths, quick, causal, memory, as_json, repeats, threads)


@app.command(epilog="Example: ascender bench variants --lengths 1024,4096 --no-memory")
def variants(
    lengths: Lengths = None, quick: Quick = False, causal: Causal = False, memory: Memory = True,
    as_json: Json = False, repeats: Repeats = None, threads: Threads = 1,
) -> None:  # fmt: skip
    """Every attention of the slot against stock SDPA: time, peak memory, counted FLOPs.

    Ours, vanilla, Longformer, BigBird, Performer, linear, shuffled, graph: from heads to heads,
    without the projections. The whole run, up to N = 16384, takes half an hour; --quick a minute
    or two.
    """
    _against_stock("variants", lengths, quick, causal, memory, as_json, repeats, threads)


def _against_stock(
    name: str, lengths: str | None, quick: bool, causal: bool, memory: bool, as_json: bool,
    repeats: int | None, threads: int,
) -> None:  # fmt: skip
    from ascender.bench import attention as study
    from ascender.bench import show as terminal

    _one_of_the_two(quick, lengths)
    if quick:
        plan = study.AttentionBenchmark.quick(causal, repeats or 3, memory, name)
    else:
        chosen = parse_lengths(lengths, study.LENGTHS[name])
        plan = study.AttentionBenchmark.full(chosen, causal, repeats or 5, memory, name)
    _use(threads)
    with _timing() as say:
        rows = study.run(plan, say)
    shown = None if as_json else terminal.attention(rows, causal, name)
    _result(name, rows, shown, causal=causal)


@app.command(epilog="Example: ascender bench layer --lengths 64")
def layer(
    lengths: Lengths = None, as_json: Json = False, repeats: Repeats = None, threads: Threads = 1
) -> None:
    """The training step of a whole layer against a vanilla layer with the same projections."""
    from ascender.bench import layer as study
    from ascender.bench import show as terminal

    rows = _run(study, lengths, repeats, threads)
    _result("layer", rows, None if as_json else terminal.layer(rows))


@app.command(epilog="Example: ascender bench model --lengths 128 --work decode")
def model(
    lengths: Lengths = None, quick: Shorter = False, work: Works = None, as_json: Json = False,
    repeats: Repeats = None, threads: Threads = 1,
) -> None:  # fmt: skip
    """Tokens a second of whole models, training and generating, against the vanilla model.

    ASCender per head, shared, with QK-norm and with a window, the vanilla variant of the same
    size, and transformers' Llama. The whole run, up to N = 4096, takes an hour; --quick some
    minutes, up to N = 1024.
    """
    from ascender.bench import model as study
    from ascender.bench import show as terminal

    _one_of_the_two(quick, lengths)
    for name in work or ():
        if name not in study.JOBS:
            known = ", ".join(study.JOBS)
            raise typer.BadParameter(f"{name!r}; expected one of {known}", param_hint="--work")
    chosen, plan = study.QUICK if quick else (parse_lengths(lengths, study.LENGTHS), study.PLAN)
    plan = plan if repeats is None else replace(plan, repeats=repeats)
    _use(threads)
    with _timing() as say:
        rows = study.run(chosen, plan, say, works=work or tuple(study.JOBS))
    _result("model", rows, None if as_json else terminal.model(rows))


@app.command(epilog="Example: ascender bench choose --lengths 64,256,1024")
def choose(
    lengths: Lengths = None, as_json: Json = False, repeats: Repeats = None, threads: Threads = 1
) -> None:
    """Which backend is fastest here, by length and mask, and which one "auto" takes."""
    from ascender.bench import choose as study
    from ascender.bench import show as terminal

    rows = _run(study, lengths, repeats, threads)
    _result("choose", rows, None if as_json else terminal.choose(rows))


@app.command("import", epilog="Example: ascender bench import --repeats 9")
def import_(as_json: Json = False, repeats: Repeats = None) -> None:
    """What importing the attention takes beyond "import torch"."""
    from ascender.bench import imports, tables
    from ascender.bench import show as terminal

    with _timing() as say:
        say("importing, in processes of their own")
        found = imports.run(repeats or 5)
    if as_json:
        print_json({**_origin("import"), **found})
    else:
        show(terminal.rich_tables(tables.imports(found)))


@app.command(epilog="Example: ascender bench report docs/bench/*.json --into docs/benchmark.md")
def report(
    runs: Annotated[list[Path], typer.Argument(help="What the other commands gave with --json.")],
    into: Annotated[list[Path] | None, typer.Option(help="Document to bring up to date.")] = None,
) -> None:
    """Runs as Markdown tables, printed or put into documents.

    A document marks the place of a table by <!-- bench: NAME --> and <!-- /bench -->; what stands
    between is replaced, all else stays. Of two runs that measured the same, the last one counts.
    """
    from ascender.bench.report import blocks, contents, document
    from ascender.report.blocks import fill_document

    made = blocks(runs)
    texts = {path: fill_document(path, "bench", contents(made)) for path in into or []}
    if not texts:
        typer.echo(document(made), nl=False)
    for path, text in texts.items():
        typer.echo(f"wrote {write(path, text)}")


def _one_of_the_two(quick: bool, lengths: str | None) -> None:
    if quick and lengths is not None:
        raise typer.BadParameter(
            f"{lengths!r} with --quick; expected one of the two", param_hint="--lengths"
        )


def _use(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


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
    _use(threads)
    with _timing() as say:
        rows: list[Any] = study.run(chosen, plan, say)
    return rows


def _origin(study: str) -> dict[str, Any]:
    """What a JSON begins with: which study, the command that made it, and where."""
    from ascender.measure.timing import machine

    words = [word for word in sys.argv[1:] if word != "--json"]
    return {"study": study, "command": shlex.join(["ascender", *words]), "machine": machine()}


def _result(study: str, rows: Sequence[Any], shown: RenderableType | None, **more: object) -> None:
    """Tables and goals, or JSON where there is nothing to show."""
    from ascender.bench import goals, tables
    from ascender.bench import show as terminal

    reached, origin = goals.reached(rows), _origin(study)
    if shown is None:
        print_json({**origin, **more, "goals": reached, "rows": [asdict(row) for row in rows]})
        return
    here = origin["machine"]
    show(shown, terminal.rich_tables(tables.goals(reached)))
    note(f"torch {here['torch']}, {here['processor']}, threads: {here['threads']}")
