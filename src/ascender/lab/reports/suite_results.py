"""Records judged: what tables, figures and the page are functions of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ascender.lab.judge import (
    Comparison,
    Condition,
    Record,
    baseline_of,
    compare,
    conditions,
    label_tasks,
    on_validation,
)
from ascender.lab.reports.source import ReportSource, Sheet
from ascender.lab.reports.strings import STRINGS
from ascender.report.strings import Pair

FEW = 5  # seeds below which a remark says so
DRAWS = 10_000


@dataclass(frozen=True)
class SuiteResults:
    """Cells and comparisons by (task, variant), in the order of the suite.

    base_task   the task that a name such as "distinct (crowd=32)" stands for
    """

    source: ReportSource
    records: tuple[Record, ...]
    conditions: tuple[Condition, ...]
    judged: Mapping[tuple[str, str], Comparison]
    base_task: Mapping[str, str]

    @classmethod
    def of(cls, source: ReportSource, draws: int = DRAWS) -> SuiteResults:
        seen = map(on_validation, source.records) if source.sheet.tuning else source.records
        records, base_task = label_tasks(list(seen))
        found = conditions(records)
        tasks = list(dict.fromkeys(condition.task for condition in found))
        found.sort(key=lambda condition: tasks.index(condition.task))
        judged = {(c.task, c.variant): c for c in compare(source.sheet, records, draws)}
        return cls(source, tuple(records), tuple(found), judged, base_task)

    @property
    def sheet(self) -> Sheet:
        return self.source.sheet

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(condition.task for condition in self.conditions))

    @property
    def variants(self) -> list[str]:
        """The baseline first."""
        names = dict.fromkeys(condition.variant for condition in self.conditions)
        return sorted(names, key=lambda name: name != self.sheet.baseline)

    def of_task(self, task: str) -> list[Condition]:
        return [condition for condition in self.conditions if condition.task == task]

    def base(self, task: str) -> Condition | None:
        """The baseline on a task, or None."""
        found = (c for c in self.of_task(task) if c.variant == self.sheet.baseline)
        return next(found, None)

    def base_of(self, condition: Condition) -> Condition | None:
        """What a condition is compared with; of one that others are compared with, the baseline."""
        name = baseline_of(self.sheet, condition.variant) or self.sheet.baseline
        return next((c for c in self.of_task(condition.task) if c.variant == name), None)

    def goal(self, task: str) -> float | None:
        goals = self.sheet.goals
        return goals.get(task, goals.get(self.base_task.get(task, task)))

    def verdict(self, condition: Condition) -> str:
        """win, tie, loss, baseline; unjudged where no test could be done."""
        if baseline_of(self.sheet, condition.variant) is None:
            return "baseline"
        c = self.judged.get((condition.task, condition.variant))
        return "unjudged" if c is None or c.p is None else c.verdict

    def counts(self) -> dict[str, Counter[str]]:
        """Verdicts by variant, the baseline left out."""
        found: dict[str, Counter[str]] = {}
        for condition in self.conditions:
            if baseline_of(self.sheet, condition.variant) is not None:
                found.setdefault(condition.variant, Counter())[self.verdict(condition)] += 1
        return found

    def ruled(self) -> str | None:
        """The variant that stands for the rules: ascender, or the first that has ω."""
        names = [c.variant for c in self.conditions if any(omega(r) for r in c.records)]
        return "ascender" if "ascender" in names else next(iter(names), None)

    def remarks(self) -> list[Pair]:
        """What cannot be judged, and why, in English and Korean."""
        sheet, found = self.sheet, []
        if not sheet.given:
            found.append(_remark("no_suite", baseline=sheet.baseline))
        if sheet.changed:
            found.append(_remark("changed"))
        if self.source.missing:
            n = len(self.source.missing)
            found.append(_remark("missing", n=n, all=len(sheet.trials)))
        found += [
            _remark("no_baseline", task=task, baseline=sheet.baseline)
            for task in self.tasks
            if self.base(task) is None
        ]
        for condition in self.conditions:
            base = self.base_of(condition)
            if self.verdict(condition) == "unjudged" and base is not None:
                c = self.judged.get((condition.task, condition.variant))
                why = "no_common" if c is None else "one_seed" if c.by_seed.n < 2 else "no_spread"
                names = {
                    "task": condition.task,
                    "variant": condition.variant,
                    "baseline": base.variant,
                }
                found.append(_remark(why, **names))
        most = max(len(condition.records) for condition in self.conditions)
        if 1 < most < FEW:
            found.append(_remark("few_seeds", n=most))
        return found


def _remark(name: str, **fields: object) -> Pair:
    return STRINGS.pair(f"remark.{name}", **fields)


def omega(record: Record) -> Mapping[str, list[list[float]]]:
    """ω by rule, layer and head at the last point of the curve; nothing where there is none."""
    found: Mapping[str, list[list[float]]] = (
        record["curve"][-1].get("omega", {}) if record["curve"] else {}
    )
    return found
