"""The `ascender` command.

Results go to stdout (with --json: JSON and nothing else), progress and notes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import torch

import ascender

try:
    import typer
    from rich.console import Console, RenderableType
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"the ascender command needs {missing.name}; expected: "
        'pip install "ascender-attention[cli]"'
    ) from None

app = typer.Typer(
    help="ASCender: attention with alignment, separation and cohesion.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
bench = typer.Typer(
    help="Time the attention, a layer, the backends or the import, on this machine.",
    no_args_is_help=True,
    epilog="Example: ascender bench attention --quick",
)
app.add_typer(bench, name="bench")


def _count(text: str | int) -> int:
    """A whole number from 1; typer's own errors do not name the value."""
    if not str(text).isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r}; expected a whole number from 1")
    return int(text)


Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Lengths = Annotated[
    str | None, typer.Option(help="Numbers of tokens, separated by commas.", metavar="N,N,…")
]
Repeats = Annotated[
    int | None, typer.Option(parser=_count, metavar="N", help="Rounds; the best one counts.")
]
Threads = Annotated[
    int, typer.Option(parser=_count, metavar="N", help="CPU threads. One is disturbed least.")
]


def main() -> None:
    """Entry point."""
    app()


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"ascender {ascender.__version__}")
        raise typer.Exit
    return wanted


@app.callback(epilog="Example: ascender demo --out out")
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """ASCender: attention with alignment, separation and cohesion."""


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
        _print_json({**record, "files": [str(path) for path in paths]})
        return
    _print(five.table(example, lang), five.caption(lang, "story", "\n") + "\n")
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
        _note(
            f'the figure needs {missing.name}; expected: pip install "ascender-attention[figures]"'
        )
        raise typer.Exit(1) from None
    _note("no Korean font found here (such as Noto Sans CJK KR): the figure's captions are English")
    return "en"


@bench.command(epilog="Example: ascender bench attention --lengths 1024,4096 --causal --json")
def attention(
    lengths: Lengths = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="About a minute: N up to 4096, few repeats.")
    ] = False,
    causal: Annotated[bool, typer.Option("--causal", help="Causal attention.")] = False,
    memory: Annotated[bool, typer.Option(help="Measure peak memory too.")] = True,
    as_json: Json = False,
    repeats: Repeats = None,
    threads: Threads = 1,
) -> None:
    """Every backend against stock SDPA: time, peak memory, counted FLOPs.

    The whole run, up to N = 16384, takes many minutes; --quick takes one.
    """
    from ascender.bench import attention as study
    from ascender.bench import goals, show

    if quick and lengths is not None:
        raise typer.BadParameter(
            f"{lengths!r} with --quick; expected one of the two", param_hint="--lengths"
        )
    torch.set_num_threads(threads)
    if quick:
        plan = study.Study.quick(causal, repeats or 3, memory)
    else:
        chosen = _lengths(lengths, study.LENGTHS)
        plan = study.Study.full(chosen, causal, repeats or 5, memory)
    with _progress() as say:
        rows = study.run(plan, say)
    table = goals.reached(rows)
    shown = [show.attention(rows, causal), *([show.goals(table)] if table else [])]
    _report(as_json, rows, shown, causal=causal, goals=table)


@bench.command(epilog="Example: ascender bench layer --lengths 64")
def layer(
    lengths: Lengths = None,
    as_json: Json = False,
    repeats: Repeats = None,
    threads: Threads = 1,
) -> None:
    """The training step of a whole layer against a vanilla layer with the same projections."""
    from ascender.bench import goals, show
    from ascender.bench import layer as study
    from ascender.bench.timing import Plan

    torch.set_num_threads(threads)
    plan = None if repeats is None else Plan(repeats, at_least=0.0)
    with _progress() as say:
        rows = study.run(_lengths(lengths, study.LENGTHS), plan, say)
    table = goals.reached(rows)
    shown = [show.layer(rows), *([show.goals(table)] if table else [])]
    _report(as_json, rows, shown, goals=table)


@bench.command(epilog="Example: ascender bench choose --lengths 64,256,1024")
def choose(
    lengths: Lengths = None,
    as_json: Json = False,
    repeats: Repeats = None,
    threads: Threads = 1,
) -> None:
    """Which backend is fastest here, by length and mask, and which one "auto" takes."""
    from ascender.bench import choose as study
    from ascender.bench import show
    from ascender.bench.timing import Plan

    torch.set_num_threads(threads)
    plan = None if repeats is None else Plan(repeats, at_least=0.0, at_most=4.0)
    with _progress() as say:
        rows = study.run(_lengths(lengths, study.LENGTHS), plan, say)
    _report(as_json, rows, [show.choose(rows)])


@bench.command("import", epilog="Example: ascender bench import --repeats 9")
def import_(as_json: Json = False, repeats: Repeats = None) -> None:
    """What "import ascender" takes beyond "import torch"."""
    from ascender.bench import imports, show
    from ascender.bench.timing import machine

    with _progress() as say:
        say("importing, in processes of their own")
        found = imports.run(repeats or 5)
    if as_json:
        _print_json({"machine": machine(), **found})
    else:
        _print(show.imports(found))


def _lengths(text: str | None, default: Sequence[int]) -> tuple[int, ...]:
    if text is None:
        return tuple(default)
    found = []
    for piece in text.split(","):
        if not piece.strip().isdecimal() or int(piece) < 1:
            raise typer.BadParameter(
                f"{piece.strip()!r} in {text!r}; expected whole numbers from 1, such as 64,256",
                param_hint="--lengths",
            )
        found.append(int(piece))
    return tuple(sorted(set(found)))


def _report(
    as_json: bool, rows: Sequence[Any], shown: Sequence[RenderableType], **more: object
) -> None:
    from ascender.bench.timing import machine

    if as_json:
        _print_json({"machine": machine(), **more, "rows": [asdict(row) for row in rows]})
    else:
        here = machine()
        _print(*shown)
        _note(f"torch {here['torch']}, {here['processor']}, threads: {here['threads']}")


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _print(*shown: RenderableType) -> None:
    """Tables keep their width where the output is no terminal."""
    width = None if sys.stdout.isatty() else 110
    Console(width=width, highlight=False).print(*shown, sep="\n")


def _note(text: str) -> None:
    typer.echo(text, err=True)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """say(line): one line that moves on a terminal, lines otherwise."""
    cores = os.cpu_count() or 1
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5 * cores:
        load = os.getloadavg()[0]
        _note(f"this machine is busy (load {load:.1f} on {cores} cores): the ratios will be off")
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _note
        return
    with console.status("") as status:
        yield lambda line: status.update(line)


if __name__ == "__main__":
    main()
