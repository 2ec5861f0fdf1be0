"""One trial, wherever it runs: the same function for a local worker, Ray and SLURM."""

from __future__ import annotations

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.common.user_code import error_line
from ascender.insight import load, measure
from ascender.lab.store import Store
from ascender.lab.suite import suite
from ascender.train import Run, train
from ascender.train.folder import RECORD
from ascender.train.record import read_record
from ascender.train.run import key_of


def trial(
    folder: str, run: str | dict[str, Any], data_dir: str | None = None, source: str = ""
) -> dict[str, str]:
    """Train a run in its place of the store; errors are written there. `source`: the file of its
    suite, which is run first for what it registers.

    {"key": …, "state": "done" | "busy" | "failed", "error": …}"""
    fields = json.loads(run) if isinstance(run, str) else run
    store, key = Store(Path(folder)), key_of(fields)
    with store.lock(key) as ours:
        if not ours:
            return {"key": key, "state": "busy", "error": ""}
        out = store.place(key)
        if store.done(key):
            return {"key": key, "state": "done", "error": ""}
        try:
            if source:
                _registered(source)
            settings = Run(**fields)
            measured = measure if store.insight else None
            train(settings, out, resume=True, data_dir=data_dir, measure=measured)
            if not store.done(key):  # trained for a suite that did not ask for measurements
                add_insight(settings, out, data_dir)
        except Exception as error:
            line = error_line(error)
            store.fail(key, line)
            return {"key": key, "state": "failed", "error": line}
    return {"key": key, "state": "done", "error": ""}


@cache
def _registered(source: str) -> None:
    """Run a suite's file, once a process."""
    suite(source)


def add_insight(run: Run, out: Path, data_dir: str | None) -> None:
    """Measure the model of a finished trial and add the result to its record."""
    task = run.make_task(data_dir)
    record = read_record(out / RECORD)
    record["insight"] = measure(load(out, say=lambda line: None).model, task)
    write(out / RECORD, json.dumps(record, ensure_ascii=False))


def serve() -> None:
    """A local worker: a job a line on stdin, an answer a line on stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(trial(**job), ensure_ascii=False), file=answers, flush=True)


if __name__ == "__main__":
    serve()
