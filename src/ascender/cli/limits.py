"""`ascender limits`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Shown

from ascender.cli.terminal import (
    Json,
    Lengths,
    count,
    note,
    parse_lengths,
    print_json,
    progress,
    show,
)

app = typer.Typer()
MUTED = "muted"


@app.command(
    "limits", epilog="Example: ascender limits runs/a0 --task pylib --compare muted --out limits"
)
def limits(
    model: Annotated[
        str, typer.Argument(help="Folder of save_pretrained or ascender train, or a Hub name.")
    ],
    text_file: Annotated[
        Path | None, typer.Option(help="Text to read. Without it: Python's standard library.")
    ] = None,
    lengths: Lengths = None,
    normalizers: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,…", help="Beside the model's own; all where not given."),
    ] = None,
    adapter: Annotated[Path | None, typer.Option(help="Retrofit adapter for the model.")] = None,
    task: Annotated[
        str | None, typer.Option(help="A task whose examples are read instead of a text.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Local data of the task.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="A second model on the same input; muted: this one without its rules."),
    ] = None,
    batch: Annotated[int, typer.Option(parser=count, metavar="N", help="Sequences.")] = 4,
    lang: Annotated[str, typer.Option(help="Captions: en, ko or both.")] = "en",
    out: Annotated[Path | None, typer.Option(help="Folder for tables, figures, a page.")] = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Hold a model's attention against the limits of normalisation (arXiv 2508.17821).

    Entropy and effective support by context length, the 1/L envelope, the distance between
    selected and unselected keys, the share that stays separable, and the Jacobian by temperature,
    for every layer and head and for each normaliser of the slot.
    """
    asked = {
        "model": model, "text_file": text_file, "lengths": lengths, "normalizers": normalizers,
        "adapter": adapter, "task": task, "compare": compare, "batch": batch,
    }  # fmt: skip
    try:
        from ascender.insight.limits.page import report
        from ascender.insight.limits.words import langs

        langs(lang)
        with progress() as say:
            found, other = _measured(asked, data_dir, say)
        same = compare == MUTED
        written = [] if out is None else report(found, out, other, lang, _plain(asked), same)
    except (ImportError, OSError, ValueError, TypeError, NotImplementedError) as error:
        note(f"error: {error}")
        raise typer.Exit(1) from None
    _tell(found, other, same, as_json)
    if written:
        note(f"wrote {len(written)} files; {written[-1]}")


def _measured(
    asked: dict[str, Any], data_dir: Path | None, say: Callable[[str], None]
) -> tuple[Any, Any]:
    from ascender.insight import load
    from ascender.insight.capture import has_rules, muted
    from ascender.insight.limits.inputs import LENGTHS, task_inputs, text_inputs
    from ascender.insight.limits.measure import measure
    from ascender.names import lookup
    from ascender.normalizers import NORMALIZERS
    from ascender.rules import RULES

    say(f"loading {asked['model']}")
    loaded = load(asked["model"], asked["adapter"], say=note)
    second = asked["compare"]
    if second == MUTED and not has_rules(loaded.model):
        raise ValueError(f"{loaded.name} has no rules to mute; expected --compare MODEL")
    against = None if second in (None, MUTED) else load(second, say=note)
    wanted = asked["normalizers"]
    names = None if wanted is None else [n.strip() for n in wanted.split(",") if n.strip()]
    for name in names or ():
        lookup("normalizer", name, NORMALIZERS)
    made = _task(loaded, asked["task"], asked["text_file"], data_dir)
    if made is not None:
        chosen = None if asked["lengths"] is None else parse_lengths(asked["lengths"], ())
        inputs = task_inputs(made, chosen, max(asked["batch"], 2))
    else:
        chosen = _fitting(loaded.model, parse_lengths(asked["lengths"], LENGTHS), asked["lengths"])
        inputs = text_inputs(loaded.tokenizer, _text(asked["text_file"]), chosen, asked["batch"])
    given: dict[str, Any] = {"normalizers": names, "say": say}
    name = _called(loaded)
    found = measure(loaded.model, inputs, name=name, **given)
    if second is None:
        return found, None
    if against is None:
        with muted(loaded.model, *RULES):
            return found, measure(loaded.model, inputs, name=f"{name}, muted", **given)
    return found, measure(against.model, inputs, name=_other(_called(against), name), **given)


def _task(loaded: Any, name: str | None, text_file: Path | None, data_dir: Path | None) -> Any:
    """The task that is asked for, or that the model is of where it reads no text; else None."""
    from ascender.tasks import task

    run = loaded.run or {}
    if name is None:
        if loaded.tokenizer is not None or text_file is not None:
            if loaded.tokenizer is None:
                raise ValueError(f"{loaded.name} reads no text; expected --task")
            return None
        if not run:
            raise ValueError(
                f"{loaded.name} has no tokenizer; expected --task, whose examples it reads"
            )
        name = run["task"]
    options = dict(run["options"]) if run.get("task") == name else {}
    if data_dir is not None:
        options["data_dir"] = str(data_dir)
    return task(name, **options)


def _fitting(model: Any, lengths: tuple[int, ...], asked: str | None) -> tuple[int, ...]:
    """Lengths that the model has positions for; an asked one that it has not is an error."""
    from ascender.insight.limits.inputs import longest_of

    most = longest_of(model)
    if most is not None and asked is not None and max(lengths) > most:
        raise ValueError(f"length {max(lengths)}; expected at most {most}, the model's positions")
    return tuple(n for n in lengths if most is None or n <= most) or (most or lengths[0],)


def _text(path: Path | None) -> str:
    from ascender.insight.limits.inputs import default_text

    return default_text() if path is None else path.read_text(encoding="utf-8")


def _called(loaded: Any) -> str:
    """A model by its run where it has one: the folders of the lab are named by keys."""
    run = loaded.run
    return f"{run['variant']} ({run['task']}, seed {run['seed']})" if run else str(loaded.name)


def _other(name: str, first: str) -> str:
    return name if name != first else f"{name} (2)"


def _plain(asked: dict[str, Any]) -> dict[str, Any]:
    """As JSON has it; of paths the last part, as they may be anyone's."""
    found = {key: str(x) if isinstance(x, Path) else x for key, x in asked.items()}
    for key in ("model", "compare", "adapter", "text_file"):
        if found[key] is not None:
            found[key] = Path(found[key]).name
    return found


def _tell(found: Any, other: Any, same: bool, as_json: bool) -> None:
    from ascender.insight.limits import tables
    from ascender.insight.limits.monitor import guideline
    from ascender.insight.limits.summary import compared, of, summary, verdict
    from ascender.insight.limits.words import TITLES, pick

    models = [m for m in (found, other) if m is not None]
    kept = [summary(m) for m in models]
    said = None if other is None else verdict(compared(found, other, same))
    told = {m.name: guideline(of(m)) for m in models}
    if as_json:
        print_json({"models": kept, "verdict": said, "warnings": told})
        return
    for m in kept:
        for name, table in tables.TABLES.items():
            show(_shown(f"{m['name']}: {pick(TITLES[name], 'en')}", table(m)))
    if said is not None:
        show(_shown(pick(TITLES["compare"], "en"), tables.side_by_side(*kept)))
        typer.echo(said)
    for name, lines in told.items():
        for line in lines:
            note(f"warning: {name}: {line}")


def _shown(title: str, table: Any) -> Shown:
    made = Shown(title=title)
    for i, heading in enumerate(table.columns):
        made.add_column(heading, justify="left" if i == 0 else "right")
    for row in table.rows:
        made.add_row(*row)
    return made
