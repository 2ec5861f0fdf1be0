"""Appendix B: sweeps of k, w, τ, gates, frozen parts and memory, from all suites with rows; for a
sweep without rows, the command that runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from ascender.lab.judge import Condition
from ascender.lab.paper.document import Block, Heading, Paragraph, TableBlock, Text, text
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import counted, difference, named, records_of, times
from ascender.lab.paper.settings_tables import WORDS
from ascender.lab.paper.sweep_strings import SWEEPS
from ascender.lab.reports.cells import NONE, cost_cell, lab_table, mean_cell, verdict_cell
from ascender.lab.reports.opening import subject
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import FLOPS
from ascender.lab.suite import Suite, known, suite
from ascender.report.strings import Strings
from ascender.report.table import Cell, Table
from ascender.train.variants import variant

ALL = Strings(STRINGS | SWEEPS)
AXES: dict[str, tuple[str, ...]] = {
    "k": ("k",),
    "window": ("window", "n_global"),
    "tau": ("tau", "tau_sep", "tau_coh", "tau_score"),
    "gates": ("gates", "omega", "omega_align", "omega_sep", "omega_coh", "alpha", "alpha_align",
              "alpha_coh", "kappa", "delta"),
    "frozen": ("roles", "numbers", "geometry", "half", "share"),
}  # fmt: skip
MEMORY = "peak_memory_mb"
Row = dict[str, Cell]


def sweeps(of: Material) -> list[Block]:
    """The appendix: a table a sweep, memory, and what was not run."""
    blocks: list[Block] = [Heading(1, _say("heading"), "app:sweeps"), Paragraph(_say("intro"))]
    tables = {axis: sweep(of, axis) for axis in AXES}
    memory = [table for table in (training_memory(of), layer_memory(of)) if table.rows]
    empty = [axis for axis, table in tables.items() if not table.rows]
    blocks += [Paragraph(_no_rows(axis)) for axis in (*empty, *([] if memory else ["memory"]))]
    blocks += [TableBlock(table) for table in (*tables.values(), *memory) if table.rows]
    missing = not_run(of)
    blocks.append(TableBlock(missing) if missing.rows else Paragraph(_say("all_run")))
    return blocks


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(SWEEPS[key], **fields)


def _no_rows(axis: str) -> Text:
    return _say("no_rows", axis=named(*SWEEPS[f"axis.{axis}"]))


def changed(name: str) -> dict[str, Any]:
    """What a variant's name sets: options, frozen roles, shared neighbours, half of the layers."""
    v = variant(name)
    more = {"roles": v.roles, "share": v.share > 1 and v.share, "half": v.half}
    return {**v.options, **{n: x for n, x in more.items() if x}}


def varies(name: str, axis: str) -> bool:
    """Whether a variant has a setting of the axis."""
    return any(n in AXES[axis] for n in changed(name))


def _essence(name: str) -> tuple[Any, ...]:
    """What makes a variant: two names of one variant have the same."""
    v = variant(name)
    return v.attention, v.position, v.normalizer, v.mute, json.dumps(changed(name), sort_keys=True)


def _without(name: str, axis: str) -> tuple[Any, ...]:
    """The same without the settings of the axis."""
    rest = {n: x for n, x in changed(name).items() if n not in AXES[axis]}
    return (*_essence(name)[:-1], json.dumps(rest, sort_keys=True))


def sweep(of: Material, axis: str) -> Table:
    """A row a condition with a setting of the axis, after the suite's baseline and the same variant
    without the setting."""
    rows = []
    for results in of.suites.values():
        for task in results.tasks:
            swept = {c.variant for c in results.of_task(task) if varies(c.variant, axis)}
            without = {_without(name, axis) for name in swept}
            rows += [
                _row(results, c)
                for c in results.of_task(task)
                if swept
                and (
                    c.variant in swept or c is results.base(task) or _essence(c.variant) in without
                )
            ]
    strings = Strings(ALL | {f"note.sweep_{axis}": SWEEPS["note.sweep"]})
    return lab_table(f"sweep_{axis}", rows, strings=strings, words=SWEEP_WORDS)


SWEEP_WORDS = (*WORDS, "suite", "verdict", "sweep", "settings", "command", "against")


def _row(results: SuiteResults, c: Condition) -> Row:
    """A condition: its score and its difference from its baseline."""
    tuning, base, compared = results.sheet.tuning, results.base_of(c), results.comparison(c)
    score = mean_cell(c.summary, c.keys)
    if tuning:
        score = Cell(f"{score.text} v", score.keys, score.data)
    usual = results.base(c.task)
    both = (*c.keys, *(usual.keys if usual is not None else ()))
    flops = NONE if usual is None else times(c.mean(FLOPS) / usual.mean(FLOPS), both)
    pair = (*c.keys, *(base.keys if base is not None else ()))
    return {
        "suite": named(results.sheet.name),
        "task": named(c.task),
        "variant": Cell(c.variant, c.keys),
        "n": Cell(str(c.summary.n), c.keys, {"n": c.summary.n}),
        "score": score,
        "against": NONE if compared is None else named(compared.baseline),
        "vs": NONE if compared is None or tuning else difference(compared, pair),
        "verdict": verdict_cell(results.verdict(c), c.keys) if not tuning else NONE,
        "against_flops": flops,
    }


def training_memory(of: Material) -> Table:
    """Of suites about costs, and of those with a sweep: a row a condition."""
    rows = [
        _memory(results, c)
        for results in of.suites.values()
        if subject(results) == "cost"
        for c in results.conditions
    ]
    return lab_table("sweep_memory", rows, strings=ALL, words=SWEEP_WORDS)


def _memory(results: SuiteResults, c: Condition) -> Row:
    base = results.base_of(c)
    theirs = base.mean(MEMORY) if base is not None else None
    pair = (*c.keys, *(base.keys if base is not None and base is not c else ()))
    return {
        "suite": named(results.sheet.name),
        "task": named(c.task),
        "variant": Cell(c.variant, c.keys),
        "n": Cell(str(c.summary.n), c.keys, {"n": c.summary.n}),
        "memory": cost_cell(c.mean(MEMORY), theirs, pair),
    }


def layer_memory(of: Material) -> Table:
    """Of one layer at the lengths that a suite measured: a row a variant, a column a length."""
    rows: list[Row] = []
    lengths: dict[str, int] = {}
    for results in of.suites.values():
        measured = results.source.costs
        lengths |= {f"at_{cost.n}": cost.n for cost in measured}
        for name in dict.fromkeys(cost.variant for cost in measured):
            cells = {f"at_{n}": cell for n, cell in _at_lengths(of, results, name)}
            rows.append({"suite": named(results.sheet.name), "variant": named(name), **cells})
    for n in lengths.values():
        of.facts.constant(f"{n:,}", "a length of lab.costs")
    headings = {f"column.{key}": (f"{n:,}", f"{n:,}") for key, n in lengths.items()}
    return lab_table("layer_memory", rows, strings=Strings(ALL | headings), words=SWEEP_WORDS)


def _at_lengths(of: Material, results: SuiteResults, name: str) -> Iterator[tuple[int, Cell]]:
    """(length, MB) of a variant, over that of the first variant measured."""
    measured = results.source.costs
    for cost in measured:
        if cost.variant == name and cost.memory_mb is not None:
            first = next(c.memory_mb for c in measured if c.n == cost.n)
            cell = cost_cell(cost.memory_mb, first)
            of.facts.derive({k: x for k, x in cell.data.items() if x is not None})
            yield cost.n, cell


# --- what was not run


def not_run(of: Material) -> Table:
    """A row for each sweep and suite of the package with trials that have no row here."""
    there = set(records_of(of))
    rows = []
    for one in _planned():
        for axis in AXES:
            runs = [r for r in one.runs if varies(r.variant, axis) and r.key not in there]
            if not runs:
                continue
            names = dict.fromkeys(r.variant for r in runs)
            tasks = dict.fromkeys(r.task for r in runs)
            command = f"ascender lab run {one.name} --out lab/{one.name}"
            of.facts.learn([*names, *tasks, command])
            rows.append({
                "sweep": named(*SWEEPS[f"axis.{axis}"]),
                "suite": named(one.name),
                "settings": named(", ".join(names)),
                "task": named(", ".join(tasks)),
                "missing": counted(of, len(runs)),
                "command": named(command),
            })  # fmt: skip
    return lab_table("not_run", rows, strings=ALL, words=SWEEP_WORDS)


@cache
def _planned() -> tuple[Suite, ...]:
    """The suites of the package that can be loaded here."""
    loaded = []
    for name in known():
        try:
            loaded.append(suite(name))
        except (ImportError, ValueError):
            continue
    return tuple(one for one in loaded if isinstance(one, Suite))
