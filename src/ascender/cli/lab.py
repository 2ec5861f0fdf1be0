"""`ascender lab …`: run suites, show and report their results."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ascender.cli import terminal
from ascender.cli.terminal import (
    DataDir,
    Json,
    check_out,
    note,
    number,
    print_json,
    show,
    working,
)

# What the page of a report shows.
SHOWN = (
    "the verdict in one sentence and the figure that shows it;\n"
    "below, the tables open on a click, and every number leads to its trials"
)

app = typer.Typer(
    help="Suites of runs: claims, seeds, statistics.",
    no_args_is_help=True,
    epilog="Example: ascender lab run quick --out lab/quick",
)


@app.command("list", epilog="Example: ascender lab list")
def list_suites(as_json: Json = False) -> None:
    """List the suites and their claims."""
    from ascender.lab.suite import known, suite

    suites = {name: suite(name) for name in known()}
    rows = {name: {"claim": s.claim, "trials": _trials(s)} for name, s in suites.items()}
    if as_json:
        print_json(rows)
        return
    lines = [(name, row["claim"], str(row["trials"])) for name, row in rows.items()]
    show(terminal.text_table("suites", ("suite", "claim", "trials"), lines))


def _trials(suite: Any) -> int:
    """The number of trials; one that two suites of a bundle share counts once."""
    suites = suite.load_suites() if hasattr(suite, "load_suites") else [suite]
    return len({run.key for one in suites for run in one.runs})


@app.command(epilog="Example: ascender lab run quick --out lab/quick --seeds 3")
def run(
    suite: Annotated[str, typer.Argument(help="A suite (ascender lab list) or a file, FILE.py.")],
    out: Annotated[Path, typer.Option(help="Folder of the trials; an existing one is continued.")],
    seeds: Annotated[int | None, number("Run seeds 0 to N − 1 only.")] = None,
    workers: Annotated[int | None, number("Parallel trials; default: one per core.")] = None,
    engine: Annotated[str, typer.Option(help="local, ray or slurm.")] = "local",
    address: Annotated[str | None, typer.Option(help="Ray cluster; default: a local one.")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Run what fits in 30m, 2h, 1h30m, …")
    ] = None,
    data_dir: DataDir = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of sbatch, such as partition=cpu."),
    ] = None,
    costs_device: Annotated[
        str | None,
        typer.Option(help="Where costs of layers are measured: cpu, cuda, … Default: the CPU."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run the trials that are missing, then show the table.

    Finished trials are skipped; a trial that crashes is tried once more and then reported. Runs
    are resumable and crash-safe: after an interruption, run the same command again.
    """
    from ascender import lab

    try:
        check_out(out, folder=True)
        with ended_by_sigterm():
            result = lab.run(
                suite, out, seeds=seeds, workers=workers, engine=engine, address=address,
                budget=budget, data_dir=data_dir, slurm=dict(map(_setting, slurm or ())),
                costs_device=costs_device, say=note,
            )  # fmt: skip
    except KeyboardInterrupt:
        note("stopped; the same command continues")
        raise typer.Exit(130) from None
    for line in result.failures:
        note(line)
    _show(result.tables, as_json)
    if result.failures:
        raise typer.Exit(1)


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that the workers end too."""

    def end(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _setting(text: str) -> tuple[str, str | int]:
    """--slurm partition=cpu, as sbatch names it."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"--slurm {text!r}; expected NAME=VALUE such as partition=cpu")
    return name, int(value) if value.isdecimal() else value


@app.command("show", epilog="Example: ascender lab show quick --out lab/quick")
def show_table(
    suite: Annotated[str, typer.Argument(help="A suite or its file.")],
    out: Annotated[Path, typer.Option(help="Folder of the trials.")],
    seeds: Annotated[int | None, number("Show seeds 0 to N − 1 only.")] = None,
    as_json: Json = False,
) -> None:
    """Show the table of the finished trials."""
    from ascender import lab

    check_out(out, folder=True)
    _show(lab.show(suite, out, seeds=seeds, say=note), as_json)


@app.command(epilog="Example: ascender lab report lab/quick --lang both")
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of `lab run --out`, or a report.")
    ],
    suite: Annotated[
        str | None, typer.Option(help="A suite or its file; default: the one stored in DIR.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder; default: DIR/report.")] = None,
    lang: Annotated[
        str | None,
        typer.Option(help="en, ko or both; default: en, and ko for --into NAME.ko.md."),
    ] = None,
    data_dir: DataDir = None,
    into: Annotated[
        list[Path] | None,
        typer.Option(
            help="Only fill the blocks <!-- lab: SUITE TABLE --> of a document or a folder of them."
        ),
    ] = None,
    shared_scale: Annotated[
        bool,
        typer.Option(
            "--shared-scale",
            help="One colour scale for the attention maps of figure 1, not one a term.",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="List every file written.")] = False,
    trust_code: terminal.TrustCode = False,
    as_json: Json = False,
) -> None:
    """Write tables, figures, methods and a page from the finished trials.

    The report is complete in itself: index.html opens without a network, and a report can be
    written again from its trials.jsonl.gz and suite.json.
    """
    from ascender import lab
    from ascender.report.figure import korean_font

    with working("writing tables and figures"):
        paths = lab.report(
            folder, out, suite=suite, lang=lang, data_dir=data_dir, into=into or (),
            trust_code=trust_code, shared_scale=shared_scale, say=note,
        )  # fmt: skip
    if lang == "ko" and not into and korean_font() is None:
        note("no Korean font found here (such as Noto Sans CJK KR): words in figures are English")
    if as_json:
        print_json({"files": [str(path) for path in paths]})
        return
    if verbose or into:
        for path in paths:
            typer.echo(f"wrote {path}")
    if not into:
        typer.echo(f"wrote {len(paths)} files to {paths[-1].parent}")
        typer.echo(f"open {paths[-1]}: {SHOWN}")


@app.command(epilog="Example: ascender lab pack lab/paper --out results")
def pack(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of `lab run --out`.")],
    out: Annotated[Path, typer.Option(help="The store; its trials are kept.")],
) -> None:
    """Add the finished trials of DIR, without checkpoints, to one compressed store.

    A trial that several suites name is stored once. `ascender lab report` reads the store.
    """
    from ascender.lab.reports.source import pack as add

    check_out(out, folder=True)
    paths = add(folder, out, say=note)
    typer.echo(f"wrote {len(paths)} files to {out}; {paths[-1]} has the trials")


def _show(tables: Sequence[Any], as_json: bool) -> None:
    """The table of each suite; as JSON the rows, of several suites by their names."""
    finished = [table for table in tables if table.rows]
    if not as_json:
        for table in finished:
            show(_table(table.suite, table.rows))
    elif finished:
        rows = {table.suite.name: table.rows for table in finished}
        print_json(rows if len(tables) > 1 else finished[0].rows)


def _table(suite: Any, rows: Sequence[dict[str, Any]]) -> Table:
    scored = "validation" if suite.tuning else "test"
    headings = ("task", "variant", f"{scored}, mean ± sd (n)", "chance",
                f"− {suite.baseline} [95%]", "p (Holm)", "verdict")  # fmt: skip
    lines = []
    for row in rows:
        spread = "" if row["sd"] is None else f" ± {row['sd']:.4f}"
        score = f"{row['mean']:.4f}{spread} ({row['n']})"
        compared = _compared(row["comparison"])
        lines.append((row["task"], row["variant"], score, f"{row['chance']:.4f}", *compared))
    return terminal.text_table(f"{suite.name}: {suite.claim}", headings, lines)


def _compared(comparison: dict[str, Any] | None) -> list[str]:
    """Difference with its interval, p, verdict."""
    if comparison is None:
        return ["", "", ""]
    seeds, p = comparison["by_seed"], comparison["p"]
    span = "" if seeds["interval"] is None else " [{:+.4f}, {:+.4f}]".format(*seeds["interval"])
    judged = ["", "not judged"] if p is None else [f"{p:.3f}", comparison["verdict"]]
    return [f"{seeds['mean']:+.4f}{span}", *judged]
