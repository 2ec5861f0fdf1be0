"""Suites with seeds of their own, budgets of steps, FLOPs to a goal, and claims of flock scope."""

import statistics
from dataclasses import replace

import pytest

from ascender.lab import Suite, grid
from ascender.lab.bundle import Claim
from ascender.lab.judge import Condition, curve, flops_until
from ascender.lab.reports.claims import find
from ascender.lab.reports.source import read
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import table
from ascender.lab.store import Store
from ascender.lab.suite import key_of_suite
from ascender.lab.verdict import DecisionRule
from ascender.train import Run, train
from support import lab_cases as cases
from support.lab_tiny import SUITE as TINY

DRAWS = 50
SMALL = {"hidden": 16, "layers": 1, "heads": 2, "steps": 6, "batch": 4, "every": 3,
         "options": {"crowd": 13, "most": 5}}  # fmt: skip


def test_seeds_of_a_grid():
    made = Suite("x", "x", grid({"distinct": SMALL}, ["vanilla", "flock"], range(100, 103)))
    assert [run.seed for run in made.runs] == [100, 100, 101, 101, 102, 102]
    seeds = lambda one: sorted({run.seed for run in one.runs})  # noqa: E731
    assert seeds(made.with_seeds(2)) == [100, 101]
    assert seeds(made.with_seeds(5)) == [100, 101, 102, 103, 104]
    assert seeds(replace(made, runs=grid({"distinct": SMALL}, ["vanilla"], [7, 3]))
                 .with_seeds(3)) == [3, 7, 8]  # fmt: skip
    assert seeds(TINY.with_seeds(3)) == [0, 1, 2]


def test_sizes_of_a_grid():
    (run,) = grid({"recall": {"size": "small", "heads": 2}}, ["flock"], 1)
    assert (run.hidden, run.layers, run.heads) == (
        Run.size("small")["hidden"], Run.size("small")["layers"], 2,
    )  # fmt: skip
    (other,) = grid({"recall": {}}, ["flock"], 1, size="medium")
    assert other.hidden == Run.size("medium")["hidden"] > run.hidden


def test_budgets_belong_to_the_key_where_there_are_some():
    plain = TINY.key
    parts = ([run.key for run in TINY.runs], TINY.rule, TINY.baseline, TINY.goals, TINY.against)
    assert plain == key_of_suite(*parts)
    assert replace(TINY, budgets={"distinct": 3}).key != plain
    for step in (0, 2, 9):
        with pytest.raises(ValueError, match=rf"budgets\['distinct'\] = {step} in suite tiny"):
            replace(TINY, budgets={"distinct": step})
    with pytest.raises(ValueError, match="has a budget of 'recall'; expected one of its tasks"):
        replace(TINY, budgets={"recall": 3})


def test_a_budget_is_kept_beside_the_trials(tmp_path):
    made = replace(TINY, budgets={"distinct": 3})
    Store(tmp_path).open(made)
    for run in made.runs:
        record = cases.record("distinct", run.variant, run.seed)
        Store(tmp_path).place(run.key).mkdir(parents=True)
        cases.json.dump({**record, "key": run.key},
                        (Store(tmp_path).place(run.key) / "record.json").open("w"))  # fmt: skip
    found = read(tmp_path)
    assert found.sheet.budgets == {"distinct": 3}
    assert not read(tmp_path, made).sheet.changed
    assert read(tmp_path, replace(made, budgets={"distinct": 6})).sheet.changed


def test_scores_at_the_budget_and_at_the_end(tmp_path):
    made = cases.records(tasks=("distinct",), variants=("vanilla", "ascender"))
    results = SuiteResults.of(read(cases.store(tmp_path, made, budgets={"distinct": 80})), DRAWS)
    rows = {row["variant"].text: row for row in table("budget", results).records()}
    at = {(r["run"]["variant"], p["step"]): [] for r in made for p in r["curve"]}
    for r in made:
        for p in r["curve"]:
            at[r["run"]["variant"], p["step"]].append(p["value"])
    mean = {which: statistics.mean(values) for which, values in at.items()}
    for name in ("vanilla", "ascender"):
        assert rows[name]["at_budget"].data["mean"] == pytest.approx(mean[name, 80])
        assert rows[name]["at_end"].data["mean"] == pytest.approx(mean[name, 120])
    gap = rows["ascender"]["at_budget_difference"].data["mean"]
    assert gap == pytest.approx(mean["ascender", 80] - mean["vanilla", 80])
    assert rows["vanilla"]["at_budget_difference"].text == "–"
    without = cases.store(tmp_path / "b", made)
    assert not list(table("budget", SuiteResults.of(read(without), DRAWS)).records())


def test_flops_until_a_step():
    record = cases.record("distinct", "flock", 0)
    one, batch = record["attention_flops_an_example"], record["run"]["batch"]
    assert flops_until(record, 40) == 40 * batch * one
    record["visible_phase"] = {"steps": 50, "attention_flops_an_example": 7 * one}
    assert flops_until(record, 40) == 40 * batch * 7 * one
    assert [x for x, _ in curve(record, "flops")] == [
        batch * one * (7 * min(t, 50) + max(0, t - 50)) for t in cases.STEPS
    ]
    goal = record["curve"][1]["value"]
    whole = Condition("distinct", "flock", ({**record, "higher": True},))
    assert whole.costs(goal, "flops") == [batch * one * (350 + 30)]
    assert whole.median_cost(2.0, "flops") is None


def test_a_run_in_flock_scope_records_its_visible_phase(tmp_path):
    records = {
        name: train(Run.of("distinct", variant=name, **SMALL), tmp_path / name)
        for name in ("vanilla", "flock+far=2", "ascender-affinity+affinity_heads=1")
    }
    phase = records["flock+far=2"]["visible_phase"]
    everything = records["ascender-affinity+affinity_heads=1"]
    assert phase == {  # 30% of six steps
        "steps": 2, "attention_flops_an_example": everything["attention_flops_an_example"],
    }  # fmt: skip
    assert not any("visible_phase" in records[n] for n in records if n != "flock+far=2")


def flock_records(saving=0.5, worse=0.0):
    """A variant in flock scope that takes a part of the FLOPs."""
    base = cases.records(tasks=("distinct",), variants=("vanilla",), seeds=4)
    near = [
        cases.record("distinct", "flock+far=8", seed, gain=-worse,
                     attention_flops_an_example=(1 - saving) * cases.FLOPS["vanilla"])
        for seed in range(4)
    ]  # fmt: skip
    for own, theirs in zip(near, base, strict=True):
        shift = own["test"]["value"] - theirs["test"]["value"] + worse
        own["test"]["value"] -= shift * 0.9
    return base + near


def test_a_saving_in_flock_scope_is_a_claim(tmp_path):
    rule = {"higher": True, "alpha": 0.05, "smallest": 0.005, "margin": 0.05}
    claim = Claim("cheaper", "싸다", "made-up", "cheaper", {"saving": 0.21})
    cases_of = {"supported": (0.5, 0.0), "saves little": (0.1, 0.0), "worse": (0.5, 0.3)}
    for name, (saving, worse) in cases_of.items():
        folder = tmp_path / name.replace(" ", "_")
        cases.store(folder, flock_records(saving, worse), rule=rule)
        found = find(claim, {"made-up": SuiteResults.of(read(folder), DRAWS)})
        assert (found.verdict == "supported") == (name == "supported"), name
    assert DecisionRule(**rule).margin == 0.05


def test_claims_of_another_variant(tmp_path):
    made = cases.records(variants=("vanilla", "only-sep"), seeds=5)
    results = {"made-up": SuiteResults.of(read(cases.store(tmp_path, made)), DRAWS)}
    asked = lambda test, **given: find(Claim("a", "b", "made-up", test, given), results)  # noqa: E731
    assert asked("gain", at_least=0.01).verdict == "not_testable"
    assert asked("gain", at_least=0.01, ruled="only-sep").verdict == "supported"
    assert asked("wins", ruled="only-sep").facts["n"] == 2
    assert asked("faster", ruled="only-sep").facts["goals"]
