"""`ascender play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer, echo

from ascender.cli import terminal
from ascender.cli.models import check_one_input
from ascender.cli.terminal import check_out, import_named, number, print_json, progress
from ascender.common.files import read_text

app = Typer()


@app.command(epilog="Example: ascender play --out flock.html")
def play(
    model: Annotated[
        str | None,
        Argument(
            metavar="MODEL", show_default=False, help="Also this model: a folder, or a Hub name."
        ),
    ] = None,
    out: Annotated[Path, Option(help="The HTML file.")] = Path("flock.html"),
    text: Annotated[str | None, Option(help="What the model reads.")] = None,
    text_file: Annotated[Path | None, Option(help="The same from a file (UTF-8).")] = None,
    task: Annotated[str | None, Option(help="Task of the example; default: its own.")] = None,
    example: Annotated[int | None, Option(metavar="I", help="Test example, from 0.")] = None,
    data_dir: terminal.DataDir = None,
    adapter: terminal.Adapter = None,
    layer: Annotated[int | None, number("One layer only, from 0.", least=0)] = None,
    first: Annotated[int | None, number("Read only the first N tokens.")] = None,
    lang: Annotated[str, Option(help="Language at the start: en or ko.")] = "en",
    trust_code: terminal.TrustCode = False,
    as_json: terminal.Json = False,
) -> None:
    """Write one HTML page to play with: tokens as a flock, trained models, why a pair attends.

    The rules have sliders and every score is recomputed in the page. Two small trained models
    answer few-shot questions in it. With MODEL, the page also has the coordinates, headings and
    terms of every head with rules. It needs no network.
    """
    check_out(out)
    check_one_input(text, text_file, task, example, first)
    from ascender.insight.play import play as make

    with progress() as say:
        import_named(task)
        make(
            model, text=text if text_file is None else read_text(text_file), out=out, layer=layer,
            first=first, task=task, example=example, data_dir=data_dir, adapter=adapter, lang=lang,
            trust_code=trust_code, say=say,
        )  # fmt: skip
    size = out.stat().st_size
    if as_json:
        print_json({"page": str(out), "bytes": size})
    else:
        echo(f"{out} ({size / 1e6:.1f} MB); open it in a browser")
