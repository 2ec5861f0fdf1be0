"""AscenderConfig: a bad value is named, a good one survives JSON."""

import json

import pytest
import torch
import transformers

from ascender.hf import (
    PRESETS,
    AscenderConfig,
    AscenderForCausalLM,
    AscenderForConditionalGeneration,
)
from support.hf_cases import HEADS, D, V, config


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hidden_size": 0}, "hidden_size = 0; expected an int ≥ 1"),
        ({"num_attention_heads": 5}, "num_attention_heads = 5; expected a divisor of hidden_size"),
        ({"num_key_value_heads": 3}, "num_key_value_heads = 3; expected a divisor of num_att"),
        ({"num_hidden_layers": "two"}, "num_hidden_layers = 'two'"),
        ({"coh_loss": "some"}, "coh_loss = 'some'"),
        ({"intermediate_size": 0}, "intermediate_size = 0"),
        ({"dropout": 1.0}, r"dropout = 1.0; expected a number in \[0, 1\)"),
        ({"norm_eps": -1.0}, "norm_eps = -1"),
        ({"sep_loss": -0.1}, "sep_loss = -0.1"),
        ({"lam": {"sep": 2.0}}, r"lam_sep = 2.0"),
        ({"lam": {"seperation": 1.0}}, r"unknown rule 'seperation'"),
        ({"share_neighbours": 0}, "share_neighbours = 0"),
        ({"plain_layers": [2]}, "plain_layers has 2; expected ints from 0 to 1"),
        ({"plain_layers": [0], "share_neighbours": 2}, "expected one of the two"),
        ({"plain_layers": [0], "attention": "matched", "attention_options": {}}, "heads are wider"),
        ({"attention": "asender"}, r"unknown attention 'asender' \(did you mean 'ascender'"),
        ({"position": "aliby"}, "unknown position 'aliby'.*alibi"),
        ({"normalizer": "sofmax"}, "unknown normalizer 'sofmax'.*softmax"),
        ({"cross_attention": "graph"}, "cross_attention = 'graph'.*expected one of ascender"),
        ({"attention_options": {"kk": 3}}, "no option 'kk'"),
        ({"attention_options": {"k": 0}}, "k"),
        ({"attention_options": {"geometry": "flat"}}, "unknown geometry 'flat'"),
        ({"position_options": {"bas": 3}}, "no option 'bas'.*base"),
        ({"normalizer_options": {"tempo": 3}}, "tempo"),
        ({"attention": "performer", "position": "t5", "attention_options": {}}, "position 't5'"),
        ({"attention": "linear", "normalizer": "topk", "attention_options": {}}, "normalizer"),
        ({"vocabsize": 3}, "unknown field 'vocabsize'.*vocab_size"),
        ({"atention": "vanilla"}, "unknown field 'atention'"),
    ],
)
def test_a_bad_value_is_named(fields, words):
    with pytest.raises(Exception, match=f"(?s){words}"):
        config(**fields)


def test_a_size_is_named():
    assert AscenderConfig.preset("small", vocab_size=99).hidden_size == 256
    assert AscenderConfig.preset("small", vocab_size=99).vocab_size == 99
    with pytest.raises(ValueError, match=r"unknown preset 'tinny' \(did you mean 'tiny'"):
        AscenderConfig.preset("tinny")


def test_sizes_grow():
    counts = []
    for size in PRESETS:
        with torch.device("meta"):
            counts.append(AscenderForCausalLM(AscenderConfig.preset(size)).num_parameters())
    assert counts == sorted(counts)
    assert 1e6 < counts[0] < 3e6 < 2e8 < counts[-1]


def test_config_survives_json(tmp_path):
    fields = dict(
        attention="ascender", attention_options={"k": [2, 3], "window": 5, "roles": ["sep", "all"]},
        position="rope", position_options={"base": 500.0, "scaling": "linear", "factor": 2.0},
        normalizer="ssmax", normalizer_options={"s": 0.3}, share_neighbours=3, coh_loss=0.25,
        lam={"align": 1.0, "sep": 0.5, "coh": 1.0},
    )  # fmt: skip
    config(**fields).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert saved["model_type"] == "ascender"
    for loaded in (
        AscenderConfig.from_pretrained(tmp_path),
        transformers.AutoConfig.from_pretrained(tmp_path),
    ):
        for name, value in fields.items():
            assert getattr(loaded, name) == value
        module = loaded.make_attention(loaded.make_position())
        assert (module.k, module.window, module.roles) == ((2, 3), 5, ("sep", "all"))
        assert (module.position.base, module.position.factor) == (500.0, 2.0)
        assert module.normalizer.log_s.exp().allclose(torch.tensor(0.3))


def test_fields_of_transformers_are_no_slips():
    known = dict(
        num_labels=3, output_attentions=True, output_hidden_states=True, torch_dtype="float32",
        architectures=["X"], name_or_path="x", attn_implementation="eager", max_length=3,
        problem_type="regression", id2label={0: "a"}, finetuning_task="x", auto_map={},
        tokenizer_class="x", prefix="x", is_encoder_decoder=True, return_dict=True,
        task_specific_params={}, quantization_config=None, transformers_version="5",
    )  # fmt: skip
    for name, value in known.items():
        AscenderConfig(vocab_size=V, hidden_size=D, **{name: value})


def test_a_head_leaves_its_config_alone():
    mine = config()
    before = mine.to_dict()
    for head in HEADS:
        HEADS[head][0](mine)
    assert mine.to_dict() == before
    assert AscenderForCausalLM(mine).config.is_decoder
    assert AscenderForConditionalGeneration(mine).config.is_encoder_decoder
