"""Collect finished trials of many suites in one compressed store, such as results/ of this project.

OUT/trials.jsonl.gz     the trials of all suites; a trial that two suites name is there once
OUT/NAME/suite.json     what a suite claims, its decision rule and the keys of its trials
OUT/NAME/costs.json     costs of layers, where the suite measures them
OUT/claims.json         the claims of a bundle
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ascender.common.files import write
from ascender.lab.bundle import CLAIMS, inside
from ascender.lab.reports.source import NoTrial, raw, read
from ascender.lab.store import PACKED, packed_bytes, read_packed


def pack(folder: Path, out: Path, say: Callable[[str], None] = warnings.warn) -> list[Path]:
    """Add the finished trials of a suite's or a bundle's folder to the store `out`. A trial that is
    already there is kept, unless only the new record has measurements of the model."""
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
        files |= {out / source.sheet.name / name: data for name, data in raw(source).items()}
    if not trials:
        raise NoTrial(f"{folder} has no finished trial; expected at least one")
    if (folder / CLAIMS).exists():
        files[out / CLAIMS] = (folder / CLAIMS).read_bytes()
    files = {file: data for file, data in files.items() if file.name != PACKED}
    files[path] = packed_bytes(trials.values())
    return [write(file, data) for file, data in files.items()]
