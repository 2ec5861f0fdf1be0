"""One pass taken apart: the same output, the model's own numbers, everything put back."""

import json

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import ascender
from ascender.hf import AscenderConfig, AscenderForCausalLM
from ascender.hf.retrofit.probe import UnsupportedModel
from ascender.insight import capture, has_rules, load, muted, watching

B, N, H, LAYERS = 2, 11, 3, 2
SIZES = {"hidden_size": 18, "num_hidden_layers": LAYERS, "num_attention_heads": H}


FLOCK = {"k": 2, "omega": 0.7, "scope": "flock", "far": 3, "window": 1, "n_global": 1}


def ours(**more):
    torch.manual_seed(0)
    options = {"k": 4, "omega": 0.7}
    return AscenderForCausalLM(
        AscenderConfig(vocab_size=23, **SIZES, **{"attention_options": options, **more})
    ).eval()


def llama():
    torch.manual_seed(0)
    sizes = {**SIZES, "intermediate_size": 13, "num_key_value_heads": 1}
    return LlamaForCausalLM(LlamaConfig(vocab_size=23, **sizes)).eval()


def swarm():
    return ascender.retrofit(llama(), {"omega": 0.7, "k": 4})


def ids():
    return torch.randint(23, (B, N), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "make",
    [
        ours, llama, swarm, lambda: ours(attention="vanilla", attention_options={}),
        lambda: ours(position="alibi"), lambda: ours(normalizer="topk"),
        lambda: ours(attention_options=FLOCK),
    ],
)  # fmt: skip
@torch.no_grad()
def test_watching_changes_nothing_and_what_is_seen_makes_the_output(make):
    model = make()
    want = model(input_ids=ids(), use_cache=False).logits
    output, layers = capture(model, input_ids=ids(), use_cache=False)
    torch.testing.assert_close(output.logits, want, atol=1e-5, rtol=1e-4)
    assert len(layers) == LAYERS
    for layer in layers:
        p = layer.parts
        assert p.weights.shape == layer.visible.shape == (B, H, N, N)
        base = (layer.q @ layer.k.mT / layer.q.shape[-1] ** 0.5).masked_fill(~layer.visible, 0)
        torch.testing.assert_close(p.base, base, atol=1e-5, rtol=1e-4)
        assert not p.weights.masked_fill(layer.visible, 0).any()
        assert not layer.visible.triu(1).any()
    again = model(input_ids=ids(), use_cache=False).logits
    assert torch.equal(again, want), "something was not put back"


def test_a_retrofitted_model_without_its_rules_is_seen_too():
    model, before = swarm(), capture(llama(), input_ids=ids())[1]
    with muted(model, "align", "sep", "coh"):
        _, layers = capture(model, input_ids=ids())
    assert len(layers) == LAYERS
    for layer, plain in zip(layers, before, strict=True):
        torch.testing.assert_close(layer.parts.weights, plain.parts.weights)


def test_the_geometry_is_the_rules_own():
    model = ours()
    _, layers = capture(model, input_ids=ids())
    g, parts = layers[1].geometry, layers[1].parts
    rules = model.model.layers[1].attention.rules()
    d2 = (g.c[:, :, :, None] - g.z[:, :, None]).square().sum(-1)
    r = -d2 / rules.tau_coh.detach().view(-1, 1, 1)
    seen = layers[1].visible
    for b, h, i in ((0, 0, 7), (1, 2, 10)):
        row = r[b, h, i][seen[b, h, i]]
        row = (row - row.mean()) / (row.var(correction=0) + 1e-5).sqrt()
        want = rules.omega_coh[h] * g.gates["coh"][b, h, i] * row
        torch.testing.assert_close(parts.coh[b, h, i][seen[b, h, i]], want, atol=1e-4, rtol=1e-4)
    assert g.near.sum(-1).max() == 4
    assert not g.near.diagonal(dim1=-2, dim2=-1).any()
    assert g.away.shape == (B, H, N)
    assert (g.away - (g.z - g.c).norm(dim=-1)).abs().max() == 0


def test_in_flock_scope_what_is_visible_is_the_flock():
    _, layers = capture(ours(attention_options=FLOCK), input_ids=ids())
    seen, near = layers[0].visible, layers[0].geometry.near
    assert seen[:, :, 1:].sum(-1).max() == 1 + 1 + 1 + 3  # self, window, global, far
    assert not (near & ~seen).any()
    assert near[:, :, 1:].sum(-1).max() == 2
    assert layers[0].parts.aff.any()
    assert not layers[0].parts.aff.masked_fill(seen, 0).any()


def test_a_muted_rule_is_silent_and_comes_back():
    model = ours()
    _, before = capture(model, input_ids=ids())
    with muted(model, "coh"):
        _, layers = capture(model, input_ids=ids())
        assert not layers[0].parts.coh.any()
        assert layers[0].parts.align.any()
    _, after = capture(model, input_ids=ids())
    assert torch.equal(after[1].parts.coh, before[1].parts.coh)
    assert has_rules(model)
    assert not has_rules(llama())
    wrong = pytest.raises(ValueError, match="unknown rule 'cohesion'; expected one of align")
    with wrong, muted(model, "cohesion"):
        pass


def test_padding_is_not_visible():
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=23, **SIZES, intermediate_size=13)).eval()
    mask = torch.ones(B, N, dtype=torch.long)
    mask[1, 7:] = 0
    _, layers = capture(model, input_ids=ids(), attention_mask=mask)
    assert not layers[0].visible[1, :, :, 7:].any()
    assert layers[0].visible[0].all()
    assert layers[0].geometry is None


def test_an_error_inside_leaves_the_model_whole():
    model = llama()
    with pytest.raises(RuntimeError, match="on purpose"), watching(model):
        raise RuntimeError("on purpose")
    assert "swarm" not in model.model.layers[0].self_attn.__dict__
    assert model.config._attn_implementation_internal != "ascender"


def test_a_model_without_attention_is_refused():
    with pytest.raises(UnsupportedModel, match="Linear has no self-attention"):
        capture(nn.Linear(2, 3))


def test_load_finds_what_was_saved(tmp_path):
    model = ours()
    model.save_pretrained(tmp_path / "some" / "model")
    run = {"task": "distinct", "variant": "vanilla", "seed": 0, "options": {}}
    (tmp_path / "some" / "run.json").write_text(json.dumps({"run": run}))
    found = load(tmp_path / "some")
    assert (found.name, found.run, found.tokenizer) == ("some", run, None)
    assert torch.equal(found.model(input_ids=ids()).logits, model(input_ids=ids()).logits)
    llama().save_pretrained(tmp_path / "plain")
    ascender.save_adapter(swarm(), tmp_path / "adapter")
    both = load(tmp_path / "plain", tmp_path / "adapter")
    assert has_rules(both.model)
    with pytest.raises(FileNotFoundError, match=r"no config\.json in"):
        load(tmp_path)
