"""Comparisons over seeds: paired differences, Holm, costs until a goal."""

import numpy as np
import pytest

from ascender.lab import Suite
from ascender.lab.judge import compare, conditions
from ascender.lab.verdict import DecisionRule
from ascender.train import Run


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


def test_rates_that_were_tuned_for_each_option_do_not_part_variants():
    records = made_up()
    for r in records:
        long, r["run"]["seed"] = divmod(r["run"]["seed"], 3)
        rate = 1e-3 if r["run"]["variant"] == "better" and long else 3e-3
        r["run"] |= {"options": {"length": 64 << long}, "rate": rate}
    assert {c.task for c in conditions(records)} == {"t (length=64)", "t (length=128)"}
    made = Suite("s", "c", (Run.of("distinct"),))
    assert {(c.task, c.by_seed.n) for c in compare(made, records, draws=50)} == {
        ("t (length=64)", 3),
        ("t (length=128)", 2),
    }
    for r in records:  # where nothing else tells runs apart, a rate does
        r["run"]["options"] = {}
    assert "t (rate=0.001)" in {c.task for c in conditions(records)}


def test_costs_of_a_goal_are_in_steps_tokens_and_seconds():
    cell = next(c for c in conditions(made_up()) if c.variant == "better")
    goal = min(cell.values) * 20 / 30 - 1e-9
    assert set(cell.costs(goal, "step")) == {20}
    assert set(cell.costs(goal, "tokens")) == {2000}
    assert set(cell.costs(goal, "seconds")) == {4.0}
    assert cell.median_cost(9.0, "step") is None
