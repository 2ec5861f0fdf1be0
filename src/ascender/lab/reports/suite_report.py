"""The report of one suite: raw rows, tables, figures, methods and a page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.lab.judge import Record
from ascender.lab.reports import (
    attention_maps,
    curve_figures,
    figures,
    head_figures,
    length_figures,
)
from ascender.lab.reports.methods import methods
from ascender.lab.reports.model_insight import insight_tables, measured
from ascender.lab.reports.opening import main_figure, ordered, sentence
from ascender.lab.reports.source import ReportSource, raw, read
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import DRAWS, SuiteResults
from ascender.lab.reports.tables import TABLES, costs, table
from ascender.lab.store import PACKED, packed_bytes, read_packed
from ascender.lab.suite import Suite
from ascender.report import page as blocks
from ascender.report.figure import Label, labels, save_figure, style
from ascender.report.page import PageFigure, ReportPage, Section, render
from ascender.report.strings import LANGUAGES, Pair, languages
from ascender.report.table import Cell, Column, Table, as_csv, latex, markdown_section

VERDICTS = ("win", "tie", "loss", "unjudged")
FIGURES: dict[str, Callable[[SuiteResults, Label], Any]] = {
    "pareto": figures.pareto, "layer_pareto": length_figures.layer_pareto,
    "deltas": figures.deltas, "heads": head_figures.heads, "roles": head_figures.roles,
    "grouping": head_figures.grouping, "length": length_figures.length,
    "layer_costs": length_figures.layer_costs, "curves": curve_figures.curves,
    "omega": curve_figures.omegas,
}  # fmt: skip
OF_TEST_SCORES = ("pareto", "layer_pareto", "deltas", "length")
OPTIONAL = (
    "layer_pareto",
    "roles",
    "grouping",
    "layer_costs",
)  # left out without a word where a suite does not ask for them
REASONS = {"deltas": "no_judged", "length": "no_lengths", "heads": "no_heads", "omega": "no_omega"}


def report(
    folder: Path, out: Path, suite: Suite | None = None, lang: str = "en",
    data_dir: str | None = None, draws: int = DRAWS, say: Callable[[str], None] = warnings.warn,
    shared_scale: bool = False,
) -> list[Path]:  # fmt: skip
    """Write the report of a store into a folder; the files written, the page last. shared_scale:
    the maps of figure 1 have one colour scale instead of one a term."""
    results = SuiteResults.of(read(folder, suite, say), draws)
    return write_suite_report(results, all_tables(results), out, lang, data_dir, shared_scale)


def write_suite_report(
    results: SuiteResults, tables: Sequence[Table], out: Path, lang: str, data_dir: str | None,
    shared_scale: bool = False,
) -> list[Path]:  # fmt: skip
    """Raw rows, tables, methods, figures and the page."""
    drawn, left_out, paths = draw_all(results, out / "figures", lang, data_dir, shared_scale)
    written = _raw_files(results.source, out)  # with the maps that were drawn
    for one in tables:
        written += table_files(one, out, lang)
    for each in languages(lang):
        written.append(write(out / f"methods{_suffix(each)}.md", methods(results, each)))
    written += paths
    files = [path.relative_to(out).as_posix() for path in written]
    text = suite_page(results, tables, drawn, left_out, files, lang)
    return [*written, write(out / "index.html", text)]


def table_files(table: Table, out: Path, lang: str, with_latex: bool = True) -> list[Path]:
    """NAME.csv, and NAME.md with NAME.tex in each language."""
    folder = out / "tables"
    paths = [write(folder / f"{table.name}.csv", as_csv(table))]
    for each in languages(lang):
        name = f"{table.name}{_suffix(each)}"
        paths.append(write(folder / f"{name}.md", markdown_section(table, each)))
        if with_latex:
            paths.append(write(folder / f"{name}.tex", latex(table, each)))
    return paths


def all_tables(results: SuiteResults, wanted: Collection[str] | None = None) -> list[Table]:
    """Every table with a row, those of the suite's subject first; for a tuning suite only the
    validation scores. `wanted` names the tables that are needed: those of the trained models, which
    take longest, are left out where none of them is."""
    if results.sheet.tuning:
        return [table("tuning", results)]
    tables = [*(table(name, results) for name in TABLES if name != "tuning"), costs(results)]
    if wanted is None or not set(wanted) <= {one.name for one in tables}:
        tables += insight_tables(measured(results), results.sheet.baseline, results.sheet.rule)
    return ordered([one for one in tables if one.rows], results)


def _suffix(lang: str) -> str:
    return ".ko" if lang == "ko" else ""


def _raw_files(source: ReportSource, out: Path) -> list[Path]:
    """A report into the folder of its store adds to the packed trials and keeps the sheet."""
    files = raw(source)
    if out.resolve() == source.folder.resolve():
        own = out / PACKED
        packed = read_packed(own).values() if own.exists() else ()
        files = {PACKED: packed_bytes([*packed, *source.records])}
    return [write(out / name, data) for name, data in files.items()]


def draw_all(
    results: SuiteResults, folder: Path, lang: str = "en", data_dir: str | None = None,
    shared_scale: bool = False,
) -> tuple[list[PageFigure], list[Pair], list[Path]]:  # fmt: skip
    """(figures drawn, reasons why others were not, files)."""
    drawn: list[PageFigure] = []
    left_out: list[Pair] = []
    paths: list[Path] = []
    label = labels(STRINGS, lang)
    fields: dict[str, Any] = {"baseline": results.sheet.baseline, "variant": results.ruled()}

    def keep(name: str, figure: Any, caption: str, **more: Any) -> None:
        files, kept = keep_figure(figure, folder, name, caption, **{**fields, **more})
        paths.extend(files)
        drawn.append(kept)

    with style():
        try:
            maps = attention_maps.maps(results, data_dir)
            where = {n: getattr(maps, n) for n in ("task", "variant", "seed", "layer", "head")}
            caption = "maps_shared" if shared_scale else "maps"
            keep("maps", attention_maps.draw(maps, label, shared_scale), caption, **where)
        except (OSError, ValueError, ModuleNotFoundError) as error:
            left_out.append(STRINGS.pair("left_out.no_model", error=error))
        for name, draw in FIGURES.items():
            if results.sheet.tuning and name in OF_TEST_SCORES:
                continue
            figure = draw(results, label)
            if figure is not None:
                with_effects = name == "heads" and any(m.ruled for m in measured(results))
                keep(name, figure, "heads_measured" if with_effects else name)
            elif name not in OPTIONAL:
                left_out.append(STRINGS.pair(f"left_out.{REASONS[name]}"))
    return drawn, left_out, paths


def keep_figure(
    figure: Any, folder: Path, name: str, caption: str, **fields: Any
) -> tuple[list[Path], PageFigure]:
    """Save a figure; (its files, the figure for the page)."""
    files = save_figure(figure, folder, name)
    svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
    links = tuple(f"{folder.name}/{path.name}" for path in files)
    return files, PageFigure(name, svg, STRINGS.pair(f"caption.{caption}", **fields), links)


# --- the page


def suite_page(
    results: SuiteResults, tables: Sequence[Table], figures: Sequence[PageFigure],
    left_out: Sequence[Pair], files: Sequence[str], lang: str,
) -> str:  # fmt: skip
    """The page in one language, or in both."""
    say, sheet = STRINGS.section("page"), results.sheet
    main = main_figure([figure.name for figure in figures], results)
    methods = "methods.ko.md" if languages(lang)[0] == LANGUAGES[1] else "methods.md"
    shown: list[blocks.Block] = [figure for figure in figures if figure.name != main]
    if left_out:
        shown += [blocks.Subheading(say["left_out"]), blocks.Items(tuple(left_out), "soft")]
    overview: list[blocks.Block] = [_counts(results), blocks.Paragraph(say["click"], "soft")]
    if results.remarks():
        overview += [blocks.Subheading(say["caveats"]), blocks.Items(tuple(results.remarks()))]
    targets = {"tables": "#tables", "figures": "#figures", "methods": methods, "files": "#files"}
    overview.append(
        blocks.Links(tuple((href, say[name]) for name, href in targets.items()), inline=True)
    )
    title = STRINGS.pair("page.verdicts", baseline=sheet.baseline)
    if sheet.against:
        title = say["own_verdicts"]
    page = ReportPage(
        f"{sheet.name} · ASCender", sentence(results, tables),
        (blocks.Paragraph(sheet.claims if sheet.claim else say["no_claim"], "claim", say["claim"]),
         *(figure for figure in figures if figure.name == main)),
        (
            Section(title, tuple(overview)),
            Section(say["tables"], tuple(tables), "tables", folded=True),
            Section(say["figures"], tuple(shown), "figures"),
            Section(
                say["files"], (blocks.Links(tuple((f, (f, f)) for f in files)),), "files",
                folded=True,
            ),
        ),
        above=(f"ASCender · {sheet.name}",) * 2,
        trials=[trial(r) for r in results.records], trial_words=say,
    )  # fmt: skip
    return render(page, lang)


def _counts(results: SuiteResults) -> Table:
    """A row a variant: how many tasks of each verdict, and their trials."""
    rows = []
    for variant, count in results.counts().items():
        cells = [Cell(variant)]
        for verdict in VERDICTS:
            keys = tuple(
                key
                for c in results.conditions
                if c.variant == variant and results.verdict(c) == verdict
                for one in (c, results.base_of(c))
                if one is not None
                for key in one.keys
            )
            cells.append(Cell(str(count[verdict]), keys))
        rows.append(tuple(cells))
    columns = (
        Column("variant", ("", ""), True, True),
        *(Column(v, STRINGS.pair(f"verdict.{v}")) for v in VERDICTS),
    )
    return Table("counts", columns, tuple(rows))


def trial(record: Record) -> dict[str, Any]:
    """What the page says of a trial."""
    run = dict(record["run"])
    return {
        "task": run.pop("task"), "variant": run.pop("variant"), "seed": run.pop("seed"),
        "value": record["test"]["value"], "metric": record["metric"], "key": record["key"],
        "settings": run,
    }  # fmt: skip
