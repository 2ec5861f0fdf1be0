"""Run a suite, show its table, write its report: the functions behind `ascender lab`.

from ascender import lab
result = lab.run("quick", "lab/quick", seeds=3)      # resumable: the same call continues
result.tables[0].rows                                # a dict per task and variant
lab.report("lab/quick")                              # the files written, the page last
lab.write_paper("lab/quick", "paper")                # main.tex, main.pdf, figures, numbers.csv
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ascender.common.user_code import import_code, is_code
from ascender.common.validate import lookup
from ascender.lab.bundle import Bundle, inside, places
from ascender.lab.store import Store
from ascender.lab.suite import Suite
from ascender.lab.suite import suite as find_suite
from ascender.tasks import code_named

Say = Callable[[str], None]


@dataclass(frozen=True)
class SuiteTable:
    """The finished trials of a suite, a row per task and variant: the summary over seeds, the
    chance level, and the comparison with the baseline (None: it is a baseline)."""

    suite: Suite
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class RunResult:
    """The tables of the suites that were run, and a line for every trial that failed."""

    tables: list[SuiteTable]
    failures: list[str]


def run(
    suite: str | Suite | Bundle, out: str | Path, *, seeds: int | None = None,
    workers: int | None = None, engine: str = "local", address: str | None = None,
    budget: str | None = None, data_dir: str | Path | None = None,
    slurm: Mapping[str, str | int] | None = None, costs_device: str | None = None,
    say: Say = print,
) -> RunResult:  # fmt: skip
    """Run the trials that are not finished yet.

    suite     by name, by the path of its file, or itself     seeds    0 … seeds − 1
    workers   trials at a time; default: one per core          budget   only what fits: "1h30m"
    engine    "local", "ray" (`address`: of a cluster) or "slurm" (`slurm`: options of sbatch)
    costs_device    where the costs of layers are measured, for suites that ask for them: "cuda";
                    default: the CPU. Trials run on the GPU where torch sees one.
    """
    from ascender.measure.device import find

    on = None if costs_device is None else find(costs_device)
    from ascender.lab.plan import Budget

    who = _engine(engine, workers, address, slurm)
    until = None if budget is None else Budget.of(budget)
    where = None if data_dir is None else str(data_dir)
    suites = places(_suite(suite), Path(out), seeds)
    failures = [
        line
        for one, folder in suites
        for line in _run_suite(one, folder, who, until, where, on, say)
    ]
    return RunResult(_tables(suites, say), failures)


def show(
    suite: str | Suite | Bundle, out: str | Path, *, seeds: int | None = None, say: Say = print
) -> list[SuiteTable]:
    """The tables of the trials that are finished so far."""
    return _tables(places(_suite(suite), Path(out), seeds, make=False), say)


def report(
    folder: str | Path, out: str | Path | None = None, *, suite: str | Suite | None = None,
    lang: str | None = None, data_dir: str | Path | None = None, into: Sequence[str | Path] = (),
    trust_code: bool = False, shared_scale: bool = False, say: Say = print,
) -> list[Path]:  # fmt: skip
    """Write tables, figures, methods and a page from the finished trials; the files written, the
    page last. `into`: only fill the marked tables of these documents (NAME.ko.md in Korean).
    shared_scale: one colour scale for the attention maps of figure 1 instead of one a term."""
    from ascender.lab.reports import bundle_report, documents_in, fill
    from ascender.lab.reports import report as write_report

    folder = Path(folder)
    out = folder / "report" if out is None else Path(out)
    where = None if data_dir is None else str(data_dir)
    if trust_code:
        _import_named_in(inside(folder) or [folder], say)
    if into:
        documents = documents_in([Path(path) for path in into])
        return fill({path: lang or _language(path) for path in documents}, folder, say=say)
    if inside(folder):
        return bundle_report(folder, out, lang or "en", where, say=say, shared_scale=shared_scale)
    of = None if suite is None else _suite(suite)
    return write_report(folder, out, of, lang or "en", where, say=say, shared_scale=shared_scale)


def write_paper(
    folder: str | Path, out: str | Path, *, lang: str = "en", text_file: str | Path | None = None,
    with_pdf: bool | None = None, with_markdown: bool = False, with_docx: bool = False,
    data_dir: str | Path | None = None, say: Say = print,
) -> list[Path]:  # fmt: skip
    """Write the paper of a suite's or bundle's folder, or of the store `results`; return its files.

    lang         "en" (main.tex), "ko" (main.ko.tex) or "both"
    text_file    the author's YAML (`ascender paper --template`)
    with_pdf     True: an error where TeX is missing; False: no PDF; None: where TeX is installed
    """
    from ascender.lab.paper.build import build

    return build(
        Path(folder), Path(out), lang, None if text_file is None else Path(text_file),
        with_pdf=with_pdf, with_markdown=with_markdown, with_docx=with_docx,
        data_dir=None if data_dir is None else str(data_dir), say=say,
    )  # fmt: skip


def _suite(suite: str | Suite | Bundle) -> Any:
    return find_suite(suite) if isinstance(suite, str) else suite


def _engine(
    name: str, workers: int | None, address: str | None, slurm: Mapping[str, str | int] | None
) -> Any:
    from ascender.lab.engine import ENGINES

    kind = lookup("engine", name, ENGINES)
    if address is not None and name != "ray":
        raise ValueError(f"address = {address!r} with engine {name}; expected --engine ray")
    if slurm and name != "slurm":
        first, value = next(iter(slurm.items()))
        raise ValueError(f"slurm {first}={value} with engine {name}; expected --engine slurm")
    if name == "slurm":  # submitit's own option, and those of sbatch
        options = {n if n == "timeout_min" else f"slurm_{n}": x for n, x in (slurm or {}).items()}
        return kind(workers, **options)
    return kind(workers, address) if name == "ray" else kind(workers)


def _run_suite(
    suite: Suite, folder: Path, engine: Any, budget: Any, data_dir: str | None, on: Any, say: Say
) -> list[str]:
    """The trials that fit into the budget, or all of them and then the costs. What failed."""
    from ascender.lab import costs, score_maps
    from ascender.lab.engine import finish
    from ascender.lab.progress import watched

    store = Store(folder, say)
    store.open(suite)
    for each in suite.runs:
        store.forgive(each.key)
    runs = _planned(suite, store, budget, engine.workers or 1, data_dir, say)
    with watched(suite, store, engine.workers or 1, say) as tick:
        finish(engine, store, runs, data_dir, tick, say)
    if budget is None and suite.costs is not None and costs.wanted(folder, suite.costs, on):
        where = on or costs.CPU
        costs.keep(folder, suite.costs, costs.measure(suite.costs, say, on=where), where)
    score_maps.keep(folder, store.records(suite), data_dir, say)
    errors = [(r, store.failures(r.key)) for r in suite.runs if not store.done(r.key)]
    return [
        f"failed: {r.task}, {r.variant}, seed {r.seed}: {lines[-1]}" for r, lines in errors if lines
    ]


def _planned(
    suite: Suite, store: Store, budget: Any, workers: int, data_dir: str | None, say: Say
) -> Any:
    """The trials that are left, within the budget where there is one."""
    left = store.open_trials(suite)
    if budget is None:
        return left
    from ascender.lab.plan import plan
    from ascender.train.display import clock

    planned = plan(suite, store, budget.left, workers, data_dir, say)
    fits = sum(run in left for run in planned.runs)
    say(f"{fits} trials fit into {budget.text} (about {clock(planned.seconds)})")
    for line in planned.left_out():
        say(line)
    return [run for run in left if run in planned.runs]


def _tables(suites: Sequence[tuple[Suite, Path]], say: Say) -> list[SuiteTable]:
    from ascender.lab.judge import compare, conditions, on_validation

    tables = []
    for suite, folder in suites:
        records: list[Any] = Store(folder, say).records(suite)
        if not records:
            say(f"{suite.name}: no trial is finished yet")
        if suite.tuning:
            records = [on_validation(r) for r in records]
        judged = {(c.task, c.variant): asdict(c) for c in compare(suite, records)}
        rows = [
            {
                "task": cell.task, "variant": cell.variant, **asdict(cell.summary),
                "chance": cell.records[0]["chance"],
                "comparison": judged.get((cell.task, cell.variant)),
            }
            for cell in conditions(records)
        ]  # fmt: skip
        tables.append(SuiteTable(suite, rows))
    return tables


def _import_named_in(folders: Sequence[Path], say: Say) -> None:
    """Import the tasks and attentions that records name by module:Class."""
    from ascender.lab.reports.source import NoTrial, read

    for folder in folders:
        with suppress(NoTrial):
            for record in read(folder, say=say).records:
                run = record["run"]
                for name in (run["task"], run["variant"].split("+")[0]):
                    if is_code(name):
                        import_code(name, here=True)
                for name in code_named(run["task"], run["options"]):
                    import_code(name, here=True)


def _language(document: Path) -> str:
    """README.ko.md is Korean."""
    return "ko" if ".ko" in document.suffixes else "en"
