"""The reports of a bundle's suites, and a page that leads to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascender.files import write
from ascender.lab.report import words
from ascender.lab.report.page import SUMS, template
from ascender.lab.report.study import Study
from ascender.lab.report.table import Table, as_html

TEMPLATE = "several.html.j2"


def overview(studies: Sequence[Study], judged: Table | None, lang: str) -> str:
    """What came out of the claims; then a row a suite: its claim, how far it is, verdicts of the
    variant with the rules."""
    both = words.langs(lang)
    rows: list[dict[str, Any]] = []
    for study in studies:
        sheet, ruled = study.sheet, study.ruled()
        claims = [sheet.claim_ko or sheet.claim if one == "ko" else sheet.claim for one in both]
        rows.append({
            "name": sheet.name, "claims": list(dict.fromkeys(claims)),
            "done": len(study.records), "all": len(sheet.trials) or len(study.records),
            "ruled": ruled or "", "counts": study.counts().get(ruled or "", {}),
        })  # fmt: skip
    said = {name: [words.pick(pair, one) for one in both] for name, pair in words.PAGE.items()}
    verdicts = {v: [words.pick(words.VERDICTS[v], one) for one in both] for v in SUMS}
    top = {} if judged is None else {
        "claims": as_html(judged, both, lambda key: 0),
        "title": [judged.title(one) for one in both], "note": [judged.note(one) for one in both],
    }  # fmt: skip
    return template(TEMPLATE).render(
        langs=both, say=said, rows=rows, sums=SUMS, verdicts=verdicts, top=top
    )


def keep(studies: Sequence[Study], judged: Table | None, out: Path, lang: str) -> Path:
    return write(out / "index.html", overview(studies, judged, lang))
