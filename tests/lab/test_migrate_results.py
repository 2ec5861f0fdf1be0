"""tools/migrate_results.py on a few rows, and what it made of the stored trials."""

import importlib.util
import json
from pathlib import Path

import pytest

from ascender.common.renamed import RENAMED
from ascender.lab import suite
from ascender.lab.bundle import claimed
from ascender.lab.reports.source import read
from ascender.lab.store import PACKED, Store, read_packed
from ascender.train import Run
from ascender.train.run import key_of
from support import lab_cases as cases

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
STORED = sorted(path.parent.name for path in RESULTS.glob("*/suite.json"))


@pytest.fixture(scope="module")
def tool():
    path = ROOT / "tools" / "migrate_results.py"
    spec = importlib.util.spec_from_file_location("migrate_results", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def old_row(tool, variant, seed, **more):
    """As 0.1 wrote it: old names, and a key of them."""
    names = {new: old for old, new in tool.KEYS.items()}
    row = {names.get(k, k): v for k, v in cases.record("distinct", "vanilla", seed).items()}
    row["run"] = json.loads(json.dumps({
        **{f: getattr(Run("distinct"), f) for f in Run.__dataclass_fields__},
        "variant": variant, "seed": seed,
    }))  # fmt: skip
    return {**row, "key": key_of(row["run"]), **more}


def old_suite(folder, name, rows, **sheet):
    folder = folder / name
    folder.mkdir(parents=True)
    scores = {row["key"]: row["test"]["scores"] for row in rows}
    bare = [{**r, "test": {k: v for k, v in r["test"].items() if k != "scores"}} for r in rows]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bare))
    (folder / "scores.json").write_text(json.dumps(scores))
    rule = {"higher": True, "alpha": 0.05, "smallest": 0.005, "margin": 0.0}
    made = {"name": name, "claim": "c", "key": "old", "baseline": "vanilla", "rule": rule}
    made |= {"goals": {}, "trials": [row["key"] for row in rows], "fixed": "2026", **sheet}
    (folder / "suite.json").write_text(json.dumps(made))


def test_names_and_keys(tool, tmp_path):
    rows = [old_row(tool, v, 0) for v in ("mute", "align+rope", "no-sep", "vanilla+rope")]
    sheet = {"baseline": "mute", "against": {"align+rope": "vanilla+rope"}}
    failures = {rows[0]["key"]: ["once"]}
    old_suite(tmp_path / "old", "muted", rows, **sheet, failures=failures)
    claim = {"text": "A.", "text_ko": "가.", "suite": "muted", "test": "wins", "given": {}}
    claims = {"name": "paper", "claims": [{**claim, "fixed": "2026"}]}
    (tmp_path / "old" / "claims.json").write_text(json.dumps(claims))
    tool.migrate(tmp_path / "old", tmp_path / "new")
    source = read(tmp_path / "new" / "against_no_rules")
    assert [r["run"]["variant"] for r in source.records] == [
        "no-rules", "only-align+rope", "no-sep", "vanilla+rope",
    ]  # fmt: skip
    assert [r["key"] for r in source.records] == [Run(**r["run"]).key for r in source.records]
    assert [r["key"] == row["key"] for r, row in zip(source.records, rows, strict=True)] == [
        False, False, True, True,
    ]  # fmt: skip
    assert source.sheet.baseline == "no-rules"
    assert source.sheet.against == {"only-align+rope": "vanilla+rope"}
    assert source.failures == {source.records[0]["key"]: ["once"]}
    assert [r["test"] for r in source.records] == [row["test"] for row in rows]
    assert claimed(tmp_path / "new")[1][0].suite == "against_no_rules"


def test_a_trial_of_two_suites_is_stored_once(tool, tmp_path):
    full, bare = old_row(tool, "fast", 1), old_row(tool, "fast", 1, seconds=99.0)
    del bare["insight"]
    for name, row in (("quick", bare), ("settings", full)):
        old_suite(tmp_path / "old", name, [row])
    tool.migrate(tmp_path / "old", tmp_path / "new")
    (record,) = read_packed(tmp_path / "new" / PACKED).values()
    assert record["seconds"] == full["seconds"]
    assert record["run"]["variant"] == "shared-qknorm"
    before = (tmp_path / "new" / PACKED).read_bytes()
    tool.migrate(tmp_path / "old", tmp_path / "again")
    assert (tmp_path / "again" / PACKED).read_bytes() == before


def test_two_results_of_one_trial_are_refused(tool, tmp_path):
    row = old_row(tool, "vanilla", 0)
    old_suite(tmp_path, "a", [row])
    old_suite(tmp_path, "b", [{**row, "validation": 0.1}])
    with pytest.raises(ValueError, match=f"two results of the trial {row['key']}"):
        tool.migrate(tmp_path, tmp_path / "new")


# --- the stored trials of this project


def test_stored_trials_have_the_keys_of_their_runs():
    trials = read_packed(RESULTS / PACKED)
    sheets = [json.loads((RESULTS / name / "suite.json").read_text("utf-8")) for name in STORED]
    assert set(trials) == {key for sheet in sheets for key in sheet["trials"]}
    for key, record in trials.items():
        assert Run(**record["run"]).key == key
    old = set(RENAMED["variant"])
    assert not old & {r["run"]["variant"].partition("+")[0] for r in trials.values()}


@pytest.mark.parametrize("name", STORED)
def test_a_rerun_skips_stored_trials(name):
    """All of them; one suite has had seeds added since it was run."""
    planned = {run.key for run in suite(name).runs}
    store = Store(RESULTS / name)
    stored = json.loads((RESULTS / name / "suite.json").read_text("utf-8"))
    assert set(stored["trials"]) <= planned
    assert all(store.done(key) for key in stored["trials"])
    if set(stored["trials"]) == planned:
        assert stored["key"] == suite(name).key
    else:
        assert name == "against_no_rules"


def test_the_store_is_small():
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    trials = len(read_packed(RESULTS / PACKED))
    assert sum(path.stat().st_size for path in files) < 1_600 * trials
