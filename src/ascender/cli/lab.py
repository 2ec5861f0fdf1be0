"""`ascender lab …`: from a claim to a table."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ascender.cli.terminal import (
    Json,
    TrustCode,
    check_out,
    count,
    import_named,
    note,
    print_json,
    show,
)

app = typer.Typer(
    help="Suites of runs: claims, seeds, statistics.",
    no_args_is_help=True,
    epilog="Example: ascender lab run quick --out lab/quick",
)


@app.command("list", epilog="Example: ascender lab list")
def list_suites(as_json: Json = False) -> None:
    """The suites there are, and what each claims."""
    from ascender.lab.suite import known, suite

    rows = {name: suite(name) for name in known()}
    trials = {name: _trials(s) for name, s in rows.items()}
    if as_json:
        print_json({n: {"claim": s.claim, "trials": trials[n]} for n, s in rows.items()})
        return
    table = Table("suite", "claim", "trials", title="suites")
    for name, s in rows.items():
        table.add_row(name, escape(s.claim), str(trials[name]))
    show(table)


def _trials(made: Any) -> int:
    """How many there are; what two suites of a bundle name is one."""
    suites = made.made() if hasattr(made, "made") else [made]
    return len({run.key for one in suites for run in one.runs})


@app.command(epilog="Example: ascender lab run quick --out lab/quick --seeds 3")
def run(
    suite: Annotated[str, typer.Argument(help="A suite (ascender lab list) or a file, FILE.py.")],
    out: Annotated[Path, typer.Option(help="The folder of its trials; the same again goes on.")],
    seeds: Annotated[int | None, typer.Option(parser=count, metavar="N", help="0 … N − 1.")] = None,
    workers: Annotated[
        int | None, typer.Option(parser=count, metavar="N", help="At a time; one a core.")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, ray or slurm.")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster; else one here.")] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only what fits: 30m, 2h, 1h30m.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of data.")] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="As sbatch has it: partition=cpu, account=me."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run what is not done yet, then show the table.

    A trial that is finished is not run again; one that crashes is tried once more and then
    reported. Stop it, kill it, start it twice: the same command ends with the same table.
    """
    from ascender.lab.bundle import places
    from ascender.lab.plan import Budget
    from ascender.lab.suite import suite as find

    where = None if data_dir is None else str(data_dir)
    good = True
    try:
        check_out(out, folder=True)
        who = _engine(engine, workers, address, slurm)
        until = None if budget is None else Budget.of(budget)
        found = places(find(suite), out, seeds)
        for made, folder in found:
            good &= _run(made, folder, who, until, where)
        _show(found, as_json)
    except KeyboardInterrupt:
        note("stopped; the same command goes on")
        raise typer.Exit(130) from None
    if not good:
        raise typer.Exit(1)


def _run(made: Any, folder: Path, who: Any, budget: Any, where: str | None) -> bool:
    """A suite's trials, those that fit into the budget, or all and then its costs. Whether nothing
    failed."""
    from ascender.lab import costs
    from ascender.lab.engine import finish
    from ascender.lab.progress import watched
    from ascender.lab.store import Store

    store = Store(folder, note)
    store.open(made)
    for each in made.runs:
        store.forgive(each.key)
    runs = _planned(made, store, budget, who.workers or 1, where)
    with ended_by_sigterm():
        with watched(made, store, who.workers or 1, note) as tick:
            finish(who, store, runs, where, tick, note)
        if budget is None and costs.wanted(folder, made.costs):
            costs.keep(folder, made.costs, costs.measure(made.costs, note))
    failed = {r.key: store.failures(r.key) for r in made.runs if not store.done(r.key)}
    for each in made.runs:
        if failed.get(each.key):
            note(f"failed: {each.task}, {each.variant}, seed {each.seed}: {failed[each.key][-1]}")
    return not any(failed.values())


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, so that its workers end with it."""

    def end(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _engine(name: str, workers: int | None, address: str | None, slurm: list[str] | None) -> Any:
    from ascender.common.validate import lookup
    from ascender.lab.engine import ENGINES

    kind = lookup("engine", name, ENGINES)
    if address is not None and name != "ray":
        raise ValueError(f"address = {address!r} with engine {name}; expected --engine ray")
    if slurm and name != "slurm":
        raise ValueError(f"--slurm {slurm[0]} with engine {name}; expected --engine slurm")
    if name == "slurm":
        return kind(workers, **dict(_setting(text) for text in slurm or ()))
    return kind(workers, address) if name == "ray" else kind(workers)


def _setting(text: str) -> tuple[str, str | int]:
    """--slurm partition=cpu: as sbatch names it; timeout_min is submitit's own."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ValueError(f"--slurm {text!r}; expected NAME=VALUE such as partition=cpu")
    own = name if name == "timeout_min" else f"slurm_{name}"
    return own, int(value) if value.isdecimal() else value


def _planned(made: Any, store: Any, budget: Any, workers: int, where: str | None) -> Any:
    """What is left to do, within the budget where there is one."""
    left = store.open_trials(made)
    if budget is None:
        return left
    from ascender.lab.plan import plan
    from ascender.train.display import clock

    planned = plan(made, store, budget.left, workers, where, note)
    fits = sum(run in left for run in planned.runs)
    note(f"{fits} trials fit into {budget.text} (about {clock(planned.seconds)})")
    for line in planned.told():
        note(line)
    return [run for run in left if run in planned.runs]


@app.command("show", epilog="Example: ascender lab show quick --out lab/quick")
def show_table(
    suite: Annotated[str, typer.Argument(help="A suite or its file.")],
    out: Annotated[Path, typer.Option(help="The folder of its trials.")],
    seeds: Annotated[int | None, typer.Option(parser=count, metavar="N", help="0 … N − 1.")] = None,
    as_json: Json = False,
) -> None:
    """The table of what is done so far."""
    from ascender.lab.bundle import places
    from ascender.lab.suite import suite as find

    check_out(out, folder=True)
    _show(places(find(suite), out, seeds, make=False), as_json)


@app.command(epilog="Example: ascender lab report lab/quick --lang both")
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Of `lab run --out`, or of an earlier report.")
    ],
    suite: Annotated[
        str | None, typer.Option(help="A suite or its file; else the one written in DIR.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to; DIR/report.")] = None,
    lang: Annotated[
        str | None,
        typer.Option(help="Headings and captions: en, ko or both; en, into NAME.ko.md ko."),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Local copies of data.")] = None,
    into: Annotated[
        list[Path] | None,
        typer.Option(
            help="Only fill the blocks <!-- lab: SUITE TABLE --> of a document, or of a folder's."
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="List every file written.")] = False,
    trust_code: TrustCode = False,
    as_json: Json = False,
) -> None:
    """Tables, figures, methods and a page from the trials that are done.

    The folder needs nothing else: index.html opens without a network, and trials.jsonl.gz
    with suite.json is enough to make the report again.
    """
    from ascender.lab.bundle import inside
    from ascender.lab.reports import bundle_report, documents_in, fill
    from ascender.lab.reports import report as make
    from ascender.lab.suite import suite as find
    from ascender.report.figure import korean_font

    where = None if data_dir is None else str(data_dir)
    made = None if suite is None else find(suite)
    if trust_code:
        _import_named_in(inside(folder) or [folder])
    if into:
        documents = {path: lang or _language(path) for path in documents_in(into)}
        paths = fill(documents, folder, say=note)
    elif inside(folder):
        paths = bundle_report(folder, out or folder / "report", lang or "en", where, say=note)
    else:
        paths = make(folder, out or folder / "report", made, lang or "en", where, say=note)
    if lang == "ko" and not into and korean_font() is None:
        note("no Korean font found here (such as Noto Sans CJK KR): words in figures are English")
    if as_json:
        print_json({"files": [str(path) for path in paths]})
        return
    if verbose or into:
        for path in paths:
            typer.echo(f"wrote {path}")
    if not into:
        typer.echo(f"wrote {len(paths)} files to {paths[-1].parent}; open {paths[-1]}")


@app.command(epilog="Example: ascender lab pack lab/paper --out results")
def pack(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Of `lab run --out`.")],
    out: Annotated[Path, typer.Option(help="The store; trials that it has are kept.")],
) -> None:
    """Add the finished trials of DIR, without checkpoints, to one compressed store.

    A trial that several suites name is stored once. `ascender lab report` reads the store.
    """
    from ascender.lab.pack import pack as add

    check_out(out, folder=True)
    paths = add(folder, out, say=note)
    typer.echo(f"wrote {len(paths)} files to {out}; {paths[-1]} has the trials")


def _import_named_in(folders: Sequence[Path]) -> None:
    """The tasks and attentions that records name by module:Class."""
    from ascender.lab.reports.source import NoTrial, read

    for folder in folders:
        with suppress(NoTrial):
            for record in read(folder, say=note).records:
                import_named(record["run"]["task"], record["run"]["variant"])


def _language(document: Path) -> str:
    """README.ko.md is Korean."""
    return "ko" if ".ko" in document.suffixes else "en"


def _show(found: Sequence[tuple[Any, Path]], as_json: bool) -> None:
    """The table of each suite; as JSON the rows, of several suites by their names."""
    from ascender.lab.judge import compare, on_validation
    from ascender.lab.store import Store

    rows = {}
    for made, folder in found:
        records: list[Any] = Store(folder, note).records(made)
        if made.tuning:
            records = [on_validation(r) for r in records]
        if not records:
            note(f"{made.name}: no trial is done yet")
            continue
        judged = {(c.task, c.variant): c for c in compare(made, records)}
        if as_json:
            rows[made.name] = _rows(records, judged)
        else:
            _table(made, records, judged)
    if rows:
        print_json(rows if len(found) > 1 else next(iter(rows.values())))


def _rows(records: Any, judged: Any) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from ascender.lab.judge import conditions

    return [
        {
            "task": cell.task, "variant": cell.variant, **asdict(cell.summary),
            "floor": cell.records[0]["floor"],
            "comparison": asdict(judged[cell.task, cell.variant])
            if (cell.task, cell.variant) in judged else None,
        }
        for cell in conditions(records)
    ]  # fmt: skip


def _table(made: Any, records: Any, judged: Any) -> None:
    from ascender.lab.judge import conditions

    table = Table(title=f"{made.name}: {made.claim}")
    scored = "validation" if made.tuning else "test"
    for name in ("task", "variant", f"{scored}, mean ± sd (n)", "floor", f"− {made.baseline} [95%]",
                 "p (Holm)", "verdict"):  # fmt: skip
        table.add_column(name)
    for cell in conditions(records):
        s, c = cell.summary, judged.get((cell.task, cell.variant))
        spread = "" if s.sd is None else f" ± {s.sd:.4f}"
        row = [cell.task, cell.variant, f"{s.mean:.4f}{spread} ({s.n})",
               f"{cell.records[0]['floor']:.4f}"]  # fmt: skip
        table.add_row(*(escape(text) for text in [*row, *_compared(c)]))
    show(table)


def _compared(c: Any) -> list[str]:
    if c is None:
        return ["", "", ""]
    within = c.by_seed.interval
    span = "" if within is None else f" [{within.low:+.4f}, {within.high:+.4f}]"
    if c.p is None:
        return [f"{c.by_seed.mean:+.4f}{span}", "", "not judged"]
    return [f"{c.by_seed.mean:+.4f}{span}", f"{c.p:.3f}", c.verdict]
