"""Adapters as files, weights in llama2.c's format, and both on real models where they are."""

import json
import os
import runpy
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

import ascender
import ascender.hf.retrofit.rule_adapter
from support.families import ALL, RULES, inputs, logits, make, retrofitted, stir


@pytest.mark.parametrize("name", ALL)
def test_round_trip(name, tmp_path):
    rules = {"geometry": "per_head", "numbers": "shared", "k": [1, 2, 3, 4, 5, 2]}
    model = retrofitted(name, **rules)
    layers = [1] if name == "llama" else None
    if layers:
        model = stir(ascender.retrofit(make(name), {**RULES, **rules}, layers))
    wanted = logits(model, inputs(name))
    ascender.save_adapter(model, tmp_path / "a")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["swarm.json", "swarm.safetensors"]
    fresh = ascender.load_adapter(make(name), tmp_path / "a")
    assert torch.equal(logits(fresh, inputs(name)), wanted)
    assert not any(p.requires_grad for n, p in fresh.named_parameters() if ".swarm." not in n)
    again = stir(fresh, seed=5)  # and into one that has a swarm of the same kind
    assert not torch.equal(logits(again, inputs(name)), wanted)
    ascender.load_adapter(again, tmp_path / "a")
    assert torch.equal(logits(again, inputs(name)), wanted)


def test_an_adapter_without_later_options_loads(tmp_path):
    """Files of 0.1.0 have no gates and tau among their rules."""
    model = retrofitted("llama")
    wanted = logits(model, inputs("llama"))
    ascender.save_adapter(model, tmp_path)
    rules = json.loads((tmp_path / "swarm.json").read_text())["rules"]
    assert (rules.pop("gates"), rules.pop("tau")) == (True, 1.0)
    spoil(tmp_path, rules=rules)
    fresh = ascender.load_adapter(make("llama"), tmp_path)
    assert torch.equal(logits(fresh, inputs("llama")), wanted)
    ascender.load_adapter(stir(model, seed=5), tmp_path)
    assert torch.equal(logits(model, inputs("llama")), wanted)


def spoil(folder, **changes):
    sheet = json.loads((folder / "swarm.json").read_text())
    (folder / "swarm.json").write_text(json.dumps({**sheet, **changes}))


def narrow(folder):
    tensors = load_file(folder / "swarm.safetensors")
    tensors["1.U.weight"] = tensors["1.U.weight"][:, :-1].contiguous()
    save_file(tensors, folder / "swarm.safetensors")


REFUSED = {
    "another family": ("qwen2", lambda f: None, "for 'llama'; expected one for 'qwen2'"),
    "another version": ("llama", lambda f: spoil(f, version=2), "version 2; expected 1"),
    "another size": (
        "llama",
        lambda f: spoil(f, sizes={"layers": 2, "hidden_size": 99}),
        "hidden_size = 99; expected 48",
    ),
    "other rules": ("llama", lambda f: spoil(f, rules={**RULES, "d_z": 4}), "has shape"),
    "other layers": ("llama", lambda f: spoil(f, layers=[0]), "differ in 1"),
    "other tensors": ("llama", narrow, r"1.U.weight has shape \(5, 47\); expected \(5, 48\)"),
    "no file": ("llama", lambda f: (f / "swarm.json").unlink(), "no swarm.json"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_adapter_that_does_not_fit_changes_nothing(case, tmp_path):
    name, change, words = REFUSED[case]
    ascender.save_adapter(retrofitted("llama"), tmp_path)
    change(tmp_path)
    model = make(name)
    keys, way = list(model.state_dict()), model.config._attn_implementation
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        ascender.load_adapter(model, tmp_path)
    assert list(model.state_dict()) == keys
    assert model.config._attn_implementation == way


def test_a_model_with_another_swarm_is_refused(tmp_path):
    ascender.save_adapter(retrofitted("llama"), tmp_path)
    with pytest.raises(ValueError, match=r"expected .* as the model has"):
        ascender.load_adapter(retrofitted("llama", d_z=3), tmp_path)
    with pytest.raises(ValueError, match="has not been retrofitted"):
        ascender.save_adapter(make("llama"), tmp_path)


def test_an_adapter_is_small():
    """Under 1% where heads share the geometry, at the sizes of a small GPT-2."""
    with torch.device("meta"):
        dim, layers, weights = 768, 12, 124_439_808
        swarm = ascender.hf.retrofit.rule_adapter.RuleAdapter(dim, 12)
    assert sum(p.numel() for p in swarm.parameters()) * layers < 0.01 * weights


def llama2c(model, tokens):
    """A transformers Llama as llama2.c writes it: pairs of neighbouring columns turn."""
    c, state = model.config, model.state_dict()
    d = c.hidden_size // c.num_attention_heads

    def stacked(name, pairs=False):
        each = [state[f"model.layers.{i}.{name}.weight"] for i in range(c.num_hidden_layers)]
        if pairs:
            each = [w.view(-1, 2, d // 2, w.shape[1]).transpose(1, 2) for w in each]
        return [w.contiguous() for w in each]

    tensors = [
        state["model.embed_tokens.weight"], *stacked("input_layernorm"),
        *stacked("self_attn.q_proj", True), *stacked("self_attn.k_proj", True),
        *stacked("self_attn.v_proj"), *stacked("self_attn.o_proj"),
        *stacked("post_attention_layernorm"), *stacked("mlp.gate_proj"),
        *stacked("mlp.down_proj"), *stacked("mlp.up_proj"), state["model.norm.weight"],
        torch.zeros(2, c.max_position_embeddings, d // 2), state["lm_head.weight"],
    ]  # fmt: skip
    sizes = (
        c.hidden_size, c.intermediate_size, c.num_hidden_layers, c.num_attention_heads,
        c.num_key_value_heads, -c.vocab_size, c.max_position_embeddings,
    )  # fmt: skip
    weights = b"".join(t.numpy().astype(np.float32).tobytes() for t in tensors)
    words = b"".join(struct.pack("<fi", s, len(t)) + t for t, s in tokens)
    return struct.pack("<7i", *sizes) + weights, struct.pack("<i", 9) + words


def test_llama2c_is_read_as_it_was_written():
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "llama2c.py"))
    read_model, read_tokenizer = example["read_model"], example["read_tokenizer"]
    model = make("llama")
    for module in model.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 1e-5  # as llama2.c has it
    special = [(b"<unk>", 0.0), (b"\n<s>\n", 0.0), (b"\n</s>\n", 0.0)]
    single = [(bytes([b]), 0.0) for b in range(256)]
    letters = [(bytes([c]), -99.0 - c) for c in b" abcd"]
    joined = [(b"ab", -1.0), (b" ab", -2.0), (b"cd", -4.0), (b"bc", -3.0)]
    data, words = llama2c(model, special + single + letters + joined)
    read, end = read_model(data)
    assert end == len(data)
    assert (logits(read, inputs("llama")) - logits(model, inputs("llama"))).abs().max() < 1e-5
    tokenizer = read_tokenizer(words, 3 + 256 + 5 + 4)
    ab, cd, a_newline = 265, 266, 3 + 10
    assert tokenizer("abcd\n").input_ids == [1, ab, cd, a_newline]
    assert tokenizer.decode(tokenizer("abcd é").input_ids, skip_special_tokens=True) == "abcd é"
    with pytest.raises(ValueError, match=r"not llama2.c's format, or not all of it"):
        read_model(data[:-4])
    with pytest.raises(ValueError, match=r"expected llama2\.c's seven sizes"):
        read_model(b"\0" * 28)


WEIGHTS = os.environ.get("ASCENDER_WEIGHTS")
real = [
    pytest.mark.weights,
    pytest.mark.skipif(not WEIGHTS, reason="ASCENDER_WEIGHTS names no folder of models"),
]
TEXTS = ["Once upon a time, there was a little girl named Lily.", "One day, Tom saw"]


def stories(dtype=torch.float32):
    folder = Path(WEIGHTS) / "stories15M"
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    return model, tokenizer(TEXTS, return_tensors="pt", padding=True)


def stirred(model, amount=0.05):
    with torch.no_grad():
        for p in ascender.swarm_parameters(model):
            p.add_(amount * torch.randn(p.shape, generator=torch.Generator().manual_seed(3)))
    return model


class TestRealWeights:
    pytestmark = real

    def test_a_llama_starts_as_it_was(self, tmp_path):
        model, batch = stories(torch.float64)
        seen, before = batch["attention_mask"].bool(), logits(model, batch)
        ascender.retrofit(model)
        new = sum(p.numel() for p in ascender.swarm_parameters(model))
        assert new < 0.01 * sum(p.numel() for p in model.parameters())
        assert (logits(model, batch) - before)[seen].abs().max() < 1e-9
        stirred(model)
        wanted = logits(model, batch)
        assert (wanted - before)[seen].abs().max() > 1e-2
        ascender.save_adapter(model, tmp_path)
        twin, _ = stories(torch.float64)
        assert torch.equal(logits(ascender.load_adapter(twin, tmp_path), batch), wanted)
        assert torch.equal(logits(ascender.unretrofit(model), batch), before)

    def test_in_float32_as_near_as_transformers_is_to_itself(self):
        model, batch = stories()
        seen, before = batch["attention_mask"].bool(), logits(model, batch)
        model.set_attn_implementation("eager")
        rounding = (logits(model, batch) - before)[seen].abs().max()
        model.set_attn_implementation("sdpa")
        change = (logits(ascender.retrofit(model), batch) - before)[seen].abs().max()
        assert change < 2 * rounding
        assert change < 1e-5 * before.abs().max()

    def test_a_llama_is_causal_and_tells_stories(self):
        model, batch = stories()
        options = {"max_new_tokens": 9, "do_sample": False}
        plain = model.generate(**batch, **options)
        assert torch.equal(ascender.retrofit(model).generate(**batch, **options), plain)
        stirred(model)
        ids = batch["input_ids"][:1].clone()
        a = logits(model, {"input_ids": ids})
        ids[:, 8] = 333
        change = (logits(model, {"input_ids": ids}) - a).abs().amax((0, 2))
        assert change[:8].max() < 1e-4 < change[8:].max()
        for beams in (1, 2):
            told = [
                model.generate(**batch, **options, num_beams=beams, use_cache=c)
                for c in (True, False)
            ]
            assert torch.equal(*told)

    def test_a_bert_starts_as_it_was(self, tmp_path):
        folder = Path(WEIGHTS) / "all-MiniLM-L6-v2"
        model = AutoModel.from_pretrained(folder, dtype=torch.float64).eval()
        batch = AutoTokenizer.from_pretrained(folder)(TEXTS, return_tensors="pt", padding=True)
        seen = batch["attention_mask"].bool()

        def states(model):
            with torch.no_grad():
                return model(**batch).last_hidden_state[seen]

        before = states(model)
        ascender.retrofit(model)
        assert (states(model) - before).abs().max() < 1e-9
        wanted = states(stirred(model))
        assert (wanted - before).abs().max() > 1e-3
        ascender.save_adapter(model, tmp_path)
        assert torch.equal(states(ascender.unretrofit(model)), before)
        assert torch.equal(states(ascender.load_adapter(model, tmp_path)), wanted)
