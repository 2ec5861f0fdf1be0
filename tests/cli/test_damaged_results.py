"""Damaged suites, trials, claims and benchmark runs: one line that names the file."""

import gzip
import json

import pytest

from ascender.lab.store import PACKED
from support.damaged_cases import ANY, BYTES_OF, OUT, RECORDS, assert_error, changed, without

SUITES = ANY | {f"no {key}": without(key) for key in ("name", "baseline", "rule", "trials")} | {
    "another rule": changed(rule={"luck": 1}),
    "trials in words": changed(trials="all"),
}  # fmt: skip

ROWS = {k: v for k, v in ANY.items() if k != "empty"} | {
    k: v for k, v in RECORDS.items() if k not in ANY
}


@pytest.mark.parametrize("damage", SUITES)
def test_sheet_of_a_suite(folder, damage):
    SUITES[damage](folder / "lab/suite.json")
    assert_error(["lab", "report", "lab", *OUT], "lab/suite.json")


@pytest.mark.parametrize("damage", ROWS)
def test_packed_trials_of_a_suite(folder, damage):
    packed, rows = folder / "lab" / PACKED, folder / "rows.jsonl"
    rows.write_bytes(gzip.decompress(packed.read_bytes()))
    ROWS[damage](rows)
    packed.write_bytes(gzip.compress(rows.read_bytes()))
    assert_error(["lab", "report", "lab", *OUT], "lab/trials.jsonl.gz")


@pytest.mark.parametrize("damage", ["truncated", "garbage", "bit"])
def test_packed_trials_that_are_no_gzip(folder, damage):
    def flipped(path):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)

    (BYTES_OF | {"bit": flipped})[damage](folder / "lab" / PACKED)
    assert_error(["lab", "report", "lab", *OUT], "lab/trials.jsonl.gz")


@pytest.mark.parametrize("damage", ANY)
def test_costs_of_a_suite(folder, damage):
    ANY[damage](folder / "lab" / "costs.json")
    assert_error(["lab", "report", "lab", *OUT], "lab/costs.json")


@pytest.mark.parametrize("damage", [*ANY, "no name", "no claims", "claims of numbers"])
def test_claims_of_a_bundle(folder, damage):
    (folder / "many").mkdir()
    (folder / "lab").rename(folder / "many" / "lab")
    path = folder / "many" / "claims.json"
    path.write_text(json.dumps({"name": "b", "claims": []}))
    more = {"no name": without("name"), "no claims": without("claims"),
            "claims of numbers": changed(claims=[1])}  # fmt: skip
    (ANY | more)[damage](path)
    assert_error(["lab", "report", "many", *OUT], "many/claims.json")


@pytest.mark.parametrize("damage", [*ANY, "no machine", "no rows", "rows of numbers", "no n"])
def test_runs_of_the_benchmark(folder, damage):
    more = {
        "no machine": without("machine"), "no rows": without("rows"),
        "rows of numbers": changed(rows=[1]), "no n": changed(rows=[{"work": "x"}]),
    }  # fmt: skip
    (ANY | more)[damage](folder / "bench.json")
    assert_error(["bench", "report", "bench.json"], "bench.json")
