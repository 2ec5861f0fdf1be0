"""Two tables for a claim of efficiency: non-inferiority, and costs at long lengths."""

from __future__ import annotations

from ascender.lab.reports.cells import (
    NONE,
    difference_cell,
    keys,
    lab_table,
    number,
    ratio_cell,
    short,
    verdict_cell,
)  # fmt: skip
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import FLOPS
from ascender.lab.stats import Interval
from ascender.lab.verdict import inferior, not_inferior
from ascender.report.table import Cell, Table


def inferiority(results: SuiteResults) -> Table:
    """Whether a variant is at most the suite's margin worse than the baseline, and its attention
    FLOPs beside it. No rows where the suite has no margin."""
    margin = results.sheet.rule.margin
    rows = []
    for condition in results.conditions if margin else ():
        c, base = (
            results.judged.get((condition.task, condition.variant)),
            results.base_of(condition),
        )
        if c is None or base is None or c.by_seed.interval is None:
            continue
        common = sorted(set(condition.seeds) & set(base.seeds))
        trials = keys(condition, base, seeds=common)
        within, higher = c.by_seed.interval, bool(condition.records[0]["higher"])
        flops = condition.mean(FLOPS) / base.mean(FLOPS)
        rows.append((
            Cell(condition.task), Cell(condition.variant, keys(condition)),
            Cell(str(len(common)), trials), difference_cell(c.by_seed.mean, within, trials),
            Cell(number(margin), (), {"": margin}),
            verdict_cell(_verdict(within, margin, higher), trials), ratio_cell(flops, trials),
        ))  # fmt: skip
    columns = ("task", "variant", "n", "difference", "margin", "verdict", "flops_ratio")
    return lab_table("inferiority", columns, rows, results.sheet.baseline)


def _verdict(within: Interval, margin: float, higher: bool) -> str:
    if not_inferior(within, margin, higher):
        return "not_inferior"
    return "inferior" if inferior(within, margin, higher) else "unproven"


def costs(results: SuiteResults) -> Table:
    """One attention layer of each variant at length, × the baseline's at the same length."""
    rows = []
    found = results.source.costs
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
    return lab_table("costs", columns, rows, found[0].variant if found else "")


def _beside(x: float, ratio: float) -> Cell:
    return Cell(f"{short(x)} ({ratio:.2f}×)", (), {"mean": x, "ratio": ratio})
