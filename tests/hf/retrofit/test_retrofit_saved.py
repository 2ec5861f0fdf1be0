"""A retrofitted model through transformers' save_pretrained, from_pretrained and Trainer."""

import json
import logging
import subprocess
import sys

import pytest
import torch
import transformers

import ascender
from ascender.core.schedule import Schedule
from ascender.hf.retrofit.install import record
from support.families import ALL, V, inputs, logits, make, retrofitted, stir
from support.hf_trainer import trainer, weights

transformers.utils.logging.disable_progress_bar()


@pytest.mark.parametrize("name", ALL)
def test_save_pretrained_brings_the_adapter_back(name, tmp_path, caplog):
    model = retrofitted(name)
    wanted = logits(model, inputs(name))
    model.save_pretrained(tmp_path)
    with caplog.at_level(logging.WARNING), _heard(caplog):
        back = type(model).from_pretrained(tmp_path)
    assert torch.equal(logits(back, inputs(name)), wanted)
    for each in (model, back):
        assert "attn_implementation" not in each.config.to_dict()
    assert not [line for line in caplog.messages if "LOAD REPORT" in line], caplog.text
    learns = {n: p.requires_grad for n, p in model.named_parameters()}
    assert {n: p.requires_grad for n, p in back.named_parameters()} == learns
    ascender.unretrofit(back)
    assert torch.equal(logits(back, inputs(name)), logits(make(name), inputs(name)))


class _heard:
    """transformers' logger keeps its records to itself."""

    def __init__(self, caplog):
        self.handler, self.logger = caplog.handler, transformers.utils.logging.get_logger()

    def __enter__(self):
        self.logger.addHandler(self.handler)

    def __exit__(self, *_):
        self.logger.removeHandler(self.handler)


def test_whatever_it_is_loaded_by(tmp_path):
    """Auto classes, another head, an attention of one's own choice, what was learned with all."""
    model = stir(ascender.retrofit(make("llama"), layers=[1], train="all"))
    Schedule.constant(sep=0.25).apply(model, 1, 1)
    wanted = logits(model, inputs("llama"))
    model.save_pretrained(tmp_path)
    back, info = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, attn_implementation="eager", output_loading_info=True
    )
    assert not info["unexpected_keys"]
    named = type(model).from_pretrained(pretrained_model_name_or_path=tmp_path)
    assert torch.equal(logits(named, inputs("llama")), wanted)
    assert torch.equal(logits(back, inputs("llama")), wanted)
    assert (record(back).layers, record(back).train) == ([1], "all")
    assert all(p.requires_grad for p in back.parameters())
    assert ascender.unretrofit(back).config._attn_implementation == "eager"
    other = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert list(ascender.swarm_parameters(other))
    plain = ascender.load_adapter(make("llama"), tmp_path)  # a folder of an adapter, too
    assert torch.equal(logits(plain, inputs("llama")), wanted)


def test_what_was_unretrofitted_stays_so(tmp_path):
    model = retrofitted("llama")
    model.save_pretrained(tmp_path)
    ascender.unretrofit(model).save_pretrained(tmp_path)
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert record(back) is None
    assert "attn_implementation" not in json.loads((tmp_path / "config.json").read_text())


def test_without_the_package_it_is_refused(tmp_path):
    """A process that never imports ascender.hf cannot bring the adapter back: it must not load."""
    retrofitted("llama").save_pretrained(tmp_path)
    code = (
        "import sys, transformers\ntransformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode != 0
    assert 'attn_implementation="ascender"` is not supported' in done.stderr


def test_what_cannot_be_saved_says_so(tmp_path):
    model = make("llama")
    ascender.retrofit(model.model)
    with pytest.raises(ValueError, match=r"of which model was retrofitted; expected the part"):
        model.save_pretrained(tmp_path / "a")
    with pytest.raises(ValueError, match=r"push_to_hub = True.*expected model.push_to_hub"):
        model.model.save_pretrained(tmp_path / "b", push_to_hub=True)
    assert not list(tmp_path.iterdir())


def sentences(count=16):
    starts = torch.randint(3, V - 7, (count, 1), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": row, "labels": row} for row in starts + torch.arange(7)]


def test_the_trainer_saves_and_resumes_it(tmp_path):
    whole = trainer(retrofitted("gpt2"), tmp_path, steps=8, data=sentences(), learning_rate=0.1)
    whole.train()
    first = tmp_path / "checkpoint-4"
    again = trainer(
        ascender.retrofit(make("gpt2"), record(whole.model).rules), tmp_path / "again", steps=8,
        data=sentences(), learning_rate=0.1,
    )  # fmt: skip
    again.train(resume_from_checkpoint=str(first))
    torch.testing.assert_close(weights(again.model), weights(whole.model))
    half = transformers.AutoModelForCausalLM.from_pretrained(first)
    assert not torch.allclose(weights(half), weights(whole.model), atol=1e-3)
    third = trainer(half, tmp_path / "third", steps=8, data=sentences(), learning_rate=0.1)
    third.train(resume_from_checkpoint=str(first))
    torch.testing.assert_close(weights(third.model), weights(whole.model))
    last = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "checkpoint-8")
    torch.testing.assert_close(weights(last), weights(whole.model))
