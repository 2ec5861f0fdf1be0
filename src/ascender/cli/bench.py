"""`ascender bench …`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ascender.cli import terminal
from ascender.cli.terminal import Json, Lengths, Repeats, Threads, note, parse_lengths
from ascender.common.files import write

app = typer.Typer(
    help="Time, memory and FLOPs on this machine: attention, baselines, layer, model, import.",
    no_args_is_help=True,
    epilog="Example: ascender bench attention --quick",
)
Quick = Annotated[bool, typer.Option("--quick", help="About a minute: N up to 4096, few repeats.")]
Shorter = Annotated[bool, typer.Option("--quick", help="Minutes: N up to 1024, few repeats.")]
Causal = Annotated[bool, typer.Option("--causal", help="Causal attention.")]
Works = Annotated[
    list[str] | None,
    typer.Option("--work", help="training, decode or generate; repeatable; default: all."),
]
Memory = Annotated[bool, typer.Option(help="Measure peak memory too.")]
Only = Annotated[
    str | None,
    typer.Option(
        help="Candidates, separated by commas; their baselines are timed too. Default: all.",
        metavar="NAME,NAME,…",
    ),
]
Clock = Annotated[
    str | None,
    typer.Option(
        help="cpu: CPU time, one thread; wall: wall clock, torch's own threads; on a GPU events "
        "or wall. Default: cpu or events."
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]


@app.command(epilog="Example: ascender bench attention --lengths 1024,4096 --causal --json")
def attention(
    lengths: Lengths = None, quick: Quick = False, causal: Causal = False, memory: Memory = True,
    as_json: Json = False, repeats: Repeats = None, threads: Threads = None, clock: Clock = None,
    only: Only = None, device: Device = "cpu", dtype: Dtype = "float32",
) -> None:  # fmt: skip
    """Every backend against stock SDPA: time, peak memory, counted FLOPs.

    The whole run, up to N = 16384, takes many minutes; --quick takes one.
    """
    _run(
        "attention", as_json, lengths, repeats, threads, clock, quick=quick, causal=causal,
        memory=memory, only=only, device=device, dtype=dtype,
    )  # fmt: skip


@app.command(epilog="Example: ascender bench variants --lengths 1024,4096 --no-memory")
def variants(
    lengths: Lengths = None, quick: Quick = False, causal: Causal = False, memory: Memory = True,
    as_json: Json = False, repeats: Repeats = None, threads: Threads = None, clock: Clock = None,
    only: Only = None, device: Device = "cpu", dtype: Dtype = "float32",
) -> None:  # fmt: skip
    """Every attention against stock SDPA: time, peak memory, counted FLOPs.

    ASCender, vanilla, Longformer, BigBird, Performer, linear, shuffled and graph, without the
    projections. The whole run, up to N = 16384, takes half an hour; --quick a minute or two.
    """
    _run(
        "variants", as_json, lengths, repeats, threads, clock, quick=quick, causal=causal,
        memory=memory, only=only, device=device, dtype=dtype,
    )  # fmt: skip


@app.command(epilog="Example: ascender bench layer --lengths 64")
def layer(
    lengths: Lengths = None, memory: Memory = True, as_json: Json = False, repeats: Repeats = None,
    threads: Threads = None, clock: Clock = None, only: Only = None,
    device: Device = "cpu", dtype: Dtype = "float32",
) -> None:  # fmt: skip
    """The training step of a whole layer against a vanilla layer with the same projections."""
    _run(
        "layer", as_json, lengths, repeats, threads, clock, memory=memory, only=only,
        device=device, dtype=dtype,
    )  # fmt: skip


@app.command(epilog="Example: ascender bench model --lengths 128 --work decode")
def model(
    lengths: Lengths = None, quick: Shorter = False, work: Works = None, memory: Memory = True,
    as_json: Json = False, repeats: Repeats = None, threads: Threads = None, clock: Clock = None,
    only: Only = None, device: Device = "cpu", dtype: Dtype = "float32",
) -> None:  # fmt: skip
    """Tokens per second of whole models, training and generating, against the vanilla model.

    ASCender per head, shared, with QK-norm and with a window, the vanilla variant of the same
    size, and transformers' Llama. The whole run, up to N = 4096, takes an hour; --quick some
    minutes, up to N = 1024.
    """
    from ascender.bench.model import JOBS

    for name in work or ():
        if name not in JOBS:
            known = ", ".join(JOBS)
            raise typer.BadParameter(f"{name!r}; expected one of {known}", param_hint="--work")
    _run(
        "model", as_json, lengths, repeats, threads, clock, quick=quick, work=work, memory=memory,
        only=only, device=device, dtype=dtype,
    )  # fmt: skip


@app.command(epilog="Example: ascender bench choose --lengths 64,256,1024")
def choose(
    lengths: Lengths = None, memory: Memory = True, as_json: Json = False, repeats: Repeats = None,
    threads: Threads = None, clock: Clock = None, device: Device = "cpu",
    dtype: Dtype = "float32",
) -> None:  # fmt: skip
    """Which backend is fastest on this machine, by length and mask, and which one "auto" picks.

    Below it, which stock attention kernel each pass takes on a GPU, and why not the others; with
    or without a GPU.
    """
    _run(
        "choose", as_json, lengths, repeats, threads, clock, memory=memory, device=device,
        dtype=dtype,
    )  # fmt: skip


@app.command("import", epilog="Example: ascender bench import --repeats 9")
def import_(as_json: Json = False, repeats: Repeats = None) -> None:
    """The time of "import ascender" beyond that of "import torch"."""
    _run("import", as_json, repeats=repeats)


@app.command(epilog="Example: ascender bench report docs/bench/*.json --into docs/benchmark.md")
def report(
    runs: Annotated[list[Path], typer.Argument(help="JSON files that the other commands printed.")],
    into: Annotated[list[Path] | None, typer.Option(help="Document to update.")] = None,
) -> None:
    """Print the tables of stored runs as Markdown, or update them in documents.

    Tables stand between <!-- bench: NAME --> and <!-- /bench --> in a document; only these blocks
    change. Of two runs that measured the same, the last one counts.
    """
    from ascender.bench.report import blocks, contents, document
    from ascender.report.blocks import fill_document

    tables = blocks(runs)
    texts = {path: fill_document(path, "bench", contents(tables)) for path in into or []}
    if not texts:
        typer.echo(document(tables), nl=False)
    for path, text in texts.items():
        typer.echo(f"wrote {write(path, text)}")


@contextmanager
def _timing() -> Iterator[Callable[[str], None]]:
    """progress(), and a note where others keep this machine busy."""
    cores = os.cpu_count() or 1
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5 * cores:
        load = os.getloadavg()[0]
        note(f"this machine is busy (load {load:.1f} on {cores} cores): the ratios will be off")
    with terminal.progress() as say:
        yield say


def _names(study: str, text: str) -> list[str]:
    """--only: candidates of a study."""
    from ascender.bench.studies import STUDIES
    from ascender.common.validate import lookup

    names = [name.strip() for name in text.split(",")]
    try:
        for name in names:
            lookup("candidate", name, STUDIES[study].candidates)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None
    return names


def _run(
    study: str, as_json: bool, lengths: str | None = None, repeats: int | None = None,
    threads: int | None = None, clock: str | None = None, device: str = "cpu", **options: Any,
) -> None:  # fmt: skip
    """Measure and print: tables and goals, or JSON (not of a run that other work disturbed)."""
    if options.get("quick") and lengths is not None:
        raise typer.BadParameter(
            f"{lengths!r} with --quick; expected one of the two", param_hint="--lengths"
        )
    from ascender import bench
    from ascender.measure.device import Cpu, Gpu
    from ascender.measure.machine import facts

    clocks = (Cpu if device == "cpu" else Gpu).clocks
    if clock is not None and clock not in clocks:
        known = " or ".join(clocks)
        raise typer.BadParameter(f"{clock!r}; expected {known}", param_hint="--clock")
    if (only := options.pop("only", None)) is not None:
        options["only"] = _names(study, only)
    with _timing() as say:
        result = bench.run(
            study, lengths=parse_lengths(lengths), repeats=repeats, threads=threads, clock=clock,
            device=device, say=say, **options,
        )  # fmt: skip
    if as_json:
        words = [word for word in sys.argv[1:] if word != "--json"]
        terminal.print_json(result.record(shlex.join(["ascender", *words])))
        return
    from ascender.bench import tables

    terminal.show(tables.shown(study, result.rows, result.options))
    if study != "import":
        terminal.show(tables.rich_tables(tables.goals(result.goals())))
        here = {**facts(), **result.machine}
        what = here.get("gpu", here["processor"])
        note(f"torch {here['torch']}, {what}, threads: {here['threads']}")
        for when, state in result.machine.get("state", {}).items():
            said = ", ".join(f"{name} {value}" for name, value in state.items())
            note(f"GPU {when}: {said or 'there is no nvidia-smi to say its clocks'}")
