"""transformers' own Trainer trains the models unchanged; tokenizers and pipelines work as usual."""

import json

import pytest
import torch
import transformers

from ascender.core.schedule import Adaptive, LossWeights, Ramp, Schedule
from ascender.hf import (
    AscenderForCausalLM,
    AscenderForConditionalGeneration,
    AscenderForSequenceClassification,
    SwarmCallback,
)
from support.hf_cases import LABELS, config, inputs, make
from support.hf_trainer import N, V, rows, trainer, weights

pytest.importorskip("accelerate")

pytestmark = pytest.mark.usefixtures("unchecked_module")


def test_it_learns_evaluates_and_predicts(tmp_path):
    run = trainer(make(seed=1), tmp_path, steps=30, save_strategy="no")
    before = run.evaluate()["eval_loss"]
    run.train()
    assert run.evaluate()["eval_loss"] < 0.6 * before
    found = run.predict(rows(5, seed=9))
    assert found.predictions.shape == (5, N, V)  # the logits alone
    assert run.state.log_history[0]["loss"] > run.state.log_history[-3]["loss"]


def test_resumed_training_is_the_same_training(tmp_path):
    runs = {}
    for name in ("whole", "halves"):
        schedule, aux = Schedule(sep=Ramp(4, 6)), LossWeights(coh=0.5, when=Ramp(2))
        run = trainer(make(), tmp_path / name, steps=8, callbacks=[SwarmCallback(schedule, aux)])
        runs[name] = run
    runs["whole"].train()
    again = trainer(
        make(seed=5), tmp_path / "whole", steps=8, callbacks=[SwarmCallback(schedule, aux)]
    )
    again.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert again.state.global_step == 8
    torch.testing.assert_close(weights(again.model), weights(runs["whole"].model))
    assert not torch.allclose(weights(make()), weights(again.model), atol=1e-3)


def test_a_checkpoint_is_a_model(tmp_path):
    callback = SwarmCallback(Schedule.constant(sep=0.25))
    run = trainer(make(), tmp_path, steps=4, callbacks=[callback])
    run.train()
    loaded = AscenderForCausalLM.from_pretrained(tmp_path / "checkpoint-4")
    assert loaded.config.lam == {"align": 1.0, "sep": 0.25, "coh": 1.0}
    ids = rows(2)[0]["input_ids"][None]
    torch.testing.assert_close(loaded(ids).logits, run.model.eval()(ids).logits)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["causal", "masked", "sequence", "token", "seq2seq"])
def test_accumulated_steps_are_larger_batches(head, tmp_path):
    """Of 2 rows twice or of 4 rows at once, with labels that do not count here and there."""
    both = []
    data = [{name: t[b] for name, t in inputs(head).items()} for b in (0, 1, 0, 1)]  # each a row
    if head != "sequence":
        data[2] = {**data[2], "labels": data[2]["labels"].clone()}
        data[2]["labels"][2:6] = -100
    for batch, times in ((4, 1), (2, 2)):
        run = trainer(
            make(head, dropout=0.0), tmp_path, steps=2, data=data, optim="sgd",
            per_device_train_batch_size=batch, gradient_accumulation_steps=times,
            save_strategy="no", max_grad_norm=0.0, learning_rate=0.1,
        )  # fmt: skip
        run.train()
        both.append(weights(run.model))
    torch.testing.assert_close(*both, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(both[0], weights(make(head)), atol=1e-3)


def test_padding_reaches_the_model(tmp_path):
    """The Trainer drops columns that forward has no name for: the mask must not be one of them."""
    seen = []
    model = make("sequence")
    model.model.register_forward_pre_hook(
        lambda m, args, how: seen.append(how["attention_mask"]), with_kwargs=True
    )
    data = [
        {"input_ids": torch.arange(3, 9), "attention_mask": torch.tensor([1, 1, 1, 1, 0, 0]),
         "labels": 1, "text": "a column of no use"} for _ in range(4)
    ]  # fmt: skip
    trainer(model, tmp_path, steps=1, data=data, save_strategy="no").train()
    assert seen[0].shape == (4, 6)
    assert seen[0].sum() == 16


# --- SwarmCallback


class Watch(transformers.TrainerCallback):
    """λ and α after every step."""

    def __init__(self):
        self.seen = []

    def on_step_end(self, args, state, control, model, **given):
        layer = model.model.layers[1].attention
        lam = layer.lam_align, layer.lam_sep, layer.lam_coh
        self.seen.append((lam, model.loss_weights.coh))


def test_the_callback_sets_lam_and_alpha(tmp_path):
    schedule = Schedule(sep=Ramp(0.5, 0.25), coh=Ramp(2, 0, "constant"))
    watch = Watch()
    model = make(coh_loss=0.5)
    run = trainer(model, tmp_path, steps=8, callbacks=[SwarmCallback(schedule), watch])
    run.train()
    aux = model.config.loss_weights()
    want = [(tuple(schedule.lam(s, 8).values()), aux.at(s, 8).coh) for s in range(8)]
    assert watch.seen == want
    assert len(set(want)) > 3
    assert model.model.layers[0].attention.lam_sep == 1.0
    assert model.loss_weights.coh == 0.5


def test_the_callback_is_in_the_checkpoint(tmp_path):
    """Adaptive goes on from what it had seen, with and without the trainer's own restoring."""
    how = dict(steps=8, eval_strategy="steps", eval_steps=2)
    callback = SwarmCallback(Adaptive(Schedule.constant(), rise=0.25), LossWeights(sep=0.1))
    trainer(make(), tmp_path, callbacks=[callback], **how).train()
    rises = callback.schedule.rises
    assert rises["coh"] >= 1
    saved = json.loads((tmp_path / "checkpoint-4" / "trainer_state.json").read_text())
    at_4 = saved["stateful_callbacks"]["SwarmCallback"]["args"]["schedule"]
    assert at_4["rises"]["coh"] <= rises["coh"]
    assert at_4["best"] is not None
    for restoring in (False, True):
        other = SwarmCallback(Adaptive(Schedule.constant(), rise=0.25), LossWeights(sep=0.1))
        run = trainer(
            make(), tmp_path, callbacks=[other],
            restore_callback_states_from_checkpoint=restoring, **how,
        )  # fmt: skip
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
        kept = next(c for c in run.callback_handler.callbacks if isinstance(c, SwarmCallback))
        assert kept.schedule.rises == rises
        assert kept.schedule.best == pytest.approx(callback.schedule.best, rel=1e-4)
        assert kept.loss_weights == LossWeights(sep=0.1)


def test_another_schedule_does_not_resume(tmp_path):
    trainer(make(), tmp_path, steps=4, callbacks=[SwarmCallback(Schedule.constant())]).train()
    run = trainer(make(), tmp_path, steps=8, callbacks=[SwarmCallback()])
    with pytest.raises(ValueError, match=r"the state is of Schedule.*expected Schedule"):
        run.train(resume_from_checkpoint=True)


def test_a_baseline_trains_with_the_same_callback(tmp_path):
    model = make(attention="vanilla")
    trainer(model, tmp_path, steps=2, save_strategy="no", callbacks=[SwarmCallback()]).train()
    assert not model.loss_weights


# --- tokenizers, datasets, pipelines


def words():
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", *(f"w{i}" for i in range(V - 4))]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(names)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]",
        unk_token="[UNK]", padding_side="left",
    )  # fmt: skip


def test_tokenizer_batch_generate_decode(tmp_path):
    tokenizer, model = words(), make(eos_token_id=2)
    batch = tokenizer(["w1 w2 w3 w4", "w5 w6"], return_tensors="pt", padding=True)
    found = model.generate(**batch, max_new_tokens=5, do_sample=False)
    text = tokenizer.batch_decode(found, skip_special_tokens=True)
    assert text[0].startswith("w1 w2 w3 w4 ")
    assert text[1].startswith("w5 w6 ")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    pipe = transformers.pipeline("text-generation", model=str(tmp_path), device="cpu")
    assert pipe("w1 w2 w3 w4", max_new_tokens=5, do_sample=False)[0]["generated_text"]
    short = make("sequence")
    short.config.id2label = {i: f"kind {i}" for i in range(LABELS)}
    pipe = transformers.pipeline("text-classification", model=short, tokenizer=tokenizer)
    assert pipe("w1 w2")[0]["label"].startswith("kind ")
    pipe = transformers.pipeline("token-classification", model=make("token"), tokenizer=tokenizer)
    assert len(pipe("w1 w2")) == 2


def test_collators(tmp_path):
    tokenizer = words()
    lm = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    texts = [tokenizer(t) for t in ("w1 w2 w3", "w4 w5 w6 w7 w8")]
    assert make()(**lm(texts)).loss.isfinite()
    pairs = [{**row, "labels": row["input_ids"][::-1]} for row in texts]
    model = make("seq2seq")
    two = transformers.DataCollatorForSeq2Seq(tokenizer, model=model)
    batch = two(pairs)
    assert (batch["labels"] == -100).any()
    assert "decoder_input_ids" in batch
    torch.testing.assert_close(
        model(**batch).loss,
        model(**{k: v for k, v in batch.items() if k != "decoder_input_ids"}).loss,
    )


def test_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_list([{k: v.tolist() for k, v in row.items()} for row in rows()])
    run = trainer(make(), tmp_path, steps=2, data=table.with_format("torch"), save_strategy="no")
    run.eval_dataset = None
    run.train()


def test_translation_is_learned_by_the_seq2seq_trainer(tmp_path):
    torch.manual_seed(0)
    fields = dict(vocab_size=V, num_hidden_layers=1, initializer_range=0.02)
    model = AscenderForConditionalGeneration(config(**fields))
    data = [{**row, "labels": row["labels"].flip(0)} for row in rows(32)]
    args = transformers.Seq2SeqTrainingArguments(
        str(tmp_path), max_steps=60, per_device_train_batch_size=16, learning_rate=1e-2,
        report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="no",
        predict_with_generate=True, generation_max_length=N + 1,
    )  # fmt: skip
    run = transformers.Seq2SeqTrainer(model, args, train_dataset=data, eval_dataset=data[:5])
    before = run.evaluate()["eval_loss"]
    run.train()
    assert run.evaluate()["eval_loss"] < 0.5 * before
    assert run.predict(data[:5]).predictions.shape[0] == 5


def test_classes_are_learned(tmp_path):
    torch.manual_seed(0)
    model = AscenderForSequenceClassification(config(num_labels=2, num_hidden_layers=1))
    data = [
        {"input_ids": r["input_ids"], "labels": int(r["input_ids"][0] > V // 2)} for r in rows()
    ]
    run = trainer(model, tmp_path, steps=30, data=data, save_strategy="no")
    run.train()
    logits = torch.tensor(run.predict(data).predictions)
    right = logits.argmax(-1) == torch.tensor([row["labels"] for row in data])
    assert right.float().mean() > 0.9
