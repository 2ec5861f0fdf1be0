"""What `ascender insight` writes: the tables, figures and page of models just measured.

OUT/index.html   OUT/tables/NAME.md .csv   OUT/figures/NAME.svg .png .pdf   OUT/insight.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.lab.reports import drawing, table
from ascender.lab.reports import head_figures as heads
from ascender.lab.reports import strings as words
from ascender.lab.reports.advice import advice
from ascender.lab.reports.model_insight import Measured, insight_tables
from ascender.lab.reports.page import Drawn, figures_of, table_of, template
from ascender.lab.verdict import DecisionRule

TEMPLATE = "insight.html.j2"


def made_of(found: Sequence[Measured], baseline: str) -> list[table.Table]:
    """The tables, by the usual rule."""
    return insight_tables(found, baseline, DecisionRule())


def save(
    found: Sequence[Measured], out: Path, baseline: str, names: Mapping[str, Sequence[str]],
    lang: str = "en",
) -> list[Path]:  # fmt: skip
    """Write it; the page last. The first of `found` is what is looked at; `names` are of the models
    of each variant."""
    both = words.langs(lang)
    made, said = made_of(found, baseline), advice(found, names[found[0].variant][0])
    text = json.dumps(plain(found, made, names), ensure_ascii=False, indent=1)
    written = [write(out / "insight.json", text + "\n")]
    for one in made:
        written.append(write(out / "tables" / f"{one.name}.csv", table.as_csv(one)))
        for each in both:
            ending = ".ko" if each == "ko" else ""
            path = out / "tables" / f"{one.name}{ending}.md"
            written.append(write(path, table.markdown(one, each)))
    drawn, paths = _drawn(found, out / "figures", lang)
    named = {name: [words.pick(pair, each) for each in both] for name, pair in words.PAGE.items()}
    first, rest = found[0], found[1:]
    page = template(TEMPLATE).render(
        langs=both, say=named, task=first.task,
        advice=[[words.pick(pair, each) for each in both] for pair in said], variant=first.variant,
        models=list(names[first.variant]), against=[n for m in rest for n in names[m.variant]],
        figures=figures_of(drawn, both), tables=[table_of(t, both, {}) for t in made],
    )  # fmt: skip
    return [*written, *paths, write(out / "index.html", page)]


def plain(
    found: Sequence[Measured], made: Sequence[table.Table], names: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """All of it as JSON has it: what was measured of each model, and the tables in full."""
    return {
        "task": found[0].task,
        "models": [
            {"variant": m.variant, "model": name, "seed": seed, **f}
            for m in found
            for name, seed, f in zip(names[m.variant], m.seeds, m.found, strict=True)
        ],
        "tables": {
            one.name: [
                {c: dict(cell.data) or cell.text for c, cell in zip(one.columns, row, strict=True)}
                for row in one.rows
            ]
            for one in made
        },
        "advice": [en for en, _ in advice(found, names[found[0].variant][0])],
    }


def _drawn(found: Sequence[Measured], folder: Path, lang: str) -> tuple[list[Drawn], list[Path]]:
    """(figures that there is something for, their files)."""
    say, first = drawing.words(lang), found[0]
    drawn: list[Drawn] = []
    paths: list[Path] = []

    def keep(name: str, caption: str, figure: Any) -> None:
        paths.extend(drawing.save(figure, folder, name))
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        said = {k: v.format(variant=first.variant) for k, v in words.FIGURES[caption].items()}
        drawn.append(Drawn(name, svg, said))

    with drawing.style():
        if first.ruled:
            keep("heads", "heads_measured", heads.head_maps([first], say))
            keep("roles", "roles", heads.role_bars([first], say))
        if any(m.groups() for m in found):
            keep("grouping", "grouping", heads.group_bars(found, say))
    return drawn, paths
