"""Limits of normalisation while training: alarms, callback, log."""

import json

import pytest

from ascender.insight.limits import LimitsCallback, Thresholds, alarms, head_metrics
from support.limits_cases import LAYERS, make_model

pytest.importorskip("entmax")

pytestmark = pytest.mark.usefixtures("unchecked_module")


def test_alarms_by_thresholds():
    found = {
        "share": [[0.5, 0.95]], "support": [[1.0, 9.0]], "separable": [[0.1, 0.9]],
        "temperature": [[1.0, 1.0]],
    }  # fmt: skip
    told = alarms(found)
    assert [line.split(" heads ")[0] for line in told] == ["1 of 2"] * 3
    assert "layer 0 head 1 with 0.95" in told[0]
    assert "less than 0.7 of N = 0.06 L keys separable" in told[2]
    easy = Thresholds(share=1, support=0, separable=0, temperature=0)
    assert alarms(found, easy) == []
    with pytest.raises(ValueError, match="share = -1"):
        Thresholds(share=-1)


def test_the_callback_of_transformers_trainer(tmp_path, caplog, inputs):
    pytest.importorskip("accelerate")
    import transformers

    rows = [{"input_ids": row, "labels": row} for row in inputs[16]["input_ids"]] * 2
    watch = LimitsCallback(inputs[16], Thresholds(share=0.0))
    args = transformers.TrainingArguments(
        str(tmp_path), max_steps=2, eval_strategy="steps", eval_steps=1, report_to=[],
        use_cpu=True, disable_tqdm=True, save_strategy="no", per_device_train_batch_size=2,
    )  # fmt: skip
    model = make_model()
    trainer = transformers.Trainer(
        model, args, train_dataset=rows, eval_dataset=rows, callbacks=[watch]
    )
    trainer.train()
    assert [h["step"] for h in watch.history] == [1, 2]
    assert watch.history[1]["support"] == head_metrics(model, inputs[16])["support"]
    logged = [row for row in trainer.state.log_history if "limits/support/layer1.head2" in row]
    assert [row["step"] for row in logged] == [1, 2]
    assert logged[1]["limits/support/layer1.head2"] == watch.history[1]["support"][1][2]
    assert "6 of 6 heads spread over more than 0 of their keys" in caplog.text


def test_ascender_train_logs_the_limits(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    from ascender.train import Run, train
    from ascender.train.display import Lines

    said = []
    monkeypatch.setattr("ascender.tasks.distinct.Distinct.examples", 13)
    sizes = {"batch": 4, "hidden": 16, "layers": LAYERS, "heads": 2}
    run = Run.of("distinct", steps=4, every=2, options={"crowd": 13, "most": 5}, **sizes)
    with_, without = tmp_path / "a", tmp_path / "b"
    first = train(run, with_, limits=Thresholds(share=0.0), show=Lines(said.append))
    second = train(run, without)
    rows = [json.loads(x) for x in (with_ / "metrics.jsonl").read_text().splitlines()]
    assert ["limits" in row for row in rows] == [False, True, False, True]
    limits = rows[-1]["limits"]
    assert len(limits["support"]) == LAYERS
    assert all(x >= 1 for row in limits["support"] for x in row)
    assert any(line.startswith("step 2: 4 of 4 heads spread over more than 0") for line in said)
    assert first["test"]["scores"] == second["test"]["scores"]  # looking changes nothing
    assert first["key"] == second["key"]
