"""The report of one suite: raw rows, tables, figures, methods and a page."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.lab.reports import attention_maps, figures, head_figures
from ascender.lab.reports.methods import methods
from ascender.lab.reports.model_insight import insight_tables, measured
from ascender.lab.reports.non_inferiority import costs, inferiority
from ascender.lab.reports.opening import ordered
from ascender.lab.reports.source import ReportSource, raw, read
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_page import suite_page
from ascender.lab.reports.suite_results import DRAWS, SuiteResults
from ascender.lab.reports.tables import summary, tables, tuning
from ascender.lab.store import PACKED, packed_bytes, read_packed
from ascender.lab.suite import Suite
from ascender.report.figure import Label, labels, save_figure, style
from ascender.report.page import PageFigure
from ascender.report.strings import Pair, languages
from ascender.report.table import Table, as_csv, latex, markdown_section

FIGURES: dict[str, Callable[[SuiteResults, Label], Any]] = {
    "pareto": figures.pareto, "deltas": figures.deltas, "heads": head_figures.heads,
    "roles": head_figures.roles, "grouping": head_figures.grouping, "length": figures.length,
    "curves": figures.curves, "omega": figures.omegas,
}  # fmt: skip
OF_TEST_SCORES = ("pareto", "deltas", "length")
OPTIONAL = ("roles", "grouping")  # left out without a word where a suite does not ask for them
REASONS = {"deltas": "no_judged", "length": "no_lengths", "heads": "no_heads", "omega": "no_omega"}


def report(
    folder: Path, out: Path, suite: Suite | None = None, lang: str = "en",
    data_dir: str | None = None, draws: int = DRAWS, say: Callable[[str], None] = warnings.warn,
) -> list[Path]:  # fmt: skip
    """Write the report of a store into a folder; the files written, the page last."""
    results = SuiteResults.of(read(folder, suite, say), draws)
    return write_suite_report(results, all_tables(results), out, lang, data_dir)


def write_suite_report(
    results: SuiteResults, tables: Sequence[Table], out: Path, lang: str, data_dir: str | None
) -> list[Path]:
    """Raw rows, tables, methods, figures and the page."""
    written = _raw_files(results.source, out)
    for table in tables:
        written += table_files(table, out, lang)
    for each in languages(lang):
        written.append(write(out / f"methods{_suffix(each)}.md", methods(results, each)))
    drawn, left_out, paths = draw_all(results, out / "figures", lang, data_dir)
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
        return [tuning(results)]
    made = [
        summary(results),
        *tables(results),
        inferiority(results),
        costs(results),
    ]
    if wanted is None or not set(wanted) <= {table.name for table in made}:
        made += insight_tables(measured(results), results.sheet.baseline, results.sheet.rule)
    return ordered([table for table in made if table.rows], results)


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
    results: SuiteResults, folder: Path, lang: str = "en", data_dir: str | None = None
) -> tuple[list[PageFigure], list[Pair], list[Path]]:
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
            keep("maps", attention_maps.draw(maps, label), "maps", **where)
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
                lengths = ", ".join(figures.LENGTHS)
                left_out.append(STRINGS.pair(f"left_out.{REASONS[name]}", names=lengths))
    return drawn, left_out, paths


def keep_figure(
    figure: Any, folder: Path, name: str, caption: str, **fields: Any
) -> tuple[list[Path], PageFigure]:
    """Save a figure; (its files, the figure for the page)."""
    files = save_figure(figure, folder, name)
    svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
    links = tuple(f"{folder.name}/{path.name}" for path in files)
    return files, PageFigure(name, svg, STRINGS.pair(f"caption.{caption}", **fields), links)
