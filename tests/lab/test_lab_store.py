"""The store of trials: each is run once, none is lost, damaged records are set aside."""

import json
from contextlib import ExitStack
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.files import plain_name
from ascender.lab import Bundle, Store, Suite, suite
from ascender.lab.engine import Local, finish
from ascender.lab.progress import FAILED, states
from ascender.lab.reports.source import read
from ascender.lab.trial import trial
from ascender.train import Run
from ascender.train.folder import plain
from support import lab_cases as cases
from support.tiny_suite import nothing


def test_a_trial_is_done_once_and_held_by_one(tiny, tmp_path):
    made, store = suite(str(tiny)), Store(tmp_path / "lab")
    store.open(made)
    run = made.runs[0]
    with store.lock(run.key) as ours:
        assert ours
        assert trial(str(store.folder), plain(run))["state"] == "busy"
    assert trial(str(store.folder), plain(run))["state"] == "done"
    before = (store.place(run.key) / "record.json").read_bytes()
    assert trial(str(store.folder), plain(run))["state"] == "done"
    assert (store.place(run.key) / "record.json").read_bytes() == before
    assert len(store.open_trials(made)) == 3


def test_a_folder_of_another_suite_is_refused(tiny, tmp_path):
    made, store = suite(str(tiny)), Store(tmp_path / "lab")
    store.open(made)
    with pytest.raises(ValueError, match="has the suite 'tiny'; expected 'other'"):
        store.open(replace(made, name="other"))
    store.open(made.with_seeds(3))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ValueError, match="has other files"):
        Store(tmp_path / "full").open(made)


def test_what_crashes_is_tried_twice_and_reported(tmp_path):
    bad = Run.of("cora", hidden=8, heads=2)  # without files
    made, store = Suite("bad", "claim", (bad,), baseline="ascender"), Store(tmp_path / "lab")
    store.open(made)
    Local(1).go(store, made.runs, None, nothing)
    errors = store.failures(bad.key)
    assert len(errors) == 2
    assert "FileNotFoundError: cora has no data_dir" in errors[0]
    assert store.open_trials(made) == []
    assert [s.mark for s in states(made, store)] == [FAILED]
    store.forgive(bad.key)
    assert store.open_trials(made) == [bad]


def damage(path, how):
    found = json.loads(path.read_text())
    path.write_text({
        "half": path.read_text()[:100], "empty": "", "list": "[]", "deep": "[" * 100_000,
        "no test": json.dumps({k: v for k, v in found.items() if k != "test"}),
        "null run": json.dumps({**found, "run": None}),
    }[how])  # fmt: skip


@pytest.mark.parametrize("how", ["half", "empty", "list", "deep", "no test", "null run"])
def test_a_damaged_record_is_set_aside(how, tmp_path):
    """The others are read; the trial counts as not done."""
    folder = cases.store(tmp_path / "lab", cases.records(seeds=1))
    keys = json.loads((folder / "suite.json").read_text())["trials"]
    path = folder / "trials" / keys[1] / "record.json"
    damage(path, how)
    whole, said = path.read_bytes(), []
    store = Store(folder, said.append)
    assert [store.done(key) for key in keys] == [True, False, *[True] * (len(keys) - 2)]
    assert len(said) == 1
    assert str(path) in said[0]
    assert "record.json.damaged" in said[0]
    assert path.with_name("record.json.damaged").read_bytes() == whole
    assert not path.exists()
    assert len(read(folder, say=said.append).records) == len(keys) - 1


def test_a_trial_with_a_damaged_record_is_run_again(tiny, tmp_path):
    made, store = suite(str(tiny)), Store(tmp_path / "lab", str)
    run = made.runs[0]
    assert trial(str(store.folder), plain(run))["state"] == "done"
    path = store.place(run.key) / "record.json"
    before = json.loads(path.read_text())
    path.write_text("half of it")
    with pytest.warns(UserWarning, match="moved to record.json.damaged"):
        assert trial(str(store.folder), plain(run))["state"] == "done"
    assert json.loads(path.read_text())["test"] == before["test"]


class Told:
    """An engine that finishes what is free and skips what others hold."""

    def __init__(self):
        self.ended = []

    def go(self, store, runs, data_dir, tick):
        for run in runs:
            with store.lock(run.key) as ours:
                if ours:
                    self.ended.append(run.seed)
                    store.finished.add(run.key)


def test_trials_that_others_hold_are_waited_for(tiny, tmp_path, monkeypatch):
    """One is finished by who holds it, one is given up by who holds it."""
    monkeypatch.setattr("ascender.lab.engine.WAIT", 0.01)
    made, store, engine = suite(str(tiny)).with_seeds(1), Store(tmp_path / "lab"), Told()
    theirs, ours = made.runs
    said, ticks = [], []
    finishes, gives_up = ExitStack(), ExitStack()
    assert finishes.enter_context(Store(store.folder).lock(theirs.key))
    assert gives_up.enter_context(Store(store.folder).lock(ours.key))

    def tick():
        ticks.append(1)
        if len(ticks) == 3:
            store.finished.add(theirs.key)
            finishes.close()
        if len(ticks) == 6:
            gives_up.close()

    finish(engine, store, made.runs, None, tick, said.append)
    assert engine.ended == [0], "the one that was given up, once"
    assert all(store.done(run.key) for run in made.runs)
    assert [line.split(" trials")[0] for line in said] == ["waiting for 2", "waiting for 1"]


def test_names_in_files_are_no_paths(tmp_path):
    """A suite.json or a key that would be written or read elsewhere."""
    for name in ("../../outside", "/outside", "..", "a/b", "a\\b", "", "a b", 3, None, "a\u2028b"):
        with pytest.raises(ValueError, match="expected a name: no path"):
            plain_name("suite", name)
    assert plain_name("suite", "셋-2.1") == "셋-2.1"
    with pytest.raises(ValueError, match=r"suite = '../x'; expected a name"):
        Suite("../x", "claim", (Run.of("distinct"),))
    with pytest.raises(ValueError, match=r"bundle = '../x'; expected a name"):
        Bundle("../x", "claim", ())
    lab, out = tmp_path / "in" / "lab", tmp_path / "in" / "out"
    cases.store(lab / "good", cases.records(seeds=1), name="good")
    cases.store(lab / "bad", cases.records(seeds=1), name="../../outside")
    done = CliRunner().invoke(app, ["lab", "report", str(lab), "--out", str(out)])
    assert done.exit_code == 1
    assert "name in" in done.stderr
    assert "'../../outside'; expected a name" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in"]
    sheet = json.loads((lab / "good" / "suite.json").read_text())
    sheet["trials"][0] = "../../bad/trials/" + sheet["trials"][0]
    (lab / "good" / "suite.json").write_text(json.dumps(sheet))
    done = CliRunner().invoke(app, ["lab", "report", str(lab / "good"), "--out", str(out)])
    assert done.exit_code == 1
    assert "a trial in" in done.stderr
