"""Records in, comparisons out: every variant against the baseline, task by task.

A difference is judged over seeds (paired: the same seed draws the same batches for both), by the
suite's rule, with Holm over all comparisons of the suite. Beside it stands what the test examples
say: a paired bootstrap and approximate randomisation over them, seeds averaged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ascender.lab.curves import area, median_reached, reached
from ascender.lab.resampling import Resampled, approximate_randomisation, paired_bootstrap
from ascender.lab.stats import Interval, Paired, Summary, cliffs_delta, holm, paired, paired_d
from ascender.lab.verdict import DecisionRule, Verdict, verdict

Record = Mapping[str, Any]

# What the metrics of the tasks can be; of others nothing is known.
RANGES = {
    **dict.fromkeys(
        ("accuracy", "within 0.5", "exact match", "F1", "f1", "ROUGE-L", "chrF", "NMI"),
        Interval(0.0, 1.0),
    ),
    **dict.fromkeys(("matthews", "pearson", "spearman"), Interval(-1.0, 1.0)),
    "bits per byte": Interval(0.0, inf),
}
OF_A_TRIAL = ("task", "variant", "seed")


@runtime_checkable
class Judged(Protocol):
    """What there is to know of a suite for judging its records."""

    @property
    def baseline(self) -> str: ...

    @property
    def against(self) -> Mapping[str, str]: ...

    @property
    def rule(self) -> DecisionRule: ...


def baseline_of(suite: Judged, variant: str) -> str | None:
    """What a variant is compared with; None: it is what others are compared with."""
    if variant == suite.baseline or variant in suite.against.values():
        return None
    return suite.against.get(variant, suite.baseline)


@dataclass(frozen=True)
class Condition:
    """A task and a variant: the records of its seeds, in order."""

    task: str
    variant: str
    records: tuple[Record, ...]

    @property
    def seeds(self) -> list[int]:
        return [r["run"]["seed"] for r in self.records]

    @property
    def values(self) -> list[float]:
        """Test scores."""
        return [r["test"]["value"] for r in self.records]

    @property
    def range_(self) -> Interval | None:
        """Of the metric."""
        return RANGES.get(self.records[0]["metric"])

    @property
    def summary(self) -> Summary:
        return Summary.of(self.values, self.range_)

    def mean(self, name: str) -> float:
        """Of a number that every record has."""
        return float(np.mean([r[name] for r in self.records]))

    def areas(self) -> list[float]:
        """Under the learning curves, a seed each."""
        return [area(curve(r, "step")) for r in self.records if len(r["curve"]) > 1]

    def costs(self, goal: float, unit: str) -> list[float | None]:
        """What each seed took to reach a validation score; None where it never did."""
        higher = self.records[0]["higher"]
        return [reached(curve(r, unit), goal, higher) for r in self.records]

    def median_cost(self, goal: float, unit: str) -> float | None:
        """Over seeds, those that never got there censored at their end."""
        ends = [curve(r, unit)[-1][0] for r in self.records]
        return median_reached(self.costs(goal, unit), ends)


@dataclass(frozen=True)
class Comparison:
    """A variant against the baseline on one task; p is Holm's."""

    task: str
    variant: str
    baseline: str
    by_seed: Paired
    examples: Resampled | None
    randomised: float | None
    delta: float
    d: float | None
    p: float | None
    verdict: Verdict


def curve(record: Record, unit: str) -> list[tuple[float, float]]:
    """(cost, validation score): the cost in steps, tokens or seconds of training."""
    steps = max(record["steps"], 1)
    scale = {"step": 1.0, "tokens": record["tokens"] / steps, "seconds": record["seconds"] / steps}
    return [(point["step"] * scale[unit], point["value"]) for point in record["curve"]]


def on_validation(record: Record) -> Record:
    """As a suite that tunes sees it: the test's score is not there."""
    return {**record, "test": {"value": record["validation"], "scores": []}}


def label_tasks(records: Sequence[Record]) -> tuple[list[Record], dict[str, str]]:
    """Records whose task carries what else differs between runs of one variant and seed, such as
    "distinct (crowd=32)"; and the task that each such name stands for."""
    differ: dict[str, list[str]] = {}
    for group in _grouped(records):
        settings = [_flat(r) for r in group]
        names = dict.fromkeys(name for s in settings for name in s)
        new = [n for n in names if len({json.dumps(s.get(n)) for s in settings}) > 1]
        known = differ.setdefault(group[0]["run"]["task"], [])
        known += [name for name in new if name not in known]
    named: list[Record] = []
    base_task: dict[str, str] = {}
    for r in records:
        task, flat = r["run"]["task"], _flat(r)
        more = ", ".join(f"{name}={flat.get(name, 'default')}" for name in differ[task])
        label = f"{task} ({more})" if more else task
        base_task[label] = task
        named.append({**r, "run": {**r["run"], "task": label}})
    return named, base_task


def _grouped(records: Iterable[Record]) -> Iterable[list[Record]]:
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        groups.setdefault(tuple(r["run"][name] for name in OF_A_TRIAL), []).append(r)
    return groups.values()


def _flat(record: Record) -> dict[str, Any]:
    """Everything of a run but task, variant and seed; the task's options by their own names."""
    run = {k: v for k, v in record["run"].items() if k not in (*OF_A_TRIAL, "options")}
    return {**run, **record["run"].get("options", {})}


def conditions(records: Sequence[Record]) -> list[Condition]:
    """Records by task and variant, in the order in which they come."""
    found: dict[tuple[str, str], list[Record]] = {}
    for r in label_tasks(records)[0]:
        found.setdefault((r["run"]["task"], r["run"]["variant"]), []).append(r)
    return [
        Condition(task, variant, tuple(sorted(rs, key=lambda r: r["run"]["seed"])))
        for (task, variant), rs in found.items()
    ]


def compare(suite: Judged, records: Sequence[Record], draws: int = 10_000) -> list[Comparison]:
    """Every variant against its baseline, on the seeds that both have."""
    by_task: dict[str, dict[str, Condition]] = {}
    for condition in conditions(records):
        by_task.setdefault(condition.task, {})[condition.variant] = condition
    found = []
    for of in by_task.values():
        for variant, condition in of.items():
            base = of.get(baseline_of(suite, variant) or "")
            if base is not None and set(condition.seeds) & set(base.seeds):
                found.append(_one(condition, base, draws))
    adjusted = holm([c.by_seed.t_p for c in found])
    higher = {
        condition.task: bool(condition.records[0]["higher"]) for condition in conditions(records)
    }
    return [
        replace(
            c,
            p=p,
            verdict=verdict(c.by_seed.interval, p, replace(suite.rule, higher=higher[c.task])),
        )
        for c, p in zip(found, adjusted, strict=True)
    ]


def _one(condition: Condition, base: Condition, draws: int) -> Comparison:
    seeds = sorted(set(condition.seeds) & set(base.seeds))
    a, b = ([c.records[c.seeds.index(s)] for s in seeds] for c in (condition, base))
    x, y = ([r["test"]["value"] for r in rs] for rs in (a, b))
    examples = randomised = None
    scores = [np.array([r["test"]["scores"] for r in rs]) for rs in (a, b)]
    if scores[0].shape == scores[1].shape and scores[0].ndim == 2 and scores[0].size:
        examples = paired_bootstrap(scores[0], scores[1], draws)
        randomised = approximate_randomisation(scores[0], scores[1], draws).p
    return Comparison(
        condition.task, condition.variant, base.variant, paired(x, y, condition.range_),
        examples, randomised, cliffs_delta(x, y), paired_d(x, y), None, "tie",
    )  # fmt: skip
