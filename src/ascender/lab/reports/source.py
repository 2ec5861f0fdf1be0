"""What a report is made of: the sheet of a suite and the records of its trials.

    DIR/suite.json, DIR/trials/KEY/record.json     a store, as `ascender lab run` leaves it
    DIR/trials.jsonl.gz                            its records, packed: no checkpoints

Both give the same tables; in a folder that has both, a trial's own record counts.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ascender.common.files import Kind, made_of, plain_name, read_json, write
from ascender.lab import score_maps
from ascender.lab.bundle import CLAIMS, inside
from ascender.lab.costs import FILE, Cost
from ascender.lab.costs import read as measured
from ascender.lab.judge import Record
from ascender.lab.store import PACKED, SHEET, TRIALS, WROTE, Store, packed_bytes, read_packed
from ascender.lab.suite import Suite
from ascender.lab.verdict import DecisionRule
from ascender.report.strings import Pair
from ascender.train.folder import MODEL

JUDGED = ("baseline", "rule", "goals", "against", "budgets")  # what verdicts depend on
OF_SHEET: dict[str, Kind] = {
    "name": str, "claim": str, "baseline": str, "rule": dict, "trials": list,
}  # fmt: skip


@dataclass(frozen=True)
class Sheet:
    """What a suite says, without its runs.

    fixed      when the rule was written down beside the trials; "" where nobody knows
    given      whether there was a suite at all: else the usual rule stands in
    changed    whether a suite was given that judges otherwise than the one that was run
    """

    name: str
    claim: str = ""
    claim_ko: str = ""
    key: str = ""
    baseline: str = "vanilla"
    rule: DecisionRule = field(default_factory=DecisionRule)
    goals: Mapping[str, float] = field(default_factory=dict)
    against: Mapping[str, str] = field(default_factory=dict)
    budgets: Mapping[str, int] = field(default_factory=dict)
    trials: tuple[str, ...] = ()
    tuning: bool = False
    fixed: str = ""
    given: bool = True
    changed: bool = False

    @property
    def claims(self) -> Pair:
        """The claim in English and Korean."""
        return self.claim, self.claim_ko or self.claim


@dataclass(frozen=True)
class ReportSource:
    """A sheet, its records, what went wrong, by the keys of the trials, and measured costs."""

    sheet: Sheet
    records: tuple[Record, ...]
    failures: Mapping[str, Sequence[str]]
    folder: Path
    costs: Sequence[Cost] = ()
    costs_on: str = ""  # the GPU or the CPU that they were measured on, where that is known

    @property
    def missing(self) -> list[str]:
        """Keys of trials that the suite names and that have no record."""
        there = {r["key"] for r in self.records}
        return [key for key in self.sheet.trials if key not in there]

    def model(self, key: str) -> Path:
        """Where a trial's model is, in a store."""
        return Store(self.folder).place(key) / MODEL


class NoTrial(ValueError):
    """A suite of which nothing is finished yet."""


def read(
    folder: Path, suite: Suite | None = None, say: Callable[[str], None] = warnings.warn
) -> ReportSource:
    """From a store, packed or not, or from an earlier report."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder; expected one of `ascender lab run --out`")
    if not (folder / PACKED).exists() and not (folder / SHEET).exists():
        raise FileNotFoundError(f"{folder} has neither {SHEET} nor {PACKED}; expected one of them")
    sheet, failures = _sheet(folder, suite)
    store = Store(folder, say)
    keys = sheet.trials or tuple(store.packed)
    records = [r for r in map(store.record, keys) if r is not None]
    if (folder / TRIALS).exists():
        failures = {key: f for key in keys if (f := store.failures(key))}
    if not records:
        raise NoTrial(f"{folder} has no finished trial of {sheet.name!r}; expected at least one")
    costs, how = measured(folder)
    where = how.get("machine", {}) if "device" in how else {}
    on = where.get("gpu", where.get("processor", ""))
    return ReportSource(sheet, tuple(records), failures, folder, costs, on)


def _sheet(folder: Path, suite: Suite | None) -> tuple[Sheet, dict[str, list[str]]]:
    path = folder / SHEET
    there = read_json(path, WROTE, **OF_SHEET) if path.exists() else {}
    failures = there.pop("failures", {})
    if "name" in there:
        plain_name(f"name in {path}", there["name"])
    known = {f.name: there[f.name] for f in fields(Sheet) if f.name in there}
    if known:
        rule = made_of(DecisionRule, there["rule"], path, WROTE)
        known |= {"rule": rule, "trials": tuple(map(str, there["trials"]))}
    ran = Sheet(**known) if known else None
    if suite is None:
        return ran or Sheet(folder.resolve().name, given=False), failures
    of_suite = {name: getattr(suite, name) for name in JUDGED}
    same = ran is not None and of_suite == {name: getattr(ran, name) for name in JUDGED}
    sheet = Sheet(
        suite.name, suite.claim, suite.claim_ko, suite.key, **of_suite,
        trials=tuple(run.key for run in suite.runs), tuning=suite.tuning,
        fixed=ran.fixed if ran and same else "", changed=ran is not None and not same,
    )  # fmt: skip
    return sheet, failures


def raw(source: ReportSource) -> dict[str, str | bytes]:
    """trials.jsonl.gz, suite.json (and costs.json, and the maps of figure 1): enough to make the
    report again."""
    sheet = {k: v for k, v in asdict(source.sheet).items() if k not in ("given", "changed")}
    files: dict[str, str | bytes] = {PACKED: packed_bytes(source.records)}
    if source.sheet.given:
        text = json.dumps({**sheet, "failures": source.failures}, ensure_ascii=False, indent=1)
        files[SHEET] = text
    if source.costs:
        files[FILE] = (source.folder / FILE).read_text(encoding="utf-8")
    return files | maps_of(source)


def maps_of(source: ReportSource) -> dict[str, str | bytes]:
    """The maps of figure 1 that were kept, by the name of their file beside packed trials."""
    for record in score_maps.shown(source.records):
        path = score_maps.kept_file(source.folder, record["key"])
        if path is not None:
            name = score_maps.packed_file(Path(), record["key"]).as_posix()
            return {name: path.read_bytes()}
    return {}


def pack(folder: Path, out: Path, say: Callable[[str], None] = warnings.warn) -> list[Path]:
    """Add the finished trials of a suite's or a bundle's folder to the store `out`. A trial that is
    already there is kept, unless only the new record has measurements of the model.

    OUT/trials.jsonl.gz     the trials of all suites; a trial that two suites name is there once
    OUT/NAME/suite.json     what a suite claims, its decision rule and the keys of its trials
    OUT/NAME/costs.json     costs of layers, where the suite measures them
    OUT/maps/KEY…           the attention of one model of a suite (lab.score_maps)
    OUT/claims.json         the claims of a bundle
    """
    path = out / PACKED
    trials: dict[str, Any] = dict(read_packed(path)) if path.exists() else {}
    files: dict[Path, str | bytes] = {}
    for place in inside(folder) or [folder]:
        try:
            source = read(place, say=say)
        except NoTrial:
            continue
        for record in source.records:
            kept = trials.get(record["key"])
            if kept is None or ("insight" in record and "insight" not in kept):
                trials[record["key"]] = record
        score_maps.keep(source.folder, source.records, say=say)
        shared = maps_of(source)
        files |= {out / name: data for name, data in shared.items()}
        files |= {
            out / source.sheet.name / name: data
            for name, data in raw(source).items()
            if name not in shared
        }
    if not trials:
        raise NoTrial(f"{folder} has no finished trial; expected at least one")
    if (folder / CLAIMS).exists():
        files[out / CLAIMS] = (folder / CLAIMS).read_bytes()
    files = {file: data for file, data in files.items() if file.name != PACKED}
    files[path] = packed_bytes(trials.values())
    return [write(file, data) for file, data in files.items()]
