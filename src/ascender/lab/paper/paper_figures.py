"""Figures 1 to 5 of the paper: each from the suite whose subject it is, split where it is higher
than a page, with a caption that says what was measured.

    1 maps     the terms of one attention          4 heads    weights of the rules by head
    2 pareto   quality against cost                5 length   quality and costs by length
    3 deltas   one rule alone, or all but one
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ascender.core.rules import RULES
from ascender.lab.paper.body_strings import BODY
from ascender.lab.paper.document import FigureBlock, Text, joined_text, text
from ascender.lab.paper.draft_tables import about_costs, in_order
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import count, in_a_row, named
from ascender.lab.reports import attention_maps, figures, head_figures, length_figures
from ascender.lab.reports.model_insight import measured
from ascender.lab.reports.opening import subject
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.score_maps import ScoreMaps
from ascender.report.figure import Label, labels, save_figure, style
from ascender.report.strings import languages
from ascender.train.variants import variant

FOLDER = "figures"
HIGHEST = 8.2  # inches: what fits on a page above its caption
NUMBER = re.compile(r"^(Figure|그림) \d[^.]*\. ")  # of a report's caption; the paper has its own
NUMBERS = {"maps": "1", "pareto": "2", "deltas": "3", "heads": "4", "length": "5"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
Draw = Callable[[SuiteResults, Label], Any]


@dataclass(frozen=True)
class Drawing:
    """A figure that can be drawn in each language, or a part of one; `name`: of its file and of its
    caption; `cells`: what the caption's braces hold."""

    name: str
    results: SuiteResults
    draw: Draw
    caption: str
    cells: dict[str, Any]


def drawings(of: Material, data_dir: str | None = None) -> dict[str, list[Drawing]]:
    """What can be drawn for each of the five figures; nothing where the material is missing."""
    with style():
        return {
            "maps": _maps(of, data_dir), "pareto": _pareto(of), "deltas": _deltas(of),
            "heads": _heads(of), "length": _length(of),
        }  # fmt: skip


def blocks(of: Material, drawn: dict[str, list[Drawing]], name: str) -> list[FigureBlock]:
    """The figure and its parts: 2, or 2a, 2b, …; the first has the label that sentences name."""
    parts = drawn[name]
    found = []
    for i, part in enumerate(parts):
        letter = LETTERS[i] if len(parts) > 1 else ""
        label = f"fig:{name}" if i == 0 else f"fig:{name}-{letter}"
        path = Path(FOLDER) / f"figure{NUMBERS[name]}{letter}"
        found.append(FigureBlock(path, _caption(of, part), label, NUMBERS[name] + letter))
    return found


def save(
    drawn: dict[str, list[Drawing]], folder: Path, lang: str, say: Callable[[str], None]
) -> None:
    """SVG, PNG and PDF of every figure in each language."""
    for each in languages(lang):
        label = labels(STRINGS, each)
        suffix = ".ko" if each == "ko" else ""
        with style():
            for name, parts in drawn.items():
                for i, part in enumerate(parts):
                    letter = LETTERS[i] if len(parts) > 1 else ""
                    file = f"figure{NUMBERS[name]}{letter}{suffix}"
                    say(f"figure {NUMBERS[name]}{letter} ({each})")
                    save_figure(part.draw(part.results, label), folder / FOLDER, file)


def _caption(of: Material, drawing: Drawing) -> Text:
    """The report's caption without its number, and which trials it is of."""
    en, ko = (NUMBER.sub("", side) for side in STRINGS[f"caption.{drawing.caption}"])
    results = drawing.results
    trials = [r["key"] for r in results.records]
    whose = text(
        BODY["figure.of"], suite=named(results.sheet.name), trials=count(len(trials), trials),
        tasks=in_a_row([named(task) for task in results.tasks]),
    )  # fmt: skip
    return joined_text(text((en, ko), **drawing.cells), whose)


# --- which suite


def _maps(of: Material, data_dir: str | None) -> list[Drawing]:
    for results in in_order(of):
        try:
            maps = attention_maps.maps(results, data_dir)
        except (OSError, ValueError, ModuleNotFoundError):
            continue
        return _parts(_drawn_maps(results, maps))
    return []


def _drawn_maps(results: SuiteResults, maps: ScoreMaps) -> Drawing:
    own = tuple(r for r in results.records if r["key"] == maps.key)
    task = own[0]["run"]["task"] if own else maps.task
    one = replace(only(results, [task]), records=own)
    places = {n: count(getattr(maps, n), [maps.key]) for n in ("seed", "layer", "head")}
    cells = {"task": named(maps.task), "variant": named(maps.variant), **places}
    return Drawing("maps", one, lambda r, say: attention_maps.draw(maps, say), "maps", cells)


def _pareto(of: Material) -> list[Drawing]:
    """At length too, where layers were measured."""
    kinds = {"pareto": figures.pareto, "layer_pareto": length_figures.layer_pareto}
    return [
        part
        for results in about_costs(of)
        for caption, draw in kinds.items()
        for part in _parts(Drawing("pareto", results, draw, caption, {}))
    ]


def _deltas(of: Material) -> list[Drawing]:
    """Of the suite with the most variants that have some rules and not all."""
    ablations = [r for r in in_order(of) if any(map(_without_some, r.variants))]
    for results in sorted(ablations, key=lambda r: -sum(map(_without_some, r.variants))):
        cells = {"baseline": named(results.sheet.baseline)}
        if parts := _parts(Drawing("deltas", results, figures.deltas, "deltas", cells)):
            return parts
    return []


def _without_some(name: str) -> bool:
    """Whether a variant has some of the rules and not all."""
    return 0 < len(variant(name).mute) < len(RULES)


def _heads(of: Material) -> list[Drawing]:
    """Of the suite whose subject is what models do, where there is one; else of the first that
    measured them, or that has ω."""
    rank = {"insight": 0, "accuracy": 1, "cost": 1}
    for results in sorted(in_order(of), key=lambda r: rank[subject(r)]):
        name, models = results.ruled(), [m for m in measured(results) if m.ruled]
        tasks = [m.task for m in models if m.variant == name] or results.tasks
        own, cells = only(results, tasks, name), {"variant": named(name or "")}
        caption = "heads_measured" if models else "heads"
        if parts := _parts(Drawing("heads", own, head_figures.heads, caption, cells)):
            return parts
    return []


def _length(of: Material) -> list[Drawing]:
    kinds = {"length": length_figures.length, "layer_costs": length_figures.layer_costs}
    found = []
    for caption, draw in kinds.items():
        made = (_parts(Drawing("length", r, draw, caption, {})) for r in in_order(of))
        found += next(filter(None, made), [])
    return found


def _same(name: str, /, **fields: object) -> str:
    """A label: its name, where nobody reads the figure."""
    return name


# --- parts


def only(results: SuiteResults, tasks: Sequence[str], name: str | None = None) -> SuiteResults:
    """Results of some tasks, and of one variant where it is named."""

    def kept(task: str, variant: str) -> bool:
        return task in tasks and name in (None, variant)

    return replace(
        results,
        records=tuple(r for r in results.records if kept(r["run"]["task"], r["run"]["variant"])),
        conditions=tuple(c for c in results.conditions if kept(c.task, c.variant)),
        judged={key: c for key, c in results.judged.items() if kept(*key)},
    )


def _parts(drawing: Drawing) -> list[Drawing]:
    """Halves, by task, until each fits on a page."""
    tasks = drawing.results.tasks
    figure = drawing.draw(drawing.results, _same)
    if figure is None:
        return []
    if figure.get_figheight() <= HIGHEST or len(tasks) < 2 or drawing.name == "length":
        return [drawing]
    middle = (len(tasks) + 1) // 2
    halves = (only(drawing.results, some) for some in (tasks[:middle], tasks[middle:]))
    return [part for half in halves for part in _parts(replace(drawing, results=half))]
