"""Move stored trials from the layout and the names of 0.1 to those of 0.2.

    python tools/migrate_results.py OLD NEW

    OLD/NAME/rows.jsonl scores.json suite.json costs.json, OLD/claims.json
    NEW/trials.jsonl.gz, NEW/NAME/suite.json costs.json, NEW/claims.json

Variants and suites get their new names (ascender.common.renamed), fields of records those of KEYS.
A run's key is a hash of all its fields, so it is computed again from the migrated run: `ascender
lab run` on NEW skips what is there. Of a trial that several suites stored, one record is kept: the
first with scores of test examples and, if any has them, measurements of the model. Numbers are
copied unchanged.

This is how results/ of this project was made from the docs/lab of 0.1, once. A folder of `ascender
lab run` of 0.1 is migrated after `ascender lab report` of 0.1 has written its rows.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascender.common.files import json_rows, read_json, write
from ascender.common.renamed import RENAMED
from ascender.lab.costs import FILE as COSTS
from ascender.lab.store import PACKED, SHEET, packed_bytes
from ascender.lab.suite import key_of_suite
from ascender.lab.verdict import DecisionRule
from ascender.train import Run

KEYS = {"floor": "chance"}  # fields of a record
TIMED = ("seconds", "judging_seconds", "tokens_a_second", "data_share", "peak_memory_mb")
EXPECTED = "what ascender lab 0.1 wrote"
Json = dict[str, Any]


def new_variant(name: str) -> str:
    """align+rope → only-align+rope."""
    first, plus, pieces = name.partition("+")
    return RENAMED["variant"].get(first, first) + plus + pieces


def new_suite(name: str) -> str:
    return RENAMED["suite"].get(name, name)


def new_record(row: Json, scores: list[float] | None = None) -> Json:
    """A row with today's names and the key of its run; `scores` of its test examples."""
    record = {KEYS.get(name, name): value for name, value in row.items()}
    record["run"] = {**row["run"], "variant": new_variant(row["run"]["variant"])}
    record["key"] = Run(**record["run"]).key
    if scores:
        record["test"] = {**record["test"], "scores": scores}
    return record


def new_sheet(sheet: Json, keys: Mapping[str, str]) -> Json:
    """A sheet with today's names; `keys`: new keys of runs by their old ones."""
    migrated = {
        **sheet,
        "name": new_suite(sheet["name"]),
        "baseline": new_variant(sheet["baseline"]),
        "against": {new_variant(a): new_variant(b) for a, b in sheet.get("against", {}).items()},
        "trials": [keys[key] for key in sheet["trials"]],
        "failures": {keys[key]: errors for key, errors in sheet.get("failures", {}).items()},
    }
    rule = DecisionRule(**sheet["rule"])
    migrated["key"] = key_of_suite(
        migrated["trials"], rule, migrated["baseline"], migrated["goals"], migrated["against"]
    )
    return migrated


def new_costs(costs: Json) -> Json:
    order = {**costs["order"], "variants": [new_variant(v) for v in costs["order"]["variants"]]}
    rows = [{**row, "variant": new_variant(row["variant"])} for row in costs["rows"]]
    return {**costs, "order": order, "rows": rows}


def one_of(a: Json, b: Json) -> Json:
    """Of two records of a trial the more complete; they may differ in times, in nothing else."""
    same = [
        {k: v for k, v in record.items() if k not in (*TIMED, "test", "insight")}
        | {k: v for k, v in record["test"].items() if k != "scores"}
        for record in (a, b)
    ]
    if same[0] != same[1]:
        raise ValueError(f"two results of the trial {a['key']}; expected one")
    return max(a, b, key=lambda record: ("insight" in record, "scores" in record["test"]))


def migrate(old: Path, new: Path) -> list[Path]:
    """Write NEW; the packed trials last."""
    trials: dict[str, Json] = {}
    files: dict[Path, Json] = {}
    for folder in sorted(path.parent for path in old.glob(f"*/{SHEET}")):
        beside = folder / "scores.json"
        scores = read_json(beside, EXPECTED) if beside.exists() else {}
        keys = {}
        for row in json_rows(folder / "rows.jsonl"):
            record = new_record(row, scores.get(row["key"]))
            key = keys[row["key"]] = record["key"]
            trials[key] = one_of(trials[key], record) if key in trials else record
        sheet = new_sheet(read_json(folder / SHEET, EXPECTED), keys)
        files[new / sheet["name"] / SHEET] = sheet
        if (folder / COSTS).exists():
            files[new / sheet["name"] / COSTS] = new_costs(read_json(folder / COSTS, EXPECTED))
    if (old / "claims.json").exists():
        claims = read_json(old / "claims.json", EXPECTED, claims=list)
        renamed = [{**claim, "suite": new_suite(claim["suite"])} for claim in claims["claims"]]
        files[new / "claims.json"] = {**claims, "claims": renamed}
    written = [
        write(path, json.dumps(content, ensure_ascii=False, indent=1))
        for path, content in files.items()
    ]
    return [*written, write(new / PACKED, packed_bytes(trials.values()))]


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for path in migrate(Path(sys.argv[1]), Path(sys.argv[2])):
        print(f"wrote {path}")
