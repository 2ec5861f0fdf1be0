"""Suites, plans and the command of the lab."""

import json
import os

import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.lab import Store, Suite, grid, suite
from ascender.lab.plan import plan, seconds
from ascender.lab.progress import states, table
from ascender.lab.trial import trial
from ascender.train import Run
from ascender.train.folder import plain

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
    assert {r.task for r in made.runs} == {"recall"}
    assert {r.variant.split("+")[0] for r in made.runs} == {
        "vanilla", "flock", "flock-random", "longformer",
    }  # fmt: skip
    assert {r.seed for r in made.runs} == set(range(100, 103))
    assert {r.seed for r in made.with_seeds(5).runs} == set(range(100, 105))
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
    assert json.loads(listed.stdout)["quick"]["trials"] == 15
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
