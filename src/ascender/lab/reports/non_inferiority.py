"""Two tables for a claim of efficiency: who is not worse, and what it costs where it is long."""

from __future__ import annotations

from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.table import Cell, Table
from ascender.lab.reports.tables import FLOPS, NONE, keys, number, ratio_cell, short, span
from ascender.lab.stats import Interval
from ascender.lab.verdict import inferior, not_inferior


def inferiority(study: SuiteResults) -> Table:
    """Whether a variant is at most the suite's margin worse than the baseline, and its attention
    FLOPs beside it. No rows where the suite has no margin."""
    margin = study.sheet.rule.margin
    rows = []
    for cell in study.cells if margin else ():
        c, base = study.judged.get((cell.task, cell.variant)), study.base_of(cell)
        if c is None or base is None or c.by_seed.interval is None:
            continue
        common = sorted(set(cell.seeds) & set(base.seeds))
        mine = keys(cell, base, seeds=common)
        within, higher = c.by_seed.interval, bool(cell.records[0]["higher"])
        flops = cell.mean(FLOPS) / base.mean(FLOPS)
        rows.append((
            Cell(cell.task), Cell(cell.variant, keys(cell)), Cell(str(len(common)), mine),
            Cell(f"{number(c.by_seed.mean, True)} {span(within, True)}", mine,
                 {"mean": c.by_seed.mean, "low": within.low, "high": within.high}),
            Cell(number(margin), (), {"": margin}),
            Cell(_word(within, margin, higher), mine), ratio_cell(flops, mine),
        ))  # fmt: skip
    columns = ("task", "variant", "n", "difference", "margin", "verdict", "flops_ratio")
    return Table("inferiority", columns, tuple(rows), study.sheet.baseline)


def _word(within: Interval, margin: float, higher: bool) -> str:
    if not_inferior(within, margin, higher):
        return "not_inferior"
    return "inferior" if inferior(within, margin, higher) else "unproven"


def costs(study: SuiteResults) -> Table:
    """One attention layer of each variant at length, × the baseline's at the same length."""
    rows = []
    found = study.source.costs
    for row in found:
        base = next(r for r in found if r.n == row.n)
        tokens, usual = (1e3 * r.n / r.training_ms for r in (row, base))
        cells = [Cell(row.variant), Cell(f"{row.n:,}", (), {"": row.n})]
        for x, b in (
            (row.flops, base.flops), (row.forward_ms, base.forward_ms), (tokens, usual),
            (row.memory_mb, base.memory_mb),
        ):  # fmt: skip
            cells.append(NONE if x is None or b is None else _beside(x, x / b))
        rows.append(tuple(cells))
    columns = ("variant", "length", "layer_flops", "latency", "training_speed", "training_memory")
    return Table("costs", columns, tuple(rows), found[0].variant if found else "")


def _beside(x: float, ratio: float) -> Cell:
    return Cell(f"{short(x)} ({ratio:.2f}×)", (), {"mean": x, "ratio": ratio})
