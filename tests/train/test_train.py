"""Training: a run stopped and resumed is the run; what goes wrong is said before harm is done."""

import json
import signal
import subprocess
import sys
import time

import pytest
import torch
from typer.testing import CliRunner

from ascender.cli import app
from ascender.hf import AscenderForSequenceClassification
from ascender.measure import machine
from ascender.train import Run, RunFolderInUse, Stopped, checkpoint, loop, train
from ascender.train.accelerator import least
from ascender.train.loop import rate
from support.train_cases import CROWD, curve, rows, run, stop_after

pytestmark = pytest.mark.usefixtures("few_examples")


def weights(out):
    return AscenderForSequenceClassification.from_pretrained(out / "model").state_dict()


# --- the same again


@pytest.mark.parametrize(
    "given",
    [
        {"dropout": 0.3, "losses": {"coh": 0.1}},
        {"variant": "vanilla", "smoothing": 0.1, "clip": 0.0},
        {"schedule": "adaptive", "checkpointing": True},
        {"precision": "bf16"},
    ],
)
def test_stopped_and_resumed_is_the_same_run(given, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    a = train(run(**given), whole)
    with pytest.raises(Stopped, match="stopped after step 4 of 8"):
        train(run(**given), parts, stopping=stop_after(4), save_every=100)
    with pytest.raises(RunFolderInUse, match="unfinished; expected --resume"):
        train(run(**given), parts)
    b = train(run(**given), parts, resume=True)
    assert curve(whole) == curve(parts)
    assert a["test"] == b["test"]
    assert a["curve"] == b["curve"]
    for name, t in weights(whole).items():
        assert torch.equal(t, weights(parts)[name])
    other = train(run(**given, seed=1), tmp_path / "other")
    assert other["curve"] != a["curve"]


def test_a_step_without_the_moments_would_not_be_the_same(tmp_path, monkeypatch):
    train(run(), tmp_path / "whole")
    with pytest.raises(Stopped):
        train(run(), tmp_path / "parts", stopping=stop_after(4))
    monkeypatch.setattr(checkpoint, "put_back", lambda *_: None)
    train(run(), tmp_path / "parts", resume=True)
    assert curve(tmp_path / "whole") != curve(tmp_path / "parts")


def test_a_batch_in_pieces_is_the_batch(tmp_path):
    a, b = (train(run(accumulate=n), tmp_path / str(n)) for n in (1, 3))
    for one, other in zip(rows(tmp_path / "1"), rows(tmp_path / "3"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=1e-5)
    assert a["test"]["loss"] == pytest.approx(b["test"]["loss"], abs=1e-4)


@pytest.mark.slow
def test_killed_at_any_moment_it_goes_on(tmp_path):
    """kill −9 in the middle, several times: the last checkpoint is whole, and the end is that of
    an undisturbed run."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    options = ["--task", "digits", "--variant", "vanilla", "--hidden", "16", "--heads", "2",
               "--layers", "1", "--steps", "30", "--every", "20", "--batch", "4",
               "--save-every", "5"]  # fmt: skip
    command = [sys.executable, "-m", "ascender.cli", "train", *options]
    for step in (7, 18):
        process = subprocess.Popen(
            [*command, "--out", parts, "--resume"], stderr=subprocess.DEVNULL
        )
        log = parts / "metrics.jsonl"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            if log.exists() and log.read_text().count("\n") >= step:
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (parts / "record.json").exists()
        assert checkpoint.load(checkpoint.saved(parts)[-1]).sheet["step"] >= 5 * (step // 5)
    done = subprocess.run([*command, "--out", parts, "--resume"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    sizes = {"hidden": 16, "heads": 2, "layers": 1, "steps": 30, "every": 20, "batch": 4}
    train(Run.of("digits", variant="vanilla", **sizes), whole)
    assert curve(whole) == curve(parts)


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path, monkeypatch):
    """torchrun, the same command: the same losses within 1e-4, and one folder, written once."""
    options = ["--task", "distinct", "--hidden", "24", "--heads", "3", "--steps", "8", "--batch",
               "6", "--every", "4", "--options", json.dumps(CROWD)]  # fmt: skip
    two = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2",
           "--master-port", "29631", "-m", "ascender.cli", "train", *options]  # fmt: skip
    for extra in (["--accumulate", "1"], []):  # the second finds it finished
        done = subprocess.run(
            [*two, *extra, "--out", tmp_path / "two"], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.count("test accuracy") == 1
    monkeypatch.undo()  # as many held-out examples as over there
    one = CliRunner().invoke(app, ["train", *options, "--out", str(tmp_path / "one")])
    assert one.exit_code == 0
    a, b = rows(tmp_path / "one"), rows(tmp_path / "two")
    assert [r["step"] for r in b] == list(range(1, 9))
    assert max(abs(x["loss"] - y["loss"]) for x, y in zip(a, b, strict=True)) < 1e-4
    found = [json.loads((tmp_path / d / "record.json").read_text()) for d in ("one", "two")]
    assert [f["processes"] for f in found] == [1, 2]
    assert found[0]["test"]["loss"] == pytest.approx(found[1]["test"]["loss"], abs=1e-4)


def test_ctrl_c_stops_with_a_checkpoint(tmp_path):
    out = tmp_path / "a"
    process = subprocess.Popen(
        [sys.executable, "-m", "ascender.cli", "train", "--task", "digits", "--steps", "5000",
         "--hidden", "16", "--layers", "1", "--every", "4000", "--out", out],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (out / "metrics.jsonl").exists():
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "continue with --resume" in said
    step = checkpoint.load(checkpoint.saved(out)[-1]).sheet["step"]
    assert step == rows(out)[-1]["step"] > 0


# --- the recipe


def test_the_rate_goes_up_in_a_line_and_down_in_a_cosine():
    r = run(steps=100, warmup=0.1, rate=2.0)
    assert rate(r, 0) == pytest.approx(0.2)
    assert rate(r, 9) == rate(r, 10) == 2.0
    assert rate(r, 55) == pytest.approx(1.0)
    assert 0 <= rate(r, 99) < 0.001


def test_early_stopping_goes_by_validation_and_keeps_the_best(tmp_path, monkeypatch):
    values = iter([0.3, 0.5, 0.4, 0.45, 0.1, 0.1])
    real = loop.evaluate
    states = {}

    def faked(model, made, split, *more):
        found = real(model, made, split, *more)
        if split == "validation":
            value = next(values)
            states[value] = {n: t.clone() for n, t in model.state_dict().items()}
            object.__setattr__(found, "value", value)
        return found

    monkeypatch.setattr(loop, "evaluate", faked)
    record = train(run(steps=60, every=2, patience=2), tmp_path / "a")
    assert record["steps"] == 8
    assert record["stopped_early"]
    assert (record["best_step"], record["validation"]) == (4, 0.5)
    for name, t in weights(tmp_path / "a").items():
        assert torch.equal(t, states[0.5][name])


def test_the_best_weights_are_tested_with_the_rules_as_they_were(tmp_path, monkeypatch):
    """Adaptive: what λ is at a step depends on what was reported since."""
    values, losses, seen = iter([0.5, 0.4, 0.3]), iter([3.0, 2.0, 1.0]), {}
    real = loop.evaluate

    def faked(model, made, split, *more):
        found = real(model, made, split, *more)
        if split == "validation":
            object.__setattr__(found, "value", next(values))
            object.__setattr__(found, "loss", next(losses))
        seen.setdefault(split, []).append(model.model.layers[0].attention.lam_sep)
        return found

    monkeypatch.setattr(loop, "evaluate", faked)
    train(run(schedule="adaptive", steps=9), tmp_path / "a")
    assert seen["validation"] == [0.0, 0.0, 0.1]
    assert seen["test"] == [0.0]  # those of the first validation, which is the best


def test_the_record_says_what_it_was(tmp_path):
    record = train(run(losses={"sep": 0.1}), tmp_path / "a")
    assert record == json.loads((tmp_path / "a" / "record.json").read_text())
    assert record["run"]["options"] == CROWD
    assert len(record["test"]["scores"]) == record["test"]["n"] == 13
    assert sum(record["test"]["scores"]) / 13 == pytest.approx(record["test"]["value"])
    assert record["attention_flops_an_example"] > 0
    assert record["parameters"] == sum(t.numel() for t in weights(tmp_path / "a").values())
    assert [point["step"] for point in record["curve"]] == [3, 6, 8]
    omega = record["curve"][-1]["omega"]
    assert [len(omega["sep"]), len(omega["sep"][0])] == [2, 3]
    assert record["chance"] == 1 / 5
    assert {"torch", "python"} <= record["versions"].keys()
    assert record["hardware"]["processor"] == machine.processor()
    assert record["hardware"]["ram_gb"] == machine.ram_gb()
    assert record["peak_memory_mb"] > 1
    assert 0 < record["data_share"] < 1


def test_fewer_flops_in_a_window(tmp_path):
    costs = {
        v: train(run(variant=v, steps=1, options={**CROWD, "crowd": 300}), tmp_path / v)[
            "attention_flops_an_example"
        ]
        for v in ("vanilla", "longformer+window=8", "ascender")
    }
    assert costs["longformer+window=8"] < costs["vanilla"] < costs["ascender"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"variant": "vanila"}, r"unknown variant 'vanila' \(did you mean 'vanilla'\?\)"),
        ({"variant": "vanilla+ropee"}, r"unknown piece 'ropee' \(did you mean 'rope'\?\)"),
        ({"variant": "vanilla+k=3"}, r"vanilla attention has no option 'k'"),
        ({"variant": "performer+window=4"}, r"window"),
        ({"batch": 7, "accumulate": 2}, r"accumulate = 2; expected a divisor of batch = 7"),
        ({"rate": -1}, r"rate = -1; expected a number > 0"),
        ({"steps": 0}, r"steps = 0; expected an int from 1"),
        ({"schedule": "slow"}, r"unknown schedule 'slow'"),
        ({"losses": {"aling": 1}}, r"unknown loss 'aling' \(did you mean 'align'\?\)"),
        ({"precision": "fp8"}, r"unknown precision 'fp8'"),
        ({"stepps": 3}, r"no field 'stepps' \(did you mean 'steps'\?\)"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_work(given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        run(**given)


def test_the_command(tmp_path):
    options = ["--hidden", "24", "--heads", "3", "--steps", "3", "--batch", "6", "--options",
               json.dumps(CROWD), "--out", str(tmp_path / "a")]  # fmt: skip
    runner = CliRunner()
    done = runner.invoke(app, ["train", "--task", "distinct", *options])
    assert done.exit_code == 0, done.output
    assert "test accuracy" in done.stdout
    assert "step 3/3" in done.stderr
    again = runner.invoke(app, ["train", "--task", "distinct", *options, "--json"])
    assert json.loads(again.stdout)["test"]["n"] == 13
    for bad, said in (
        (["--task", "distnct"], "did you mean 'distinct'"),
        (["--task", "distinct", "--track", "tensorbord"], "expected one of tensorboard"),
        (["--task", "distinct", "--size", "huge"], "unknown size 'huge'"),
    ):
        out = tmp_path / "new"
        failed = runner.invoke(app, ["train", *bad, "--out", str(out)])
        assert failed.exit_code == 1
        assert said in failed.stderr
        assert not out.exists()
    for name in ("tasks", "variants"):
        listed = runner.invoke(app, ["list", name, "--json"])
        assert len(json.loads(listed.stdout)) >= 2
    shown = runner.invoke(app, ["list", "tasks", "distinct"])
    assert "64 rows → 11 prototypes" in shown.stdout


@pytest.mark.parametrize("given", [
    {"layers": 10**9}, {"layers": 10**9, "variant": "rules-lower"}, {"hidden": 3 * 10**8},
    {"batch": 6 * 10**9},
])  # fmt: skip
def test_sizes_that_cannot_fit_are_refused_at_once(given, tmp_path):
    name, value = next(iter(given.items()))
    said = rf"{name} = {value}.*: at least [\d,]+ parameters and [\d,.]+ GB .* expected sizes"
    with pytest.raises(ValueError, match=said):
        train(run(**given), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("variant", ["vanilla", "ascender", "performer", "rules-lower"])
def test_what_a_run_takes_at_least_is_no_more_than_it_takes(variant):
    made = run(variant=variant, layers=3)
    task = made.make_task()
    parameters, needed = least(made, task)
    real = sum(p.numel() for p in made.make_model(task).parameters())
    assert 0.5 * real < parameters <= real
    assert needed >= 16 * parameters
