"""The report of a bundle: one of each suite, its claims, and a page that leads to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

from ascender.common.files import write
from ascender.lab.bundle import CLAIMS, claimed, inside
from ascender.lab.reports.claims import claims
from ascender.lab.reports.opening import claims_sentence, main_figure, sentence
from ascender.lab.reports.source import NoTrial, read
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_report import all_tables, table_files, write_suite_report
from ascender.lab.reports.suite_results import DRAWS, SuiteResults
from ascender.report.page import Block, Page, PageFigure, Paragraph, Section, render
from ascender.report.strings import Pair
from ascender.report.table import Table


def bundle_report(
    folder: Path, out: Path, lang: str = "en", data_dir: str | None = None, draws: int = DRAWS,
    say: Callable[[str], None] = lambda line: None,
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
        paths += write_suite_report(results, tables, out / name, lang, data_dir)
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
    """The suites of a bundle's folder that have a finished trial, by name."""
    suite_results = {}
    for place in inside(folder):
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
            Paragraph((sheet.claim, sheet.claim_ko or sheet.claim), "soft", STRINGS["page.claim"]),
            Paragraph(trials, "soft"),
        )
        sections.append(Section((name, name), blocks, href=f"{name}/index.html"))
    heading = ("ASCender", "ASCender") if judged is None else claims_sentence(judged)
    shown = () if figure is None else (figure,)
    return render(Page("ASCender", heading, shown, tuple(sections)), lang)


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
