"""Records in, comparisons out: every variant against the baseline, task by task.

A difference is judged over seeds (paired: the same seed draws the same batches for both), by the
suite's rule, with Holm over all comparisons of the suite. Beside it stands what the test examples
say: a paired bootstrap and approximate randomisation over them, seeds averaged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    def keys(self) -> tuple[str, ...]:
        """Of the trials."""
        return tuple(r["key"] for r in self.records)

    @property
    def seeds(self) -> list[int]:
        return [r["run"]["seed"] for r in self.records]

    @property
    def values(self) -> list[float]:
        """Test scores."""
        return [r["test"]["value"] for r in self.records]

    @property
    def higher(self) -> bool:
        """Whether more of the metric is better."""
        return bool(self.records[0]["higher"])

    @property
    def chance(self) -> float | None:
        """The chance level of the task."""
        chance: float | None = self.records[0]["chance"]
        return chance

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
        return [reached(curve(r, unit), goal, self.higher) for r in self.records]

    def at_step(self, step: int) -> list[float] | None:
        """Validation scores at a step, a seed each; None where a seed has none there."""
        found = [{p["step"]: p["value"] for p in r["curve"]}.get(step) for r in self.records]
        return None if None in found else [float(x) for x in found if x is not None]

    def median_cost(self, goal: float, unit: str) -> float | None:
        """Over seeds, those that never got there censored at their end."""
        ends = [curve(r, unit)[-1][0] for r in self.records]
        return median_reached(self.costs(goal, unit), ends)


def matched(a: Condition, b: Condition | None) -> tuple[Condition, Condition] | None:
    """Both on the seeds that both have, in the same order; None: no such seed."""
    common = set(a.seeds) & set(b.seeds) if b is not None else set()
    if b is None or not common:
        return None
    mine, theirs = (
        replace(c, records=tuple(c.records[c.seeds.index(seed)] for seed in sorted(common)))
        for c in (a, b)
    )
    return mine, theirs


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


def flops_until(record: Record, step: int) -> float:
    """Attention FLOPs of the forward passes up to a step; in flock scope with those of the visible
    phase, in which attention goes to everything visible."""
    first: Mapping[str, Any] = record.get("visible_phase") or {}
    early = min(step, first.get("steps", 0))
    usual = (step - early) * record["attention_flops_an_example"]
    whole: float = early * first.get("attention_flops_an_example", 0) + usual
    return whole * int(record["run"]["batch"])


def curve(record: Record, unit: str) -> list[tuple[float, float]]:
    """(cost, validation score): the cost in steps, tokens, attention FLOPs or seconds of
    training."""
    steps = max(record["steps"], 1)
    if unit == "flops":
        return [(flops_until(record, p["step"]), p["value"]) for p in record["curve"]]
    scale = {"step": 1.0, "tokens": record["tokens"] / steps, "seconds": record["seconds"] / steps}
    return [(point["step"] * scale[unit], point["value"]) for point in record["curve"]]


def omega(record: Record) -> Mapping[str, list[list[float]]]:
    """ω by rule, layer and head at the last point of the curve; nothing where there is none."""
    return record["curve"][-1].get("omega", {}) if record["curve"] else {}


def on_validation(record: Record) -> Record:
    """As a suite that tunes sees it: the test's score is not there."""
    return {**record, "test": {"value": record["validation"], "scores": []}}


def label_tasks(records: Sequence[Record]) -> tuple[list[Record], dict[str, str]]:
    """Records whose task carries what else differs between runs of one variant and seed, such as
    "distinct (crowd=32)"; and the task that each such name stands for. Where the task's options
    tell the runs apart, other settings (a learning rate tuned for each of them) are not named."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        groups.setdefault(tuple(r["run"][name] for name in OF_A_TRIAL), []).append(r)
    differ: dict[str, list[str]] = {}
    for group in groups.values():
        options = [r["run"].get("options", {}) for r in group]
        apart = len({json.dumps(o, sort_keys=True) for o in options}) == len(group)
        settings = [dict(o) for o in options] if apart else [_flat(r) for r in group]
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


def _flat(record: Record) -> dict[str, Any]:
    """Everything of a run but task, variant and seed; the task's options by their own names."""
    run = {k: v for k, v in record["run"].items() if k not in (*OF_A_TRIAL, "options")}
    return {**run, **record["run"].get("options", {})}


def conditions(records: Sequence[Record]) -> list[Condition]:
    """Records by task and variant, in the order in which they come."""
    by_name: dict[tuple[str, str], list[Record]] = {}
    for r in label_tasks(records)[0]:
        by_name.setdefault((r["run"]["task"], r["run"]["variant"]), []).append(r)
    return [
        Condition(task, variant, tuple(sorted(rs, key=lambda r: r["run"]["seed"])))
        for (task, variant), rs in by_name.items()
    ]


def compare(suite: Judged, records: Sequence[Record], draws: int = 10_000) -> list[Comparison]:
    """Every variant against its baseline, on the seeds that both have."""
    by_name = {(c.task, c.variant): c for c in conditions(records)}
    tasks = list(dict.fromkeys(task for task, _ in by_name))
    pairs = [
        pair
        for (task, variant), c in sorted(by_name.items(), key=lambda item: tasks.index(item[0][0]))
        if (pair := matched(c, by_name.get((task, baseline_of(suite, variant) or ""))))
    ]
    by_seed = [paired(a.values, b.values, a.range_) for a, b in pairs]
    adjusted = holm([one.t_p for one in by_seed])
    return [
        _compared(a, b, one, p, suite.rule, draws)
        for (a, b), one, p in zip(pairs, by_seed, adjusted, strict=True)
    ]


def _compared(
    a: Condition, b: Condition, by_seed: Paired, p: float | None, rule: DecisionRule, draws: int
) -> Comparison:
    x, y = (np.array([r["test"]["scores"] for r in c.records]) for c in (a, b))
    examples = randomised = None
    if x.shape == y.shape and x.ndim == 2 and x.size:
        examples = paired_bootstrap(x, y, draws)
        randomised = approximate_randomisation(x, y, draws).p
    return Comparison(
        a.task, a.variant, b.variant, by_seed, examples, randomised,
        cliffs_delta(a.values, b.values), paired_d(a.values, b.values), p,
        verdict(by_seed.interval, p, replace(rule, higher=a.higher)),
    )  # fmt: skip
