"""A retrofitted attention against the loops of oracles.py, and generate() with its cache."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache, LlamaConfig, StaticCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import ascender
from ascender.hf.masks import understood
from ascender.hf.retrofit.rule_adapter import NAME
from support.families import CAUSAL, GROUPED, N, inputs, retrofitted
from support.oracles import asc_oracle


def passes(model, batch, monkeypatch):
    """What each attention module was given and handed on, in the order of the layers."""
    seen, real = [], ALL_ATTENTION_FUNCTIONS[NAME]

    def look(module, q, k, v, mask, **more):
        out = real(module, q, k, v, mask, **more)
        seen[-1].update(
            module=module, q=q, k=k[..., : q.shape[-1]], v=v, mask=mask, out=out[0], more=more
        )
        return out

    def before(module, args, kwargs):
        turn = kwargs.get("position_embeddings")
        seen.append({"x": args[0] if args else kwargs["hidden_states"], "turn": turn})

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, NAME, look)
    for module in model.modules():
        if hasattr(module, "swarm"):
            module.register_forward_pre_hook(before, with_kwargs=True)
    with torch.no_grad():
        model(**batch)
    return seen


def bare_keys(call):
    """Keys turned back one by one: as complex numbers where halves are turned."""
    if call["turn"] is None:
        return call["k"]
    cos, sin = (t[:, None].double() for t in call["turn"])
    k, r = call["k"].double(), cos.shape[-1]
    a, b = k[..., : r // 2], k[..., r // 2 : r]
    back = torch.complex(a, b) * torch.complex(cos, -sin)[..., : r // 2]
    return torch.cat([back.real, back.imag, k[..., r:]], -1)


def numbers(swarm):
    rules = swarm.rules()
    names = ("alpha_align", "alpha_coh", "tau_sep", "tau_coh", "delta", "kappa", "tau_score")
    values = {name: getattr(rules, name).detach().double().numpy() for name in names}
    omegas = {f"omega_{r}": getattr(rules, f"omega_{r}").detach() for r in ("align", "sep", "coh")}
    lam = {f"lam_{r}": 1.0 for r in ("align", "sep", "coh")}
    return {**values, **omegas, **lam, "k": rules.k}


def who_sees_whom(name, layer, mask):
    """(B, N, N) by the definition of the family, not by its mask."""
    window = {"mistral": (3, 3), "gemma3": (3, None), "modernbert": (2, None)}.get(
        name, (None,) * 2
    )
    i, j = np.arange(N)[:, None], np.arange(N)[None]
    seen = (j <= i) if name in CAUSAL else np.ones((N, N), bool)
    if window[layer] is not None:
        seen = seen & (abs(i - j) <= window[layer])
    return seen[None] & mask.bool().numpy()[:, None]


@pytest.mark.parametrize(
    "name", ["llama", "mistral", "qwen3", "gemma3", "phi", "gpt2", "modernbert"]
)
def test_every_layer_is_the_definition(name, monkeypatch):
    model, batch = retrofitted(name, torch.float64), inputs(name, "left")
    for layer, call in enumerate(passes(model, batch, monkeypatch)):
        swarm, x = call["module"].swarm, call["x"]
        x = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        z, h = ((x @ m.weight.T.double()).detach()[:, None] for m in (swarm.U, swarm.P))
        heads = call["q"].shape[1]
        k, bare, v = (
            t.repeat_interleave(heads // t.shape[1], 1).numpy()
            for t in (call["k"], bare_keys(call), call["v"])
        )
        d = call["q"].shape[-1]
        q = (call["q"] * call["more"]["scaling"] * d**0.5).numpy()
        visible = who_sees_whom(name, layer, batch["attention_mask"])
        said = dict(rule=numbers(swarm), visible=visible, causal=name in CAUSAL)
        # alignment by the unrotated keys, the base score by the rotated ones
        base = np.einsum("bhid,bhjd->bhij", q, k) / d**0.5
        truth = asc_oracle(0 * q, bare, v, z, h, z, h, other=base, **said)
        assert np.abs(call["out"].transpose(1, 2).numpy() - truth["out"]).max() < 1e-6
        if call["turn"] is not None:
            turned = asc_oracle(0 * q, k, v, z, h, z, h, other=base, **said)
            assert np.abs(turned["out"] - truth["out"]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", CAUSAL)
def test_generation_with_a_cache_is_generation_without(name, beams):
    geometry = "per_head" if beams > 1 else "shared"
    # k as large as the text: a model that repeats a token makes ties, which any k-th may win
    model = retrofitted(name, torch.float64, geometry=geometry, k=N + 6)
    options = {
        **inputs(name, "left"), "max_new_tokens": 6, "do_sample": False, "num_beams": beams,
        "pad_token_id": 0, "eos_token_id": None, "return_dict_in_generate": True,
        "output_logits": True, "output_scores": True,
    }  # fmt: skip
    a, b = (model.generate(**options, use_cache=use) for use in (True, False))
    assert torch.equal(a.sequences, b.sequences)
    assert (torch.stack(a.logits) - torch.stack(b.logits)).abs().max() < 1e-6
    if (name, beams) == ("llama", 3):  # beams did change places
        assert (a.beam_indices.diff() != 0).any()
    ascender.unretrofit(model)
    assert (model.generate(**options).logits[0] - a.logits[0]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt2"])
def test_rows_against_a_cache_are_the_rows_of_a_full_pass(name):
    model, batch = retrofitted(name, torch.float64), inputs(name)
    ids = batch["input_ids"]
    with torch.no_grad():
        whole = model(ids).logits
        cache, rows = DynamicCache(config=model.config), []
        for piece in ids.split([5, 1, 3, 2], 1):
            rows.append(model(piece, past_key_values=cache).logits)
    assert (torch.cat(rows, 1) - whole).abs().max() < 1e-8


def test_a_cropped_cache_forgets():
    model, ids = retrofitted("llama", torch.float64), inputs("llama")["input_ids"]
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids, past_key_values=cache)
        cache.crop(-4)
        again = model(ids[:, 7:9], past_key_values=cache).logits
        assert (again - model(ids).logits[:, 7:9]).abs().max() < 1e-8


def test_other_caches_are_refused():
    model, ids = retrofitted("llama"), inputs("llama")["input_ids"]
    with pytest.raises(ValueError, match="StaticCache holds room"):
        model(ids, past_key_values=StaticCache(config=model.config, max_cache_len=20))
    cache = DynamicCache(config=model.config)
    ascender.unretrofit(model)
    model(ids, past_key_values=cache)
    ascender.retrofit(model)
    with pytest.raises(ValueError, match="filled before the retrofit"):
        model(ids, past_key_values=cache)


def test_scaled_rotation_keeps_directions(monkeypatch):
    rope = {
        "rope_type": "yarn",
        "factor": 4.0,
        "rope_theta": 1e4,
        "original_max_position_embeddings": 16,
    }
    model = AutoModelForCausalLM.from_config(LlamaConfig(**GROUPED, rope_parameters=rope)).double()
    ascender.retrofit(model, {"omega": 0.5})
    call = passes(model, inputs("llama"), monkeypatch)[0]
    swarm, (cos, sin) = call["module"].swarm, call["turn"]
    assert (cos.square() + sin.square() - 1).abs().min() > 0.1  # not a rotation any more
    mine = swarm.unrotated(call["k"], cos[:, None].double(), sin[:, None].double())
    bare = call["module"].k_proj(call["x"]).unflatten(-1, (3, -1)).transpose(1, 2)
    unit = torch.nn.functional.normalize
    assert (unit(mine, dim=-1) - unit(bare, dim=-1)).abs().max() < 1e-6


def matrix(pattern):
    return torch.tensor([[c == "x" for c in row] for row in pattern.split()])[None, None]


def test_masks_are_told_apart():
    causal = understood(matrix("x... xx.. xxx. xxxx"), 4, 4, False)
    assert (causal["causal"], causal["window"], causal["mask"]) == (True, None, None)
    window = understood(matrix("x... xx.. .xx. ..xx"), 4, 4, False)
    assert (window["causal"], window["window"], window["mask"]) == (True, 1, None)
    padded = understood(matrix(".... .x.. .xx. .xxx"), 4, 4, False)
    assert padded["causal"]
    assert padded["mask"].squeeze().tolist() == [False, True, True, True]
    tail = understood(matrix("xxx. xxxx"), 2, 4, False)
    assert (tail["causal"], tail["mask"]) == (True, None)
    odd = matrix("x... .x.. xxx. xxxx")
    assert torch.equal(understood(odd, 4, 4, False)["mask"], odd)
    assert understood(None, 4, 4, True) == {"causal": True}
    assert understood(None, 1, 4, True) == {"causal": True}  # one token ranks as all did
    added = torch.where(matrix("x... xx.. xxx. xxxx"), 0.5, torch.finfo(torch.float32).min)
    both = understood(added, 4, 4, False)
    assert both["causal"]
    assert torch.equal(both["other"], torch.tril(torch.full((4, 4), 0.5))[None, None])


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_a_mask_of_ones_own(name):
    """Four axes, bool or added: packed texts do not see each other."""
    model, batch = retrofitted(name, torch.float64), inputs(name)
    ids, text = batch["input_ids"], torch.arange(N) >= 5
    seen = (text[:, None] == text[None]) & (torch.ones(N, N).tril().bool() | (name == "bert"))
    own = seen[None, None].expand(2, 1, -1, -1)
    added = torch.zeros(own.shape, dtype=torch.double).masked_fill(
        ~own, torch.finfo(torch.double).min
    )
    where = torch.cat([torch.arange(5), torch.arange(N - 5)])[None]
    with torch.no_grad():
        a, b = (model(ids, attention_mask=m, position_ids=where).logits for m in (own, added))
        alone = model(ids[:, 5:]).logits
    assert (a - b).abs().max() < 1e-9
    assert (a[:, 5:] - alone).abs().max() < 1e-9
