"""`ascender list …`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ascender.cli import terminal
from ascender.cli.terminal import DataDir, Json, import_named, note, print_json, show

app = typer.Typer(
    help="What is available, and what can be combined.",
    no_args_is_help=True,
    epilog="Example: ascender list compat --attention longformer",
)


def _print(
    title: str, kinds: Mapping[str, Any], as_json: bool, about: Mapping[str, str] | None = None,
    **more: Mapping[str, str],
) -> None:  # fmt: skip
    """`about`: one-line descriptions; default: the first sentence of the docstring."""
    lines = about or {}
    rows = {
        name: {"what": lines.get(name) or _first(kind)}
        | {k: known[name] for k, known in more.items()}
        for name, kind in kinds.items()
    }
    if as_json:
        print_json(rows)
        return
    table = Table(title=title)
    for heading in ("name", "what", *more):
        one_line = about is not None and heading == "what"
        table.add_column(heading, no_wrap=one_line, overflow="ellipsis" if one_line else "fold")
    for name, row in rows.items():
        table.add_row(name, *(escape(text) for text in row.values()))
    show(table)


def _first(kind: Any) -> str:
    """The first sentence of a docstring."""
    paragraph = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0]
    return re.split(r"(?<=[.?!])\s", " ".join(paragraph.split()))[0].rstrip(".:")


@app.command(epilog="Example: ascender list attentions")
def attentions(as_json: Json = False) -> None:
    """List the attentions and their own options."""
    from ascender.nn.baselines import ATTENTIONS, options_of
    from ascender.nn.slot import Attention

    common = set(options_of(Attention))
    own = {n: ", ".join(o for o in options_of(k) if o not in common) for n, k in ATTENTIONS.items()}
    _print("attentions", ATTENTIONS, as_json, options=own)


@app.command(epilog="Example: ascender list positions --json")
def positions(as_json: Json = False) -> None:
    """List the positions and the backends they run on."""
    from ascender.core.choose_backend import backends_for
    from ascender.nn.positions import POSITIONS

    on, also = {}, {}
    for name, kind in POSITIONS.items():
        always = backends_for(kind.needs)
        causal = backends_for(kind.causal_needs or kind.needs)
        on[name] = ", ".join(always)
        also[name] = ", ".join(b for b in causal if b not in always)
    _print("positions", POSITIONS, as_json, backends=on, causal=also)


@app.command(epilog="Example: ascender list normalizers")
def normalizers(as_json: Json = False) -> None:
    """List the normalisers and the backends they run on."""
    from ascender.core.choose_backend import backends_for
    from ascender.core.normalizers import NORMALIZERS

    on = {
        name: ", ".join(backends_for("columns" if kind.softmax else "rows"))
        for name, kind in NORMALIZERS.items()
    }
    _print("normalizers", NORMALIZERS, as_json, backends=on)


@app.command(epilog="Example: ascender list tasks distinct")
def tasks(
    name: Annotated[str | None, typer.Argument(help="A task to describe, with an example.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """List the tasks; with a name, describe one and print an example."""
    from ascender.tasks import TASKS, kind_of

    if name is None:
        kinds = {known: kind_of(known) for known in TASKS}
        heads = {known: kind.head for known, kind in kinds.items()}
        metrics = {known: kind.metric for known, kind in kinds.items()}
        sentences = {known: line for known, (_, line, _) in TASKS.items()}
        _print("tasks", kinds, as_json, sentences, head=heads, metric=metrics)
        return
    from ascender.train import Run

    import_named(name)
    task = Run.of(name).make_task(None if data_dir is None else str(data_dir))
    about = inspect.cleandoc((type(task).__doc__ or "").split(">>>")[0]).strip()
    record = {
        "name": name, "about": about, "example": task.example(), "metric": task.metric,
        "chance": task.chance, "levels": list(task.levels), "length": task.length,
        "head": task.head,
    }  # fmt: skip
    if as_json:
        print_json(record)
        return
    typer.echo(f"{about}\n\n{record['example']}\n")
    typer.echo(f"{task.metric}, chance {task.chance:.4g}; levels: {', '.join(task.levels)}")


@app.command(epilog="Example: ascender list variants")
def variants(as_json: Json = False) -> None:
    """List the variants of `ascender train`."""
    from ascender.train import VARIANTS

    rows = {name: {"what": about} for name, (_, about) in VARIANTS.items()}
    if as_json:
        print_json(rows)
        return
    lines = [(name, row["what"]) for name, row in rows.items()]
    show(terminal.text_table("variants", ("name", "what"), lines))
    show("Add +POSITION, +NORMALIZER or +option=value: vanilla+rope, ascender+alibi+k=8.")


@app.command(epilog="Example: ascender list compat --attention performer")
def compat(
    attention: Annotated[
        str | None, typer.Option(help="An attention, or module:Class of your own; default: all.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Test every combination again, not the stored table.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(help="With --check: update table and page of this checkout.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Which attention runs with which position, normaliser and kind of pass.

    F full, C causal, P padded, W window, D decode: the kinds that run; — none. Any other
    combination raises an error that names what runs.
    """
    from ascender.nn import compat as study
    from ascender.nn.baselines import ATTENTIONS, attention_kind

    if write is not None and not check:
        raise typer.BadParameter("without --check; expected both", param_hint="--write")
    if attention is not None:
        import_named(attention)
        attention_kind(attention)
    names = list(ATTENTIONS) if attention is None else [attention]
    shipped = {} if check else study.stored()
    new = [name for name in names if name not in shipped]
    try:
        with terminal.progress() as say:
            fresh = study.table(study.tried(new, say))
    except study.LawBroken as error:
        note(f"error: {error}")
        raise typer.Exit(1) from None
    cells = {name: shipped.get(name) or fresh[name] for name in names}
    if write is not None:
        for path in study.save(cells, write):
            typer.echo(f"wrote {path}", err=True)
    if as_json:
        print_json(cells)
        return
    for name, rows in cells.items():
        lines = [(p, *(study.letters(entry) for entry in row.values())) for p, row in rows.items()]
        show(terminal.text_table(name, ("position", *next(iter(rows.values()))), lines))
    show("F full, C causal, P padded, W window, D decode: what runs; — nothing does.")
