"""The lab: trials are done once, none is lost, and the table does not depend on what happened."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.files import plain_name
from ascender.lab import Bundle, Store, Suite, grid, suite
from ascender.lab.engine import Local, Ray, Slurm, finish
from ascender.lab.judge import compare, conditions
from ascender.lab.plan import plan, seconds
from ascender.lab.progress import DONE, FAILED, left, states, table
from ascender.lab.reports.source import read
from ascender.lab.trial import trial
from ascender.lab.verdict import DecisionRule
from ascender.train import Run
from ascender.train.folder import plain
from support import lab_cases as cases

TINY = """
from ascender.lab import Suite, grid
SUITE = Suite(
    name="tiny", claim="Nothing is claimed.", baseline="vanilla",
    runs=grid(
        {"distinct": {"options": {"crowd": 7, "most": 3, "dim": 5}, "hidden": 8, "heads": 2,
                      "layers": 1, "steps": STEPS, "batch": 4, "every": STEPS // 2}},
        variants=["vanilla", "ascender"], seeds=2, **MORE,
    ),
    goals={"distinct": 0.3},
)
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY.replace("STEPS", "6").replace("MORE", "{}"))
    return path


def rows(made, store):
    """What a table is made of, without times."""
    return [(r["key"], r["test"], [p["value"] for p in r["curve"]]) for r in store.records(made)]


def nothing():
    """tick()"""


# --- suites


def test_a_grid_takes_the_first_seed_of_all_first():
    runs = grid(
        {"distinct": {"steps": 5}, "digits": {}}, ["vanilla", "only-align"], seeds=2, batch=4
    )
    assert [(r.task, r.variant, r.seed) for r in runs] == [
        (task, variant, seed)
        for seed in range(2)
        for task in ("distinct", "digits")
        for variant in ("vanilla", "only-align")
    ]
    assert {r.steps for r in runs if r.task == "distinct"} == {5}
    assert {r.batch for r in runs} == {4}


def test_the_suites_that_are_shipped_are_whole():
    made = suite("quick")
    assert {r.task for r in made.runs} == {"fewshot-digits", "distinct"}
    assert {r.variant for r in made.runs} == {
        "vanilla",
        "ascender",
        "only-align",
        "only-sep",
        "only-coh",
    }
    assert {r.seed for r in made.runs} == {0, 1, 2}
    assert {r.seed for r in made.with_seeds(5).runs} == set(range(5))
    assert made.claim_ko


def test_bad_suites_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"unknown suite 'quik' \(did you mean 'quick'\?\)"):
        suite("quik")
    run = Run.of("distinct")
    with pytest.raises(ValueError, match="has a run twice"):
        Suite("a", "claim", (run, run))
    with pytest.raises(ValueError, match="has no runs"):
        Suite("a", "claim", ())
    (tmp_path / "x.py").write_text("SUITE = 3")
    with pytest.raises(ValueError, match=r"SUITE = 3; expected a Suite"):
        suite(str(tmp_path / "x.py"))


# --- the store


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


# --- engines


@pytest.mark.slow
def test_killed_workers_and_labs_change_nothing(tmp_path):
    """kill −9 of a worker, then of the lab itself, then two labs at once: the same rows as those
    of an undisturbed run."""
    path = tmp_path / "tiny.py"
    path.write_text(TINY.replace("STEPS", "400").replace("MORE", "{}"))
    made, store = suite(str(path)), Store(tmp_path / "lab")
    command = [sys.executable, "-m", "ascender.cli", "lab", "run", path, "--out", store.folder]

    def workers(parent):
        found = subprocess.run(
            ["pgrep", "-P", str(parent.pid)], capture_output=True, text=True
        ).stdout.split()
        return [int(pid) for pid in found]

    def wait(until):
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and not until():
            time.sleep(0.05)
        assert until()

    with (tmp_path / "log").open("w") as log:
        lab = subprocess.Popen(command, stderr=log, stdout=log)
        wait(lambda: any(store.step(r.key)[0] > 20 for r in made.runs))
        os.kill(workers(lab)[0], signal.SIGKILL)
        wait(lambda: any(store.failures(r.key) for r in made.runs))
        left_over = workers(lab)
        lab.kill()
        lab.wait()
        for pid in left_over:  # as a machine that goes down takes all
            os.kill(pid, signal.SIGKILL)
        assert not all(store.done(r.key) for r in made.runs)
        both = [subprocess.Popen(command, stderr=log, stdout=log) for _ in range(2)]
        assert [p.wait(timeout=400) for p in both] == [0, 0]
    assert all(store.done(r.key) for r in made.runs)
    calm = Store(tmp_path / "calm")
    calm.open(made)
    Local(2).go(calm, made.runs, None, nothing)
    assert len(rows(made, store)) == 4
    assert rows(made, store) == rows(made, calm)


@pytest.mark.slow
def test_local_workers_do_what_a_trial_does(tiny, tmp_path):
    made, store, calm = suite(str(tiny)), Store(tmp_path / "lab"), Store(tmp_path / "calm")
    store.open(made)
    ticks = []
    Local(2).go(store, store.open_trials(made), None, lambda: ticks.append(1))
    assert ticks
    assert [s.mark for s in states(made, store)] == [DONE] * 4
    for run in made.runs:
        trial(str(calm.folder), plain(run))
    assert rows(made, store) == rows(made, calm)
    assert left(states(made, store), 2) == 0


# --- judging


def record(task, variant, seed, scores, higher=True):
    value = float(np.mean(scores))
    curve = [{"step": s, "value": value * s / 30, "loss": 1.0} for s in (10, 20, 30)]
    return {
        "run": {"task": task, "variant": variant, "seed": seed}, "higher": higher, "chance": 0.1,
        "test": {"value": value, "scores": list(scores)}, "curve": curve, "steps": 30,
        "tokens": 3000, "seconds": 6.0, "metric": "made up",
    }  # fmt: skip


def made_up(higher=True):
    rng = np.random.default_rng(0)
    found = []
    for seed in range(5):
        base = rng.random(40) < 0.5
        for variant, gain in (("vanilla", 0.0), ("better", 0.3), ("same", 0.0)):
            noise = rng.normal(0, 0.01, 40)
            found.append(record("t", variant, seed, base + gain + noise, higher))
    return found


def test_a_difference_is_judged_over_seeds_with_holm_over_all():
    made = Suite("s", "c", (Run.of("distinct"),), rule=DecisionRule(smallest=0.01))
    found = {c.variant: c for c in compare(made, made_up(), draws=500)}
    assert found["better"].verdict == "win"
    assert found["same"].verdict == "tie"
    better = [r["test"]["value"] for r in made_up() if r["run"]["variant"] == "better"]
    base = [r["test"]["value"] for r in made_up() if r["run"]["variant"] == "vanilla"]
    assert found["better"].by_seed.mean == pytest.approx(np.mean(better) - np.mean(base))
    assert found["better"].p == pytest.approx(min(1, 2 * found["better"].by_seed.t_p))
    assert found["better"].examples.difference == pytest.approx(found["better"].by_seed.mean)
    turned = {c.variant: c for c in compare(made, made_up(higher=False), draws=500)}
    assert turned["better"].verdict == "loss"


def test_seeds_that_only_one_has_do_not_count():
    made = Suite("s", "c", (Run.of("distinct"),))
    records = [r for r in made_up() if (r["run"]["variant"], r["run"]["seed"]) != ("better", 3)]
    found = {c.variant: c for c in compare(made, records, draws=100)}
    assert found["better"].by_seed.n == 4
    alone = [r for r in made_up() if r["run"]["variant"] != "vanilla"]
    assert compare(made, alone) == []


def test_runs_of_one_task_that_differ_in_an_option_are_cells_of_their_own():
    records = made_up()
    for r in records:
        r["run"]["options"] = {"length": 64 if r["run"]["seed"] < 3 else 128, "same": 1}
        r["run"]["seed"] %= 3
    found = conditions(records)
    assert {(c.task, len(c.records)) for c in found} == {
        ("t (length=64)", 3),
        ("t (length=128)", 2),
    }
    made = Suite("s", "c", (Run.of("distinct"),))
    assert {c.by_seed.n for c in compare(made, records, draws=50)} == {2, 3}


def test_costs_of_a_goal_are_in_steps_tokens_and_seconds():
    cell = next(c for c in conditions(made_up()) if c.variant == "better")
    goal = min(cell.values) * 20 / 30 - 1e-9
    assert set(cell.costs(goal, "step")) == {20}
    assert set(cell.costs(goal, "tokens")) == {2000}
    assert set(cell.costs(goal, "seconds")) == {4.0}
    assert cell.median_cost(9.0, "step") is None


# --- plans and the command


def test_a_budget_takes_seeds_in_order(tiny, tmp_path, monkeypatch):
    made, store = suite(str(tiny)), Store(tmp_path / "lab")
    monkeypatch.setattr("ascender.lab.plan.pace", lambda run, data_dir: 1.0)  # 6 s a trial
    said = []
    found = plan(made, store, 13.0, 1, None, said.append)
    assert [(r.variant, r.seed) for r in found.runs] == [("vanilla", 0), ("ascender", 0)]
    assert found.left_out() == ["left out: distinct, vanilla, seeds 1",
                            "left out: distinct, ascender, seeds 1"]  # fmt: skip
    assert len(plan(made, store, 13.0, 2, None, said.append).runs) == 4
    assert len(said) == 4
    for text, value in (("30m", 1800), ("1h30m", 5400), ("0.5h", 1800)):
        assert seconds(text) == value
    with pytest.raises(ValueError, match="budget '30 minutes'; expected a time such as 30m"):
        seconds("30 minutes")


def test_a_pace_is_of_one_setting(tmp_path, monkeypatch):
    """Runs of one task and variant that differ in length are cells of their own."""
    runs = tuple(
        Run.of("distinct", variant="vanilla", options={"crowd": n}, steps=10) for n in (16, 64)
    )
    made, store, said = Suite("s", "c", runs), Store(tmp_path / "lab"), []
    monkeypatch.setattr("ascender.lab.plan.pace", lambda run, _: run.options["crowd"] / 16)
    found = plan(made, store, 20.0, 1, None, said.append)
    assert [r.options["crowd"] for r in found.runs] == [16]
    assert found.left_out() == ["left out: distinct, vanilla, seeds 0"]
    assert plan(made, store, 1.0, 1, None, said.append).left_out() == [
        "left out: distinct, vanilla, {'crowd': 16}, seeds 0",
        "left out: distinct, vanilla, {'crowd': 64}, seeds 0",
    ]
    assert len({run.cell for run in made.with_seeds(3).runs}) == 2


def test_the_command(tiny, tmp_path):
    runner = CliRunner()
    options = [str(tiny), "--out", str(tmp_path / "lab"), "--workers", "1", "--budget", "1h"]
    done = runner.invoke(app, ["lab", "run", *options])
    assert done.exit_code == 0, done.output
    assert "4 trials fit into 1h" in done.stderr
    assert "ms a step" in done.stderr
    assert "verdict" in done.stdout
    shown = runner.invoke(app, ["lab", "show", str(tiny), "--out", str(tmp_path / "lab"), "--json"])
    found = json.loads(shown.stdout)
    assert [(cell["variant"], cell["n"]) for cell in found] == [("vanilla", 2), ("ascender", 2)]
    made = suite(str(tiny))
    best = [r["validation"] for r in Store(tmp_path / "lab").records(made)]
    tiny.write_text(tiny.read_text().replace('name="tiny",', 'name="tiny", tuning=True,'))
    shown = runner.invoke(app, ["lab", "show", str(tiny), "--out", str(tmp_path / "lab"), "--json"])
    tuned = json.loads(shown.stdout)
    assert tuned[0]["mean"] == pytest.approx((best[0] + best[2]) / 2), "of validation"
    listed = runner.invoke(app, ["lab", "list", "--json"])
    assert json.loads(listed.stdout)["quick"]["trials"] == 30
    for bad, said in (
        (["run", "quik", "--out", "x"], "did you mean 'quick'"),
        (["run", str(tiny), "--out", str(tmp_path / "n"), "--engine", "locl"], "unknown engine"),
        (["run", str(tiny), "--out", str(tmp_path / "n"), "--address", "x"], "expected --engine"),
        (["run", str(tiny), "--out", str(tmp_path / "n"), "--budget", "x"], "expected a time"),
    ):
        failed = runner.invoke(app, ["lab", *bad])
        assert failed.exit_code == 1
        assert said in failed.stderr


def test_the_live_table_shows_every_cell(tiny, tmp_path):
    from rich.console import Console

    made, store = suite(str(tiny)), Store(tmp_path / "lab")
    trial(str(store.folder), plain(made.runs[0]))
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(table(states(made, store), 2, "tiny"))
    text = console.export_text()
    assert "1 of 4 trials" in text
    assert "✓·" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ray", "slurm"])
def test_other_engines_do_what_a_trial_does(name, tiny, tmp_path):
    """A real Ray of two workers; submitit's jobs as processes here. What crashes is tried twice."""
    pytest.importorskip({"ray": "ray", "slurm": "submitit"}[name])
    made = suite(str(tiny))
    bad = Run.of("cora", hidden=8, heads=2)
    made = replace(made, runs=(*made.runs[:2], bad))
    store, calm = Store(tmp_path / "lab"), Store(tmp_path / "calm")
    store.open(made)
    engine = Ray(2) if name == "ray" else Slurm(2, cluster="local")
    engine.go(store, store.open_trials(made), None, nothing)
    for run in made.runs[:2]:
        trial(str(calm.folder), plain(run))
    assert len(rows(made, store)) == 2
    assert rows(made, store) == rows(made, calm)
    assert len(store.failures(bad.key)) == 2


def test_workers_end_where_sigterm_is_ignored(tiny, tmp_path):
    """A signal that a shell or a batch system ignores is ignored by every child."""
    made, store = suite(str(tiny)), Store(tmp_path / "lab")
    store.open(made)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        Local(1).go(store, made.runs[:1], None, nothing)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert store.done(made.runs[0].key)
