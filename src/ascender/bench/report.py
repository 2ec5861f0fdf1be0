"""`ascender bench report`: runs (the commands' JSON) → the tables of a document.

    <!-- bench: attention forward time -->
    … written by the command, whatever stood here …
    <!-- /bench -->

Everything outside such marks is written by hand and stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascender.bench import goals, tables
from ascender.bench.studies import STUDIES
from ascender.common.files import NUMBER, checked, made_of, read_json
from ascender.measure.timing import Row
from ascender.report.table import markdown

KINDS = (*STUDIES, "import")
IMPORT = ("import_torch_s", "import_ascender_s", "difference_s", "goal_s")
WROTE = "a run that ascender bench printed with --json"


def read(path: Path) -> dict[str, Any]:
    """One run."""
    run = read_json(path, WROTE)
    study = run.get("study")
    if study not in KINDS:
        raise ValueError(f"{path}: study {study!r}; expected one of {', '.join(KINDS)}")
    checked(run, path, WROTE, command=str, machine=dict)
    checked(run["machine"], path, WROTE, torch=str, threads=int)
    if study == "import":
        return checked(run, path, WROTE, **dict.fromkeys(IMPORT, NUMBER), reached=bool)
    for row in checked(run, path, WROTE, rows=list)["rows"]:
        made_of(Row, checked(row, path, WROTE), path, WROTE)
    return run


def merged(runs: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows of several runs; of the same candidate, N and work the last measurement counts."""
    merged: dict[tuple[str, int, str], dict[str, Any]] = {}
    for run in runs:
        for row in run["rows"]:
            old = merged.setdefault((row["candidate"], row["n"], row["work"]), dict(row))
            old.update((key, value) for key, value in row.items() if value is not None)
            if row["ms"] is not None and "disturbed" in old:  # measured again: no longer
                old["disturbed"] = row.get("disturbed")
    return [Row(**row) for row in merged.values()]


def blocks(paths: Sequence[Path]) -> dict[str, tuple[str, str]]:
    """Name → (title, Markdown) of every table that these runs make."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        run = read(path)
        runs.setdefault(run["study"], []).append(run)
    rows = {study: merged(some) for study, some in runs.items() if study in STUDIES}
    found = tables.goals(goals.reached([row for some in rows.values() for row in some]))
    found |= tables.summary(rows.get("attention", []))
    for study in (study for study in STUDIES if study in rows):
        found |= tables.of_study(study, rows[study], runs[study][-1].get("causal", False))
    if "import" in runs:
        found |= tables.imports(runs["import"][-1])
    made = {name: (table.title[0], markdown(table)) for name, table in found.items()}
    return {"commands": ("Commands", _commands(runs)), **made}


def _commands(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    lines = []
    for run in (run for some in runs.values() for run in some):
        here = run["machine"]
        threads = f"{here['threads']} thread{'s' if here['threads'] > 1 else ''}"
        lines.append(f"- `{run['command']}` (torch {here['torch']}, {threads})\n")
    return "".join(lines)


def contents(made: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """What fills the blocks of a document (report.blocks), by name."""
    return {name: text for name, (_, text) in made.items()}


def document(made: Mapping[str, tuple[str, str]]) -> str:
    """All tables under their titles."""
    return "\n".join(f"## {title}\n\n{text}" for title, text in made.values())
