"""One trial, wherever it runs: the same function for a local worker, Ray and SLURM."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from ascender.insight import measure
from ascender.lab.store import Store
from ascender.train import Run, train
from ascender.train.folder import RECORD


def trial(folder: str, run: str | dict[str, Any], data_dir: str | None = None) -> dict[str, str]:
    """Train a run in its place of the store; what goes wrong is written there.

    {"key": …, "state": "done" | "busy" | "failed", "error": …}"""
    fields = json.loads(run) if isinstance(run, str) else run
    made = Run(**fields)
    store, key = Store(Path(folder)), made.key
    with store.lock(key) as ours:
        if not ours:
            return {"key": key, "state": "busy", "error": ""}
        out = store.place(key)
        if (out / RECORD).exists():
            return {"key": key, "state": "done", "error": ""}
        try:
            look = measure if store.insight else None
            train(made, out, resume=True, data_dir=data_dir, measure=look)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            store.fail(key, said)
            return {"key": key, "state": "failed", "error": said}
    return {"key": key, "state": "done", "error": ""}


def serve() -> None:
    """A local worker: a job a line on stdin, an answer a line on stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(trial(**job), ensure_ascii=False), file=answers, flush=True)


if __name__ == "__main__":
    serve()
