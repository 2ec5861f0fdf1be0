"""The report of `ascender insight`: tables, figures and a page of models just measured.

OUT/index.html   OUT/tables/NAME.md .csv   OUT/figures/NAME.svg .png .pdf   OUT/insight.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ascender.common.files import write
from ascender.core.rules import RULES
from ascender.lab.reports import head_figures
from ascender.lab.reports.cells import number
from ascender.lab.reports.model_insight import ModelInsight, insight_tables
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_report import keep_figure, table_files
from ascender.lab.verdict import DecisionRule
from ascender.report.figure import labels, style
from ascender.report.page import PageFigure, Paragraph, ReportPage, Section, render
from ascender.report.strings import Pair, joined, listed, same
from ascender.report.table import Table

QUIET = 0.02  # of the attention: a rule that moves less is hardly there


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
    page = ReportPage(
        f"{title} · ASCender", (title, title),
        (Paragraph(_models(models, names), "soft"),
         *(Paragraph(pair, "soft") for pair in remarks(models)),
         *(Paragraph(pair, "said") for pair in advice(models, names[models[0].variant][0]))),
        (
            Section(STRINGS["page.figures"], tuple(drawn), "figures"),
            Section(STRINGS["page.tables"], tuple(tables), "tables", folded=True),
        ),
        above=joined(same("ASCender · "), STRINGS["page.insight"]),
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
            for name, seed, f in zip(names[m.variant], m.seeds, m.measurements, strict=True)
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


# --- remarks and advice


def remarks(models: Sequence[ModelInsight]) -> list[Pair]:
    """Which variants could only be measured in part."""
    return [
        STRINGS.pair("remark.no_scores", variant=m.variant) for m in models if m.left_out
    ]  # fmt: skip


def advice(models: Sequence[ModelInsight], model: str) -> tuple[Pair, Pair]:
    """(result, to do), each in English and Korean, of the first of `models`; `model` is the name of
    its first seed."""
    first = models[0]
    if not first.ruled:
        return _groups(first), _said("no_rules")
    moved = {rule: np.mean([np.array(f["moved"])[..., r] for f in first.measurements], axis=(0, 2))
             for r, rule in enumerate(first.rules)}  # fmt: skip
    means = {rule: float(by_layer.mean()) for rule, by_layer in moved.items()}
    loudest = max(means, key=lambda rule: means[rule])
    layer = int(moved[loudest].argmax())
    result = _said(
        "seen", rule=_name(loudest), share=f"{means[loudest]:.1%}", layer=layer,
        most=f"{moved[loudest][layer]:.1%}",
    )  # fmt: skip
    muted = _muted(first)
    result = joined(result, muted, same("."))
    own = np.array(first.measurements[0]["moved"])[..., first.rules.index(loudest)]
    at = {"layer": int(own.max(1).argmax()), "head": int(own[own.max(1).argmax()].argmax())}
    do = _said("look", model=model, rule=_name(loudest), **at)
    quiet = [rule for rule in RULES if moved[rule].max() < QUIET]
    if quiet and len(quiet) < len(RULES):
        rules = listed([_name(rule) for rule in quiet])
        variants = " ".join(f"--variant no-{rule}" for rule in quiet)
        do = joined(do, _said("quiet", rules=rules, share=f"{QUIET:.0%}", variants=variants))
    return result, joined(do, same("."))


def _muted(m: ModelInsight) -> Pair:
    """What muting each rule does to the score, where there is one."""
    if not all("score" in f for f in m.measurements):
        return "", ""
    lost = {
        rule: float(np.mean([f["score"][rule] - f["score"][""] for f in m.measurements]))
        for rule in m.rules
    }  # fmt: skip
    scores = [joined(_name(rule), same(f" {number(x, True)}")) for rule, x in lost.items()]
    return _said("muted", scores=listed(scores))


def _groups(m: ModelInsight) -> Pair:
    """Which source finds the groups best."""
    scores = {
        name: (np.mean([g["nmi"][0] for g in of]), np.mean([g["chance"][0] for g in of]))
        for name, of in m.groups().items()
    }
    if not scores:
        return _said("nothing", variant=m.variant)
    of, layer = max(scores, key=lambda name: scores[name][0])
    nmi, chance = scores[of, layer]
    return _said("groups", source=_name(f"of_{of}"), layer=layer, nmi=f"{nmi:.2f}",
                 chance=f"{chance:.2f}")  # fmt: skip


def _said(key: str, /, **fields: object) -> Pair:
    return STRINGS.pair(f"advice.{key}", **fields)


def _name(term: str) -> Pair:
    return STRINGS.pair(f"axis.{term}")
