"""`ascender insight`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ascender.cli.terminal import (
    Json,
    TrustCode,
    check_out,
    count,
    import_named,
    note,
    print_json,
    progress,
    show,
)

app = typer.Typer()
# Columns that a terminal has no room for; the files have them.
LEFT_OUT = ("task", "interval", "chance_ari", "p", "share_align", "share_sep", "share_coh",
            "share_other")  # fmt: skip


@app.command(
    epilog="Example: ascender insight runs/a0 runs/a1 --against runs/v0 --against runs/v1 --out out"
)
def insight(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL …",
            help="Folders of ascender train or save_pretrained; several are seeds of one variant.",
        ),
    ],
    task: Annotated[
        str | None,
        typer.Option(help="Task of the test examples; default: the models' own."),
    ] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="A model of the variant to compare with; repeatable.")
    ] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="Retrofit adapter for the models, not for --against.")
    ] = None,
    examples: Annotated[
        int, typer.Option(parser=count, metavar="N", help="Number of test examples.")
    ] = 32,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of data.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for tables, figures, a page.")] = None,
    lang: Annotated[str, typer.Option(help="Headings and captions: en, ko or both.")] = "en",
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """What each rule does in each head, whether heads have roles, whether groups are recovered.

    Contributions of the rules (share of score variance, attention moved when muted), roles of
    heads and their agreement between seeds, and NMI and ARI of clusters of coordinates, neighbours,
    attention and states against the task's true groups (for pylib: classes of Python tokens).
    """
    from ascender import lab
    from ascender.report.strings import in_language, languages
    from ascender.report.terminal import rich_table

    languages(lang)
    check_out(out, folder=True)
    import_named(task)
    with progress() as say:
        result = lab.compare_models(
            models, against or (), task=task, adapter=adapter, examples=examples,
            data_dir=data_dir, out=out, lang=lang, trust_code=trust_code, say=say,
        )  # fmt: skip
    if result.files:
        note(f"wrote {len(result.files)} files to {out}; open {result.files[-1]}")
    if as_json:
        print_json(result.record())
        return
    one_lang = "ko" if lang == "ko" else "en"
    for one in result.tables():
        show(rich_table(one, one_lang, leave_out=LEFT_OUT))
    for pair in result.advice():
        typer.echo(in_language(pair, one_lang))
