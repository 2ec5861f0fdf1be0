"""`ascender bench report`: runs (the commands' JSON) → the tables of a document.

    <!-- bench: attention forward time -->
    … written by the command, whatever stood here …
    <!-- /bench -->

Everything outside such marks is written by hand and stays. Tables of runs with --clock wall have
names of their own: "wall attention forward time". So have those of other devices and precisions:
"NVIDIA A100, bfloat16: attention forward time".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ascender.bench import goals, tables
from ascender.bench.studies import STUDIES
from ascender.bench.tables import WALL
from ascender.common.files import NUMBER, checked, made_of, read_json
from ascender.measure.timing import Row
from ascender.report.table import Table, markdown

KINDS = (*STUDIES, "import")
IMPORT = ("import_torch_s", "import_ascender_s", "difference_s", "goal_s")
NOT_BY_WALL = "Not measured by the wall clock yet.\n"
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
    by_study: dict[str, list[dict[str, Any]]] = {}
    for path in paths:
        run = read(path)
        by_study.setdefault(run["study"], []).append(run)
    runs = [run for some in by_study.values() for run in some]
    by_label: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        by_label.setdefault(_label(run), []).append(run)
    wall = [run for run in by_label.get("", []) if run.get("clock") == "wall"]
    written = _tables([run for run in by_label.pop("", []) if run.get("clock") != "wall"])
    written |= tables.by_wall_clock(_tables(wall))
    for label, some in by_label.items():
        written |= tables.under(f"{label}: ", label, _tables(some, usual=False))
    texts = {name: (table.title[0], markdown(table)) for name, table in written.items()}
    return {"commands": ("Commands", "".join(map(_command, runs))), **texts}


def _label(run: Mapping[str, Any]) -> str:
    """The device and the precision of a run, where they are not the CPU and float32."""
    device, dtype = run.get("device", "cpu"), run.get("dtype", "float32")
    if (device, dtype) == ("cpu", "float32"):
        return ""
    name = "CPU" if device == "cpu" else run["machine"].get("gpu", device)
    return f"{name}, {dtype}" + (", wall clock" if run.get("clock") == "wall" else "")


def _tables(runs: Sequence[Mapping[str, Any]], usual: bool = True) -> dict[str, Table]:
    """Of runs by one clock, on one device. usual: on the CPU in float32, of which there are goals
    and the summary."""
    by_study = {study: [run for run in runs if run["study"] == study] for study in KINDS}
    rows = {study: merged(by_study[study]) for study in STUDIES}
    written: dict[str, Table] = {}
    if usual:
        written |= tables.goals(goals.reached([row for some in rows.values() for row in some]))
        written |= tables.summary(rows["attention"])
    for study in (study for study in STUDIES if rows[study]):
        written |= tables.of_study(study, rows[study], by_study[study][-1].get("causal", False))
    if by_study["import"]:
        written |= tables.imports(by_study["import"][-1])
    return written


def _command(run: Mapping[str, Any]) -> str:
    here = run["machine"]
    how = [f"torch {here['torch']}", f"{here['threads']} thread{'s' * (here['threads'] > 1)}"]
    how += [tables.CLOCK[run["clock"]]] if run.get("clock") in tables.CLOCK else []
    how += [_label(run)] if _label(run) else []
    return f"- `{run['command']}` ({', '.join(how)})\n"


def contents(sections: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """What fills the blocks of a document (report.blocks), by name. A table that no run by the
    wall clock fills yet says so."""
    texts = {name: text for name, (_, text) in sections.items()}
    by_cpu = (name for name in texts if not name.startswith(WALL) and ": " not in name)
    return {**{WALL + name: NOT_BY_WALL for name in by_cpu if name != "commands"}, **texts}


def document(sections: Mapping[str, tuple[str, str]]) -> str:
    """All tables under their titles."""
    return "\n".join(f"## {title}\n\n{text}" for title, text in sections.values())
