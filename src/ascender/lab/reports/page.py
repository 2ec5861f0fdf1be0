"""index.html: one file, no network; every number leads to its trials."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascender.lab.judge import Record
from ascender.lab.reports.opening import main_figure, sentence
from ascender.lab.reports.strings import PAGE, VERDICTS, langs, pick
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.table import Table, as_html

HERE = Path(__file__).parent
TEMPLATE = "index.html.j2"
SUMS = ("win", "tie", "loss", "unjudged")


@dataclass(frozen=True)
class Drawn:
    """A figure that is there: its name, its SVG, captions by language."""

    name: str
    svg: str
    captions: Mapping[str, str]


def template(name: str) -> Any:
    """One of the templates beside this file."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f'the page needs {missing.name}; expected: pip install "ascender-attention[lab]"',
            name=missing.name,
        ) from None
    made = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return made.get_template(name)


def page(
    study: SuiteResults, tables: Sequence[Table], figures: Sequence[Drawn],
    left_out: Sequence[tuple[str, str]], files: Sequence[str], lang: str,
) -> str:  # fmt: skip
    """The page in one language, or in both."""
    both = langs(lang)
    places = {r["key"]: i for i, r in enumerate(study.records)}
    said = {name: [pick(pair, one) for one in both] for name, pair in PAGE.items()}
    title = PAGE["own_verdicts" if study.sheet.against else "verdicts"]
    said["verdicts"] = [pick(title, one, baseline=study.sheet.baseline) for one in both]
    opens, shown = sentence(study, tables), figures_of(figures, both)
    main = main_figure([f.name for f in figures], study)
    return template(TEMPLATE).render(
        langs=both, say=said, sheet=study.sheet, claims=_claims(study, both),
        verdict=[opens[one == "ko"] for one in both],
        main=[f for f in shown if f["name"] == main],
        counts=_counts(study, places), sums=SUMS,
        verdicts={v: [pick(VERDICTS[v], one) for one in both] for v in SUMS},
        remarks=[[r[one == "ko"] for one in both] for r in study.remarks()],
        left_out=[[r[one == "ko"] for one in both] for r in left_out],
        tables=[table_of(t, both, places) for t in tables],
        figures=[f for f in shown if f["name"] != main],
        trials=[trial(r) for r in study.records], files=files,
    )  # fmt: skip


def _claims(study: SuiteResults, both: Sequence[str]) -> list[str]:
    sheet = study.sheet
    if not sheet.claim:
        return [pick(PAGE["no_claim"], one) for one in both]
    said = [sheet.claim_ko or sheet.claim if one == "ko" else sheet.claim for one in both]
    return list(dict.fromkeys(said))


def _counts(study: SuiteResults, places: Mapping[str, int]) -> list[dict[str, Any]]:
    """A row a variant: how many tasks of each verdict, and their trials."""
    rows = []
    for variant, count in study.counts().items():
        of = {
            v: [
                places[r["key"]]
                for cell in study.cells
                if cell.variant == variant and study.verdict(cell) == v
                for one in (cell, study.base_of(cell))
                if one is not None
                for r in one.records
            ]
            for v in SUMS
        }
        rows.append({"variant": variant, "n": count, "at": of})
    return rows


def figures_of(figures: Sequence[Drawn], both: Sequence[str]) -> list[dict[str, Any]]:
    """Each inside the page, with its captions."""
    return [
        {"name": f.name, "svg": inline(f.svg, f"f{i}", f.captions[both[0]]),
         "captions": [f.captions[one] for one in both]}
        for i, f in enumerate(figures)
    ]  # fmt: skip


def table_of(table: Table, both: tuple[str, ...], places: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": table.name, "titles": [table.title(one) for one in both],
        "notes": [table.note(one) for one in both],
        "html": as_html(table, both, places.__getitem__),
    }  # fmt: skip


def trial(record: Record) -> dict[str, Any]:
    """What the page says of a trial."""
    run = dict(record["run"])
    return {
        "task": run.pop("task"), "variant": run.pop("variant"), "seed": run.pop("seed"),
        "value": record["test"]["value"], "metric": record["metric"], "key": record["key"],
        "settings": run,
    }  # fmt: skip


def inline(svg: str, prefix: str, label: str) -> str:
    """An SVG inside a page: no prolog, no metadata, names of its own, as wide as there is room."""
    from html import escape

    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.S)
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    head, rest = svg.split(">", 1)
    wide = re.search(r'width="([\d.]+)pt"', head)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    most = f' style="max-width:{float(wide[1]) * 1.6:.0f}px"' if wide else ""
    return f'{head} role="img" aria-label="{escape(label)}"{most}>{rest}'
