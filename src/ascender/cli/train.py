"""`ascender train`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ascender.cli.terminal import Json, import_named, note, print_json

app = typer.Typer()


@app.command(epilog="Example: ascender train --task distinct --variant ascender --out runs/a0")
def train(
    task: Annotated[
        str, typer.Option(help="A task (ascender list tasks), or module:Class of your own.")
    ],
    out: Annotated[Path, typer.Option(help="A folder of its own for this run.")],
    variant: Annotated[
        str,
        typer.Option(
            help="A variant (ascender list variants), such as ascender+alibi+k=8, or module:Class "
            "of an attention of your own, such as my_bias:First+rope."
        ),
    ] = "ascender",
    seed: Annotated[int, typer.Option(help="Draws the weights, batches and dropout.")] = 0,
    options: Annotated[
        str | None, typer.Option(metavar="JSON", help='Of the task, such as {"crowd": 32}.')
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Local copies of data, laid out as docs/tasks.md says.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what OUT holds.")] = False,
    size: Annotated[str | None, typer.Option(help="tiny, small, medium or large.")] = None,
    hidden: Annotated[int | None, typer.Option(help="Width of the model.")] = None,
    layers: Annotated[int | None, typer.Option(help="Layers.")] = None,
    heads: Annotated[int | None, typer.Option(help="Heads.")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps of the optimiser.")] = None,
    batch: Annotated[int | None, typer.Option(help="Examples a step, over all processes.")] = None,
    rate: Annotated[float | None, typer.Option(help="Highest learning rate.")] = None,
    warmup: Annotated[float | None, typer.Option(help="Fraction of the steps.")] = None,
    decay: Annotated[float | None, typer.Option(help="Weight decay.")] = None,
    clip: Annotated[float | None, typer.Option(help="Longest gradient; 0: any.")] = None,
    dropout: Annotated[float | None, typer.Option(help="In [0, 1).")] = None,
    smoothing: Annotated[float | None, typer.Option(help="Of the labels, in [0, 1).")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Pieces that a batch is cut in.")] = None,
    checkpointing: Annotated[
        bool, typer.Option("--checkpointing", help="Of activations: less memory, more time.")
    ] = False,
    precision: Annotated[str | None, typer.Option(help="no, bf16 or fp16.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="Of λ: default, constant or adaptive.")
    ] = None,
    losses: Annotated[
        str | None, typer.Option(metavar="JSON", help='Auxiliary ones, such as {"coh": 0.1}.')
    ] = None,
    every: Annotated[int | None, typer.Option(help="Steps between validations.")] = None,
    patience: Annotated[
        int | None, typer.Option(help="Validations without a new best before it stops early.")
    ] = None,
    save_every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; as often as validations.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Also log to tensorboard, trackio or wandb.")
    ] = None,
    limits: Annotated[
        bool,
        typer.Option("--limits", help="Log entropy, exp(H) and N_s/N of every head; warn."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a variant on a task; with --resume go on where it stopped.

    What is not said is the task's recipe. Under torchrun the same command trains on many processes.
    Ctrl-C stops after the step with a checkpoint.
    """
    from ascender.insight.limits.monitor import Thresholds
    from ascender.train import Run, Stopped
    from ascender.train import train as fit
    from ascender.train.display import Display, display
    from ascender.train.health import TrainingDiverged

    given: dict[str, Any] = {
        "variant": variant, "seed": seed, "hidden": hidden, "layers": layers, "heads": heads,
        "steps": steps, "batch": batch, "rate": rate, "warmup": warmup, "decay": decay,
        "clip": clip, "dropout": dropout, "smoothing": smoothing, "accumulate": accumulate,
        "checkpointing": checkpointing or None, "precision": precision, "schedule": schedule,
        "every": every, "patience": patience, "options": _json("--options", options),
        "losses": _json("--losses", losses),
    }  # fmt: skip
    try:
        import_named(task, variant)
        if size is not None:
            sized = Run.size(size)
            given |= {name: sized[name] for name in sized if given[name] is None}
        run = Run.of(task, **given)
        where = None if data_dir is None else str(data_dir)
        with display(f"{task}  {variant}  seed {seed}", note) as shown, asked_to_stop() as stop:
            show = shown if first_process() else Display()
            record = fit(
                run, out, resume=resume, data_dir=where, show=show, save_every=save_every,
                track=track, stopping=stop, limits=Thresholds() if limits else None,
            )  # fmt: skip
    except Stopped as stopped:
        note(f"{stopped}; go on with --resume")
        raise typer.Exit(130) from None
    except TrainingDiverged as ill:  # the run's fault, not the program's
        raise ValueError(str(ill)) from ill
    if first_process():
        _tell(record, out, as_json)


def _tell(record: dict[str, Any], out: Path, as_json: bool) -> None:
    test = record["test"]
    if as_json:
        print_json({**record, "test": {k: v for k, v in test.items() if k != "scores"}})
        return
    typer.echo(
        f"test {record['metric']} {test['value']:.4f} (n = {test['n']}, chance "
        f"{record['floor']:.4f}), best validation {record['validation']:.4f} at step "
        f"{record['best_step']} of {record['steps']}"
    )
    for name, value in {**test["levels"]}.items():
        typer.echo(f"  {name}: {value:.4f}")
    typer.echo(
        f"{record['parameters']:,} parameters, {record['attention_flops_an_example']:,} attention "
        f"FLOPs an example, {record['tokens_a_second']:,.0f} tokens/s, drawing batches "
        f"{record['data_share']:.1%} of the time; {out / 'record.json'}"
    )


def _json(name: str, text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(f"{text!r}: {error}; expected JSON", param_hint=name) from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"{text!r}; expected an object {{…}}", param_hint=name)
    return found


def first_process() -> bool:
    """Of those that torchrun started, the one that speaks."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def asked_to_stop() -> Iterator[Any]:
    """stop(): whether Ctrl-C or SIGTERM came. A second Ctrl-C ends at once."""
    seen: list[int] = []

    def heard(number: int, frame: Any) -> None:
        if seen and number == signal.SIGINT:
            raise KeyboardInterrupt
        seen.append(number)
        note("stopping after this step, with a checkpoint …")

    before = {s: signal.signal(s, heard) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(seen)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
