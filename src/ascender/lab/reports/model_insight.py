"""What was measured of the trained models, over seeds: contributions, roles, grouping.

Tables here and figures in head_figures.py are functions of `ModelInsight`: from the records of a
suite, or from what `ascender insight` has just measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ascender.core.rules import RULES
from ascender.insight.contribution import TERMS
from ascender.insight.grouping import as_now
from ascender.insight.roles import Roles, agreement, aligned, layer_agreement, roles_of, vectors
from ascender.lab.judge import RANGES
from ascender.lab.reports.cells import (
    NONE,
    difference_cell,
    effect,
    interval_cell,
    lab_table,
    mean_cell,
    number,
    p_cell,
    term_cell,
    verdict_cell,
)  # fmt: skip
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.stats import Paired, Summary, holm, paired
from ascender.lab.verdict import DecisionRule, verdict
from ascender.report.table import Cell, Table

BESIDE = {"z": "states", "neighbours": "states", "attention": "attention", "states": "states"}


@dataclass(frozen=True)
class ModelInsight:
    """A task and a variant: what insight.measure found of each seed, in order."""

    task: str
    variant: str
    seeds: tuple[int, ...]
    keys: tuple[str, ...]
    found: tuple[Mapping[str, Any], ...]

    @property
    def ruled(self) -> bool:
        return all("moved" in f for f in self.found)

    @cached_property
    def vectors(self) -> list[np.ndarray]:
        """Condition the heads of each seed, (L, H, 8)."""
        return [vectors(np.array(f["share"]), np.array(f["moved"])) for f in self.found]

    @cached_property
    def orders(self) -> list[np.ndarray]:
        """Condition each seed's heads, so that those with the same index are alike."""
        return aligned(self.vectors)

    @cached_property
    def roles(self) -> Roles:
        """Condition all heads of all seeds: by seed, layer and head."""
        return roles_of(np.concatenate([v.reshape(-1, v.shape[-1]) for v in self.vectors]))

    def mean(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Over seeds, of numbers by layer and head, heads matched."""
        return np.mean([
            np.take_along_axis(v, order, 1) for v, order in zip(values, self.orders, strict=True)
        ], 0)  # fmt: skip

    def omega(self, rule: str) -> np.ndarray:
        """Mean ω by layer and head."""
        return self.mean([np.array(f["omega"][rule]) for f in self.found])

    def moved(self, rule: str) -> np.ndarray:
        """Mean attention moved by layer and head."""
        at = RULES.index(rule)
        return self.mean([np.array(f["moved"])[..., at] for f in self.found])

    def groups(self) -> dict[tuple[str, int], list[Mapping[str, Any]]]:
        """By source and layer, an entry a seed."""
        found: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
        for f in self.found:
            for g in as_now(f["grouping"]):
                found.setdefault((g["of"], g["layer"]), []).append(g)
        return {name: of for name, of in found.items() if len(of) == len(self.seeds)}


def measured(results: SuiteResults) -> list[ModelInsight]:
    """The cells of a results whose records have been measured."""
    made = []
    for condition in results.conditions:
        rs = [r for r in condition.records if r.get("insight")]
        if rs:
            seeds = tuple(r["run"]["seed"] for r in rs)
            keys = tuple(r["key"] for r in rs)
            made.append(ModelInsight(condition.task, condition.variant, seeds, keys,
                                 tuple(r["insight"] for r in rs)))  # fmt: skip
    return made


def insight_tables(found: Sequence[ModelInsight], baseline: str, rule: DecisionRule) -> list[Table]:
    """All that there is something for."""
    made = [
        contribution(found, baseline), role_table(found, baseline), agreements(found, baseline),
        grouping(found, baseline, rule),
    ]  # fmt: skip
    return [table for table in made if table.rows]


def contribution(found: Sequence[ModelInsight], baseline: str) -> Table:
    """What each rule does, by layer and over all."""
    columns = ("task", "variant", "of", "layer", "omega", "share", "moved", "whole", "muted", "n")
    rows = []
    for m in found:
        if not m.ruled:
            continue
        L = len(m.found[0]["share"])
        for r, rule in enumerate(RULES):
            for layer in [*range(L), None]:
                at = slice(None) if layer is None else layer
                by_seed = {
                    "omega": [np.mean(np.array(f["omega"][rule])[at]) for f in m.found],
                    "share": [
                        np.mean(np.array(f["share"])[at][..., TERMS.index(rule)]) for f in m.found
                    ],
                    "moved": [np.mean(np.array(f["moved"])[at][..., r]) for f in m.found],
                    "whole": [np.mean(np.array(f["whole"])[at][..., r]) for f in m.found],
                }
                rows.append((
                    Cell(m.task), Cell(m.variant, m.keys), term_cell(rule),
                    Cell("all" if layer is None else str(layer)),
                    *(mean_cell(Summary.of(x), m.keys) for x in by_seed.values()),
                    _muted(m, rule) if layer is None else NONE, Cell(str(len(m.seeds)), m.keys),
                ))  # fmt: skip
    return lab_table("contribution", columns, rows, baseline)


def _muted(m: ModelInsight, rule: str) -> Cell:
    """The score with the rule muted less the score as it is."""
    if not all("score" in f for f in m.found):
        return NONE
    s = Summary.of([f["score"][rule] - f["score"][""] for f in m.found])
    return mean_cell(s, m.keys, signed=True)


def role_table(found: Sequence[ModelInsight], baseline: str) -> Table:
    """The roles that heads of all seeds fall into."""
    columns = ("task", "variant", "role", "heads", "by_layer",
               *(f"share_{t}" for t in TERMS), *(f"moved_{r}" for r in RULES))  # fmt: skip
    rows = []
    for m in found:
        if not m.ruled:
            continue
        made = m.roles
        L, H = m.vectors[0].shape[:2]
        layer = np.tile(np.repeat(np.arange(L), H), len(m.seeds))
        for k, (name, centre) in enumerate(zip(made.names, made.centres, strict=True)):
            mine = made.which == k
            of = Counter(layer[mine].tolist())
            rows.append((
                Cell(m.task), Cell(m.variant, m.keys), term_cell(name),
                Cell(f"{mine.sum()}/{len(mine)}", m.keys, {"": int(mine.sum())}),
                Cell(" ".join(str(of[i]) for i in range(L)), m.keys),
                *(Cell(number(x), m.keys, {"": float(x)}) for x in centre),
            ))  # fmt: skip
    return lab_table("roles", columns, rows, baseline)


def agreements(found: Sequence[ModelInsight], baseline: str) -> Table:
    """Whether seeds agree on how heads differ."""
    columns = ("task", "variant", "layer", "pairs", "agreement", "null", "p_null")
    rows = []
    for m in found:
        if not m.ruled or len(m.seeds) < 2:
            continue
        made = {
            str(layer): agreement([v[layer] for v in m.vectors])
            for layer in range(len(m.vectors[0]))
        }
        for layer, a in {**made, "all": layer_agreement(m.vectors)}.items():
            shown = [NONE, NONE, NONE]
            if a.r is not None and a.null is not None:
                two = [Cell(effect(x), m.keys, {"": x}) for x in (a.r, a.null)]
                shown = [*two, p_cell(a.p, m.keys)]
            rows.append((Cell(m.task), Cell(m.variant, m.keys), Cell(layer),
                         Cell(str(a.pairs), m.keys), *shown))  # fmt: skip
    return lab_table("agreement", columns, rows, baseline)


def grouping(found: Sequence[ModelInsight], baseline: str, rule: DecisionRule) -> Table:
    """How well each source finds the groups, against chance and against the baseline."""
    columns = ("task", "variant", "of", "layer", "nmi", "interval", "ari", "chance_nmi",
               "chance_ari", "n", "difference", "p", "verdict")  # fmt: skip
    lines = []
    for m in found:
        base = next((b for b in found if (b.task, b.variant) == (m.task, baseline)), None)
        for (of, layer), got in m.groups().items():
            nmi = Summary.of([g["nmi"][0] for g in got], RANGES["NMI"])
            ari = Summary.of([g["ari"][0] for g in got])
            chance = [Summary.of([g["chance"][i] for g in got]).mean for i in (0, 1)]
            cells = (
                Cell(m.task), Cell(m.variant, m.keys), term_cell(of), Cell(str(layer)),
                mean_cell(nmi, m.keys), interval_cell(nmi.interval, m.keys),
                mean_cell(ari, m.keys), *(Cell(number(c), m.keys, {"": c}) for c in chance),
                Cell(str(nmi.n), m.keys),
            )  # fmt: skip
            lines.append((cells, m, base, _beside(m, base, of, layer)))
    adjusted = iter(holm([pair.t_p for *_, pair in lines if pair is not None]))
    rows: list[tuple[Cell, ...]] = []
    for cells, m, base, pair in lines:
        if pair is None or base is None:
            word = "baseline" if m.variant == baseline else "unjudged"
            rows.append((*cells, NONE, NONE, verdict_cell(word, m.keys)))
            continue
        p = next(adjusted)
        word = "unjudged" if p is None else verdict(pair.interval, p, replace(rule, higher=True))
        mine = (*m.keys, *base.keys)
        rows.append((*cells, difference_cell(pair.mean, pair.interval, mine), p_cell(p, mine),
                     verdict_cell(word, mine)))  # fmt: skip
    kept = len(columns) if baseline else columns.index("difference")
    return lab_table("grouping", columns[:kept], [row[:kept] for row in rows], baseline)


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
