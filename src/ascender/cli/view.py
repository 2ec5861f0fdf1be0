"""`ascender view`."""

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
    print_json,
    progress,
)

app = typer.Typer()


@app.command(epilog='Example: ascender view out/model --text "Once upon a time" --out page.html')
def view(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL", show_default=False,
            help="Folder that save_pretrained or ascender train wrote, or a Hub name.",
        ),
    ],
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("page.html"),
    text: Annotated[str | None, typer.Option(help="Input text.")] = None,
    text_file: Annotated[Path | None, typer.Option(help="Input text from a file (UTF-8).")] = None,
    task: Annotated[
        str | None, typer.Option(help="Task of the example; default: the model's own.")
    ] = None,
    example: Annotated[
        int | None, typer.Option(metavar="I", help="Test example of the task, from 0.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of the task's data.")] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="Retrofit adapter; with --compare, for the second model.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Two models side by side: --compare A B.")
    ] = False,
    max_tokens: Annotated[
        int, typer.Option(parser=count, metavar="N", help="Pool longer inputs into blocks.")
    ] = 512,
    first: Annotated[
        int | None, typer.Option(parser=count, metavar="N", help="Read only the first N tokens.")
    ] = None,
    lang: Annotated[str, typer.Option(help="Language of the page: en or ko.")] = "en",
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Write one HTML page with every term of every head's attention scores.

    Matrices of the terms, single rows, tokens at their latent coordinates, and the model with a
    rule muted. For ASCender models, retrofitted models and plain transformers models (base scores
    and weights). The page needs no network.
    """
    check_out(out)
    if len(models) != (2 if compare else 1):
        wanted = "two models with --compare" if compare else "one model, or --compare A B"
        raise ValueError(f"{len(models)} models; expected {wanted}")
    if text is not None and text_file is not None:
        raise ValueError("both --text and --text-file; expected one of them")
    given = "--text" if text is not None else "--text-file" if text_file is not None else None
    if given is not None and (task is not None or example is not None):
        raise ValueError(f"both {given} and --task or --example; expected one of them")
    if given is None and first is not None:
        raise ValueError(f"--first {first} without a text; expected --text or --text-file with it")
    from ascender import insight
    from ascender.common.files import read_text
    from ascender.insight.page.strings import STRINGS

    STRINGS.texts(lang)
    with progress() as say:
        import_named(task)
        insight.view(
            models[0], text=text if text_file is None else read_text(text_file), out=out, task=task,
            example=example, data_dir=data_dir, adapter=adapter, max_tokens=max_tokens,
            compare=models[1] if compare else None, first=first, lang=lang, trust_code=trust_code,
            say=say,
        )  # fmt: skip
    size = out.stat().st_size
    if as_json:
        print_json({"page": str(out), "bytes": size})
    else:
        typer.echo(f"{out} ({size / 1e6:.1f} MB)")
