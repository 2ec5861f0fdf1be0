"""What was measured of the trained models, over seeds: contributions, roles, grouping.

Tables here and figures in head_figures.py are functions of `ModelInsight`: from the records of a
suite, or from what `ascender insight` has just measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ascender.insight.capture import MUTABLE
from ascender.insight.contribution import rules_in, terms_in
from ascender.insight.grouping import as_now
from ascender.insight.roles import Roles, agreement, aligned, layer_agreement, roles_of, vectors
from ascender.lab.judge import RANGES
from ascender.lab.reports import cells
from ascender.lab.reports.cells import NONE, lab_table, mean_cell, number_cell, term_cell
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.stats import Paired, Summary, holm, paired
from ascender.lab.verdict import DecisionRule, verdict
from ascender.report.table import Cell, Table

Row = dict[str, Cell]
BESIDE = {
    "z": "states",
    "neighbours": "states",
    "flock": "states",
    "attention": "attention",
    "states": "states",
}


@dataclass(frozen=True)
class ModelInsight:
    """A task and a variant: what insight.measure found of each seed, in order."""

    task: str
    variant: str
    seeds: tuple[int, ...]
    keys: tuple[str, ...]
    measurements: tuple[Mapping[str, Any], ...]

    @property
    def ruled(self) -> bool:
        return all("moved" in f for f in self.measurements)

    @property
    def left_out(self) -> bool:
        """Whether its attention has no matrix of scores: then only the states were measured."""
        return any(f.get("left_out") for f in self.measurements)

    @property
    def rules(self) -> tuple[str, ...]:
        """Those whose moved attention was measured: with "aff" where it is a term."""
        return rules_in(self.measurements[0])

    @property
    def terms(self) -> tuple[str, ...]:
        return terms_in(self.measurements[0])

    @cached_property
    def vectors(self) -> list[np.ndarray]:
        """Of the heads of each seed, (L, H, 8), or 10 with the affinity term."""
        return [vectors(np.array(f["share"]), np.array(f["moved"])) for f in self.measurements]

    @cached_property
    def orders(self) -> list[np.ndarray]:
        """Of each seed's heads, so that those with the same index are alike."""
        return aligned(self.vectors)

    @cached_property
    def roles(self) -> Roles:
        """Of all heads of all seeds: by seed, layer and head."""
        return roles_of(np.concatenate([v.reshape(-1, v.shape[-1]) for v in self.vectors]))

    def mean(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Over seeds, of numbers by layer and head, heads matched."""
        return np.mean([
            np.take_along_axis(v, order, 1) for v, order in zip(values, self.orders, strict=True)
        ], 0)  # fmt: skip

    def omega(self, rule: str) -> np.ndarray:
        """Mean ω by layer and head."""
        return self.mean([np.array(f["omega"][rule]) for f in self.measurements])

    def moved(self, rule: str) -> np.ndarray:
        """Mean attention moved by layer and head."""
        at = MUTABLE.index(rule)
        return self.mean([np.array(f["moved"])[..., at] for f in self.measurements])

    def groups(self) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
        """By source and layer, an entry a seed."""
        groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for f in self.measurements:
            for g in as_now(f["grouping"]):
                groups.setdefault((g["of"], g["layer"]), []).append(g)
        return {name: of for name, of in groups.items() if len(of) == len(self.seeds)}


def measured(results: SuiteResults) -> list[ModelInsight]:
    """The conditions of a suite whose models have been measured."""
    models = []
    for c in results.conditions:
        rs = [r for r in c.records if r.get("insight")]
        if rs:
            own = replace(c, records=tuple(rs))
            insight = tuple(r["insight"] for r in rs)
            models.append(ModelInsight(c.task, c.variant, tuple(own.seeds), own.keys, insight))
    return models


def insight_tables(
    models: Sequence[ModelInsight], baseline: str, rule: DecisionRule
) -> list[Table]:
    """All that there is something for."""
    tables = [*(insight_table(name, models, baseline) for name in TABLES),
              grouping(models, baseline, rule)]  # fmt: skip
    return [table for table in tables if table.rows]


def insight_table(name: str, models: Sequence[ModelInsight], baseline: str) -> Table:
    """A table of TABLES, of the models that have rules."""
    rows = (_named(m) | row for m in models if m.ruled for row in TABLES[name](m))
    return lab_table(name, rows, baseline)


def _named(m: ModelInsight) -> Row:
    return {"task": Cell(m.task), "variant": Cell(m.variant, m.keys)}


def _contribution(m: ModelInsight) -> Iterator[Row]:
    """What each rule does, by layer and over all."""
    for r, rule in enumerate(m.rules):
        omega = [np.array(f["omega"][rule]) for f in m.measurements]
        share = [np.array(f["share"])[..., m.terms.index(rule)] for f in m.measurements]
        moved = [np.array(f["moved"])[..., r] for f in m.measurements]
        whole = [np.array(f["whole"])[..., r] for f in m.measurements]
        by_seed = {"omega": omega, "share": share, "moved": moved, "whole": whole}
        for layer in [*range(len(share[0])), None]:
            at = slice(None) if layer is None else layer
            yield {
                "of": term_cell(rule),
                "layer": Cell("all" if layer is None else str(layer)),
                **{n: mean_cell(Summary.of([np.mean(x[at]) for x in of]), m.keys)
                   for n, of in by_seed.items()},
                "muted": _muted(m, rule) if layer is None else NONE,
                "n": Cell(str(len(m.seeds)), m.keys),
            }  # fmt: skip


def _muted(m: ModelInsight, rule: str) -> Cell:
    """The score with the rule muted less the score as it is."""
    if not all("score" in f for f in m.measurements):
        return NONE
    s = Summary.of([f["score"][rule] - f["score"][""] for f in m.measurements])
    return mean_cell(s, m.keys, signed=True)


def _roles(m: ModelInsight) -> Iterator[Row]:
    """The roles that heads of all seeds fall into."""
    roles, (L, H) = m.roles, m.vectors[0].shape[:2]
    layer = np.tile(np.repeat(np.arange(L), H), len(m.seeds))
    columns = (*(f"share_{t}" for t in m.terms), *(f"moved_{r}" for r in m.rules))
    for k, (name, centre) in enumerate(zip(roles.names, roles.centres, strict=True)):
        mine = roles.which == k
        n, of = int(mine.sum()), Counter(layer[mine].tolist())
        yield {
            "role": term_cell(name),
            "heads": Cell(f"{n}/{len(mine)}", m.keys, {"": n}),
            "by_layer": Cell(" ".join(str(of[i]) for i in range(L)), m.keys),
            **{c: number_cell(float(x), m.keys) for c, x in zip(columns, centre, strict=True)},
        }


def _agreement(m: ModelInsight) -> Iterator[Row]:
    """Whether seeds agree on how heads differ."""
    if len(m.seeds) < 2:
        return
    layers = range(len(m.vectors[0]))
    of = {str(layer): agreement([v[layer] for v in m.vectors]) for layer in layers}
    for layer, a in {**of, "all": layer_agreement(m.vectors)}.items():
        known = a.r is not None and a.null is not None
        yield {
            "layer": Cell(layer),
            "pairs": Cell(str(a.pairs), m.keys),
            "agreement": number_cell(a.r if known else None, m.keys, cells.effect),
            "null": number_cell(a.null if known else None, m.keys, cells.effect),
            "p_null": number_cell(a.p if known else None, m.keys, cells.p_value),
        }


TABLES: dict[str, Callable[[ModelInsight], Iterator[Row]]] = {
    "contribution": _contribution, "roles": _roles, "agreement": _agreement,
}  # fmt: skip


def grouping(models: Sequence[ModelInsight], baseline: str, rule: DecisionRule) -> Table:
    """How well each source finds the groups, against chance and against the baseline."""
    pairs: list[tuple[Row, ModelInsight, ModelInsight | None, Paired | None]] = []
    for m in models:
        base = next((b for b in models if (b.task, b.variant) == (m.task, baseline)), None)
        for (of, layer), by_seed in m.groups().items():
            nmi = Summary.of([g["nmi"][0] for g in by_seed], RANGES["NMI"])
            chance = [Summary.of([g["chance"][i] for g in by_seed]).mean for i in (0, 1)]
            row = {
                **_named(m),
                "of": term_cell(of),
                "layer": Cell(str(layer)),
                "nmi": mean_cell(nmi, m.keys),
                "interval": cells.interval_cell(nmi.interval, m.keys),
                "ari": mean_cell(Summary.of([g["ari"][0] for g in by_seed]), m.keys),
                "chance_nmi": number_cell(chance[0], m.keys),
                "chance_ari": number_cell(chance[1], m.keys),
                "n": Cell(str(nmi.n), m.keys),
            }
            pairs.append((row, m, base, _beside(m, base, of, layer)))
    adjusted = iter(holm([pair.t_p for *_, pair in pairs if pair is not None]))
    for row, m, base, pair in pairs if baseline else ():
        word, p, trials, difference = "unjudged", None, m.keys, NONE
        if m.variant == baseline:
            word = "baseline"
        elif pair is not None and base is not None:
            p, trials = next(adjusted), (*m.keys, *base.keys)
            difference = cells.difference_cell(pair.mean, pair.interval, trials)
            if p is not None:
                word = verdict(pair.interval, p, replace(rule, higher=True))
        row["difference"], row["p"] = difference, number_cell(p, trials, cells.p_value)
        row["verdict"] = cells.verdict_cell(word, trials)
    return lab_table("grouping", (row for row, *_ in pairs), baseline)


def _beside(m: ModelInsight, base: ModelInsight | None, of: str, layer: int) -> Paired | None:
    """NMI against the baseline's on the seeds that both have: of the same source, or of the states
    that the layer reads where the baseline has no such thing."""
    if base is None or base is m:
        return None
    theirs = dict(zip(base.seeds, base.groups().get((BESIDE[of], layer), ()), strict=False))
    mine = dict(zip(m.seeds, m.groups()[of, layer], strict=True))
    common = sorted(set(mine) & set(theirs))
    if not common:
        return None
    a, b = ([side[seed]["nmi"][0] for seed in common] for side in (mine, theirs))
    return paired(a, b, RANGES["NMI"])
