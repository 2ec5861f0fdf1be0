"""A report: one folder that needs nothing else.

OUT/index.html                          the page, no network
OUT/tables/NAME.md .csv .tex            Korean: NAME.ko.md, NAME.ko.tex
OUT/figures/NAME.svg .png .pdf
OUT/methods.md                          the statistical checklist, filled in
OUT/trials.jsonl.gz suite.json          the records: `ascender lab report OUT` makes it again
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.lab.bundle import CLAIMS, claimed, inside
from ascender.lab.reports import attention_maps as maps
from ascender.lab.reports import bundle_report as overviews
from ascender.lab.reports import drawing, figures, table
from ascender.lab.reports import head_figures as heads
from ascender.lab.reports import non_inferiority as margins
from ascender.lab.reports import strings as words
from ascender.lab.reports.claims import claims
from ascender.lab.reports.methods import methods
from ascender.lab.reports.model_insight import insight_tables, measured
from ascender.lab.reports.opening import ordered, sentence
from ascender.lab.reports.page import Drawn, page
from ascender.lab.reports.source import NoTrial, Source, raw, read
from ascender.lab.reports.suite_results import DRAWS, SuiteResults
from ascender.lab.reports.tables import summary, tables, tuning
from ascender.lab.store import PACKED, packed_bytes, read_packed
from ascender.lab.suite import Suite

__all__ = ["SuiteResults", "draw_all", "fill", "read", "report", "several"]

DRAW: dict[str, Callable[[SuiteResults, drawing.Words], Any]] = {
    "pareto": figures.pareto, "deltas": figures.deltas, "heads": heads.heads,
    "roles": heads.roles, "grouping": heads.grouping, "length": figures.length,
    "curves": figures.curves, "omega": figures.omegas,
}  # fmt: skip
OF_TESTS = ("pareto", "deltas", "length")  # figures of test scores
MEASURED = ("roles", "grouping")  # of suites that ask for it; else there is nothing to miss


def report(
    folder: Path, out: Path, suite: Suite | None = None, lang: str = "en",
    data_dir: str | None = None, draws: int = DRAWS, say: Callable[[str], None] = warnings.warn,
) -> list[Path]:  # fmt: skip
    """Write it; what was written, the page last."""
    study = SuiteResults.of(read(folder, suite, say), draws)
    return written(study, all_tables(study), out, lang, data_dir)


def several(
    folder: Path, out: Path, lang: str = "en", data_dir: str | None = None, draws: int = DRAWS,
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:  # fmt: skip
    """Of a bundle's folder: a report for each suite that has a finished trial, its claims and what
    came out, and a page that leads to them."""
    studies = studied(folder, draws, say)
    paths, verdicts = [], {}
    for i, (name, study) in enumerate(studies.items()):
        say(f"report {i + 1} of {len(studies)}: {name}, {len(study.records)} trials")
        made = all_tables(study)
        verdicts[name] = sentence(study, made)
        paths += written(study, made, out / name, lang, data_dir)
    _, asked = claimed(folder)
    judged = claims(asked, studies) if asked else None
    if judged:
        paths.append(write(out / CLAIMS, (folder / CLAIMS).read_text(encoding="utf-8")))
        paths += _table_files(judged, out, lang)
    return [*paths, overviews.keep(studies, verdicts, judged, out, lang)]


def studied(
    folder: Path, draws: int = DRAWS, say: Callable[[str], None] = warnings.warn
) -> dict[str, SuiteResults]:
    """The suites of a bundle's folder that have a finished trial, by name."""
    studies = {}
    for place in inside(folder):
        try:
            study = SuiteResults.of(read(place, None, say), draws)
        except NoTrial:
            continue
        studies[study.sheet.name] = study
    if not studies:
        raise ValueError(f"no finished trial in {folder}")
    return studies


def written(
    study: SuiteResults, made: Sequence[table.Table], out: Path, lang: str, data_dir: str | None
) -> list[Path]:
    """Raw rows, tables, methods, figures and the page."""
    both = words.langs(lang)
    written = _raw(study.source, out)
    for one in made:
        written += _table_files(one, out, lang)
    for each in both:
        written.append(write(out / f"methods{_ending(each)}.md", methods(study, each)))
    drawn, left_out, paths = draw_all(study, out / "figures", lang, data_dir)
    written += paths
    files = [path.relative_to(out).as_posix() for path in written]
    text = page(study, made, drawn, left_out, files, lang)
    return [*written, write(out / "index.html", text)]


def _table_files(one: table.Table, out: Path, lang: str) -> list[Path]:
    paths = [write(out / "tables" / f"{one.name}.csv", table.as_csv(one))]
    for each in words.langs(lang):
        name = f"{one.name}{_ending(each)}"
        paths.append(write(out / "tables" / f"{name}.md", table.markdown(one, each)))
        paths.append(write(out / "tables" / f"{name}.tex", table.latex(one, each)))
    return paths


def all_tables(study: SuiteResults) -> list[table.Table]:
    """Of the records, of what was measured of the models, and of costs at length, those of the
    suite's subject first; of a suite that tunes only what it may look at."""
    if study.sheet.tuning:
        return [tuning(study)]
    brief, costly = summary(study), (margins.inferiority(study), margins.costs(study))
    made = [
        *([brief] if brief.rows else []),
        *tables(study),
        *(one for one in costly if one.rows),
        *insight_tables(measured(study), study.sheet.baseline, study.sheet.rule),
    ]
    return ordered(made, study)


MARK = re.compile(r"(<!-- lab: (\S+) (\S+) -->\n)(.*?)(<!-- /lab -->)", re.DOTALL)


def fill(
    documents: Mapping[Path, str], folder: Path, draws: int = DRAWS,
    say: Callable[[str], None] = warnings.warn,
) -> list[Path]:  # fmt: skip
    """Bring the tables of documents up to date, each in its language: those between
    <!-- lab: SUITE TABLE --> and <!-- /lab --> that are of this suite, or of the suites and the
    claims of a bundle's folder. All of them, or none where one asks for what is not there."""
    texts = {path: path.read_text(encoding="utf-8") for path in documents}
    asked = {path: [(m[2], m[3]) for m in MARK.finditer(text)] for path, text in texts.items()}
    wanted = {one for marks in asked.values() for one in marks}
    whole, of = claimed(folder)
    if inside(folder):
        studies = studied(folder, draws, say)
    else:
        study = SuiteResults.of(read(folder, None, say), draws)
        studies = {study.sheet.name: study}
    made = {
        (suite, one.name): one
        for suite, study in studies.items()
        if any(name == suite for name, _ in wanted)
        for one in all_tables(study)
    }
    if (whole, "claims") in wanted and of:
        made[whole, "claims"] = claims(of, studies)
    for path, marks in asked.items():
        mine = [(suite, name) for suite, name in marks if suite in (whole, *studies)]
        lacks = [" ".join(one) for one in mine if one not in made]
        if lacks or not mine:
            none = f"nothing (no line <!-- lab: {next(iter(studies))} TABLE -->)"
            there = ", ".join(" ".join(one) for one in made) or ", ".join(studies)
            raise ValueError(f"{path} asks for {', '.join(lacks) or none}; there is {there}")
    return [write(path, _filled(text, made, documents[path])) for path, text in texts.items()]


def _filled(text: str, made: Mapping[tuple[str, str], table.Table], lang: str) -> str:
    def put(mark: re.Match[str]) -> str:
        if (mark[2], mark[3]) not in made:
            return mark[0]
        _, _, text = table.markdown(made[mark[2], mark[3]], lang).partition("\n\n")  # no heading
        return f"{mark[1]}{text.strip()}\n{mark[5]}"

    return MARK.sub(put, text)


def _ending(lang: str) -> str:
    return ".ko" if lang == "ko" else ""


def _raw(source: Source, out: Path) -> list[Path]:
    """A report into the folder of its store adds to the packed trials and keeps the sheet."""
    made = raw(source)
    if out.resolve() == source.folder.resolve():
        own = out / PACKED
        there = read_packed(own).values() if own.exists() else ()
        made = {PACKED: packed_bytes([*there, *source.records])}
    return [write(out / name, data) for name, data in made.items()]


def draw_all(
    study: SuiteResults, folder: Path, lang: str = "en", data_dir: str | None = None
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
            if study.sheet.tuning and name in OF_TESTS:
                continue
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
