"""The reports of a bundle's suites, and a page that leads to them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.lab.reports import strings as words
from ascender.lab.reports.opening import main_figure, of_claims
from ascender.lab.reports.page import inline, template
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.table import Table, as_html

TEMPLATE = "several.html.j2"


def overview(
    studies: Mapping[str, SuiteResults], verdicts: Mapping[str, tuple[str, str]],
    judged: Table | None,
    lang: str, figure: str = "",
) -> str:  # fmt: skip
    """What came out of the claims, with a figure (SVG); then a row a suite: its claim, its verdict
    and how far it is."""
    both = words.langs(lang)
    rows: list[dict[str, Any]] = []
    for name, study in studies.items():
        sheet, said = study.sheet, verdicts[name]
        claims = [sheet.claim_ko or sheet.claim if one == "ko" else sheet.claim for one in both]
        rows.append({
            "name": name, "claims": list(dict.fromkeys(claims)),
            "done": len(study.records), "all": len(sheet.trials) or len(study.records),
            "verdict": [said[one == "ko"] for one in both],
        })  # fmt: skip
    named = {name: [words.pick(pair, one) for one in both] for name, pair in words.PAGE.items()}
    top: dict[str, Any] = {}
    if judged is not None:
        opens = of_claims(judged)
        top = {
            "verdict": [opens[one == "ko"] for one in both], "figure": figure,
            "claims": as_html(judged, both, lambda key: 0),
            "title": [judged.title(one) for one in both],
            "note": [judged.note(one) for one in both],
        }  # fmt: skip
    return template(TEMPLATE).render(langs=both, say=named, rows=rows, top=top)


def keep(
    studies: Mapping[str, SuiteResults], verdicts: Mapping[str, tuple[str, str]],
    judged: Table | None,
    out: Path, lang: str,
) -> Path:  # fmt: skip
    """With the main figure of the first suite that a claim names."""
    figure = _figure(studies, verdicts, judged, out)
    return write(out / "index.html", overview(studies, verdicts, judged, lang, figure))


def _figure(
    studies: Mapping[str, SuiteResults], verdicts: Mapping[str, tuple[str, str]],
    judged: Table | None,
    out: Path,
) -> str:  # fmt: skip
    asked = [row[judged.columns.index("suite")].text for row in judged.rows] if judged else []
    for name in (name for name in asked if name in studies):
        folder = out / name / "figures"
        main = main_figure([path.stem for path in folder.glob("*.svg")], studies[name])
        if main is not None:
            svg = (folder / f"{main}.svg").read_text(encoding="utf-8")
            return inline(svg, "main", verdicts[name][0])
    return ""
