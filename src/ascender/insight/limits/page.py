"""The report of `ascender limits`: index.html and the files beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.insight.limits import figures, tables
from ascender.insight.limits.measure import Measured
from ascender.insight.limits.monitor import guideline
from ascender.insight.limits.strings import STRINGS
from ascender.insight.limits.summary import advice, compared, of, summary, verdict
from ascender.report.figure import save_figure, style
from ascender.report.page import (
    Items,
    PageFigure,
    Paragraph,
    ReportPage,
    Section,
    Subheading,
    render,
)
from ascender.report.strings import Pair, joined, languages
from ascender.report.table import markdown


def report(
    measured: Measured, out: Path, other: Measured | None = None, lang: str = "en",
    asked: dict[str, Any] | None = None, paired: bool = False,
) -> list[Path]:  # fmt: skip
    """limits.json and limits.md (means over heads), rows.json and heads.csv (every head), figures,
    index.html."""
    languages(lang)
    models = [measured, *([other] if other else [])]
    kept = [summary(m) for m in models]
    said = None if other is None else verdict(compared(measured, other, paired))
    written = [
        write(out / "limits.json", _json({"asked": asked or {}, "models": kept, "verdict": said})),
        write(out / "rows.json", json.dumps([m.asdict() for m in models])),
        write(out / "heads.csv", tables.heads_csv(models)),
        write(out / "limits.md", document(kept, said, advice(measured))),
    ]
    drawn: list[PageFigure] = []

    def keep(figure: Any, name: str, kind: str, more: str = "") -> None:
        files = save_figure(figure, out, name)
        written.extend(files)
        svg = (out / f"{name}.svg").read_text(encoding="utf-8")
        caption = joined(STRINGS[f"caption.{kind}"], (more, more))
        drawn.append(PageFigure(name, svg, caption, tuple(path.name for path in files)))

    with style():
        if other is not None:
            keep(figures.compare(measured, other, lang), "compare", "compare")
        for i, m in enumerate(models):
            for name, draw in figures.FIGURES.items():
                label, more = (name, "") if i == 0 else (f"{name}-other", " (2)")
                keep(draw(m, lang), label, name, more)
    page = _page(models, kept, said, drawn)
    return [*written, write(out / "index.html", render(page, lang))]


def document(kept: Sequence[dict[str, Any]], said: str | None, advised: Sequence[Pair] = ()) -> str:
    """The tables as Markdown, at the end the advice."""
    parts = [f"# {STRINGS.text('title.page', 'en')}\n"]
    if said is not None:
        parts += [said + "\n", markdown(tables.side_by_side(*kept))]
    for stored in kept:
        parts.append(f"## {escape(stored['name'])}\n")
        for name, table in tables.tables_of(stored).items():
            parts += [f"{STRINGS.text(f'title.{name}', 'en')}\n", markdown(table(stored))]
    parts += [f"{en}\n" for en, _ in advised]
    return "\n".join(parts)


def _page(
    models: Sequence[Measured], kept: Sequence[dict[str, Any]], said: str | None,
    drawn: Sequence[PageFigure],
) -> ReportPage:  # fmt: skip
    title = STRINGS.section("title")
    names = " · ".join(m.name for m in models)
    sections = []
    if said is not None:
        both = (Paragraph((said, said)), tables.side_by_side(*kept))
        sections.append(Section(("", ""), both))
    for m in models:
        warnings = tuple((line, line) for line in guideline(of(m), m.flocks)) or (title["none"],)
        guide = (Subheading(title["warnings"]), Items(warnings))
        sections.append(Section((m.name, m.name), guide))
    defined = STRINGS.section("definition")
    if not any(m.flocks for m in models):
        del defined["flock"]
    definitions = Items(tuple(defined.values()), "soft")
    sections.append(Section(title["figures"], tuple(drawn), "figures"))
    for stored in kept:
        suffix = f": {stored['name']}"
        heading = joined(title["tables"], (suffix, suffix))
        model_tables = tuple(table(stored) for table in tables.tables_of(stored).values())
        sections.append(Section(heading, model_tables, folded=True))
    sections.append(Section(title["definitions"], (definitions,)))
    said_first = tuple(Paragraph(pair, "said") for pair in advice(models[0]))
    above = f"ASCender · {names} · arXiv 2508.17821"
    return ReportPage(
        f"{title['page'][0]} · {names}", title["page"], said_first, tuple(sections), (above, above)
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
