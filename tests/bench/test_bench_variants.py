"""`ascender bench variants`: every attention of the slot, on a few tokens. No time is asserted."""

import json
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from ascender import bench
from ascender.bench import report, studies, tables, variants
from ascender.bench.layer import LAYERS
from ascender.bench.variants import VARIANTS
from ascender.cli import app
from ascender.measure.flops import Problem, count, stock
from ascender.measure.timing import FORWARD, TRAINING, TimingPlan
from ascender.nn import baselines

ONCE = TimingPlan(repeats=1, at_least=0.0)
SMALL = Problem(43, H=3, d=8)
OURS = [name for name in VARIANTS if name != "stock"]
LINEAR = ["ascender_window", "longformer", "bigbird", "performer", "linear"]


def made(name, p, monkeypatch):
    """(kind, the module, its input and neighbours, the job) of a variant."""
    calls = []

    def spy(kind, *sizes, **options):
        module = baselines.attention(kind, *sizes, **options)
        call = module.call

        def recorded(x, **more):
            calls.append((x, more["neighbours"]))
            return call(x, **more)

        calls[:] = [kind, module]
        module.call = recorded
        return module

    monkeypatch.setattr(variants, "attention", spy)
    job = VARIANTS[name].make(p)
    del calls[1].call
    return *calls, job


def test_every_attention_of_the_slot_takes_part(monkeypatch):
    kinds = {made(name, SMALL, monkeypatch)[0] for name in OURS}
    assert kinds == set(baselines.ATTENTIONS)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", OURS)
def test_what_is_timed_is_the_attention(name, causal, monkeypatch):
    """The job's heads, put through W_O, are the whole layer's output."""
    _, module, args, job = made(name, replace(SMALL, causal=causal), monkeypatch)
    x, edges = args
    with torch.no_grad():
        y = module(x, causal=causal, neighbours=edges)
        torch.testing.assert_close(module._merge(job.call()), y, atol=1e-5, rtol=1e-5)
        other = module(x.flip(1), causal=causal, neighbours=edges)
        assert not torch.allclose(other, y, atol=1e-3)  # the input matters


@pytest.mark.parametrize("name", OURS)
def test_backward_reaches_all_that_mix_takes(name, monkeypatch):
    _, module, _, job = made(name, SMALL, monkeypatch)
    grads = job.run(TRAINING)()
    leaves = [t for t in job.inputs if t.is_floating_point()]
    missed = {id(leaf) for leaf, g in zip(leaves, grads, strict=True) if g is None}
    before = {id(p) for n, p in module.named_parameters() if n == "log_gain"}  # is in q already
    if name == "affinity":  # the rules are off
        reached = [leaf for leaf, g in zip(leaves, grads, strict=True) if g is not None and g.any()]
        numbers = (module.omega_aff, module.log_tau_score)
        assert {id(t) for t in reached if t.ndim < 3} == {id(t) for t in numbers}
        assert len(reached) - len(numbers) == 5, "q, k, v, h_q, h_k, and not z"
        return
    assert missed == before
    assert not any(module.W_Q.weight is t for t in job.inputs)


def test_vanilla_does_what_stock_does():
    for causal in (False, True):
        p = replace(SMALL, causal=causal)
        for work in (FORWARD, TRAINING):
            assert count(VARIANTS["vanilla"].make(p).run(work)) == stock(p, work == TRAINING)


@pytest.mark.parametrize("name", [*LINEAR, "vanilla"])
def test_linear_ones_are_linear(name):
    """FLOPs between two long sequences: twice as many for twice the tokens, or four times."""
    few, many = (VARIANTS[name].flops(Problem(n, H=1, d=4), False) for n in (2048, 4096))
    assert many / few == pytest.approx(4 if name == "vanilla" else 2, rel=0.1)


@pytest.mark.parametrize("causal", [False, True])
def test_rows(causal):
    works = (FORWARD, TRAINING)
    rows = studies.run("variants", [(19, w) for w in works], ONCE, causal=causal)
    assert {(r.candidate, r.work) for r in rows} == {(n, w) for n in VARIANTS for w in works}
    for row in rows:
        assert row.skipped is None
        assert row.baseline == "stock"
        assert row.ms > 0
        assert row.flop_ratio > 0
    assert all(r.ratio == r.flop_ratio == 1 for r in rows if r.candidate == "stock")


def test_what_needs_a_matrix_is_skipped_where_it_is_large(monkeypatch):
    assert VARIANTS["graph"].refuses(Problem(2048), FORWARD) is None
    assert VARIANTS["graph"].refuses(Problem(2049), FORWARD) == "N×N above N = 2048"
    assert [n for n in OURS if VARIANTS[n].refuses(Problem(16384), TRAINING)] == ["graph"]
    tiny = {"stock": VARIANTS["stock"], "graph": variants._variant("graph", "graph", largest=9)}
    monkeypatch.setitem(studies.STUDIES, "variants", studies.Study(tiny, (7, 11)))
    rows = studies.run("variants", [(7, FORWARD), (11, FORWARD)], ONCE)
    texts = tables.of_study("variants", rows)[FIRST].texts("en")
    time = {row[0]: row[1:] for row in texts}
    assert time["graph"][1] == "…"
    assert time["graph"][0].endswith("×")


FIRST = "variants forward time"


def test_memory_in_a_process_of_its_own():
    found = studies.peak_memory("variants", "longformer", Problem(64), FORWARD, threads=1)
    assert 0 < found["call"] < found["process"]


def test_command_and_report(tmp_path):
    args = ["bench", "variants", "--lengths", "17", "--repeats", "1", "--no-memory"]
    shown = CliRunner().invoke(app, args, env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for text in ("Time, forward: × stock", "FLOPs, forward + backward", "longformer, w = 128"):
        assert text in shown.stdout
    assert "timing training, N = 17" in shown.stderr
    run = tmp_path / "variants.json"
    run.write_text(CliRunner().invoke(app, [*args, "--json", "--causal"]).stdout)
    assert json.loads(run.read_text())["study"] == "variants"
    title, text = report.blocks([run])[FIRST]
    assert title == "Time, causal, forward: × stock SDPA"
    assert text.count("\n") == 2 + len(VARIANTS)


def test_quick_weighs_some_that_exist():
    for study in studies.STUDIES.values():
        assert set(study.quick_memory) <= set(study.candidates)
        assert {work for _, work in study.quick} <= set(study.works)


def test_a_quick_run_weighs_a_few_and_a_full_one_all(monkeypatch):
    asked = []
    monkeypatch.setattr(studies, "run", lambda name, timed, plan, **more: asked.append(more) or [])
    for options in ({"quick": True}, {}, {"memory": False}):
        bench.run("variants", **options)
    bench.run("layer")
    assert [set(one["memory"]) for one in asked] == [
        set(studies.STUDIES["variants"].quick_memory), set(VARIANTS), set(), set(LAYERS),
    ]  # fmt: skip


def test_no_candidate_of_two_studies_has_one_name():
    """Goals and tables find rows by it; only the baselines are the same."""
    names = [name for study in studies.STUDIES.values() for name in study.candidates]
    assert {name for name in names if names.count(name) > 1} == {"stock", "vanilla"}
