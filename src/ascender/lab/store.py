"""The folder of a suite's trials: appended to, never overwritten, safe from kill −9.

DIR/suite.json             claim, keys of the trials, the rule and since when it stands
DIR/trials/KEY/            a trial's own folder (train.folder): record.json when it is done
DIR/trials/KEY.error.json  what went wrong, how often
DIR/trials/KEY.lock        held (flock) by who works on it; the kernel lets go when they die
DIR/rows.jsonl scores.json records that a report left, without their trials: they count as done
"""

from __future__ import annotations

import fcntl
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from ascender.common.files import Damaged, json_rows, parsed, plain_name, read_json, write
from ascender.lab.suite import Suite
from ascender.train import Run
from ascender.train.folder import METRICS, RECORD, plain
from ascender.train.record import checked_record, read_record

TRIALS, SHEET = "trials", "suite.json"
ROWS, SCORES = "rows.jsonl", "scores.json"
WROTE = "what ascender lab wrote"
FRESH = 60  # seconds
TRIES = 2  # a crash is tried once more


class Store:
    """Trials by their keys."""

    source = ""  # the file of the suite that is run here, where it has one

    def __init__(self, folder: Path, say: Callable[[str], None] = warnings.warn) -> None:
        self.folder, self.say = folder, say
        self.finished: set[str] = set()

    def open(self, suite: Suite) -> None:
        """Write down what is run here. A folder of another suite is refused; the same suite with
        other seeds or a longer list is welcome."""
        sheet = self.folder / SHEET
        self.source = suite.source
        there: dict[str, Any] = {}
        if sheet.exists():
            there = read_json(sheet, WROTE, name=str)
            if there["name"] != suite.name:
                raise ValueError(
                    f"{self.folder} holds the suite {there['name']!r}; expected {suite.name!r}, "
                    "or a new folder"
                )
        elif self.folder.exists() and any(p.name != TRIALS for p in self.folder.iterdir()):
            raise ValueError(f"{self.folder} holds other files; expected a new or empty folder")
        judged = {"claim": suite.claim, "baseline": suite.baseline, "rule": asdict(suite.rule),
                  "goals": dict(suite.goals), "against": dict(suite.against)}  # fmt: skip
        stands = all(there.get(name, {}) == value for name, value in judged.items())
        write(sheet, json.dumps({
            "name": suite.name, "claim_ko": suite.claim_ko, "key": suite.key, **judged,
            "fixed": there.get("fixed", now()) if stands else now(),
            "insight": suite.insight, "tuning": suite.tuning,
            "trials": [run.key for run in suite.runs],
        }, ensure_ascii=False, indent=1))  # fmt: skip

    @cached_property
    def insight(self) -> bool:
        """Whether the suite run here has its models measured."""
        sheet = self.folder / SHEET
        return sheet.exists() and bool(read_json(sheet, WROTE).get("insight"))

    def place(self, key: str) -> Path:
        return self.folder / TRIALS / plain_name(f"a trial in {self.folder}", key)

    def done(self, key: str) -> bool:
        """Whether it is finished, and measured where the suite asks for that."""
        if key in self.finished:
            return True
        found = self.record(key)
        if found is None or (self.insight and "insight" not in found):
            return False
        self.finished.add(key)
        return True

    def busy(self, key: str) -> bool:
        """Whether someone seems to work on it: its log is fresh. (The lock is not asked: to ask
        is to hold it for a moment.)"""
        try:
            return time.time() - (self.place(key) / METRICS).stat().st_mtime < FRESH
        except OSError:
            return False

    def record(self, key: str) -> dict[str, Any] | None:
        """What came out, or None. A file that cannot be read is set aside, so that the trial is
        run again."""
        path = self.place(key) / RECORD
        if not path.exists():
            return self.rows.get(key)
        try:
            return read_record(path)
        except Damaged as error:
            aside = path.with_name(f"{RECORD}.damaged")
            path.replace(aside)
            self.say(f"{error}; set aside as {aside.name}: its trial is not done")
        return self.rows.get(key)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The records that a report left, by key."""
        path, beside = self.folder / ROWS, self.folder / SCORES
        if not path.exists():
            return {}
        scores = read_json(beside, WROTE) if beside.exists() else {}
        found = [checked_record(r, f"{path}, row {i}") for i, r in enumerate(json_rows(path), 1)]
        for r in found:
            r["test"]["scores"] = scores.get(r["key"], [])
        return {r["key"]: r for r in found}

    def records(self, suite: Suite) -> list[dict[str, Any]]:
        """Of the trials that are done, in the suite's order."""
        found = (self.record(run.key) for run in suite.runs)
        return [one for one in found if one is not None]

    def _errors(self, key: str) -> Path:
        return self.folder / TRIALS / f"{key}.error.json"

    def failures(self, key: str) -> list[str]:
        """What went wrong so far."""
        path = self._errors(key)
        if not path.exists():
            return []
        try:
            found = parsed(path.read_bytes())
        except ValueError as error:
            raise Damaged(path, error, WROTE) from None
        return [str(one) for one in found] if isinstance(found, list) else [str(found)]

    def fail(self, key: str, error: str) -> None:
        """Write down another failure."""
        write(self._errors(key), json.dumps([*self.failures(key), error], ensure_ascii=False))

    def forgive(self, key: str) -> None:
        """Failures of an earlier lab do not count against a new one."""
        self._errors(key).unlink(missing_ok=True)

    def open_trials(self, suite: Suite) -> list[Run]:
        """What is left: not done, and not failed too often."""
        return [run for run in suite.runs if self.is_open(run.key)]

    def is_open(self, key: str) -> bool:
        return not self.done(key) and len(self.failures(key)) < TRIES

    def held(self, key: str) -> bool:
        """Whether another process works on it. To ask is to hold it for a moment."""
        with self.lock(key) as ours:
            return not ours

    @contextmanager
    def lock(self, key: str) -> Iterator[bool]:
        """Whether the trial is ours; another's stays theirs."""
        path = self.folder / TRIALS / f"{key}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def step(self, key: str) -> tuple[int, float]:
        """How far a trial is: (steps, seconds) of the last line of its log."""
        path = self.place(key) / METRICS
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 4096))
                line = file.read().splitlines()[-1]
            row = json.loads(line)
            return int(row["step"]), float(row["seconds"])
        except (OSError, IndexError, ValueError, KeyError):
            return 0, 0.0


def now() -> str:
    """As sheets write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def as_json(run: Run) -> str:
    """A run on its way to a worker."""
    return json.dumps(plain(run))
