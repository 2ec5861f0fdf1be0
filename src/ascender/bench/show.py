"""Tables of the benchmarks' rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ascender.bench.attention import AttentionRow
from ascender.bench.candidates import CANDIDATES
from ascender.bench.choose import ChooseRow
from ascender.bench.layer import LAYERS
from ascender.bench.timing import FORWARD, TRAINING, Row

SKIPPED = "…"
WORKS = {FORWARD: "forward", TRAINING: "forward + backward"}


def number(x: float) -> str:
    """Three digits or so."""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def _times(x: float) -> str:
    return f"{number(x)}×"


def _grid(title: str, first: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.title_justify, table.title_style, table.min_width = "left", "bold", len(title) + 1
    table.add_column(first, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _by_length(
    title: str, rows: Sequence[AttentionRow], cell: Callable[[AttentionRow], str | None]
) -> Table | None:
    """Candidates down, lengths across; None where no cell has anything to say."""
    cells = {(row.candidate, row.n): cell(row) for row in rows}
    lengths = sorted({n for (_, n), text in cells.items() if text is not None})
    if not lengths:
        return None
    table = _grid(title, "", [f"N = {n}" for n in lengths])
    for name, candidate in CANDIDATES.items():
        texts = [cells.get((name, n)) for n in lengths]
        if any(texts):
            base = candidate.baseline == name
            style = "dim" if base else None
            table.add_row(candidate.label, *(t or SKIPPED for t in texts), style=style)
    return table


def attention(rows: Sequence[AttentionRow], causal: bool) -> RenderableType:
    """Time, memory and FLOPs, each as a multiple of stock SDPA at the same N."""
    tables: list[RenderableType | None] = []
    kind = "causal, " if causal else ""
    for work, name in WORKS.items():
        of = [row for row in rows if row.work == work]
        tables += [
            _by_length(f"Time, {kind}{name}: × stock SDPA", of, _time_cell),
            _by_length(f"Peak memory, {kind}{name}: × stock SDPA", of, _memory_cell),
            _by_length(f"Counted FLOPs, {kind}{name}: × stock SDPA", of, _flop_cell),
        ]
    shown = [table for table in tables if table is not None]
    return Group(*shown, *_notes(rows))


def _time_cell(row: AttentionRow) -> str | None:
    if row.ms is None or row.ratio is None:
        return None
    return f"{number(row.ms)} ms" if row.candidate == row.baseline else _times(row.ratio)


def _memory_cell(row: AttentionRow) -> str | None:
    if row.memory_mb is None or row.memory_ratio is None or row.process_ratio is None:
        return None
    if row.candidate == row.baseline:
        return f"{number(row.memory_mb)} MB ({row.process_mb:.0f} MB)"
    return f"{_times(row.memory_ratio)} ({_times(row.process_ratio)})"


def _flop_cell(row: AttentionRow) -> str | None:
    if row.skipped is not None:
        return None
    if row.candidate != row.baseline:
        return _times(row.flop_ratio)
    return f"{number(row.gflop)} G" if row.gflop >= 0.1 else f"{number(1e3 * row.gflop)} M"


def _notes(rows: Sequence[AttentionRow]) -> Iterable[Text]:
    notes = [
        "B = 1, 4 heads of 64, d_z = 15, d_a = 16, k = 16, float32. Candidates take turns; the "
        "best turn counts. Forward keeps nothing for a gradient; backward reaches every input "
        "and every number of the rules.",
        "FLOPs are those of products (matrices, flash, index lists), by formulas that the tests "
        "hold to a count on the operators.",
    ]
    if any(row.memory_mb is not None for row in rows):
        notes.append(
            "Memory: each in its own process; growth of resident memory during the call at its "
            "peak, plus the size of the inputs (in brackets: the whole process)."
        )
    skipped: dict[str, None] = {}
    for row in rows:
        if row.skipped is not None:
            where = f"{WORKS[row.work]} at N = {row.n}"
            skipped[f"{CANDIDATES[row.candidate].label}, {where}: {row.skipped}"] = None
    if skipped:
        notes.append(f"{SKIPPED} skipped: " + "; ".join(skipped) + ".")
    return (Text(note, style="dim") for note in notes)


def goals(table: Sequence[dict[str, object]]) -> RenderableType:
    """goal | limit | measured | reached"""
    shown = _grid("Goals of this run", "goal", ["at most", "measured", "reached"])
    for row in table:
        limit, measured = (float(str(row[key])) for key in ("limit", "measured"))
        shown.add_row(
            str(row["goal"]),
            _times(limit),
            _times(measured),
            Text("yes", style="green") if row["reached"] else Text("not yet", style="yellow"),
        )
    return shown


def layer(rows: Sequence[Row]) -> RenderableType:
    lengths = sorted({row.n for row in rows})
    found = {(row.candidate, row.n): row for row in rows}
    table = _grid("Training step: × vanilla layer", "layer", [f"N = {n}" for n in lengths])
    for name, (label, _) in LAYERS.items():
        cells = []
        for n in lengths:
            row = found[name, n]
            assert row.ms is not None
            assert row.ratio is not None
            cells.append(f"{number(row.ms)} ms" if name == "vanilla" else _times(row.ratio))
        table.add_row(label, *cells)
    note = "Forward and backward, no optimiser; B = 32, 4 heads of 16; best turn of each."
    return Group(table, Text(note, style="dim"))


def choose(rows: Sequence[ChooseRow]) -> RenderableType:
    """Per kind and work: × the fastest backend; the fastest is bold, auto's choice has a star."""
    names = list(dict.fromkeys(row.candidate for row in rows))
    groups: dict[tuple[str, str], dict[int, list[ChooseRow]]] = {}
    for row in rows:
        groups.setdefault((row.kind, row.work), {}).setdefault(row.n, []).append(row)
    tables: list[RenderableType] = []
    for (kind, work), by_length in groups.items():
        table = _grid(f"{kind}, {WORKS[work]}", "N", ["best", *names])
        for n, some in by_length.items():
            found = {row.candidate: row for row in some}
            ms = next(row.ms for row in some if row.fastest)
            assert ms is not None
            table.add_row(str(n), f"{number(ms)} ms", *(_choice(found[name]) for name in names))
        tables.append(table)
    note = f"× the fastest (bold); * is what auto takes; {SKIPPED} cannot, or too long to wait for."
    return Group(*tables, Text(note, style="dim"))


def _choice(row: ChooseRow) -> Text:
    text = SKIPPED if row.ratio is None else _times(row.ratio)
    return Text(text + ("*" if row.auto else " "), style="bold" if row.fastest else "")


def imports(found: dict[str, float | bool]) -> RenderableType:
    table = _grid("Import time, median of alternating processes", "", ["seconds"])
    for key, label in (
        ("import_torch_s", "import torch"),
        ("import_ascender_s", "import ascender"),
        ("difference_s", "difference"),
        ("goal_s", "goal, at most"),
    ):
        table.add_row(label, f"{found[key]:.3f}")
    table.add_row("reached", "yes" if found["reached"] else "not yet")
    return table
