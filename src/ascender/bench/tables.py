"""Rows of a run → tables: printed by the command, written into documents by report.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ascender.bench import gpu_kernels, model
from ascender.bench.choose import ChooseRow, crossover
from ascender.bench.model import DECODE, GENERATE, NEW, SIZES, TOKENS, VOCABULARY
from ascender.bench.studies import STUDIES
from ascender.measure.device import Cpu, Gpu
from ascender.measure.timing import FORWARD, TRAINING, Row
from ascender.report.table import Cell, Table
from ascender.report.terminal import BASELINE, rich_table

SKIPPED = "…"
DISTURBED = "†"
FASTEST = "fastest"  # the code of a cell
STYLES = {"reached": "green", "missed": "yellow", FASTEST: "bold"}
WORKS = {FORWARD: "forward", TRAINING: "forward + backward"}
SUMMARY = (
    (FORWARD, 4096, "ratio"), (TRAINING, 4096, "ratio"), (FORWARD, 16384, "ratio"),
    (FORWARD, 16384, "memory_ratio"),
)  # fmt: skip
TITLES = {  # of the tables of speed, by study and work
    ("layer", TRAINING): "Training step: × vanilla layer",
    ("model", TRAINING): "Training, tokens a second: × vanilla",
    ("model", DECODE): "Generation, tokens a second: × vanilla",
    ("model", GENERATE): "Generation by generate(), tokens a second: × vanilla",
}
NOTES = {
    "attention": "B = 1, {heads} heads of 64, d_z = 15, d_a = 16, k = 16, {dtype}; flock scope: "
    "one list for all heads. FLOPs: by formulas that the tests hold to a count on the operators.",
    "variants": "B = 1, {heads} heads of 64, otherwise each attention's own defaults, without the "
    "projections, {dtype}. FLOPs: counted on the operators.",
    "layer": "Forward and backward, no optimiser; B = 32, 4 heads of 16 (256 wide: B = 8, 4 heads "
    "of 64), {dtype}; best turn of each.",
    "model": f"{{size}}, {VOCABULARY} words, {{dtype}}. Training: forward, loss, backward, AdamW "
    f"on about {TOKENS} tokens. Generation: {NEW} tokens after N, one "
    "sequence. Models take turns; the best turn counts.",
    "choose": f"× the fastest (bold) · peak memory; * is what auto takes; {SKIPPED} cannot, or too "
    "long to wait for. ≈: between the measured lengths.",
}
CLOCK = {"cpu": "CPU time", "wall": "wall clock", "events": "events of the GPU"}
WALL = "wall "  # in front of the names of tables by that clock
MEASURED = (
    "Candidates take turns; the best turn counts. Forward keeps nothing for a gradient; backward "
    "reaches every input and every learned number. FLOPs are those of products (matrices, flash, "
    "index lists, native kernels). "
)
MEMORY = (
    "Memory: each in its own process; growth of resident memory during the call at its peak, plus "
    "the size of the inputs (in brackets: the whole process)."
)
MEMORY_OF_GPU = (
    "Warmed up first. Memory: what torch allocated on the GPU at the peak of the call beyond what "
    "it had before, plus the size of the inputs (in brackets: all that it had allocated). FLOPs: "
    "those of the same call on the CPU."
)


def number(x: float) -> str:
    """Three digits or so."""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def times(x: float) -> str:
    return f"{number(x)}×"


def of_study(study: str, rows: Sequence[Row], causal: bool = False) -> dict[str, Table]:
    """Every number as a multiple of the baseline's at the same N, and the baseline's as it is:
    time, memory and FLOPs of attentions, the speed of layers and models."""
    tables = {}
    for work in dict.fromkeys(row.work for row in rows):
        some = [row for row in rows if row.work == work]
        if (study, work) in TITLES:
            name = "layer" if study == "layer" else f"{study} {work}"
            what = "time" if study == "layer" else "speed"
            tables[name] = _by_length(TITLES[study, work], study, some, what)
            continue
        for what, measure in (("time", "Time"), ("memory", "Peak memory"), ("flops", "FLOPs")):
            title = f"{measure}, {'causal, ' if causal else ''}{WORKS[work]}: × stock SDPA"
            tables[f"{study} {work} {what}"] = _by_length(title, study, some, what)
    return {name: table for name, table in tables.items() if table.rows}


def _by_length(title: str, study: str, rows: Sequence[Row], what: str) -> Table:
    """Candidates down, lengths across."""
    cells = {(row.candidate, row.n): text for row in rows if (text := _text(row, study, what))}
    lengths = sorted({n for _, n in cells})
    lines = [
        (Cell(label, code=BASELINE if STUDIES[study].is_baseline(name) else ""),
         *(Cell(cells.get((name, n), SKIPPED)) for n in lengths))
        for name, label in STUDIES[study].labels().items()
        if any((name, n) in cells for n in lengths)
    ]  # fmt: skip
    notes = _disturbed(rows, study) if what in ("time", "speed") else ()
    table = Table.of_text("", ("", *(f"N = {n}" for n in lengths)), (), (title, title), [*notes])
    return replace(table, rows=tuple(lines))


def _text(row: Row, study: str, what: str) -> str | None:
    """What a cell says; None where nothing was measured."""
    base = STUDIES[study].is_baseline(row.candidate)
    mark = DISTURBED if row.disturbed is not None else ""
    beside = "" if row.memory_mb is None else f" · {number(row.memory_mb)} MB"
    if what == "time" and row.ms is not None and row.ratio is not None:
        return (f"{number(row.ms)} ms" if base else times(row.ratio)) + mark + beside
    if what == "speed" and row.tokens_s is not None and row.speed is not None:
        return (f"{number(row.tokens_s)}/s" if base else times(row.speed)) + mark + beside
    if what == "memory" and row.memory_mb is not None and row.memory_ratio is not None:
        assert row.process_ratio is not None
        if base:
            return f"{number(row.memory_mb)} MB ({row.process_mb:.0f} MB)"
        return f"{times(row.memory_ratio)} ({times(row.process_ratio)})"
    if what == "flops" and row.gflop is not None and row.flop_ratio is not None:
        G = row.gflop
        own = f"{number(G)} G" if G >= 0.1 else f"{number(1e3 * G)} M"
        return own if base else times(row.flop_ratio)
    return None


def _disturbed(rows: Sequence[Row], study: str) -> Iterator[str]:
    """Why cells have a mark, each reason once."""
    by_reason: dict[tuple[int, str], list[str]] = {}
    for row in rows:
        if row.disturbed is not None:
            label = STUDIES[study].labels()[row.candidate]
            by_reason.setdefault((row.n, row.disturbed), []).append(label)
    timed = {row.n: sum(r.n == row.n and r.ms is not None for r in rows) for row in rows}
    for (n, reason), names in by_reason.items():
        who = "the whole column" if len(names) == timed[n] else ", ".join(names)
        yield (
            f"{DISTURBED} N = {n}, {who}: disturbed by other work on the machine, not to be "
            f"relied on until run again ({reason})."
        )


def summary(rows: Sequence[Row]) -> dict[str, Table]:
    """The summary of docs/benchmark.md: a few columns, whole-sequence candidates only."""
    at = {(row.candidate, row.work, row.n): row for row in rows}
    table = []
    for name, candidate in STUDIES["attention"].candidates.items():
        if name == "stock" or candidate.baseline != "stock":
            continue
        cells = [_summary_cell(at.get((name, work, n)), key) for work, n, key in SUMMARY]
        if any(cell != SKIPPED for cell in cells):
            table.append((candidate.label, *cells))
    columns = (
        f"{'peak memory, ' if key == 'memory_ratio' else ''}{WORKS[work]}, N = {n}"
        for work, n, key in SUMMARY
    )
    return _one("attention summary", "Summary: × stock SDPA", ("", *columns), table)


def _summary_cell(row: Row | None, key: str) -> str:
    value = getattr(row, key, None)
    if row is None or value is None:
        return SKIPPED
    return times(value) + (DISTURBED if row.disturbed and key == "ratio" else "")


def by_wall_clock(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The same tables under names and titles of their own."""
    return under(WALL, "Wall clock", tables)


def under(prefix: str, title: str, tables: Mapping[str, Table]) -> dict[str, Table]:
    return {
        prefix + name: replace(table, title=(f"{title}: {table.title[0]}",) * 2)
        for name, table in tables.items()
    }


def goals(table: Sequence[Mapping[str, Any]]) -> dict[str, Table]:
    rows = [
        (row["goal"], f"{'≥' if row['least'] else '≤'} {times(row['limit'])}",
         times(row["measured"]), _verdict(row["reached"]))
        for row in table
    ]  # fmt: skip
    return _one("goals", "Goals", ("goal", "asked", "measured", ""), rows)


def imports(seconds: Mapping[str, Any]) -> dict[str, Table]:
    labels = {
        "import_torch_s": "import torch", "difference_s": "difference", "goal_s": "goal, at most",
        "import_ascender_s": "from ascender import AscenderAttention",
    }  # fmt: skip
    order = ("import_torch_s", "import_ascender_s", "difference_s", "goal_s")
    rows = [(labels[key], f"{seconds[key]:.3f}") for key in order]
    rows.append(("goal", _verdict(seconds["reached"])))
    title = "Import time, median of alternating processes"
    return _one("import", title, ("", "seconds"), rows)


def choose(rows: Sequence[ChooseRow]) -> dict[str, Table]:
    """Per kind and work: × the fastest backend; auto's choice has a star. Then the crossovers."""
    by_kind: dict[tuple[str, str], dict[int, dict[str, ChooseRow]]] = {}
    for row in rows:
        by_length = by_kind.setdefault((row.kind, row.work), {})
        by_length.setdefault(row.n, {})[row.candidate] = row
    tables = {}
    for (kind, work), by_length in by_kind.items():
        lines: list[tuple[Cell, ...]] = []
        measured = (row for of in by_length.values() for row in of.values() if row.ms is not None)
        names = list(dict.fromkeys(row.candidate for row in measured))
        for n, of in by_length.items():
            ms = next(row.ms for row in of.values() if row.fastest and row.ms is not None)
            cells = (_choice(of[name]) for name in names)
            lines.append((Cell(str(n)), Cell(f"{number(ms)} ms"), *cells))
        title = f"{kind}, {WORKS[work]}"
        table = Table.of_text("", ("N", "best", *names), (), (title, title))
        tables[title] = replace(table, rows=tuple(lines))
    texts = [
        (f"{kind}, {WORKS[work]}", *crossover(r for of in by_length.values() for r in of.values()))
        for (kind, work), by_length in by_kind.items()
    ]
    return tables | _one("crossover", "Crossover", ("", "fastest", "auto takes"), texts)


def _choice(row: ChooseRow) -> Cell:
    text = SKIPPED if row.ratio is None else times(row.ratio)
    beside = "" if row.memory_mb is None else f" · {number(row.memory_mb)} MB"
    code = FASTEST if row.fastest else ""
    return Cell(text + ("*" if row.auto else "") + beside, code=code)


def _one(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[str, Table]:
    """{name: table}, nothing where there are no rows."""
    return {name: Table.of_text(name, columns, rows, (title, title))} if rows else {}


def _verdict(reached: object) -> str:
    return "reached" if reached else "missed"


# --- on a terminal


def shown(study: str, rows: Sequence[Any], options: Mapping[str, Any]) -> RenderableType:
    """The tables of a run with their notes."""
    if study == "import":
        return rich_tables(imports(rows[0]))
    causal, on_cpu = options.get("causal", False), options["device"] == "cpu"
    tables = choose(rows) if study == "choose" else of_study(study, rows, causal)
    if study == "choose":
        tables["kernels"] = gpu_kernels.table()
    heads = (Cpu if on_cpu else Gpu).heads
    size = SIZES.get(model.size_on(options["device"]), "")
    note = NOTES[study].format(heads=heads, dtype=options["dtype"], size=size)
    notes = [note, f"{CLOCK[options['clock']]}."]
    if study in ("attention", "variants"):
        notes.append(MEASURED + (MEMORY if on_cpu else MEMORY_OF_GPU))
    if study in ("attention", "variants") or not on_cpu:
        notes += _skipped(rows, study)
    return Group(rich_tables(tables), *map(_note, notes))


def rich_tables(tables: Mapping[str, Table]) -> RenderableType:
    blocks: list[RenderableType] = []
    for table in tables.values():
        blocks += [rich_table(table, styles=STYLES), *(_note(en) for en, _ in table.notes)]
    return Group(*blocks)


def _note(text: str) -> Text:
    return Text(text, style="dim")


def _skipped(rows: Iterable[Row], study: str) -> list[str]:
    """Why cells are empty, each reason once."""
    labels = STUDIES[study].labels() if study in STUDIES else {}
    reasons = dict.fromkeys(
        f"{labels.get(row.candidate, row.candidate)}, {WORKS.get(row.work, row.work)} at "
        f"N = {row.n}: {row.skipped}"
        for row in rows
        if row.skipped is not None
    )
    return [f"{SKIPPED} skipped: {'; '.join(reasons)}."] if reasons else []
