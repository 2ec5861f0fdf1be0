"""`ascender demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ascender.cli.terminal import Json, note, print_json, show

app = typer.Typer()


@app.command(epilog="Example: ascender demo --out out --lang both")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for scores.png and scores.svg.")] = Path("out"),
    lang: Annotated[str, typer.Option(help="Captions: en, ko or both.")] = "en",
    as_json: Json = False,
) -> None:
    """Print five tokens' scores taken apart, and draw them."""
    from ascender import demo as five

    if lang not in five.LANGS:
        raise typer.BadParameter(
            f"unknown lang {lang!r}; expected one of {', '.join(five.LANGS)}", param_hint="--lang"
        )
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{str(out)!r} is a file; expected a folder", param_hint="--out")
    example = five.five_tokens()
    paths = five.save(five.draw(example, _figure_lang(lang)), out)
    if as_json:
        record = {"query": example["tokens"][example["row"]], "row": five.decomposed(example)}
        print_json({**record, "files": [str(path) for path in paths]})
        return
    show(five.table(example, lang), five.caption(lang, "story", "\n") + "\n")
    for path in paths:
        typer.echo(f"wrote {path}")


def _figure_lang(lang: str) -> str:
    """The figure's language: English where there is no Korean font."""
    from ascender import demo as five

    try:
        if lang == "en" or five.korean_font() is not None:
            import matplotlib  # noqa: F401

            return lang
    except ModuleNotFoundError as missing:
        note(
            f'the figure needs {missing.name}; expected: pip install "ascender-attention[figures]"'
        )
        raise typer.Exit(1) from None
    note("no Korean font found here (such as Noto Sans CJK KR): the figure's captions are English")
    return "en"
