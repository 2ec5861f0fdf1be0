"""What save_pretrained writes, from_pretrained restores: every head, attention, position and
normaliser."""

import copy

import pytest
import torch

from ascender.core.neighbours import grid
from ascender.core.normalizers import NORMALIZERS
from ascender.core.schedule import Schedule
from ascender.hf import AscenderForCausalLM
from support.hf_cases import HEADS, OPTIONS, PAIRS, D, N, V, inputs, make, states, tokens


@pytest.mark.parametrize("head", HEADS)
def test_saved_and_loaded(head, tmp_path):
    model = make(head, attention="ascender", position="t5", normalizer="ssmax")
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").exists()
    want = states(head, model(**inputs(head)))
    for kind in HEADS[head]:
        loaded = kind.from_pretrained(tmp_path)
        assert type(loaded) is HEADS[head][0]
        assert not loaded.training
        assert loaded.config.attention_options == OPTIONS["ascender"]
        assert torch.equal(states(head, loaded(**inputs(head))), want)
        assert loaded.state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize(("attention", "position"), PAIRS)
def test_every_attention_and_position_is_restored(attention, position, tmp_path):
    model = make(attention=attention, position=position)
    near = grid(1, N, 1) if attention == "graph" else None
    model.save_pretrained(tmp_path)
    loaded = AscenderForCausalLM.from_pretrained(tmp_path)
    want, found = (m(tokens(), neighbours=near, use_cache=False).logits for m in (model, loaded))
    assert torch.equal(want, found)
    for (name, a), (_, b) in zip(model.named_buffers(), loaded.named_buffers(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_every_normalizer_is_restored(normalizer, tmp_path):
    if normalizer in ("sparsemax", "entmax15"):
        pytest.importorskip("entmax")
    options = {"topk": {"size": 3}, "length": {"scale": 16}}.get(normalizer, {})
    try:
        model = make(normalizer=normalizer, normalizer_options=options)
    except Exception:
        options = {}
        model = make(normalizer=normalizer)
    model.save_pretrained(tmp_path)
    loaded = AscenderForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(model(tokens()).logits, loaded(tokens()).logits)


def test_lam_is_saved(tmp_path):
    model = make()
    Schedule.constant(sep=0.0, coh=0.5).apply(model, 1, 2)
    want = model(tokens()).logits
    model.save_pretrained(tmp_path)
    loaded = AscenderForCausalLM.from_pretrained(tmp_path)
    assert loaded.config.lam == {"align": 1.0, "sep": 0.0, "coh": 0.5}
    assert torch.equal(loaded(tokens()).logits, want)
    Schedule.constant().apply(loaded, 1, 2)
    assert not torch.equal(loaded(tokens()).logits, want)
    loaded.save_pretrained(tmp_path)
    assert AscenderForCausalLM.from_pretrained(tmp_path).config.lam is None


def test_what_a_checkpoint_lacks_starts_as_it_should(tmp_path):
    """A vanilla model's weights in an ASCender: the rules' numbers are fresh, not memory."""
    vanilla = make(attention="vanilla")
    vanilla.save_pretrained(tmp_path)
    for name, kind in (("ascender", {"qk_norm": True}), ("performer", {"features": 32})):
        model = AscenderForCausalLM.from_pretrained(
            tmp_path, attention=name, attention_options=kind, position="rope", normalizer="ssmax"
        )
        fresh = AscenderForCausalLM(model.config)
        other = model.model.layers[1].attention
        assert torch.equal(
            other.W_Q.weight, vanilla.model.layers[1].attention.W_Q.weight
        )  # from the file
        for key, t in fresh.model.layers[1].attention.named_parameters():
            if t.ndim == 1:
                assert torch.equal(other.get_parameter(key), t), key
        if name == "ascender":
            std = (D * 16) ** -0.5
            assert 0.8 * std < float(other.U.weight.detach().std()) < 1.2 * std
        else:
            assert torch.equal(other.omega, fresh.model.layers[1].attention.omega)
            assert not torch.equal(other.omega, model.model.layers[0].attention.omega)
        assert model(tokens()).logits.isfinite().all()


@pytest.mark.parametrize("head", ["causal", "masked", "seq2seq"])
def test_tied_weights(head, tmp_path):
    from safetensors.torch import load_file

    model = make(head)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert len([t for t in saved.values() if t.shape == (V, D)]) == 1
    loaded = HEADS[head][0].from_pretrained(tmp_path)
    table = loaded.get_input_embeddings().weight
    assert loaded.lm_head.weight is table
    if head == "seq2seq":
        assert loaded.decoder.embed_tokens.weight is table
    free = make(head, tie_word_embeddings=False)
    assert free.lm_head.weight is not free.get_input_embeddings().weight


def test_a_position_is_saved_once(tmp_path):
    model = make(position="t5", tie_word_embeddings=False)
    assert [n for n in model.state_dict() if "position" in n] == ["model.position.table"]
    tables = {id(block.attention.position) for block in model.model.layers}
    assert tables == {id(model.model.position)}
    twin = copy.deepcopy(model)
    assert {id(b.attention.position) for b in twin.model.layers} == {id(twin.model.position)}
    assert model.double()(tokens()).logits.dtype == torch.float64
