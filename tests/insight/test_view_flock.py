"""The page of a model in flock scope: which keys a flock holds, what dense attention gives to the
others, and the affinity term among the parts."""

import numpy as np
import pytest
import torch
import transformers

import ascender
from ascender.insight import capture, view
from ascender.insight.capture import watching
from ascender.insight.page.pooling import Pooling
from ascender.nn.module import AscenderAttention
from support.view_cases import TEXT, Reader, flock_model, model, tokenizer

FAR, WINDOW, GLOBALS = 2, 1, 1


def ids(text=TEXT):
    return tokenizer()(text, return_tensors="pt").input_ids


@torch.no_grad()
def dense_and_flock(made):
    """By layer, in float64: the weights of dense attention given what the layer reads, and the
    flock by its definition, written as loops."""
    made, read = made.double(), []
    layers = [m for m in made.modules() if isinstance(m, AscenderAttention)]
    hooks = [
        layer.register_forward_pre_hook(
            lambda module, args, given: read.append((args, given)), with_kwargs=True
        )
        for layer in layers
    ]
    made(input_ids=ids(), use_cache=False)
    for hook in hooks:
        hook.remove()
    for layer, (args, given) in zip(layers, read, strict=True):
        layer.visible_phase = True
        weights = layer(*args, **{**given, "return_parts": True})[1].weights[0]
        layer.visible_phase = False
        x = args[0][0]
        g = (layer.P(x) @ layer.P_k(x).T).tolist()
        flock = torch.zeros(len(x), len(x), dtype=torch.bool)
        for i in range(len(x)):
            near = {j for j in range(i + 1) if i - j <= WINDOW or j < GLOBALS}
            far = sorted(set(range(i + 1)) - near, key=lambda j: -g[i][j])[:FAR]
            flock[i, list(near | set(far))] = True
            if i < GLOBALS:
                flock[i, : i + 1] = True
        yield weights.numpy(), flock.numpy()


@pytest.mark.parametrize("options", [{}, {"affinity_term": False}], ids=["term", "no term"])
def test_the_missed_mass_is_what_dense_attention_gives_to_keys_outside_the_flock(options):
    reader = Reader(view(flock_model(**options), tokenizer(), TEXT).html)
    for l, (A, F) in enumerate(dense_and_flock(flock_model(**options))):
        for h in range(2):
            head = reader.data["models"][0]["layers"][l]["heads"][h]
            assert np.array_equal(reader.array(head["mask"]) > 0, F)
            missed = reader.array(head["missed"])[0]
            assert missed == pytest.approx(1 - (A[h] * F).sum(-1), abs=1e-5)
            assert missed.max() > 1e-3
            dense = reader.head(l, h, dense=True)["weights"]
            assert np.abs(dense - A[h]).max() < 1e-4


def test_both_scopes_have_every_term_and_affinity_is_one():
    reader, made = Reader(view(flock_model(), tokenizer(), TEXT).html), flock_model()
    with torch.no_grad(), watching(made, with_dense=True) as layers:
        made(input_ids=ids(), use_cache=False)
    for l, layer in enumerate(layers):
        for over_all, one in ((False, layer), (True, layer.dense)):
            for h in range(2):
                read = reader.head(l, h, dense=over_all)
                for name in ("base", "align", "sep", "coh", "aff", "total", "weights"):
                    true = getattr(one.parts, name)[0, h].double().numpy()
                    assert np.abs(read[name] - true).max() < 1e-4, (l, h, name, over_all)
                assert np.abs(read["aff"]).max() > 0.1
    head = reader.data["models"][0]["layers"][0]["heads"][0]
    assert set(head["aff"]) == set(head["dense"]["aff"]) == {"L", "R"}  # no matrix
    assert head["dense"]["mask"] == "causal"
    with_bias = Reader(view(flock_model(affinity_bias=8), tokenizer(), TEXT).html)
    assert "aff" in with_bias.head(1, 1)


def test_without_flock_layers_there_is_nothing_to_miss():
    heads = Reader(view(model(), tokenizer(), TEXT).html).data["models"][0]["layers"][0]["heads"]
    assert all("dense" not in head and "missed" not in head for head in heads)
    assert all(layer.dense is None for layer in capture(flock_model(), input_ids=ids())[1])


def test_a_normaliser_that_counts_keys_counts_the_visible_ones_in_dense_attention():
    options = flock_model().config.attention_options
    made = model(attention_options=options, normalizer="ssmax")
    reader = Reader(view(made, tokenizer(), TEXT).html)
    for l, (A, _) in enumerate(dense_and_flock(made)):
        assert np.abs(reader.head(l, 1, dense=True)["weights"] - A[1]).max() < 1e-4


def test_pooled_blocks_show_the_mean_missed_mass():
    made, text = flock_model(), "the quick brown fox jumps"
    reader = Reader(view(made, tokenizer(), text, max_tokens=7).html)
    with torch.no_grad(), watching(made, with_dense=True) as layers:
        made(input_ids=ids(text), use_cache=False)
    missed = layers[1].missed[0, 1].numpy()
    pooling = Pooling.fitting(len(missed), 7)
    means = [missed[a : a + pooling.size].mean() for a in pooling.starts]
    head = reader.data["models"][0]["layers"][1]["heads"][1]
    assert reader.array(head["missed"])[0] == pytest.approx(means, abs=1e-6)


def test_a_retrofitted_model_in_flock_scope():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=259, hidden_size=24, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, initializer_range=0.3,
    )  # fmt: skip
    llama = transformers.LlamaForCausalLM(config).eval()
    dense = capture(llama, input_ids=ids())[1][0].parts.weights[0].double().numpy()
    ascender.retrofit(llama, scope="flock", far=FAR, window=WINDOW, n_global=GLOBALS)
    reader = Reader(view(llama, tokenizer(), TEXT).html)
    for h in range(2):
        head = reader.data["models"][0]["layers"][0]["heads"][h]
        F = reader.array(head["mask"]) > 0
        missed = 1 - (dense[h] * F).sum(-1)
        assert reader.array(head["missed"])[0] == pytest.approx(missed, abs=1e-5)
        assert missed.max() > 0.05


@torch.no_grad()
def test_dense_attention_where_layers_share_far_keys():
    """Nothing is shared over V(i): dense attention is that of the same model without sharing, given
    what the layer reads."""
    shared = flock_model(share_neighbours=2)
    _, layers = capture(shared, input_ids=ids(), use_cache=False)
    assert torch.equal(layers[0].visible, layers[1].visible)
    with watching(shared, with_dense=True) as layers:
        shared(input_ids=ids(), use_cache=False)
    weights = []
    for made in (shared, flock_model()):
        for module in made.modules():
            if hasattr(module, "visible_phase"):
                module.visible_phase = True
        weights.append(made(input_ids=ids(), output_attentions=True, use_cache=False).attentions)
    torch.testing.assert_close(weights[0], weights[1])
    torch.testing.assert_close(layers[0].dense.parts.weights, weights[0][0])
    assert layers[1].missed.max() > 0
