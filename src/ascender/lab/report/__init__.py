"""A report: one folder that needs nothing else.

OUT/index.html                          the page, no network
OUT/tables/NAME.md .csv .tex            Korean: NAME.ko.md, NAME.ko.tex
OUT/figures/NAME.svg .png .pdf
OUT/methods.md                          the statistical checklist, filled in
OUT/rows.jsonl scores.json suite.json   the raw rows: `ascender lab report OUT` makes it again
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ascender.files import write
from ascender.lab.report import drawing, figures, heads, maps, margins, table, words
from ascender.lab.report import several as overviews
from ascender.lab.report.insight import insight_tables, measured
from ascender.lab.report.methods import methods
from ascender.lab.report.page import Drawn, page
from ascender.lab.report.source import Source, raw, read
from ascender.lab.report.study import DRAWS, Study
from ascender.lab.report.tables import tables
from ascender.lab.store import ROWS, SCORES
from ascender.lab.suite import Suite

__all__ = ["Study", "draw_all", "fill", "read", "report", "several"]

DRAW: dict[str, Callable[[Study, drawing.Words], Any]] = {
    "pareto": figures.pareto, "deltas": figures.deltas, "heads": heads.heads,
    "roles": heads.roles, "grouping": heads.grouping, "length": figures.length,
    "curves": figures.curves, "omega": figures.omegas,
}  # fmt: skip
MEASURED = ("roles", "grouping")  # of suites that ask for it; else there is nothing to miss


def report(
    folder: Path, out: Path, suite: Suite | None = None, lang: str = "en",
    data_dir: str | None = None, draws: int = DRAWS,
) -> list[Path]:  # fmt: skip
    """Write it; what was written, the page last."""
    return written(Study.of(read(folder, suite), draws), out, lang, data_dir)


def several(
    folders: Sequence[Path], out: Path, lang: str = "en", data_dir: str | None = None,
    draws: int = DRAWS,
) -> list[Path]:  # fmt: skip
    """A report for each suite that has a finished trial, and a page that leads to them."""
    studies, paths = [], []
    for folder in folders:
        try:
            study = Study.of(read(folder), draws)
        except ValueError:
            continue
        studies.append(study)
        paths += written(study, out / study.sheet.name, lang, data_dir)
    if not studies:
        raise ValueError(f"no finished trial in {', '.join(map(str, folders))}")
    return [*paths, overviews.keep(studies, out, lang)]


def written(study: Study, out: Path, lang: str, data_dir: str | None) -> list[Path]:
    """Raw rows, tables, methods, figures and the page."""
    both = words.langs(lang)
    written = _raw(study.source, out)
    made = all_tables(study)
    for one in made:
        written.append(write(out / "tables" / f"{one.name}.csv", table.as_csv(one)))
        for each in both:
            name = f"{one.name}{_ending(each)}"
            written.append(write(out / "tables" / f"{name}.md", table.markdown(one, each)))
            written.append(write(out / "tables" / f"{name}.tex", table.latex(one, each)))
    for each in both:
        written.append(write(out / f"methods{_ending(each)}.md", methods(study, each)))
    drawn, left_out, paths = draw_all(study, out / "figures", lang, data_dir)
    written += paths
    files = [path.relative_to(out).as_posix() for path in written]
    text = page(study, made, drawn, left_out, files, lang)
    return [*written, write(out / "index.html", text)]


def all_tables(study: Study) -> list[table.Table]:
    """Of the records, of what was measured of the models, and of costs at length."""
    costly = (margins.inferiority(study), margins.costs(study))
    return [
        *tables(study),
        *(one for one in costly if one.rows),
        *insight_tables(measured(study), study.sheet.baseline, study.sheet.rule),
    ]


MARK = re.compile(r"(<!-- lab: (\S+) (\S+) -->\n)(.*?)(<!-- /lab -->)", re.DOTALL)


def fill(path: Path, folder: Path, lang: str = "en", draws: int = DRAWS) -> Path:
    """Bring the tables of a document up to date: those between <!-- lab: SUITE TABLE --> and
    <!-- /lab --> that are of this suite."""
    study = Study.of(read(folder, None), draws)
    made = {one.name: one for one in all_tables(study)}
    text = path.read_text(encoding="utf-8")
    asked = [name for _, suite, name, _, _ in MARK.findall(text) if suite == study.sheet.name]
    lacks = [name for name in asked if name not in made]
    if lacks or not asked:
        wants = ", ".join(lacks) or f"nothing (no line <!-- lab: {study.sheet.name} TABLE -->)"
        raise ValueError(f"{path} asks for {wants}; this suite makes {', '.join(made)}")

    def put(mark: re.Match[str]) -> str:
        if mark[2] != study.sheet.name:
            return mark[0]
        _, _, text = table.markdown(made[mark[3]], lang).partition("\n\n")  # without its heading
        return f"{mark[1]}{text.strip()}\n{mark[5]}"

    return write(path, MARK.sub(put, text))


def _ending(lang: str) -> str:
    return ".ko" if lang == "ko" else ""


def _raw(source: Source, out: Path) -> list[Path]:
    """A report into the folder of its store leaves the store's own sheet alone."""
    made = raw(source)
    if out.resolve() == source.folder.resolve():
        made = {name: text for name, text in made.items() if name in (ROWS, SCORES)}
    return [write(out / name, text) for name, text in made.items()]


def draw_all(
    study: Study, folder: Path, lang: str = "en", data_dir: str | None = None
) -> tuple[list[Drawn], list[tuple[str, str]], list[Path]]:
    """(figures that are there, why others are not, files)."""
    drawn: list[Drawn] = []
    left_out: list[tuple[str, str]] = []
    paths: list[Path] = []
    say = drawing.words(lang)
    names: dict[str, Any] = {"baseline": study.sheet.baseline, "variant": study.ruled()}

    def keep(name: str, figure: Any, caption: str = "", **more: Any) -> None:
        paths.extend(drawing.save(figure, folder, name))
        svg = (folder / f"{name}.svg").read_text(encoding="utf-8")
        captions = {
            k: v.format(**{**names, **more}) for k, v in words.FIGURES[caption or name].items()
        }
        drawn.append(Drawn(name, svg, captions))

    with drawing.style():
        try:
            found = maps.maps(study, data_dir)
            keep("maps", maps.draw(found, say), **vars(found))
        except (OSError, ValueError, ModuleNotFoundError) as error:
            left_out.append(_why("no_model", error=error))
        for name, draw in DRAW.items():
            figure = draw(study, say)
            if figure is not None:
                seen = name == "heads" and any(m.ruled for m in measured(study))
                keep(name, figure, "heads_measured" if seen else "")
            elif name not in MEASURED:
                left_out.append(_left_out(name))
    return drawn, left_out, paths


def _left_out(name: str) -> tuple[str, str]:
    if name == "deltas":
        return _why("no_judged")
    if name == "length":
        return _why("no_lengths", names=", ".join(figures.LENGTHS))
    figure = {"heads": ("Figure 4", "그림 4"), "omega": ("ω over training", "학습 중 ω")}[name]
    en, ko = words.WHY["no_rules"]
    return en.format(figure=figure[0]), ko.format(figure=figure[1])


def _why(name: str, **names: Any) -> tuple[str, str]:
    en, ko = words.WHY[name]
    return en.format(**names), ko.format(**names)
