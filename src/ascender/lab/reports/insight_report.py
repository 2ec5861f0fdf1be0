"""The report of `ascender insight`: tables, figures and a page of models just measured.

OUT/index.html   OUT/tables/NAME.md .csv   OUT/figures/NAME.svg .png .pdf   OUT/insight.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.lab.reports import head_figures
from ascender.lab.reports.advice import advice
from ascender.lab.reports.model_insight import ModelInsight, insight_tables
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_report import keep_figure, table_files
from ascender.lab.verdict import DecisionRule
from ascender.report.figure import labels, style
from ascender.report.page import Page, PageFigure, Paragraph, Section, render
from ascender.report.strings import Pair, joined
from ascender.report.table import Table


def tables_of(models: Sequence[ModelInsight], baseline: str) -> list[Table]:
    """The tables, by the default decision rule."""
    return insight_tables(models, baseline, DecisionRule())


def save(
    models: Sequence[ModelInsight], out: Path, baseline: str, names: Mapping[str, Sequence[str]],
    lang: str = "en",
) -> list[Path]:  # fmt: skip
    """Write the report; the page last. The first of `models` is the subject; `names` are the names
    of the models of each variant."""
    tables = tables_of(models, baseline)
    text = json.dumps(as_json(models, tables, names), ensure_ascii=False, indent=1)
    written = [write(out / "insight.json", text + "\n")]
    for table in tables:
        written += table_files(table, out, lang, with_latex=False)
    drawn, paths = _figures(models, out / "figures", lang)
    title = f"{models[0].variant}, {models[0].task}"
    page = Page(
        f"{title} · ASCender", (title, title),
        (Paragraph(_models(models, names), "soft"),
         *(Paragraph(pair, "said") for pair in advice(models, names[models[0].variant][0]))),
        (
            Section(STRINGS["page.figures"], tuple(drawn), "figures"),
            Section(STRINGS["page.tables"], tuple(tables), "tables"),
        ),
        above=joined(("ASCender · ",) * 2, STRINGS["page.insight"]),
    )  # fmt: skip
    return [*written, *paths, write(out / "index.html", render(page, lang))]


def _models(models: Sequence[ModelInsight], names: Mapping[str, Sequence[str]]) -> Pair:
    own = ", ".join(names[models[0].variant])
    others = ", ".join(name for m in models[1:] for name in names[m.variant])
    if not others:
        return own, own
    return STRINGS.pair("page.beside", models=own, others=others)


def as_json(
    models: Sequence[ModelInsight], tables: Sequence[Table], names: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """What was measured of each model, and the tables in full."""
    return {
        "task": models[0].task,
        "models": [
            {"variant": m.variant, "model": name, "seed": seed, **f}
            for m in models
            for name, seed, f in zip(names[m.variant], m.seeds, m.found, strict=True)
        ],
        "tables": {
            table.name: [
                {name: dict(cell.data) or cell.value for name, cell in row.items()}
                for row in table.records()
            ]
            for table in tables
        },
        "advice": [en for en, _ in advice(models, names[models[0].variant][0])],
    }


def _figures(
    models: Sequence[ModelInsight], folder: Path, lang: str
) -> tuple[list[PageFigure], list[Path]]:
    """(the figures there is data for, their files)."""
    label, first = labels(STRINGS, lang), models[0]
    drawn: list[PageFigure] = []
    paths: list[Path] = []

    def keep(name: str, caption: str, figure: Any) -> None:
        files, kept = keep_figure(figure, folder, name, caption, variant=first.variant)
        paths.extend(files)
        drawn.append(kept)

    with style():
        if first.ruled:
            keep("heads", "heads_measured", head_figures.head_maps([first], label))
            keep("roles", "roles", head_figures.role_bars([first], label))
        if any(m.groups() for m in models):
            keep("grouping", "grouping", head_figures.group_bars(models, label))
    return drawn, paths
