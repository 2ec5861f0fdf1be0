"""The folder of a suite's trials. A running trial writes files of its own, so that a crash or
kill −9 loses nothing; finished trials can be packed into one compressed file.

DIR/suite.json             claim, keys of the trials, the decision rule and when it was fixed
DIR/trials/KEY/            a trial's own folder (train.folder); record.json when it is finished
DIR/trials/KEY.error.json  the errors of a trial that failed
DIR/trials/KEY.lock        locked (flock) by the process that works on the trial; the kernel
                           releases it when that process dies
DIR/trials.jsonl.gz        finished trials, packed: a record per line, each trial once. In a folder
                           of several suites (lab.bundle) it lies beside their folders.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from ascender.common.files import Damaged, json_rows, parsed, plain_name, read_json, write
from ascender.lab.suite import Suite
from ascender.train import Run
from ascender.train.folder import METRICS, RECORD, plain
from ascender.train.record import checked_record, read_record

TRIALS, SHEET, PACKED = "trials", "suite.json", "trials.jsonl.gz"
WROTE = "what ascender lab wrote"
FRESH = 60  # seconds
TRIES = 2  # a crash is tried once more


class Store:
    """Trials by key."""

    source = ""  # the file of the suite that is run here, if it has one

    def __init__(self, folder: Path, say: Callable[[str], None] = warnings.warn) -> None:
        self.folder, self.say = folder, say
        self.finished: set[str] = set()

    def open(self, suite: Suite) -> None:
        """Write the sheet of the suite. The folder of another suite is refused; the same suite with
        other seeds or more runs is not."""
        sheet = self.folder / SHEET
        self.source = suite.source
        there: dict[str, Any] = {}
        if sheet.exists():
            there = read_json(sheet, WROTE, name=str)
            if there["name"] != suite.name:
                raise ValueError(
                    f"{self.folder} has the suite {there['name']!r}; expected {suite.name!r}, "
                    "or a new folder"
                )
        elif self.folder.exists() and any(p.name != TRIALS for p in self.folder.iterdir()):
            raise ValueError(f"{self.folder} has other files; expected a new or empty folder")
        judged = {"claim": suite.claim, "baseline": suite.baseline, "rule": asdict(suite.rule),
                  "goals": dict(suite.goals), "against": dict(suite.against),
                  "budgets": dict(suite.budgets)}  # fmt: skip
        unchanged = all(there.get(name, {}) == value for name, value in judged.items())
        write(sheet, json.dumps({
            "name": suite.name, "claim_ko": suite.claim_ko, "key": suite.key, **judged,
            "fixed": there.get("fixed", now()) if unchanged else now(),
            "insight": suite.insight, "tuning": suite.tuning,
            "trials": [run.key for run in suite.runs],
        }, ensure_ascii=False, indent=1))  # fmt: skip

    @cached_property
    def insight(self) -> bool:
        """Whether the suite measures its trained models."""
        sheet = self.folder / SHEET
        return sheet.exists() and bool(read_json(sheet, WROTE).get("insight"))

    def place(self, key: str) -> Path:
        """The folder of a trial."""
        return self.folder / TRIALS / plain_name(f"a trial in {self.folder}", key)

    def done(self, key: str) -> bool:
        """Whether a trial is finished, and measured if the suite asks for that."""
        if key in self.finished:
            return True
        record = self.record(key)
        if record is None or (self.insight and "insight" not in record):
            return False
        self.finished.add(key)
        return True

    def busy(self, key: str) -> bool:
        """Whether some process seems to work on a trial: its log changed recently. (Asking the lock
        would mean taking it for a moment.)"""
        try:
            return time.time() - (self.place(key) / METRICS).stat().st_mtime < FRESH
        except OSError:
            return False

    def record(self, key: str) -> dict[str, Any] | None:
        """The record of a finished trial, or None. A damaged file is moved aside, so that the trial
        is run again."""
        path = self.place(key) / RECORD
        if path.exists():
            try:
                return read_record(path)
            except Damaged as error:
                aside = path.with_name(f"{RECORD}.damaged")
                path.replace(aside)
                self.say(f"{error}; moved to {aside.name}: the trial counts as not finished")
        return self.packed.get(key)

    @cached_property
    def packed(self) -> dict[str, dict[str, Any]]:
        """Packed records by key: those of this folder and of the folder of suites around it."""
        around = self.folder.parent
        paths = [self.folder / PACKED]
        if (self.folder / SHEET).exists() and not (around / SHEET).exists():
            paths.insert(0, around / PACKED)
        return {k: r for path in paths if path.exists() for k, r in read_packed(path).items()}

    def records(self, suite: Suite) -> list[dict[str, Any]]:
        """Of the finished trials, in the suite's order."""
        stored = (self.record(run.key) for run in suite.runs)
        return [one for one in stored if one is not None]

    def _errors(self, key: str) -> Path:
        return self.folder / TRIALS / f"{key}.error.json"

    def failures(self, key: str) -> list[str]:
        """The errors of a trial so far."""
        path = self._errors(key)
        if not path.exists():
            return []
        try:
            content = parsed(path.read_bytes())
        except ValueError as error:
            raise Damaged(path, error, WROTE) from None
        return [str(one) for one in content] if isinstance(content, list) else [str(content)]

    def fail(self, key: str, error: str) -> None:
        """Add an error."""
        write(self._errors(key), json.dumps([*self.failures(key), error], ensure_ascii=False))

    def forgive(self, key: str) -> None:
        """Forget the errors: those of an earlier command do not count."""
        self._errors(key).unlink(missing_ok=True)

    def open_trials(self, suite: Suite) -> list[Run]:
        """The runs that are not finished and have not failed too often."""
        return [run for run in suite.runs if self.is_open(run.key)]

    def is_open(self, key: str) -> bool:
        return not self.done(key) and len(self.failures(key)) < TRIES

    def locked(self, key: str) -> bool:
        """Whether another process works on a trial. Takes the lock for a moment."""
        with self.lock(key) as ours:
            return not ours

    @contextmanager
    def lock(self, key: str) -> Iterator[bool]:
        """Try to lock a trial; yields whether it worked."""
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
        """The progress of a trial: (steps, seconds) of the last line of its log."""
        path = self.place(key) / METRICS
        try:
            with path.open("rb") as file:
                file.seek(max(0, path.stat().st_size - 4096))
                line = file.read().splitlines()[-1]
            row = json.loads(line)
            return int(row["step"]), float(row["seconds"])
        except (OSError, IndexError, ValueError, KeyError):
            return 0, 0.0


def read_packed(path: Path) -> Mapping[str, dict[str, Any]]:
    """The records of a packed file by key. They are cached and shared: do not change them."""
    stat = path.stat()
    return _packed(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=2)
def _packed(path: Path, changed: int, size: int) -> Mapping[str, dict[str, Any]]:
    records = {}
    for number, row in enumerate(json_rows(path), 1):
        record = checked_record(row, f"{path}, row {number}")
        record["test"].setdefault("scores", [])
        records[record["key"]] = record
    return records


def packed_bytes(records: Iterable[Mapping[str, Any]]) -> bytes:
    """The content of a packed file, sorted by task, variant, seed and key: the same records give
    the same bytes."""
    unique = {record["key"]: record for record in records}

    def order(record: Mapping[str, Any]) -> tuple[str, str, int, str]:
        run = record["run"]
        return run["task"], run["variant"], run["seed"], record["key"]

    lines = [
        json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"
        for record in sorted(unique.values(), key=order)
    ]
    return gzip.compress("".join(lines).encode(), compresslevel=9, mtime=0)


def now() -> str:
    """The time as sheets write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def as_json(run: Run) -> str:
    """A run as a job for a worker."""
    return json.dumps(plain(run))
