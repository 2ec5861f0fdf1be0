"""`ascender limits`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ascender.cli.terminal import (
    WIDTH,
    Json,
    Lengths,
    TrustCode,
    check_out,
    count,
    import_named,
    note,
    parse_lengths,
    print_json,
    progress,
    read_text,
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
    all_tables: Annotated[
        bool, typer.Option("--tables", help="Print every table; --out keeps them in any case.")
    ] = False,
    trust_code: TrustCode = False,
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
    from ascender.insight.limits.page import report
    from ascender.report.strings import languages

    languages(lang)
    check_out(out, folder=True)
    with progress() as say:
        import_named(task)
        found, other = _measured(asked, data_dir, trust_code, say)
    same = compare == MUTED
    written = [] if out is None else report(found, out, other, lang, _plain(asked), same)
    _tell(found, other, same, "ko" if lang == "ko" else "en", all_tables, as_json)
    if written:
        note(f"wrote {len(written)} files; {written[-1]}")


def _measured(
    asked: dict[str, Any], data_dir: Path | None, trust_code: bool, say: Callable[[str], None]
) -> tuple[Any, Any]:
    from ascender.common.validate import lookup
    from ascender.core.normalizers import NORMALIZERS
    from ascender.core.rules import RULES
    from ascender.insight import load
    from ascender.insight.capture import has_rules, muted
    from ascender.insight.limits.measure import measure

    say(f"loading {asked['model']}")
    loaded = load(asked["model"], asked["adapter"], note, trust_code)
    second = asked["compare"]
    if second == MUTED and not has_rules(loaded.model):
        raise ValueError(f"{loaded.name} has no rules to mute; expected --compare MODEL")
    against = None if second in (None, MUTED) else load(second, None, note, trust_code)
    wanted = asked["normalizers"]
    names = None if wanted is None else [n.strip() for n in wanted.split(",")]
    for name in names or ():
        lookup("normalizer", name, NORMALIZERS)
    inputs, *others = _inputs([m for m in (loaded, against) if m is not None], asked, data_dir)
    given: dict[str, Any] = {"normalizers": names, "say": say}
    name = _called(loaded)
    found = measure(loaded.model, inputs, name=name, **given)
    if second is None:
        return found, None
    if against is None:
        with muted(loaded.model, *RULES):
            return found, measure(loaded.model, inputs, name=f"{name}, muted", **given)
    return found, measure(against.model, *others, name=_other(_called(against), name), **given)


def _inputs(models: list[Any], asked: dict[str, Any], data_dir: Path | None) -> list[Any]:
    """What each model reads: the same examples, or the same text by its own tokenizer."""
    from ascender.insight.limits.inputs import LENGTHS, default_text, task_inputs, text_inputs
    from ascender.insight.loading import check_fits, check_text, task_for

    first, name, file = models[0], asked["task"], asked["text_file"]
    if name is not None and file is not None:
        raise ValueError("both --text-file and --task; expected one of them")
    lengths = parse_lengths(asked["lengths"], LENGTHS)
    if min(lengths) < 2:
        raise ValueError(f"length {min(lengths)}; expected at least 2: of one key none is left out")
    if name is not None or (file is None and first.tokenizer is None):
        made = task_for(first, name, data_dir)
        for other in models[1:]:
            check_fits(other, made)
        chosen = None if asked["lengths"] is None else lengths
        return [task_inputs(made, chosen, max(asked["batch"], 2))] * len(models)
    for one in models:
        check_text(one)
        lengths = _fitting(one.model, lengths, asked["lengths"])
    text = default_text() if file is None else read_text(file)
    return [text_inputs(one.tokenizer, text, lengths, asked["batch"]) for one in models]


def _fitting(model: Any, lengths: tuple[int, ...], asked: str | None) -> tuple[int, ...]:
    """Lengths that the model has positions for; an asked one that it has not is an error."""
    from ascender.insight.limits.inputs import longest_of

    most = longest_of(model)
    if most is not None and asked is not None and max(lengths) > most:
        raise ValueError(f"length {max(lengths)}; expected at most {most}, the model's positions")
    return tuple(n for n in lengths if most is None or n <= most) or (most or lengths[0],)


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


def _tell(
    found: Any, other: Any, same: bool, lang: str, all_tables: bool, as_json: bool
) -> None:  # fmt: skip
    """A short table a model (or all of them), the comparison, and two sentences: seen, to do."""
    from ascender.insight.limits import tables
    from ascender.insight.limits.advice import advice
    from ascender.insight.limits.monitor import guideline
    from ascender.insight.limits.strings import STRINGS
    from ascender.insight.limits.summary import compared, of, summary, verdict
    from ascender.report.strings import in_language
    from ascender.report.terminal import rich_table

    models = [m for m in (found, other) if m is not None]
    kept = [summary(m) for m in models]
    said = None if other is None else verdict(compared(found, other, same))
    told = {m.name: guideline(of(m)) for m in models}
    advised = [in_language(pair, lang) for pair in advice(found)]
    if as_json:
        print_json({"models": kept, "verdict": said, "warnings": told, "advice": advised})
        return
    chosen = tables.TABLES if all_tables else {"lengths": tables.brief}
    for m in kept:
        for name, table in chosen.items():
            title = f"{m['name']}: {STRINGS.text(f'title.{name}', lang)}"
            show(rich_table(table(m), lang, title, width=WIDTH))
    if said is not None:
        show(rich_table(tables.side_by_side(*kept), lang, width=WIDTH))
        typer.echo(said)
    for name, lines in told.items():
        for line in lines if all_tables else lines[-1:]:
            note(f"warning: {name}: {line}")
    for line in advised:
        typer.echo(line)
