"""index.html of a suite: one file, no network; every number leads to its trials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascender.lab.judge import Record
from ascender.lab.reports.opening import main_figure, sentence
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.report.page import (
    Block,
    Items,
    Links,
    Page,
    PageFigure,
    Paragraph,
    Section,
    Subheading,
    render,
)
from ascender.report.strings import LANGUAGES, Pair, languages
from ascender.report.table import Cell, Column, Table

VERDICTS = ("win", "tie", "loss", "unjudged")


def suite_page(
    results: SuiteResults, tables: Sequence[Table], figures: Sequence[PageFigure],
    left_out: Sequence[Pair], files: Sequence[str], lang: str,
) -> str:  # fmt: skip
    """The page in one language, or in both."""
    say = STRINGS.section("page")
    main = main_figure([figure.name for figure in figures], results)
    methods = "methods.ko.md" if languages(lang)[0] == LANGUAGES[1] else "methods.md"
    shown: list[Block] = [figure for figure in figures if figure.name != main]
    if left_out:
        shown += [Subheading(say["left_out"]), Items(tuple(left_out), "soft")]
    overview: list[Block] = [_counts(results), Paragraph(say["click"], "soft")]
    if results.remarks():
        overview += [Subheading(say["caveats"]), Items(tuple(results.remarks()))]
    targets = {"tables": "#tables", "figures": "#figures", "methods": methods, "files": "#files"}
    overview.append(Links(tuple((href, say[name]) for name, href in targets.items()), inline=True))
    page = Page(
        f"{results.sheet.name} · ASCender", sentence(results, tables),
        (Paragraph(_claim(results), "claim", say["claim"]),
         *(figure for figure in figures if figure.name == main)),
        (
            Section(_title(results), tuple(overview)),
            Section(say["tables"], tuple(tables), "tables"),
            Section(say["figures"], tuple(shown), "figures"),
            Section(say["files"], (Links(tuple((f, (f, f)) for f in files)),), "files"),
        ),
        above=(f"ASCender · {results.sheet.name}",) * 2,
        trials=[trial(r) for r in results.records], trial_words=say,
    )  # fmt: skip
    return render(page, lang)


def _claim(results: SuiteResults) -> Pair:
    sheet = results.sheet
    if not sheet.claim:
        return STRINGS.pair("page.no_claim")
    return sheet.claim, sheet.claim_ko or sheet.claim


def _title(results: SuiteResults) -> Pair:
    if results.sheet.against:
        return STRINGS.pair("page.own_verdicts")
    return STRINGS.pair("page.verdicts", baseline=results.sheet.baseline)


def _counts(results: SuiteResults) -> Table:
    """A row a variant: how many tasks of each verdict, and their trials."""
    rows = []
    for variant, count in results.counts().items():
        cells = [Cell(variant)]
        for verdict in VERDICTS:
            keys = tuple(
                r["key"]
                for c in results.conditions
                if c.variant == variant and results.verdict(c) == verdict
                for one in (c, results.base_of(c))
                if one is not None
                for r in one.records
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
