"""`ascender bench … --device cuda`: the path of a GPU on tensors of the CPU, events and counters of
stand-ins; and other precisions."""

import dataclasses
import json

import pytest
import torch
from typer.testing import CliRunner

from ascender import bench
from ascender.bench import choose, model, report, runner, studies, tables
from ascender.bench.candidates import CANDIDATES
from ascender.cli import app
from ascender.hf.configuration import PRESETS
from ascender.lab import costs
from ascender.measure.device import CPU
from ascender.measure.flops import Problem
from ascender.measure.timing import FORWARD, TRAINING, TimingPlan
from support.fake_gpu import fake_gpu

ONCE = TimingPlan(repeats=1, at_least=0.0)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def gpu(monkeypatch):
    """What --device cuda finds."""
    found = fake_gpu()
    monkeypatch.setattr(runner, "find", lambda name: found if name == "cuda" else CPU)
    return found


def only(monkeypatch, study, *names, **changes):
    of = studies.STUDIES[study]
    some = {name: of.candidates[name] for name in names}
    new = dataclasses.replace(of, candidates={**some, **changes}, quick_memory=names)
    monkeypatch.setitem(studies.STUDIES, study, new)


def test_attention(gpu, monkeypatch):
    only(monkeypatch, "attention", "stock", "folded", "native")
    result = bench.run("attention", lengths=(19,), repeats=1, device="cuda", dtype="bfloat16")
    assert result.options == {
        "causal": False, "clock": "events", "device": "cpu", "dtype": "bfloat16",
    }  # fmt: skip
    rows = {(row.candidate, row.work): row for row in result.rows}
    assert {row.ms for row in rows.values() if row.ms} == {2.0}, "by the events"
    assert rows["folded", FORWARD].gflop > 0
    assert rows["folded", TRAINING].memory_mb is not None, "in this process"
    made = result.record("ascender bench attention --device cuda")
    assert made["machine"]["gpu"] == "NVIDIA A100"
    state = made["machine"]["state"]
    assert float(state["after"]["power.draw"]) > float(state["before"]["power.draw"])
    assert made["goals"] == []


def test_the_problem_is_that_of_the_device(monkeypatch):
    """Tensors are made where, and in the precision, that the problem says."""
    made = []
    stock = CANDIDATES["stock"]
    noted = dataclasses.replace(stock, make=lambda p: made.append(p) or stock.make(p))
    only(monkeypatch, "attention", stock=noted)
    studies.run("attention", [(9, FORWARD)], ONCE, on=fake_gpu(), dtype="float16")
    assert {(p.H, p.device, p.dtype) for p in made} == {(16, "cpu", "float16")}
    half = stock.make(made[0]).run(FORWARD)()
    assert (half.dtype, half.shape[1]) == (torch.float16, 16)


EVERYONE = {
    f"{study} {name}": candidate
    for study in ("attention", "variants", "layer")
    for name, candidate in studies.STUDIES[study].candidates.items()
    if not candidate.refuses(Problem(40, device="meta"), TRAINING)
}


@pytest.mark.parametrize("name", EVERYONE)
def test_everyone_is_made_on_the_device(name):
    """All tensors: a candidate that leaves one on the CPU fails on a GPU."""
    made = EVERYONE[name].make(Problem(40, device="meta"))
    assert {t.device.type for t in made.inputs} == {"meta"}


def test_the_c_kernels_are_not_for_a_gpu():
    refused = {
        name for study in studies.STUDIES.values() for name, c in study.candidates.items()
        if c.refuses(Problem(40, device="cuda"), TRAINING) == "the C kernels are for the CPU"
    }  # fmt: skip
    assert refused == {
        "native", "native_shared", "native_windowed", "per_head_torch", "shared_torch",
        "model_per_head_torch",
    }  # fmt: skip


def test_what_fails_on_a_gpu_is_skipped_and_says_why(monkeypatch):
    def make(p):
        raise_it = torch.OutOfMemoryError("CUDA out of memory. Tried 9 GiB\nmore")

        def call():
            raise raise_it

        return dataclasses.replace(CANDIDATES["stock"].make(p), call=call)

    large = dataclasses.replace(CANDIDATES["folded"], make=make)
    only(monkeypatch, "attention", "stock", folded=large)
    rows = studies.run("attention", [(9, FORWARD)], ONCE, on=fake_gpu(), memory=("folded",))
    assert [row.skipped for row in rows] == [None, "CUDA out of memory. Tried 9 GiB"]
    base = dataclasses.replace(CANDIDATES["stock"], make=make)
    monkeypatch.undo()
    only(monkeypatch, "attention", "folded", stock=base)
    rows = studies.run("attention", [(9, FORWARD)], ONCE, on=fake_gpu())
    folded = next(row for row in rows if row.candidate == "folded")
    assert (folded.ms, folded.ratio) == (2.0, None), "without a baseline there is no ratio"


def test_model(gpu, monkeypatch):
    monkeypatch.setattr(model, "SIZE", "tiny")
    monkeypatch.setattr(model, "NEW", 2)
    monkeypatch.setattr(model, "TOKENS", 16)
    only(monkeypatch, "model", "model_vanilla", "model_flock")
    result = bench.run("model", lengths=(7,), repeats=1, device="cuda", memory=False)
    ms = {model.TRAINING: 2.0, model.DECODE: 2.0, model.GENERATE: 4.0}  # there an event a token
    assert [row.ms for row in result.rows] == [ms[row.work] for row in result.rows]
    assert {row.work for row in result.rows} == set(ms)
    assert all(row.ratio == 1 for row in result.rows)


def test_sizes_of_models_are_those_of_the_presets():
    assert {model.size_on("cpu"), model.size_on("cuda")} == set(model.SIZES)
    for name, text in model.SIZES.items():
        width, layers, heads = PRESETS[name].values()
        assert text == f"{width} wide, {layers} layers, {heads} heads of {width // heads}"


@pytest.mark.parametrize("study", ["layer", "variants", "choose"])
def test_the_other_studies(study, gpu, monkeypatch):
    if study == "layer":
        monkeypatch.setattr("ascender.bench.layer.BATCH", 2)
        only(monkeypatch, study, "vanilla", "shared")
    elif study == "variants":
        only(monkeypatch, study, "stock", "performer", "graph")
    else:
        monkeypatch.setattr(choose, "KINDS", {"window": {"windowed": True}})
    result = bench.run(study, lengths=(9,), repeats=1, device="cuda", memory=study != "layer")
    measured = [row for row in result.rows if row.skipped is None]
    assert measured
    assert {row.ms for row in measured} == {2.0}
    if study != "layer":
        assert all(row.memory_mb is not None for row in measured)


def test_flops_of_long_calls_are_formulas_only():
    long = Problem(studies.COUNTED + 1, device="cuda")
    assert studies._flops(CANDIDATES["folded"], long, FORWARD) == CANDIDATES["folded"].flops(
        Problem(long.n), False
    )
    counted = studies.STUDIES["variants"].candidates["performer"]
    assert studies._flops(counted, long, FORWARD) is None
    assert studies._flops(counted, Problem(9, device="cuda"), FORWARD) > 0


@pytest.mark.parametrize("study", ["attention", "layer"])
def test_other_precisions_on_the_cpu(study, monkeypatch):
    monkeypatch.setattr("ascender.bench.layer.BATCH", 2)
    only(
        monkeypatch,
        study,
        *(("stock", "folded") if study == "attention" else ("vanilla", "shared")),
    )
    result = bench.run(study, lengths=(9,), repeats=1, memory=False, dtype="bfloat16")
    assert result.options["clock"] == "cpu"
    assert result.goals() == []
    assert all(row.ratio > 0 for row in result.rows)
    with pytest.raises(ValueError, match=r"unknown dtype 'bf16'.*; expected one of float32, bfl"):
        bench.run(study, dtype="bf16")


def invoke(*args):
    return CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200"})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("study", ["attention", "variants", "layer", "model", "choose"])
def test_without_a_gpu_the_command_says_so_in_a_line(study):
    done = invoke("bench", study, "--lengths", 64, "--device", "cuda")
    assert done.exit_code == 1
    (line,) = [x for x in done.stderr.splitlines() if "busy" not in x]
    assert "device = 'cuda'; expected cpu, cuda, cuda:1" in line
    assert "sees no GPU" in line


def test_the_command_prints_the_gpu_and_its_clocks(gpu, monkeypatch):
    only(monkeypatch, "attention", "stock", "native")
    args = ("bench", "attention", "--lengths", 9, "--repeats", 1, "--device", "cuda")
    done = invoke(*args)
    assert done.exit_code == 0, done.output
    shown = " ".join(done.output.split())
    assert "NVIDIA A100" in shown
    assert "GPU before: pstate P0, power.draw" in shown
    wrong = invoke(*args, "--clock", "cpu")
    assert wrong.exit_code == 2
    assert "'cpu'; expected events or wall" in " ".join(wrong.stderr.replace("│", " ").split())


def test_notes_say_what_a_gpu_measured():
    options = {"clock": "events", "device": "cuda", "dtype": "bfloat16", "causal": True}
    made = CliRunner()  # a wide terminal
    with made.isolation() as (out, *_):
        from rich.console import Console

        Console(width=200).print(tables.shown("attention", [], options))
        text = " ".join(out.getvalue().decode().split())
    assert "16 heads of 64" in text
    assert "bfloat16" in text
    assert "events of the GPU" in text
    assert "in its own process" not in text


def test_runs_of_a_gpu_have_tables_of_their_own(gpu, monkeypatch, tmp_path):
    only(monkeypatch, "attention", "stock", "folded")
    on_gpu = bench.run("attention", lengths=(9,), repeats=1, device="cuda", dtype="bfloat16")
    here = bench.run("attention", lengths=(9,), repeats=1, memory=False)
    files = []
    for name, result in (("gpu", on_gpu), ("cpu", here)):
        result = dataclasses.replace(result)
        if name == "gpu":
            result.options["device"] = "cuda"
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(result.record(f"ascender bench attention # {name}")))
    made = report.blocks(files)
    mine = "NVIDIA A100, bfloat16: attention forward time"
    assert made[mine][0] == "NVIDIA A100, bfloat16: Time, forward: × stock SDPA"
    assert "2.00 ms" in made[mine][1]
    assert "2.00 ms" not in made["attention forward time"][1]
    assert "NVIDIA A100, bfloat16)" in made["commands"][1]
    assert not any(name.startswith("wall NVIDIA") for name in report.contents(made))


def test_costs_of_a_layer_by_the_same_path(tmp_path):
    order = costs.Costs(("vanilla", "ascender+window=8"), (16,), hidden=16, heads=2)
    gpu = fake_gpu()
    rows = costs.measure(order, plan=ONCE, on=gpu)
    assert {(row.forward_ms, row.training_ms) for row in rows} == {(2.0, 2.0)}
    assert all(row.memory_mb is not None for row in rows)
    here = costs.measure(order, plan=ONCE, memory=False)
    assert [row.flops for row in here] == [row.flops for row in rows]
    costs.keep(tmp_path, order, rows, dataclasses.replace(gpu, name="cuda"))
    sheet = costs.read(tmp_path)[1]
    assert (sheet["device"], sheet["machine"]["gpu"]) == ("cuda", "NVIDIA A100")
    assert not costs.wanted(tmp_path, order), "wherever it was measured"
    assert costs.wanted(tmp_path, order, CPU)
