"""`ascender demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ascender.cli.terminal import Json, Lang, check_out, note, print_json, show

app = typer.Typer()


@app.command(epilog="Example: ascender demo --out out --lang both")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for scores.png and scores.svg.")] = Path("out"),
    lang: Lang = "en",
    as_json: Json = False,
) -> None:
    """Print and draw the attention scores of five tokens, term by term."""
    from ascender import demo as five

    if lang not in ("en", "ko", "both"):
        raise typer.BadParameter(
            f"unknown lang {lang!r}; expected one of en, ko, both", param_hint="--lang"
        )
    check_out(out, folder=True)
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

    if lang == "en" or five.korean_font() is not None:
        return lang
    note("no Korean font found here (such as Noto Sans CJK KR): the figure's captions are English")
    return "en"
