"""Flock scope for pretrained models: the model itself where the flock is everyone, the index that
it teaches, decoding, files and errors."""

import json
from dataclasses import replace

import pytest
import torch
from transformers import DynamicCache
from typer.testing import CliRunner

import ascender
from ascender.cli import app
from ascender.core.schedule import set_lam
from ascender.hf.retrofit.distil import dense_phase, hooked, indexed_layers, recall
from ascender.hf.tokens import bytes_tokenizer
from support.families import CAUSAL, TEXT, V, inputs, logits, make

LONG = 23
NEAR = {"window": 2, "n_global": 1, "d_a": 5}


def flocking(name="llama", far=3, dtype=torch.float32, **options):
    """A tiny model in flock scope, with an index that is not the one it starts with."""
    model = ascender.retrofit(make(name, dtype), scope="flock", far=far, **{**NEAR, **options})
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for layer in indexed_layers(model):
            layer.distance_bias.copy_(torch.randn(32, generator=draw))
    return model


def ids(n=LONG, batch=2):
    return torch.randint(3, V, (batch, n), generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("name", TEXT)
def test_a_flock_of_everyone_is_the_model(name):
    wanted, batch = logits(make(name), inputs(name)), inputs(name)
    assert (logits(flocking(name, far=50), batch) - wanted).abs().max() < 1e-4
    small = flocking(name, far=1, window=0)
    assert (logits(small, batch) - wanted).abs().max() > 1e-3
    with dense_phase(small):
        assert (logits(small, batch) - wanted).abs().max() < 1e-5, "the model's own attention"


@pytest.mark.parametrize("name", CAUSAL)
def test_decoding_is_the_full_pass(name):
    model, x = flocking(name), ids()
    with torch.no_grad():
        whole = model(x).logits
        cache = DynamicCache(config=model.config)
        rows = [model(x[:, :9], past_key_values=cache).logits]
        rows += [model(x[:, i : i + 1], past_key_values=cache).logits for i in range(9, LONG)]
    assert (torch.cat(rows, 1) - whole).abs().max() < 1e-4


@pytest.mark.parametrize("options", [{"affinity_heads": 6}, {"far": [1, 2, 3, 4, 5, 2]}])
def test_lists_by_head(options):
    test_model, x = flocking(**options), ids()
    with torch.no_grad():
        whole, cache = test_model(x).logits, DynamicCache(config=test_model.config)
        test_model(x[:, :-1], past_key_values=cache)
        last = test_model(x[:, -1:], past_key_values=cache).logits
    assert (last[:, 0] - whole[:, -1]).abs().max() < 1e-4


def test_padded_prompts_generate_what_they_do_alone():
    """Without globals: those are places, which are padding in one prompt and tokens in another."""
    model, x = flocking(n_global=0), ids()
    mask = torch.ones_like(x)
    mask[1, :8] = 0
    both = model.generate(x, attention_mask=mask, max_new_tokens=6, do_sample=False)
    alone = model.generate(x[1:, 8:], max_new_tokens=6, do_sample=False)
    n = alone.shape[1] - (LONG - 8)
    assert n > 0
    assert torch.equal(both[1, LONG : LONG + n], alone[0, LONG - 8 :])


def test_a_row_sees_its_flock_only():
    """Far keys that are not chosen change nothing."""
    model, chosen = flocking(), []

    def hook(swarm, flock):
        flock = replace(flock, neighbours=torch.full((2, 1, LONG, 1), 5))
        chosen.append(flock)
        return flock

    x = ids()
    with hooked(model, hook), torch.no_grad():
        model(x)
    assert len(chosen) == 2
    seen = chosen[0].scope.mask(chosen[0].far)[0, 0, 20].nonzero().flatten().tolist()
    assert seen == [0, 5, 18, 19, 20]


def test_distilling_raises_recall_and_leaves_the_model():
    model = flocking("llama", far=2)
    before = {name: p.clone() for name, p in model.named_parameters()}
    learns = {name: p.requires_grad for name, p in model.named_parameters()}
    shown = []
    report = ascender.distil_index(
        model, ids(LONG, 12), steps=40, batch=4, rate=1e-2, progress=lambda *s: shown.append(s)
    )
    assert len(shown) == len(report.loss) == 40
    assert sum(report.loss[-5:]) < 0.8 * sum(report.loss[:5])
    for row in report.layers:
        assert row.trained <= row.oracle + 1e-6
    assert sum(r.trained for r in report.layers) > sum(r.start for r in report.layers)
    changed = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    assert {name.rsplit("swarm.")[-1] for name in changed} == {
        "P.weight", "P_k.weight", "distance_bias",
    }  # fmt: skip
    assert {name: p.requires_grad for name, p in model.named_parameters()} == learns
    assert all(layer.flock_only for layer in indexed_layers(model))
    assert all(0 < x <= 1 for x in recall(model, ids(LONG, 2)))
    json.dumps(report.record())


def test_the_start_is_the_head_mean_of_unrotated_scores():
    """Exactly, with as many directions as the model is wide; fewer are the best there are."""
    model = make("llama", torch.float64)
    dim, attention = model.config.hidden_size, model.model.layers[1].self_attn
    W_Q = attention.q_proj.weight.view(6, 8, dim)
    W_K = attention.k_proj.weight.view(3, 8, dim).repeat_interleave(2, 0)
    M = torch.einsum("hdx,hdy->xy", W_Q, W_K) / 6 * attention.scaling

    def error(d_a):
        ascender.retrofit(model, scope="flock", d_a=d_a)
        swarm = attention.swarm
        found = swarm.P.weight.T @ swarm.P_k.weight / d_a**0.5
        ascender.unretrofit(model)
        return float((found - M).norm().detach() / M.norm().detach())

    assert error(dim) < 1e-2  # of the ridge
    singular = torch.linalg.svdvals(M)
    best = float((singular[5:].norm() / M.norm()).detach())
    assert best < error(5) < 1.5 * best


def test_rules_can_come_in_later():
    model, batch = flocking(far=50), inputs("llama")
    plain = logits(model, batch)
    with torch.no_grad():
        for layer in indexed_layers(model):
            layer.omega_coh.fill_(2.0)
    assert torch.equal(logits(model, batch), plain), "λ = 0"
    set_lam(model, {"coh": 1.0})
    assert (logits(model, batch) - plain).abs().max() > 1e-3


def test_files(tmp_path):
    model, batch = flocking(), inputs("llama")
    ascender.distil_index(model, ids(LONG, 4), steps=2)
    wanted = logits(model, batch)
    ascender.save_adapter(model, tmp_path)
    fresh = ascender.load_adapter(make("llama"), tmp_path)
    assert torch.equal(logits(fresh, batch), wanted)
    visible = ascender.retrofit(make("llama"))
    with pytest.raises(ValueError, match="has scope 'flock'; expected 'visible'"):
        ascender.load_adapter(visible, tmp_path)
    wanted = logits(make("llama"), batch)
    assert torch.equal(logits(ascender.unretrofit(fresh), batch), wanted)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scope": "flok"}, "unknown scope 'flok'"),
        ({"far": -1, "scope": "flock"}, "far = -1; expected at least 0"),
        ({"window": 4}, "window = 4 with scope='visible'; expected scope='flock'"),
        ({"far": 4}, "far = 4 with scope='visible'; expected scope='flock'"),
        ({"window": -1, "scope": "flock"}, "window = -1; expected an int"),
        ({"rules": {"scope": "flock"}, "scope": "flock"}, "scope is given twice"),
        ({"fra": 3}, r"unknown option 'fra' \(did you mean 'far'\?\)"),
    ],
)
def test_wrong_options(options, said):
    model = make("llama")
    with pytest.raises(ValueError, match=said):
        ascender.retrofit(model, **options)
    assert "swarm" not in repr(model)


@pytest.mark.parametrize(
    ("texts", "more", "said"),
    [
        ([], {}, "0 texts, all empty; expected some text"),
        ([" ", ""], {}, "2 texts, all empty"),
        (["a b"], {}, "tokenizer = None; expected the model's"),
        (["abc"], {"tokenizer": bytes_tokenizer(), "length": 8}, "3 tokens; expected at least 16"),
        ([3], {}, "texts has 3; expected strings"),
        (torch.zeros(1, 9, dtype=torch.long), {}, "at least 2 blocks"),
        (torch.zeros(3, 7, dtype=torch.long), {}, "length = 7.*far = 3.*expected at least 8"),
        (torch.zeros(3, 9, dtype=torch.long), {"steps": 0}, "steps = 0; expected an int"),
        (torch.zeros(3, 9, dtype=torch.long), {"rate": -1.0}, "rate = -1"),
    ],
)
def test_wrong_texts(texts, more, said):
    with pytest.raises((ValueError, TypeError), match=said):
        ascender.distil_index(flocking(), texts, **more)


def test_no_index():
    with pytest.raises(ValueError, match="not been retrofitted; expected retrofit"):
        ascender.distil_index(make("llama"), ["a"])
    with pytest.raises(ValueError, match=r"scope='visible'.*no index; expected scope='flock'"):
        ascender.distil_index(ascender.retrofit(make("llama")), ["a"])


def test_the_command(tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2}
    config = LlamaConfig(vocab_size=258, intermediate_size=30, max_position_embeddings=64, **sizes)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    bytes_tokenizer().save_pretrained(tmp_path / "model")
    lines = [json.dumps({"text": f"{i} birds fly south and {i} come back"}) for i in range(40)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    command = ["retrofit", str(tmp_path / "model"), "--texts", str(tmp_path / "t.jsonl")]
    command += ["--out", str(tmp_path / "a"), "--far", "4", "--length", "32", "--steps", "3"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "oracle" in result.output
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"swarm.json", "swarm.safetensors", "index.json"}
    model = LlamaForCausalLM.from_pretrained(tmp_path / "model")
    ascender.load_adapter(model, tmp_path / "a")
    assert indexed_layers(model)[0].far == 4
    assert model.generate(torch.tensor([[65, 66]]), max_new_tokens=20, min_new_tokens=20).shape == (
        1,
        22,
    )
    (tmp_path / "t.jsonl").write_text('{"words": 1}')
    result = CliRunner().invoke(app, command)
    assert result.exit_code != 0
    assert "line 1 has no text" in str(result.exception) + result.output


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [("--far", "0", 1), ("--window", "-1", 0), ("--globals", "1.5", 0), ("--seed", "x", 0)],
)
def test_options_that_are_no_such_numbers(option, value, least):
    command = ["retrofit", "m", "--texts", "t.txt", "--out", "out", option, value]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"{value!r}; expected a whole number from {least}" in result.output
