"""The benchmarks' tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ascender.bench import tables
from ascender.bench.attention import AttentionRow
from ascender.bench.choose import ChooseRow
from ascender.bench.model import NEW, TOKENS, VOCABULARY, ModelRow
from ascender.bench.studies import labels
from ascender.bench.tables import SKIPPED, WORKS, number, times
from ascender.measure.timing import Row
from ascender.report.table import Table
from ascender.report.terminal import rich_table

STYLES = {"reached": "green", "missed": "yellow"}
SIZES = {
    "attention": "d_z = 15, d_a = 16, k = 16",
    "variants": "otherwise each attention's own defaults; without the projections",
}
COUNTED = {
    "attention": "by formulas that the tests hold to a count on the operators",
    "variants": "counted on the operators",
}


def rich_tables(found: Mapping[str, Table]) -> RenderableType:
    """Tables with their notes."""
    shown: list[RenderableType] = []
    for table in found.values():
        shown += [rich_table(table, styles=STYLES), *(_note(en) for en, _ in table.notes)]
    return Group(*shown)


def _note(text: str) -> Text:
    return Text(text, style="dim")


def attention(
    rows: Sequence[AttentionRow], causal: bool, study: str = "attention"
) -> RenderableType:
    """Time, memory and FLOPs, each as a multiple of stock SDPA at the same N."""
    found = tables.attention(rows, causal, study)
    return Group(rich_tables(found), *map(_note, _notes(rows, study)))


def _notes(rows: Sequence[AttentionRow], study: str) -> Iterable[str]:
    yield (
        f"B = 1, 4 heads of 64, {SIZES[study]}, float32. Candidates take turns; the best turn "
        "counts. Forward keeps nothing for a gradient; backward reaches every input and every "
        "learned number."
    )
    yield f"FLOPs are those of products (matrices, flash, index lists), {COUNTED[study]}."
    if any(row.memory_mb is not None for row in rows):
        yield (
            "Memory: each in its own process; growth of resident memory during the call at its "
            "peak, plus the size of the inputs (in brackets: the whole process)."
        )
    skipped: dict[str, None] = {}  # why cells are empty, each reason once
    for row in rows:
        if row.skipped is not None:
            where = f"{WORKS[row.work]} at N = {row.n}"
            skipped[f"{labels(study)[row.candidate]}, {where}: {row.skipped}"] = None
    if skipped:
        yield f"{SKIPPED} skipped: " + "; ".join(skipped) + "."


def layer(rows: Sequence[Row]) -> RenderableType:
    note = "Forward and backward, no optimiser; B = 32, 4 heads of 16; best turn of each."
    return Group(rich_tables(tables.layer(rows)), _note(note))


def model(rows: Sequence[ModelRow]) -> RenderableType:
    note = (
        f"256 wide, 4 layers, 4 heads of 64, {VOCABULARY} words, float32. Training: forward, loss, "
        f"backward, AdamW on about {TOKENS} tokens. Generation: {NEW} tokens after N, one sequence."
        " Models take turns; the best turn counts."
    )
    return Group(rich_tables(tables.model(rows)), _note(note))


def choose(rows: Sequence[ChooseRow]) -> RenderableType:
    """Per kind and work: × the fastest backend; the fastest is bold, auto's choice has a star."""
    names = list(dict.fromkeys(row.candidate for row in rows))
    groups: dict[tuple[str, str], dict[int, list[ChooseRow]]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.work), {}).setdefault(row.n, []).append(row)
    shown: list[RenderableType] = []
    for (kind, work), by_length in groups.items():
        title = f"{kind}, {WORKS[work]}"
        table = rich_table(Table.of_text("", ("N", "best", *names), (), (title, title)))
        for n, some in by_length.items():
            found = {row.candidate: row for row in some}
            ms = next(row.ms for row in some if row.fastest)
            assert ms is not None
            table.add_row(str(n), f"{number(ms)} ms", *(_choice(found[name]) for name in names))
        shown.append(table)
    note = f"× the fastest (bold); * is what auto takes; {SKIPPED} cannot, or too long to wait for."
    return Group(*shown, _note(note))


def _choice(row: ChooseRow) -> Text:
    text = SKIPPED if row.ratio is None else times(row.ratio)
    return Text(text + ("*" if row.auto else " "), style="bold" if row.fastest else "")
