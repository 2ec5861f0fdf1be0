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
    omega,
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
        raw = map(on_validation, source.records) if source.sheet.tuning else source.records
        records, base_task = label_tasks(list(raw))
        by_task = conditions(records)
        tasks = list(dict.fromkeys(condition.task for condition in by_task))
        by_task.sort(key=lambda condition: tasks.index(condition.task))
        judged = {(c.task, c.variant): c for c in compare(source.sheet, records, draws)}
        return cls(source, tuple(records), tuple(by_task), judged, base_task)

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
        return self._find(task, self.sheet.baseline)

    def _find(self, task: str, variant: str) -> Condition | None:
        return next((c for c in self.of_task(task) if c.variant == variant), None)

    def base_of(self, condition: Condition) -> Condition | None:
        """What a condition is compared with; of one that others are compared with, the baseline."""
        name = baseline_of(self.sheet, condition.variant) or self.sheet.baseline
        return self._find(condition.task, name)

    def comparison(self, condition: Condition) -> Comparison | None:
        """With what it is compared with; None: there is none, or no seed in common."""
        return self.judged.get((condition.task, condition.variant))

    def goal(self, task: str) -> float | None:
        goals = self.sheet.goals
        return goals.get(task, goals.get(self.base_task.get(task, task)))

    def budget(self, task: str) -> int | None:
        """A step whose validation score is reported too."""
        budgets = self.sheet.budgets
        return budgets.get(task, budgets.get(self.base_task.get(task, task)))

    def verdict(self, condition: Condition) -> str:
        """win, tie, loss, baseline; unjudged where no test could be done."""
        if baseline_of(self.sheet, condition.variant) is None:
            return "baseline"
        c = self.comparison(condition)
        return "unjudged" if c is None or c.p is None else c.verdict

    def counts(self) -> dict[str, Counter[str]]:
        """Verdicts by variant, the baseline left out."""
        counts: dict[str, Counter[str]] = {}
        for condition in self.conditions:
            if baseline_of(self.sheet, condition.variant) is not None:
                counts.setdefault(condition.variant, Counter())[self.verdict(condition)] += 1
        return counts

    def ruled(self) -> str | None:
        """The variant that stands for the rules: ascender, or the first that has ω."""
        names = [c.variant for c in self.conditions if any(omega(r) for r in c.records)]
        return "ascender" if "ascender" in names else next(iter(names), None)

    def remarks(self) -> list[Pair]:
        """What cannot be judged, and why, in English and Korean."""
        sheet, missing = self.sheet, len(self.source.missing)
        remarks = []
        if not sheet.given:
            remarks.append(_remark("no_suite", baseline=sheet.baseline))
        if sheet.changed:
            remarks.append(_remark("changed"))
        if missing:
            remarks.append(_remark("missing", n=missing, all=len(sheet.trials)))
        remarks += [
            _remark("no_baseline", task=task, baseline=sheet.baseline)
            for task in self.tasks
            if self.base(task) is None
        ]
        for condition in self.conditions:
            base, c = self.base_of(condition), self.comparison(condition)
            if self.verdict(condition) == "unjudged" and base is not None:
                why = "no_common" if c is None else "one_seed" if c.by_seed.n < 2 else "no_spread"
                names = {"task": condition.task, "variant": condition.variant}
                remarks.append(_remark(why, baseline=base.variant, **names))
        lacking = {c.variant for c in self.conditions for r in c.records if _left_out(r)}
        remarks += [_remark("no_scores", variant=v) for v in self.variants if v in lacking]
        most = max(len(condition.records) for condition in self.conditions)
        if 1 < most < FEW:
            remarks.append(_remark("few_seeds", n=most))
        return remarks


def _remark(name: str, **fields: object) -> Pair:
    return STRINGS.pair(f"remark.{name}", **fields)


def _left_out(record: Record) -> bool:
    """Whether its model was measured, but has no matrix of scores to measure."""
    return bool((record.get("insight") or {}).get("left_out"))
