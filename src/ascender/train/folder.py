"""The folder of a run: claimed by one run, written atomically."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ascender.common.files import flush, parsed, read_json, temporary_path, write, writing_tensors
from ascender.tasks import Task
from ascender.train import checkpoint
from ascender.train.record import read_record
from ascender.train.run import Run

RUN, METRICS, RECORD, MODEL = "run.json", "metrics.jsonl", "record.json", "model"


class RunFolderInUse(ValueError):
    """The folder holds something else."""


def claim(run: Run, out: Path, resume: bool) -> dict[str, Any] | None:
    """The record of a finished run, else None. A folder that holds another run, or this one
    unfinished and without `resume`, is an error."""
    sheet = out / RUN
    if not sheet.exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise RunFolderInUse(f"{out} holds other files; expected a new or empty folder")
        return None
    there = read_json(sheet, "a run that ascender train wrote, or a new folder", key=str, run=dict)
    if there["key"] != run.key:
        before, now = there["run"], plain(run)
        differ = ", ".join(
            f"{name} {before.get(name)!r} (asked for {now[name]!r})"
            for name in now
            if before.get(name) != now[name]
        )
        raise RunFolderInUse(f"{out} holds another run: {differ}; expected a new folder")
    if (out / RECORD).exists():
        return read_record(out / RECORD)
    if not resume and checkpoint.saved(out):
        raise RunFolderInUse(f"{out} holds this run, unfinished; expected --resume")
    return None


def plain(run: Run) -> dict[str, Any]:
    """A run as JSON has it."""
    fields: dict[str, Any] = json.loads(json.dumps(asdict(run)))
    return fields


def cut_metrics(out: Path, step: int) -> None:
    """Cut the log after a step: the steps behind it will be repeated."""
    path, kept = out / METRICS, []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        try:
            early = parsed(line)["step"] <= step
        except (ValueError, TypeError, KeyError):  # half written by a process that was killed
            continue
        if early:
            kept.append(line + b"\n")
    write(path, b"".join(kept))


def keep_model(out: Path, model: Any, task: Task) -> None:
    """Save as from_pretrained reads it, with the task's tokenizer where it has one."""
    from transformers.utils import logging

    place = out / MODEL
    half = temporary_path(place)
    for left in out.glob(f".{MODEL}.*"):  # by a process that was killed: a run has one writer
        shutil.rmtree(left, ignore_errors=True)
    half.mkdir()
    bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with writing_tensors(place):
            model.save_pretrained(half)
        if task.tokenizer is not None:
            task.tokenizer.save_pretrained(half)
        for path in half.iterdir():
            flush(path)
        shutil.rmtree(place, ignore_errors=True)
        half.rename(place)
        flush(out)
    finally:
        shutil.rmtree(half, ignore_errors=True)
        if bars:
            logging.enable_progress_bar()
