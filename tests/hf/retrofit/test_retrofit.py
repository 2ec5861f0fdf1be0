"""retrofit: the same model until it is trained, a causal one after, and the old one again."""

import copy

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, T5Config, T5ForConditionalGeneration
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

import ascender
from ascender.hf.retrofit.rule_adapter import NAME, RuleAdapter
from support.families import (
    ALL,
    CAUSAL,
    GROUPED,
    IMAGES,
    RULES,
    TEXT,
    V,
    inputs,
    logits,
    make,
    retrofitted,
    stir,
)


@pytest.mark.parametrize(
    ("name", "geometry"), [*((name, "shared") for name in ALL), ("llama", "per_head")]
)
def test_nothing_changes_until_it_is_trained(name, geometry):
    model = make(name)
    sides = (None,) if name in IMAGES else (None, "left", "right")
    before = {side: logits(model, inputs(name, side)) for side in sides}
    ascender.retrofit(model, {**RULES, "geometry": geometry})
    for side in sides:
        batch = inputs(name, side)
        change = logits(model, batch) - before[side]
        if side:
            change = change[batch["attention_mask"].bool()]
        assert change.abs().max() < 1e-5
    assert (logits(stir(model), inputs(name)) - before[None]).abs().max() > 1e-3


def leak(model, name, at=6):
    """How much the logits of earlier tokens change with a later one, and those after."""
    batch = inputs(name)
    a = logits(model, batch)
    batch["input_ids"][:, at] = (batch["input_ids"][:, at] - 2) % (V - 3) + 3
    change = (logits(model, batch) - a).abs().amax((0, 2))
    return change[:at].max(), change[at:].max()


@pytest.mark.parametrize("name", CAUSAL)
def test_no_row_sees_what_comes_later(name, monkeypatch):
    model = retrofitted(name)
    earlier, later = leak(model, name)
    assert earlier < 1e-5
    assert later > 1e-3
    # without masks of the same name, and modules that do not say so themselves, it would
    monkeypatch.delitem(ALL_MASK_ATTENTION_FUNCTIONS._global_mapping, NAME)
    for module in model.modules():
        if hasattr(module, "swarm"):
            module.is_causal = False
    assert leak(model, name)[0] > 1e-3


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", TEXT)
def test_padding_says_nothing(name, side):
    model, batch = retrofitted(name), inputs(name, side)
    real = batch["attention_mask"].bool()
    a = logits(model, batch)
    batch["input_ids"][~real] = 33
    assert (logits(model, batch) - a)[real].abs().max() < 1e-5
    batch["attention_mask"][:] = 1
    if name not in CAUSAL or side == "left":
        assert (logits(model, batch) - a)[real].abs().max() > 1e-3


@pytest.mark.parametrize("name", ALL)
def test_gradients_reach_every_number(name):
    model = retrofitted(name)
    model.train()
    model(**inputs(name)).logits.square().mean().backward()
    for where, p in model.named_parameters():
        assert (p.grad is not None) == (".swarm." in where), where
        if p.grad is not None:
            assert p.grad.isfinite().all()
            assert p.grad.abs().max() > 0, where


@pytest.mark.parametrize("name", ALL)
def test_the_original_again(name):
    model = make(name)
    next(model.parameters()).requires_grad_(False)
    wanted, old = inputs(name), logits(model, inputs(name))
    state = copy.deepcopy(model.state_dict())
    config, learns = model.config.to_dict(), [p.requires_grad for p in model.parameters()]
    way = model.config._attn_implementation
    stir(ascender.retrofit(model, RULES))
    assert model.config._attn_implementation == NAME
    assert not torch.equal(logits(model, wanted), old)
    assert ascender.unretrofit(model) is model
    assert list(model.state_dict()) == list(state)
    assert all(torch.equal(t, state[key]) for key, t in model.state_dict().items())
    assert model.config.to_dict() == config
    assert model.config._attn_implementation == way
    assert [p.requires_grad for p in model.parameters()] == learns
    assert not any(m._forward_pre_hooks for m in model.modules())
    assert torch.equal(logits(model, wanted), old)


def test_some_layers_and_training_all():
    model = ascender.retrofit(make("llama"), RULES, layers=[1], train="all")
    swarms = [name for name, m in model.named_modules() if isinstance(m, RuleAdapter)]
    assert swarms == ["model.layers.1.self_attn.swarm"]
    assert all(p.requires_grad for p in model.parameters())
    assert (
        logits(model, inputs("llama")) - logits(make("llama"), inputs("llama"))
    ).abs().max() < 1e-5
    assert leak(stir(model), "llama")[0] < 1e-5
    assert len(list(ascender.swarm_parameters(model))) == len(
        list(model.model.layers[1].self_attn.swarm.parameters())
    )


def test_a_copy_is_independent():
    model = retrofitted("mistral")
    twin = copy.deepcopy(model)
    batch = inputs("mistral")
    a = logits(model, batch)
    ascender.unretrofit(model)
    assert torch.equal(logits(twin, batch), a)
    ascender.unretrofit(twin)
    assert torch.equal(logits(twin, batch), logits(model, batch))


def test_attentions_on_demand():
    model, batch = retrofitted("llama"), inputs("llama", "left")
    out = model(**batch, output_attentions=True)
    assert len(out.attentions) == 2
    rows = out.attentions[0].sum(-1)[batch["attention_mask"].bool()[:, None].expand(-1, 6, -1)]
    assert torch.allclose(rows, torch.ones_like(rows), atol=1e-5)


def test_losses_and_schedule():
    model, batch = retrofitted("gpt2"), inputs("gpt2")
    with ascender.collect(model) as found:
        model(**batch)
    assert len(found.given) == 2
    assert found.mean().coh > 0
    a = logits(model, batch)
    ascender.Schedule.constant(0, 0, 0).apply(model, 1, 2)
    model.zero_grad()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "tau_score" in name:
                p.zero_()
    assert (logits(model, batch) - logits(make("gpt2"), batch)).abs().max() < 1e-5
    assert (logits(model, batch) - a).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["llama", "modernbert"])
def test_bfloat16(name):
    batch, exact = inputs(name), logits(retrofitted(name, torch.float64), inputs(name))
    model = retrofitted(name, torch.bfloat16)
    assert {p.dtype for p in ascender.swarm_parameters(model)} == {torch.float32}
    error = logits(model, batch).double() - exact
    assert error.square().mean().sqrt() < 0.1 * exact.std()


def test_autocast():
    model, batch = retrofitted("llama"), inputs("llama", "left")
    exact = logits(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        rough = logits(model, batch)
        told = model.generate(**batch, max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert (rough.float() - exact).square().mean().sqrt() < 0.1 * exact.std()
    assert told.shape == (2, 14)


@pytest.mark.parametrize("name", ["llama", "modernbert"])
def test_checkpointed_gradients_are_the_gradients(name):
    model = retrofitted(name, torch.float64).train()

    def gradients():
        model.zero_grad()
        model(**inputs(name)).logits.square().mean().backward()
        return [p.grad.clone() for p in ascender.swarm_parameters(model)]

    plain = gradients()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    for a, b in zip(gradients(), plain, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


def _softcap():
    return Gemma2ForCausalLM(Gemma2Config(**GROUPED, head_dim=10))


def _encoder_decoder():
    sizes = {"vocab_size": V, "d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 1}
    return T5ForConditionalGeneration(T5Config(**sizes))


REFUSED = {
    "encoder–decoder": (_encoder_decoder, "t5 is an encoder–decoder"),
    "softcap": (_softcap, "has softcap in its scores"),
    "no attention": (lambda: torch.nn.Linear(3, 2), "Linear has no self-attention"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_the_families_that_do(case):
    build, words = REFUSED[case]
    model = build()
    with pytest.raises(ValueError, match=words) as error:
        ascender.retrofit(model)
    assert all(name in str(error.value) for name in ("llama", "gpt2", "bert", "modernbert", "vit"))
    assert not any(isinstance(m, RuleAdapter) for m in model.modules())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rules": {"kk": 3}}, "unknown option 'kk'"),
        ({"rules": {"geometry": "flat"}}, "unknown geometry 'flat'"),
        ({"rules": {"d_z": 0}}, "d_z = 0"),
        ({"rules": {"k": [3, 2]}}, "k has 2 values; expected 1 or one a head"),
        ({"layers": [2]}, r"layers = \[2\]; expected some of 0 … 1"),
        ({"layers": []}, r"expected some of 0 … 1"),
        ({"train": "none"}, "unknown train 'none'"),
    ],
)
def test_wrong_options_change_nothing(options, words):
    model = make("llama")
    keys, way = list(model.state_dict()), model.config._attn_implementation
    with pytest.raises(ValueError, match=words):
        ascender.retrofit(model, **options)
    assert list(model.state_dict()) == keys
    assert model.config._attn_implementation == way
    assert all(p.requires_grad for p in model.parameters())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rules": "k"}, r"rules = 'k'; expected options by name, such as {'k': 8}"),
        ({"layers": 1}, r"layers = 1; expected a list of some of 0 … 1, or None"),
        ({"layers": "all"}, r"layers = 'all'; expected a list"),
    ],
)
def test_wrong_kinds_of_options(options, words, unchecked):
    with pytest.raises(TypeError, match=words):
        ascender.retrofit(make("llama"), **options)


@pytest.mark.parametrize(
    "call",
    [
        ascender.retrofit,
        ascender.unretrofit,
        lambda name: ascender.save_adapter(name, "folder"),
        lambda name: ascender.load_adapter(name, "folder"),
        lambda name: list(ascender.swarm_parameters(name)),
        ascender.print_trainable_parameters,
    ],
)
def test_a_name_is_no_model(call, unchecked):
    with pytest.raises(TypeError, match=r"model = 'gpt2'; expected a loaded model, such as Auto"):
        call("gpt2")


def test_how_much_of_it_learns(capsys):
    model = make("llama")
    every = sum(p.numel() for p in model.parameters())
    ascender.retrofit(model, RULES)
    ascender.print_trainable_parameters(model)
    new = sum(p.numel() for p in ascender.swarm_parameters(model))
    share = 100 * new / (every + new)
    wanted = f"trainable params: {new:,} || all params: {every + new:,} || trainable%: {share:.4f}"
    assert capsys.readouterr().out.strip() == wanted


def test_once_only():
    model = make("bert")
    with pytest.raises(ValueError, match="has not been retrofitted"):
        ascender.unretrofit(model)
    ascender.retrofit(model)
    with pytest.raises(ValueError, match="has been retrofitted"):
        ascender.retrofit(model)


def test_a_forward_that_is_not_called_through_the_module():
    model = retrofitted("bert")
    module = model.bert.encoder.layer[0].attention.self
    with pytest.raises(RuntimeError, match="without its tokens"):
        module.forward(torch.randn(1, 3, 30))
