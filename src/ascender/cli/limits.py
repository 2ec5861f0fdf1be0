"""`ascender limits`."""

from __future__ import annotations

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
    show,
)

app = typer.Typer()


@app.command(
    "limits", epilog="Example: ascender limits runs/a0 --task pylib --compare muted --out limits"
)
def limits(
    model: Annotated[
        str, typer.Argument(help="Folder of save_pretrained or ascender train, or a Hub name.")
    ],
    text_file: Annotated[
        Path | None, typer.Option(help="Input text; default: Python's standard library.")
    ] = None,
    lengths: Lengths = None,
    normalizers: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,…", help="Compare with these; default: all."),
    ] = None,
    adapter: Annotated[Path | None, typer.Option(help="Retrofit adapter for the model.")] = None,
    task: Annotated[
        str | None, typer.Option(help="Use a task's examples instead of a text.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of data.")] = None,
    compare: Annotated[
        str | None,
        typer.Option(help="A second model, or 'muted': this model without its rules."),
    ] = None,
    batch: Annotated[int, typer.Option(parser=count, metavar="N", help="Number of sequences.")] = 4,
    lang: Annotated[str, typer.Option(help="Captions: en, ko or both.")] = "en",
    out: Annotated[Path | None, typer.Option(help="Folder for tables, figures, a page.")] = None,
    all_tables: Annotated[
        bool, typer.Option("--tables", help="Print every table; --out always writes them.")
    ] = False,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Compare a model's attention with the limits of normalisation (arXiv 2508.17821).

    Entropy and effective support by context length, the 1/L envelope, the distance between
    selected and unselected keys, the share that stays separable, and the Jacobian by temperature,
    for every layer and head and each normaliser.
    """
    from ascender.insight import limits as limit
    from ascender.report.strings import languages

    languages(lang)
    check_out(out, folder=True)
    with progress() as say:
        import_named(task)
        result = limit.run(
            model, text=text_file,
            lengths=None if lengths is None else parse_lengths(lengths, ()),
            normalizers=None if normalizers is None else normalizers.split(","), adapter=adapter,
            task=task, data_dir=data_dir, compare=compare, batch=batch, lang=lang, out=out,
            trust_code=trust_code, say=say,
        )  # fmt: skip
    _print(result, "ko" if lang == "ko" else "en", all_tables, as_json)
    if result.files:
        note(f"wrote {len(result.files)} files; {result.files[-1]}")


def _print(result: Any, lang: str, all_tables: bool, as_json: bool) -> None:
    """One short table per model (or all tables), the comparison, warnings and advice."""
    from ascender.insight.limits import tables
    from ascender.insight.limits.strings import STRINGS
    from ascender.report.terminal import rich_table

    record = result.record(lang)
    if as_json:
        print_json(record)
        return
    chosen = tables.TABLES if all_tables else {"lengths": tables.brief}
    for model in record["models"]:
        for name, table in chosen.items():
            title = f"{model['name']}: {STRINGS.text(f'title.{name}', lang)}"
            show(rich_table(table(model), lang, title, width=WIDTH))
    if record["verdict"] is not None:
        show(rich_table(tables.side_by_side(*record["models"]), lang, width=WIDTH))
        typer.echo(record["verdict"])
    for name, lines in record["warnings"].items():
        for line in lines if all_tables else lines[-1:]:
            note(f"warning: {name}: {line}")
    for line in record["advice"]:
        typer.echo(line)
