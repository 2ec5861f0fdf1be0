"""`ascender view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ascender.cli.terminal import (
    Json,
    TrustCode,
    check_out,
    count,
    import_named,
    print_json,
    progress,
    read_text,
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
    out: Annotated[Path, typer.Option(help="The page.")] = Path("page.html"),
    text: Annotated[str | None, typer.Option(help="What the model reads.")] = None,
    text_file: Annotated[Path | None, typer.Option(help="The same from a file (UTF-8).")] = None,
    task: Annotated[
        str | None, typer.Option(help="A task; a model of ascender train knows its own.")
    ] = None,
    example: Annotated[
        int | None, typer.Option(metavar="I", help="Which of the task's test examples, from 0.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of the task's data.")] = None,
    adapter: Annotated[
        Path | None, typer.Option(help="Retrofit adapter; with --compare, for the second model.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Two models side by side: --compare A B.")
    ] = False,
    max_tokens: Annotated[
        int, typer.Option(parser=count, metavar="N", help="Longer inputs are pooled in blocks.")
    ] = 512,
    first: Annotated[
        int | None, typer.Option(parser=count, metavar="N", help="Read no more of the text.")
    ] = None,
    lang: Annotated[str, typer.Option(help="Of the page: en or ko.")] = "en",
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Write a page that takes a model's attention apart: one file, no network.

    Matrices of every term, rows, the flock in its plane, rules muted. For models with rules,
    retrofitted ones, and plain transformers models (base and weights).
    """
    check_out(out)
    found = _page(
        models, text, text_file, task, example, data_dir, adapter, compare, max_tokens, first,
        lang, trust_code,
    )  # fmt: skip
    size = found.save(out).stat().st_size
    if as_json:
        print_json({"page": str(out), "bytes": size})
    else:
        typer.echo(f"{out} ({size / 1e6:.1f} MB)")


def _page(
    models: list[str], text: str | None, text_file: Path | None, task: str | None,
    example: int | None, data_dir: Path | None, adapter: Path | None, compare: bool,
    max_tokens: int, first: int | None, lang: str, trust_code: bool,
) -> Any:  # fmt: skip
    if len(models) != (2 if compare else 1):
        wanted = "two models with --compare" if compare else "one model, or --compare A B"
        raise ValueError(f"{len(models)} models; expected {wanted}")
    if sum(given is not None for given in (text, text_file)) > 1:
        raise ValueError("both --text and --text-file; expected one of them")
    given = "--text" if text is not None else "--text-file" if text_file is not None else None
    if given is not None and (task is not None or example is not None):
        raise ValueError(f"both {given} and --task or --example; expected one of them")
    if given is None and first is not None:
        raise ValueError(f"--first {first} without a text; expected --text or --text-file with it")
    from ascender.insight.loading import load
    from ascender.insight.page.build import page
    from ascender.insight.page.collect import collect_page_data
    from ascender.insight.page.pack import Blobs
    from ascender.insight.page.strings import STRINGS

    STRINGS.texts(lang)
    if text_file is not None:
        text = read_text(text_file)
    blobs, last = Blobs(), len(models) - 1
    with progress() as say:
        import_named(task)
        loaded = [
            load(source, adapter if at == last else None, say, trust_code)
            for at, source in enumerate(models)
        ]
        read = [_input(one, text, first, task, example, data_dir) for one in loaded]
        seen = [
            collect_page_data(name, one.model, one.tokenizer, what, blobs, max_tokens, say)
            for name, one, what in zip(_named(loaded, adapter), loaded, read, strict=True)
        ]
    return page(seen, blobs, lang)


def _named(loaded: list[Any], adapter: Path | None) -> list[str]:
    """What the models are called: by their run where they have one, told apart where alike."""
    names = [
        model.name if model.run is None else "{variant}, {task}, seed {seed}".format(**model.run)
        for model in loaded
    ]
    if adapter is not None:
        names[-1] += f" + {adapter.name}"
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({'AB'[at]})" for at, name in enumerate(names)]


def _input(
    loaded: Any, text: str | None, first: int | None, task: str | None, example: int | None,
    data_dir: Path | None,
) -> Any:  # fmt: skip
    from ascender.insight.loading import task_for
    from ascender.insight.page.inputs import of_task, of_text

    if text is not None:
        return of_text(loaded.model, loaded.tokenizer, text, first)
    if task is None and loaded.run is None:
        raise ValueError(
            f"nothing for {loaded.name} to read; expected --text, --text-file or --task"
        )
    return of_task(task_for(loaded, task, data_dir), example or 0)
