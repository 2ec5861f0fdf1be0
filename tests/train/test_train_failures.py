"""Training that diverges, and run folders that are in use, full or damaged."""

import errno
import json
import math
import os
from pathlib import Path

import pytest
import torch

from ascender.train import Run, RunFolderInUse, Stopped, checkpoint, loop, train
from ascender.train.health import LossMonitor, TrainingDiverged, culprit
from support.train_cases import curve, rows, run, stop_after

pytestmark = pytest.mark.usefixtures("few_examples")

# --- training that diverges


def test_nan_names_the_step_the_layer_and_the_last_good_checkpoint(tmp_path, monkeypatch):
    made = Run.make_model

    def ill(self, task):
        model = made(self, task)
        layer = model.model.layers[1].mlp
        calm, calls = layer.forward, []

        def forward(x):
            calls.append(1)
            return calm(x) * (math.nan if len(calls) > 9 and layer.training else 1)

        layer.forward = forward
        return model

    monkeypatch.setattr(Run, "make_model", ill)
    with pytest.raises(TrainingDiverged) as said:
        train(run(every=2), tmp_path / "a")
    text = str(said.value)
    assert "the loss is nan; first in the output of model.layers.1.mlp; last good" in text
    assert text.endswith(str(checkpoint.saved(tmp_path / "a")[-1]))
    assert f"step {len(rows(tmp_path / 'a')) + 1}:" in text
    assert not (tmp_path / "a" / "record.json").exists()


def test_a_loss_that_runs_away_stops():
    watch = LossMonitor()
    calm = [watch.check(t, 2.0) for t in range(50)]
    assert calm == [None] * 50
    wild = [watch.check(t, 2.0 + t - 50) for t in range(50, 90)]
    assert "the loss diverges" in next(text for text in wild if text)


def test_the_culprit_may_be_a_weight_or_a_gradient():
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
    x = torch.ones(1, 3)
    assert "no single layer" in culprit(model, lambda: model(x))
    model[1].bias.grad = torch.full((2,), math.inf)
    assert culprit(model, lambda: model(x)) == "the gradient of 1.bias"
    assert culprit(model, lambda: model(x / 0)) == "the output of 0"
    with torch.no_grad():
        model[0].weight[0, 0] = math.nan
    assert culprit(model, lambda: model(x)) == "the weight 0.weight"


# --- the run folder


def test_a_finished_run_is_only_read(tmp_path, monkeypatch):
    a = train(run(), tmp_path / "a")
    monkeypatch.setattr(loop, "Trainer", None)
    assert train(run(), tmp_path / "a") == json.loads(json.dumps(a))


def test_a_folder_of_another_run_is_refused(tmp_path):
    train(run(), tmp_path / "a")
    before = {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()}
    with pytest.raises(RunFolderInUse, match=r"holds another run: seed 0 \(asked for 1\)"):
        train(run(seed=1), tmp_path / "a", resume=True)
    assert before == {p: p.read_bytes() for p in (tmp_path / "a").rglob("*") if p.is_file()}
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine.txt").write_text("mine")
    with pytest.raises(RunFolderInUse, match="holds other files"):
        train(run(), tmp_path / "b")
    assert [p.name for p in (tmp_path / "b").iterdir()] == ["mine.txt"]


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    save = checkpoint.save_file

    def full(tensors, path):
        if "step-00000006" in str(path):
            Path(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        save(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match=r"step 6 into .*No space left.*step-00000003 is as it was"):
        train(run(), tmp_path / "a")
    assert [p.name for p in checkpoint.saved(tmp_path / "a")] == ["step-00000003"]
    monkeypatch.undo()
    monkeypatch.setattr("ascender.tasks.distinct.Distinct.examples", 13)
    train(run(), tmp_path / "a", resume=True)
    train(run(), tmp_path / "b")
    assert curve(tmp_path / "a") == curve(tmp_path / "b")


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    with pytest.raises(Stopped):
        train(run(), tmp_path / "a", stopping=stop_after(7))
    newest = checkpoint.saved(tmp_path / "a")[-1]
    whole = (newest / checkpoint.STATE).read_bytes()
    (newest / checkpoint.STATE).write_bytes(whole[: len(whole) // 2])
    said = []
    saved = checkpoint.latest(tmp_path / "a", said.append)
    assert saved.sheet["step"] == 6
    assert "cannot read" in said[0]
    assert newest.name in said[0]
    train(run(), tmp_path / "a", resume=True)
    train(run(), tmp_path / "b")
    assert curve(tmp_path / "a") == curve(tmp_path / "b")


def test_what_a_killed_process_left_half_written_goes(tmp_path):
    half = tmp_path / "a" / checkpoint.FOLDER / ".step-00000003.1"
    half.mkdir(parents=True)
    checkpoint.save(tmp_path / "a", 4, checkpoint.Checkpoint({}, {}, {}))
    assert [p.name for p in half.parent.iterdir()] == ["step-00000004"]


def test_at_most_two_checkpoints_stay(tmp_path):
    train(run(), tmp_path / "a", save_every=1)
    assert [p.name for p in checkpoint.saved(tmp_path / "a")] == ["step-00000007", "step-00000008"]
