"""Records judged: what tables, figures and the page are functions of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ascender.lab.judge import (
    Cell,
    Comparison,
    Record,
    baseline_of,
    cells,
    compare,
    on_validation,
    told_apart,
)
from ascender.lab.reports.source import Sheet, Source
from ascender.lab.reports.strings import REMARKS

FEW = 5  # seeds below which a remark says so
DRAWS = 10_000


@dataclass(frozen=True)
class SuiteResults:
    """Cells and comparisons by (task, variant), in the order of the suite.

    meant   the task that a name such as "distinct (crowd=32)" stands for
    """

    source: Source
    records: tuple[Record, ...]
    cells: tuple[Cell, ...]
    judged: Mapping[tuple[str, str], Comparison]
    meant: Mapping[str, str]

    @classmethod
    def of(cls, source: Source, draws: int = DRAWS) -> SuiteResults:
        seen = map(on_validation, source.records) if source.sheet.tuning else source.records
        records, meant = told_apart(list(seen))
        found = cells(records)
        tasks = list(dict.fromkeys(cell.task for cell in found))
        found.sort(key=lambda cell: tasks.index(cell.task))
        judged = {(c.task, c.variant): c for c in compare(source.sheet, records, draws)}
        return cls(source, tuple(records), tuple(found), judged, meant)

    @property
    def sheet(self) -> Sheet:
        return self.source.sheet

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(cell.task for cell in self.cells))

    @property
    def variants(self) -> list[str]:
        """The baseline first."""
        names = dict.fromkeys(cell.variant for cell in self.cells)
        return sorted(names, key=lambda name: name != self.sheet.baseline)

    def of_task(self, task: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.task == task]

    def base(self, task: str) -> Cell | None:
        """The baseline on a task, or None."""
        found = (c for c in self.of_task(task) if c.variant == self.sheet.baseline)
        return next(found, None)

    def base_of(self, cell: Cell) -> Cell | None:
        """What a cell is compared with; of one that others are compared with, the baseline."""
        name = baseline_of(self.sheet, cell.variant) or self.sheet.baseline
        return next((c for c in self.of_task(cell.task) if c.variant == name), None)

    def goal(self, task: str) -> float | None:
        goals = self.sheet.goals
        return goals.get(task, goals.get(self.meant.get(task, task)))

    def verdict(self, cell: Cell) -> str:
        """win, tie, loss, baseline; unjudged where no test could be done."""
        if baseline_of(self.sheet, cell.variant) is None:
            return "baseline"
        c = self.judged.get((cell.task, cell.variant))
        return "unjudged" if c is None or c.p is None else c.verdict

    def counts(self) -> dict[str, Counter[str]]:
        """Verdicts by variant, the baseline left out."""
        found: dict[str, Counter[str]] = {}
        for cell in self.cells:
            if baseline_of(self.sheet, cell.variant) is not None:
                found.setdefault(cell.variant, Counter())[self.verdict(cell)] += 1
        return found

    def ruled(self) -> str | None:
        """The variant that stands for the rules: ascender, or the first that has ω."""
        names = [c.variant for c in self.cells if any(omega(r) for r in c.records)]
        return "ascender" if "ascender" in names else next(iter(names), None)

    def remarks(self) -> list[tuple[str, str]]:
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
        for cell in self.cells:
            base = self.base_of(cell)
            if self.verdict(cell) == "unjudged" and base is not None:
                c = self.judged.get((cell.task, cell.variant))
                why = "no_common" if c is None else "one_seed" if c.by_seed.n < 2 else "no_spread"
                names = {"task": cell.task, "variant": cell.variant, "baseline": base.variant}
                found.append(_remark(why, **names))
        most = max(len(cell.records) for cell in self.cells)
        if 1 < most < FEW:
            found.append(_remark("few_seeds", n=most))
        return found


def _remark(name: str, **names: object) -> tuple[str, str]:
    en, ko = REMARKS[name]
    return en.format(**names), ko.format(**names)


def omega(record: Record) -> Mapping[str, list[list[float]]]:
    """ω by rule, layer and head at the last point of the curve; nothing where there is none."""
    found: Mapping[str, list[list[float]]] = (
        record["curve"][-1].get("omega", {}) if record["curve"] else {}
    )
    return found
