"""`ascender train`."""

from __future__ import annotations

import inspect
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

from ascender.cli.terminal import DataDir, Json, import_named, note, print_json
from ascender.train.settings import Settings

app = typer.Typer()


def train(
    out: Annotated[Path, typer.Option(help="Folder of the run; one run per folder.")],
    data_dir: DataDir = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in OUT.")] = False,
    size: Annotated[str | None, typer.Option(help="Preset: tiny, small, medium or large.")] = None,
    save_every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints; default: every validation.")
    ] = None,
    track: Annotated[
        str | None, typer.Option(help="Also log to tensorboard, trackio or wandb.")
    ] = None,
    limits: Annotated[
        bool,
        typer.Option("--limits", help="Log entropy and support of every head; warn of collapse."),
    ] = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Train a variant on a task; --resume continues an interrupted run.

    Omitted options use the task's defaults. Under torchrun the same command trains on many
    processes. Ctrl-C stops after the current step and writes a checkpoint.
    """
    from ascender.insight.limits.monitor import Thresholds
    from ascender.tasks import code_named
    from ascender.train import Run, Stopped
    from ascender.train import train as fit
    from ascender.train.display import TrainingDisplay, display
    from ascender.train.health import TrainingDiverged

    try:
        import_named(settings["task"], settings["variant"])
        values = {name: _value(name, text) for name, text in settings.items()}
        import_named(*code_named(settings["task"], values["options"] or {}))
        run = Run.of(size=size, **values)
        title = f"{run.task}  {run.variant}  seed {run.seed}"
        with display(title, note) as shown, asked_to_stop() as stop:
            record = fit(
                run, out, resume=resume, data_dir=None if data_dir is None else str(data_dir),
                show=shown if first_process() else TrainingDisplay(), save_every=save_every,
                track=track, stopping=stop, limits=Thresholds() if limits else None,
            )  # fmt: skip
    except Stopped as stopped:
        note(f"{stopped}; continue with --resume")
        raise typer.Exit(130) from None
    except TrainingDiverged as diverged:  # the run's fault, not the program's
        raise ValueError(str(diverged)) from diverged
    if first_process():
        _print(record, out, as_json)


TYPES = get_type_hints(Settings)
ALWAYS = ("task", "variant", "seed")  # what no task has a default for


def _option(of: Field[Any]) -> inspect.Parameter:
    """The command-line option of a setting."""
    kind, default = TYPES[of.name], None if of.default is MISSING else of.default
    names = [f"--{of.name}"] if kind is bool else []
    is_json = get_origin(kind) is Mapping
    option = typer.Option(*names, help=of.metadata["help"], metavar="JSON" if is_json else None)
    if of.name == "task":
        default = inspect.Parameter.empty
    elif of.name not in ALWAYS and kind is not bool:
        kind, default = str | None if is_json else kind | None, None
    return inspect.Parameter(
        of.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for every setting, the required ones first."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    task, *others = (_option(of) for of in fields(Settings))
    out, *more = (
        p.replace(kind=p.KEYWORD_ONLY) for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD
    )
    signature = inspect.Signature([task, out, *others, *more])
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return command


app.command(epilog="Example: ascender train --task distinct --variant ascender --out runs/a0")(
    _with_settings(train)
)


def _value(name: str, given: Any) -> Any:
    """A setting as `Run.of` takes it: JSON parsed, a flag that is not set omitted."""
    if get_origin(TYPES[name]) is not Mapping or given is None:
        return None if given is False else given
    try:
        parsed = json.loads(given)
    except json.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{given!r}: {error}; expected JSON", param_hint=f"--{name}"
        ) from None
    if not isinstance(parsed, dict):
        raise typer.BadParameter(f"{given!r}; expected an object {{…}}", param_hint=f"--{name}")
    return parsed


def _print(record: dict[str, Any], out: Path, as_json: bool) -> None:
    test = record["test"]
    if as_json:
        print_json({**record, "test": {k: v for k, v in test.items() if k != "scores"}})
        return
    typer.echo(
        f"test {record['metric']} {test['value']:.4f} (n = {test['n']}, chance "
        f"{record['chance']:.4f}), best validation {record['validation']:.4f} at step "
        f"{record['best_step']} of {record['steps']}"
    )
    for name, value in test["levels"].items():
        typer.echo(f"  {name}: {value:.4f}")
    typer.echo(
        f"{record['parameters']:,} parameters, {record['attention_flops_an_example']:,} attention "
        f"FLOPs an example, {record['tokens_a_second']:,.0f} tokens/s, drawing batches "
        f"{record['data_share']:.1%} of the time; {out / 'record.json'}"
    )


def first_process() -> bool:
    """Whether this is rank 0 of the processes that torchrun started: the one that prints."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def asked_to_stop() -> Iterator[Any]:
    """stop(): whether Ctrl-C or SIGTERM came. A second Ctrl-C ends at once."""
    received: list[int] = []

    def handle(number: int, frame: Any) -> None:
        if received and number == signal.SIGINT:
            raise KeyboardInterrupt
        received.append(number)
        note("stopping after this step, with a checkpoint …")

    before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
