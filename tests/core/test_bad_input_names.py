"""Bad input: names and options that nothing has; an error says what was meant."""

import pytest
import torch

from ascender import AscenderAttention, Rules, asc_attention, asc_parts
from ascender.core.normalizers import normalizer
from ascender.nn.baselines import Performer, attention
from support.bad_input_cases import rand, refuses, tokens
from support.cases import B, N

pytestmark = pytest.mark.usefixtures("unchecked")


def call(**options):
    return AscenderAttention(8, 2)(rand(B, N, 8), **options)


REAL = torch.ones(B, N, dtype=torch.bool)
NAMES = {
    "module": (
        lambda: AscenderAttention(8, 2, qknorm=True), "ascender attention has no option 'qknorm'",
        "did you mean 'qk_norm'", "expected one of d_z, d_a, k",
    ),
    "baseline": (
        lambda: attention("longformer", 8, 2, windw=3), "longformer attention has no option",
        "did you mean 'window'",
    ),
    "baseline's class": (
        lambda: Performer(8, 2, feature=3), "performer attention has no option 'feature'",
        "did you mean 'features'",
    ),
    "nn.MultiheadAttention": (
        lambda: AscenderAttention(8, 2, batch_first=True), "no option 'batch_first'", "always",
    ),
    "normalizer": (
        lambda: normalizer("topk", heads=2, siz=3), "topk has no option 'siz'", "'size'",
    ),
    "function": (
        lambda: asc_attention(**tokens(causl=True)), "asc_attention has no option 'causl'",
        "did you mean 'causal'", "expected one of causal, window",
    ),
    "parts": (lambda: asc_parts(**tokens(rows=[0], mas=REAL)), "no option 'mas'", "'mask'"),
    "rules": (
        lambda: Rules(omega_algin=0.1), "Rules has no option 'omega_algin'",
        "did you mean 'omega_align'", "expected one of omega_align",
    ),
    "call": (lambda: call(caual=True), "the call has no option 'caual'", "did you mean 'causal'"),
    "attn_mask": (
        lambda: call(attn_mask=REAL), "no option 'attn_mask'", "mask=", "True = may attend",
        "opposite of nn.MultiheadAttention's", "other=",
    ),
    "key_padding_mask": (
        lambda: call(key_padding_mask=~REAL), "no option 'key_padding_mask'",
        "expected mask=~key_padding_mask",
    ),
    "attention_mask": (
        lambda: call(attention_mask=REAL.long()), "expected mask=attention_mask.bool()",
    ),
    "need_weights": (lambda: call(need_weights=True), "expected return_parts=True"),
    "function's attn_mask": (
        lambda: asc_attention(**tokens(attn_mask=REAL)), "no option 'attn_mask'", "mask=",
    ),
    "function's key_padding_mask": (
        lambda: asc_attention(**tokens(key_padding_mask=~REAL)),
        "expected mask=~key_padding_mask[:, None, None, :]",
    ),
    "function's is_causal": (lambda: asc_attention(**tokens(is_causal=True)), "expected causal="),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_unknown_names(name):
    made, *words = NAMES[name]
    with refuses(TypeError, *words):
        made()


def test_the_masks_that_hints_name():
    """What an error says to write is what gives the same as torch's own argument."""
    module, x = AscenderAttention(8, 2), rand(B, N, 8)
    padding = torch.arange(N) >= torch.tensor([[N], [6]])  # nn.MultiheadAttention: True = ignore
    alone = module(x[1:, :6])
    assert torch.allclose(module(x, mask=~padding)[1:, :6], alone, atol=1e-6)
    assert torch.allclose(module(x, mask=(~padding).long().bool())[1:, :6], alone, atol=1e-6)
    assert torch.equal(module(x, is_causal=True), module(x, causal=True))
    assert not torch.equal(module(x, is_causal=False), module(x, causal=True))
    q = tokens()
    some = asc_attention(**q, mask=~padding[:, None, None, :])
    short = {name: t[1:, :, :6] for name, t in q.items() if name != "rules"}
    assert torch.allclose(some[1:, :, :6], asc_attention(**short, rules=q["rules"]), atol=1e-6)


MODULE = {
    "dim": ({"dim": "64"}, "dim = '64'", "expected an int ≥ 1"),
    "heads": ({"heads": 2.0}, "heads = 2.0", "expected an int ≥ 1"),
    "window": ({"window": "a"}, "window = 'a'", "expected an int ≥ 0, or None"),
    "n_global": ({"n_global": 2}, "n_global = 2 without a window"),
    "omega": ({"omega": [0.1, 0.2, 0.3]}, "omega has 3 values", "expected 1 or 2 (one a head)"),
    "tau": ({"tau": 0.0}, "tau = 0.0", "expected a number > 0"),
    "d_z": ({"d_z": "a"}, "d_z = 'a'", "expected an int ≥ 1"),
    "d_a": ({"d_a": 0}, "d_a = 0", "expected an int ≥ 1"),
    "k": ({"k": 2.5}, "k = 2.5", "expected an int, or one a head"),
    "dropout": ({"dropout": "a"}, "dropout = 'a'", "expected a number in [0, 1)"),
    "bias": ({"bias": "no"}, "bias = 'no'", "expected True or False"),
    "qk_norm": ({"qk_norm": "yes"}, "qk_norm = 'yes'", "expected True or False"),
    "roles": ({"roles": "align"}, "roles = 'align'", "a list of one a head (2)"),
    "position": ({"position": ["rope"]}, "unknown position ['rope']", "none, rope"),
    "normalizer": ({"normalizer": 3}, "unknown normalizer 3", "softmax, ssmax"),
    "neighbours": ({"neighbours": 4}, "neighbours = 4", "semantic, scores"),
    "backend": ({"backend": "denes"}, "unknown backend 'denes' (did you mean 'dense'?)"),
}


@pytest.mark.parametrize("name", MODULE)
def test_options_of_a_module(name):
    changes, *words = MODULE[name]
    with refuses((ValueError, TypeError), *words):
        AscenderAttention(**{"dim": 8, "heads": 2, **changes})


OTHERS = {
    "performer": ({"features": "a"}, "features = 'a'"),
    "graph": ({"max_distance": "a"}, "max_distance = 'a'"),
    "longformer": ({"window": "a"}, "window = 'a'"),
    "bigbird": ({"block": 2.5}, "block = 2.5"),
    "shuffled": ({"seed": "a"}, "seed = 'a'"),
    "matched": ({"d_z": "a"}, "d_z = 'a'"),
    "linear": ({"heads": "a"}, "heads = 'a'"),
    "vanilla": ({"kv_heads": "a"}, "kv_heads = 'a'"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_options_of_the_baselines(name):
    changes, words = OTHERS[name]
    with refuses(ValueError, words, "expected an int"):
        attention(name, **{"dim": 8, "heads": 2, **changes})


def test_queries_keys_and_values_in_one():
    x = rand(B, N, 8)
    with refuses(TypeError, "causal is a tensor (2, 11, 8)", "attention(x)", "(x, context)"):
        AscenderAttention(8, 2)(x, x, x)
    with refuses(TypeError, "x = 'text'", "expected a tensor (batch, tokens, 8)"):
        AscenderAttention(8, 2)("text")
    with refuses(TypeError, "mask has str", "expected torch.bool"):
        AscenderAttention(8, 2)(x, mask="all")
