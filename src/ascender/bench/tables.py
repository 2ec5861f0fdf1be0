"""Rows of a run → tables. show.py prints them, report.py writes them into documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ascender.bench.attention import AttentionRow
from ascender.bench.candidates import CANDIDATES
from ascender.bench.layer import LAYERS
from ascender.bench.model import DECODE, GENERATE, MODELS, ModelRow
from ascender.bench.studies import STUDIES, labels
from ascender.measure.timing import FORWARD, TRAINING, Row
from ascender.report.table import Table
from ascender.report.terminal import BASELINE

SKIPPED = "…"
DISTURBED = "†"
WORKS = {FORWARD: "forward", TRAINING: "forward + backward"}
SUMMARY = (
    (FORWARD, 4096, "ratio"), (TRAINING, 4096, "ratio"), (FORWARD, 16384, "ratio"),
    (FORWARD, 16384, "memory_ratio"),
)  # fmt: skip
R = TypeVar("R", bound=Row)


def number(x: float) -> str:
    """Three digits or so."""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def times(x: float) -> str:
    return f"{number(x)}×"


def by_length(
    title: str, names: Mapping[str, str], rows: Sequence[R], cell: Callable[[R], str | None],
    baselines: Sequence[str] = (),
) -> Table | None:  # fmt: skip
    """Candidates down, lengths across; None where no cell has anything to say."""
    cells = {(row.candidate, row.n): text for row in rows if (text := cell(row)) is not None}
    lengths = sorted({n for _, n in cells})
    if not lengths:
        return None
    table = Table.of_text(
        "",
        ("", *(f"N = {n}" for n in lengths)),
        (
            (label, *(cells.get((name, n), SKIPPED) for n in lengths))
            for name, label in names.items()
            if any((name, n) in cells for n in lengths)
        ),
        (title, title),
    )
    marked = {names[name] for name in baselines}
    shown = (
        (replace(row[0], code=BASELINE), *row[1:]) if row[0].text in marked else row
        for row in table.rows
    )
    return replace(table, rows=tuple(shown))


def attention(
    rows: Sequence[AttentionRow], causal: bool = False, study: str = "attention"
) -> dict[str, Table]:
    """Time, memory and FLOPs, each as a multiple of stock SDPA at the same N."""
    own = [name for name, candidate in STUDIES[study].items() if candidate.baseline == name]
    kind = "causal, " if causal else ""
    found: dict[str, Table | None] = {}
    for work, name in WORKS.items():
        some = [row for row in rows if row.work == work]
        for what, measure, cell in (
            ("time", "Time", _time_cell), ("memory", "Peak memory", _memory_cell),
            ("flops", "FLOPs", _flop_cell),
        ):  # fmt: skip
            title = f"{measure}, {kind}{name}: × stock SDPA"
            table = by_length(title, labels(study), some, cell, own)
            if table is not None and what == "time":
                table = replace(
                    table, notes=tuple((note, note) for note in _disturbed(some, study))
                )
            found[f"{study} {work} {what}"] = table
    return {name: table for name, table in found.items() if table is not None}


def _disturbed(rows: Sequence[AttentionRow], study: str) -> Iterator[str]:
    """Why cells have a mark, each reason once."""
    by_reason: dict[tuple[int, str], list[str]] = {}
    for row in rows:
        if row.disturbed is not None:
            by_reason.setdefault((row.n, row.disturbed), []).append(labels(study)[row.candidate])
    timed = {row.n: sum(r.n == row.n and r.ms is not None for r in rows) for row in rows}
    for (n, reason), names in by_reason.items():
        who = "the whole column" if len(names) == timed[n] else ", ".join(names)
        yield (
            f"{DISTURBED} N = {n}, {who}: disturbed by other work on the machine, not to be "
            f"relied on until run again ({reason})."
        )


def _time_cell(row: AttentionRow) -> str | None:
    if row.ms is None or row.ratio is None:
        return None
    shown = f"{number(row.ms)} ms" if row.candidate == row.baseline else times(row.ratio)
    return shown if row.disturbed is None else shown + DISTURBED


def _memory_cell(row: AttentionRow) -> str | None:
    if row.memory_mb is None or row.memory_ratio is None or row.process_ratio is None:
        return None
    if row.candidate == row.baseline:
        return f"{number(row.memory_mb)} MB ({row.process_mb:.0f} MB)"
    return f"{times(row.memory_ratio)} ({times(row.process_ratio)})"


def _flop_cell(row: AttentionRow) -> str | None:
    if row.skipped is not None or row.gflop is None or row.flop_ratio is None:
        return None
    if row.candidate != row.baseline:
        return times(row.flop_ratio)
    return f"{number(row.gflop)} G" if row.gflop >= 0.1 else f"{number(1e3 * row.gflop)} M"


def summary(rows: Sequence[AttentionRow]) -> dict[str, Table]:
    """The summary of docs/benchmark.md: a few columns, whole-sequence candidates only."""
    at = {(row.candidate, row.work, row.n): row for row in rows}
    table = []
    for name, candidate in CANDIDATES.items():
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


def _summary_cell(row: AttentionRow | None, key: str) -> str:
    value = getattr(row, key, None)
    if row is None or value is None:
        return SKIPPED
    return times(value) + (DISTURBED if row.disturbed and key == "ratio" else "")


def layer(rows: Sequence[Row]) -> dict[str, Table]:
    def cell(row: Row) -> str | None:
        if row.ms is None or row.ratio is None:
            return None
        return f"{number(row.ms)} ms" if row.candidate == "vanilla" else times(row.ratio)

    own = {name: label for name, (label, _) in LAYERS.items()}
    table = by_length("Training step: × vanilla layer", own, rows, cell, ["vanilla"])
    return {} if table is None else {"layer": table}


def model(rows: Sequence[ModelRow]) -> dict[str, Table]:
    """Tokens a second: of the vanilla models as they are, of the others × those."""

    def cell(row: ModelRow) -> str | None:
        if row.tokens_s is None or row.speed is None:
            return None
        return f"{number(row.tokens_s)}/s" if row.candidate == row.baseline else times(row.speed)

    own = {name: made.label for name, made in MODELS.items()}
    baselines = [name for name, made in MODELS.items() if made.baseline == name]
    found = {
        f"model {work}": by_length(title, own, [r for r in rows if r.work == work], cell, baselines)
        for work, title in (
            (TRAINING, "Training, tokens a second: × vanilla"),
            (DECODE, "Generation, tokens a second: × vanilla"),
            (GENERATE, "Generation by generate(), tokens a second: × vanilla"),
        )
    }
    return {name: table for name, table in found.items() if table is not None}


def goals(table: Sequence[Mapping[str, object]]) -> dict[str, Table]:
    rows = []
    for row in table:
        limit, measured = (times(float(str(row[key]))) for key in ("limit", "measured"))
        limit = f"{'≥' if row['least'] else '≤'} {limit}"
        rows.append((str(row["goal"]), limit, measured, _verdict(row["reached"])))
    return _one("goals", "Goals", ("goal", "asked", "measured", ""), rows)


def imports(found: Mapping[str, Any]) -> dict[str, Table]:
    rows = [
        (label, f"{found[key]:.3f}")
        for key, label in (
            ("import_torch_s", "import torch"),
            ("import_ascender_s", "from ascender import AscenderAttention"),
            ("difference_s", "difference"),
            ("goal_s", "goal, at most"),
        )
    ]
    rows.append(("goal", _verdict(found["reached"])))
    title = "Import time, median of alternating processes"
    return _one("import", title, ("", "seconds"), rows)


def _one(
    name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> dict[str, Table]:
    """{name: table}, nothing where there are no rows."""
    return {name: Table.of_text(name, columns, rows, (title, title))} if rows else {}


def _verdict(reached: object) -> str:
    return "reached" if reached else "missed"
