"""Gates and what is common to all queries: made-up biases whose answer is known, and loops."""

import dataclasses
import math

import pytest
import torch

from ascender.core.rules import RULES
from ascender.hf import AscenderConfig, AscenderForCausalLM, AscenderForTokenClassification
from ascender.insight import capture, common, gates

H, N = 2, 12


def layers_of(lengths=(N, 8), attention="ascender", causal=False):
    torch.manual_seed(0)
    config = AscenderConfig(
        vocab_size=9, hidden_size=8, num_hidden_layers=2, num_attention_heads=H, num_labels=3,
        attention=attention, attention_options={"k": 3} if attention == "ascender" else {},
    )  # fmt: skip
    kind = AscenderForCausalLM if causal else AscenderForTokenClassification
    model = kind(config).double()
    ids = torch.randint(9, (len(lengths), max(lengths)))
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    return capture(model, input_ids=ids, attention_mask=mask.long())[1]


def biased(layer, bias):
    return dataclasses.replace(layer, parts=dataclasses.replace(layer.parts, align=bias))


def test_gates_are_the_loops():
    lengths = (N, 8)
    layers = layers_of(lengths)
    found = gates(layers)
    for rule in RULES:
        assert found[rule].shape == (2, H, 2)
        for layer, of in zip(layers, found[rule], strict=True):
            for h in range(H):
                seen = [layer.geometry.gates[rule][b, h, :n, 0] for b, n in enumerate(lengths)]
                mean = sum(float(g.mean()) for g in seen) / 2
                apart = sum(float(g.std(correction=0)) for g in seen) / 2
                assert of[h].tolist() == pytest.approx([mean, apart])
                assert apart > 0


def test_there_are_no_gates_without_rules():
    with pytest.raises(ValueError, match="has no rules, so no gates"):
        gates(layers_of(attention="vanilla"))


@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_for_keys_is_common_to_all_queries(causal):
    layer = layers_of(causal=causal)[0]
    keys = torch.randn(2, H, 1, N).double().expand(2, H, N, N)
    own = torch.randn(2, H, N, 1).double()  # a number for each query changes nothing
    assert common([biased(layer, keys + own)])["align"] == pytest.approx(torch.ones(1, H))
    apart = torch.eye(N).double().roll(1, -1).expand(2, H, N, N)
    assert float(common([biased(layer, apart)])["align"].max()) < 0.5
    assert math.isnan(float(common([biased(layer, own.expand(2, H, N, N))])["align"][0, 0]))


def test_unrelated_rows_share_as_much_as_chance():
    layer = layers_of(lengths=(N,) * 40)[0]
    drawn = torch.randn(40, H, N, N).double()
    found = common([biased(layer, drawn)])["align"]
    assert found == pytest.approx(torch.full((1, H), 2 / N), abs=0.04)  # the later half: N/2 rows


def test_padding_and_what_some_do_not_see_are_left_out():
    layer = layers_of(lengths=(8,), causal=True)[0]
    keys = torch.randn(1, H, 1, 8).double().repeat(1, 1, 8, 1)
    keys[:, :, :4] = torch.randn(1, H, 4, 8)  # the earlier half
    keys[:, :, :, 5:] += torch.randn(1, H, 8, 3)  # keys that row 4 does not see
    assert not layer.visible[0, 0, 4, 5]
    assert common([biased(layer, keys)])["align"] == pytest.approx(torch.ones(1, H))
    padded = layers_of(lengths=(8, N))[0]
    keys = torch.randn(2, H, 1, N).double().repeat(1, 1, N, 1)
    keys[0, :, 8:], keys[0, :, :, 8:] = torch.randn(2, H, 4, N)[0], torch.randn(H, N, 4)
    assert common([biased(padded, keys)])["align"] == pytest.approx(torch.ones(1, H))
