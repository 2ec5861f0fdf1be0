"""The report of a bundle: one of each suite, its claims, and a page that leads to them; and the
lab's tables inside documents (`ascender lab report … --into`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ascender.common.files import write
from ascender.lab.bundle import CLAIMS, claimed, inside
from ascender.lab.reports.claims import claims
from ascender.lab.reports.opening import claims_sentence, main_figure, sentence
from ascender.lab.reports.source import NoTrial, read
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_report import all_tables, table_files, write_suite_report
from ascender.lab.reports.suite_results import DRAWS, SuiteResults
from ascender.report.blocks import block_names, fill_document
from ascender.report.page import Block, PageFigure, Paragraph, ReportPage, Section, render
from ascender.report.strings import Pair
from ascender.report.table import Table, markdown


def bundle_report(
    folder: Path, out: Path, lang: str = "en", data_dir: str | None = None, draws: int = DRAWS,
    say: Callable[[str], None] = lambda line: None, shared_scale: bool = False,
) -> list[Path]:  # fmt: skip
    """Write the reports of all suites with a finished trial, the claims, and the page; the files
    written, the page last."""
    _, stated = claimed(folder)  # read first: a damaged file is named before the long work
    suite_results = read_suites(folder, draws, say)
    paths, verdicts = [], {}
    for i, (name, results) in enumerate(suite_results.items()):
        say(f"report {i + 1} of {len(suite_results)}: {name}, {len(results.records)} trials")
        tables = all_tables(results)
        verdicts[name] = sentence(results, tables)
        paths += write_suite_report(results, tables, out / name, lang, data_dir, shared_scale)
    judged = claims(stated, suite_results) if stated else None
    if judged:
        paths.append(write(out / CLAIMS, (folder / CLAIMS).read_text(encoding="utf-8")))
        paths += table_files(judged, out, lang)
    figure = _main_figure(suite_results, verdicts, judged, out)
    text = bundle_page(suite_results, verdicts, judged, lang, figure)
    return [*paths, write(out / "index.html", text)]


def read_suites(
    folder: Path, draws: int = DRAWS, say: Callable[[str], None] = warnings.warn
) -> dict[str, SuiteResults]:
    """The suite of a folder, or those of a bundle's that have a finished trial, by name."""
    suite_results = {}
    for place in inside(folder) or [folder]:
        try:
            results = SuiteResults.of(read(place, None, say), draws)
        except NoTrial:
            continue
        suite_results[results.sheet.name] = results
    if not suite_results:
        raise ValueError(f"no finished trial in {folder}")
    return suite_results


def bundle_page(
    suite_results: Mapping[str, SuiteResults], verdicts: Mapping[str, Pair], judged: Table | None,
    lang: str, figure: PageFigure | None = None,
) -> str:  # fmt: skip
    """The claims with a figure, then a section a suite: its verdict, its claim and how many of its
    trials are finished."""
    sections = [] if judged is None else [Section(("", ""), (judged,))]
    for name, results in suite_results.items():
        sheet, done = results.sheet, len(results.records)
        trials = STRINGS.pair("page.trials_done", n=done, all=len(sheet.trials) or done)
        blocks: tuple[Block, ...] = (
            Paragraph(verdicts[name]),
            Paragraph(sheet.claims, "soft", STRINGS["page.claim"]),
            Paragraph(trials, "soft"),
        )
        sections.append(Section((name, name), blocks, href=f"{name}/index.html"))
    heading = ("ASCender", "ASCender") if judged is None else claims_sentence(judged)
    shown = () if figure is None else (figure,)
    return render(ReportPage("ASCender", heading, shown, tuple(sections)), lang)


def _main_figure(
    suite_results: Mapping[str, SuiteResults], verdicts: Mapping[str, Pair], judged: Table | None,
    out: Path,
) -> PageFigure | None:  # fmt: skip
    """The main figure of the first suite that a claim names."""
    names = [cell.text for cell in judged.column("suite")] if judged else []
    for name in (name for name in names if name in suite_results):
        folder = out / name / "figures"
        main = main_figure([path.stem for path in folder.glob("*.svg")], suite_results[name])
        if main is not None:
            svg = (folder / f"{main}.svg").read_text(encoding="utf-8")
            return PageFigure(main, svg, verdicts[name])
    return None


# --- inside documents


def documents_in(paths: Iterable[Path]) -> list[Path]:
    """The documents themselves, and of folders those with a block of the lab."""
    documents: list[Path] = []
    for path in paths:
        documents += filter(_wanted, sorted(path.rglob("*.md"))) if path.is_dir() else [path]
    return documents


def _wanted(document: Path) -> list[str]:
    return block_names(document.read_text(encoding="utf-8"), "lab")


def fill(
    documents: Mapping[Path, str], folder: Path, draws: int = DRAWS,
    say: Callable[[str], None] = warnings.warn,
) -> list[Path]:  # fmt: skip
    """Update the blocks <!-- lab: SUITE TABLE --> of documents, each in its language, from a suite
    or from the suites and claims of a bundle. Blocks of other suites stay. All documents are
    written, or none where one asks for a table that does not exist."""
    wanted = {name for path in documents for name in _wanted(path)}
    bundle, stated = claimed(folder)
    suite_results = read_suites(folder, draws, say)
    tables: dict[str, Table] = {}
    for suite, results in suite_results.items():
        needed = {name.split()[1] for name in wanted if name.split()[0] == suite}
        if needed:
            tables |= {f"{suite} {table.name}": table for table in all_tables(results, needed)}
    if stated and f"{bundle} claims" in wanted:
        tables[f"{bundle} claims"] = claims(stated, suite_results)
    known = (bundle, *suite_results)
    texts = {
        path: fill_document(
            path, "lab", {name: markdown(table, lang) for name, table in tables.items()},
            others=lambda name: name.split()[0] not in known,
        )
        for path, lang in documents.items()
    }  # fmt: skip
    return [write(path, text) for path, text in texts.items()]
