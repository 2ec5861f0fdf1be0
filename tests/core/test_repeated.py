"""Repeated tokens: texts of five words, where equal tokens tie for a place among the neighbours.

Who is chosen may depend neither on the length nor on what comes later, so the causal, padding and
decode laws hold here as they do for tokens that all differ.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ascender import AscenderAttention, asc_attention, retrofit
from ascender.core import neighbours as nb
from ascender.core.visibility import Visibility
from ascender.nn.positions import position
from support.cases import BY_QUERY, LARGE, Case, case, serving
from support.laws import gap, leak_from_padding, leak_from_unseen, outputs_gap, prefill_apart, run

# test_vectors.py and test_module.py check the shapes; here it would take a third of the time.
pytestmark = pytest.mark.usefixtures("unchecked")

TOLERANCE = 1e-5  # float32
CAUSAL = ("causal", "causal padded left", "window causal globals", "decode padded")
OPTIONS = ("plain", "scores", "bare", "shared k-per-head")


def of_five_words(x: Case) -> Case:
    """The case with tokens drawn from five, but for their values: which of equals is chosen then
    shows. Where there are unrotated keys, q and k are turned by rotary positions."""
    word = torch.randint(5, (x.M,), generator=torch.Generator().manual_seed(5))
    first = x.M - x.N
    same = {name: t for name, t in x.leaves.items() if name != "v"}
    new = {n: t[:, :, word[first:] if n in BY_QUERY else word] for n, t in same.items()}
    if "bare" in new:
        turn, where = position("rope", dim=6, heads=1, head_dim=6), torch.arange(x.M)

        def rotate(t: Tensor, at: Tensor) -> Tensor:
            return torch.cat([turn.rotate(t[..., :6], at), t[..., 6:]], -1)

        new |= {"k": rotate(new["bare"], where), "q": rotate(new["q"], where[first:])}
    return replace(x.but(**new), fixed={**x.fixed, "k": min(16, x.M // 2)})


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def cases(padded: bool = False):
    found = [
        (pytest.param if options in OPTIONS[1:3] else slow)(kind, options, backend)
        for kind in CAUSAL
        for options in OPTIONS
        for backend in ("dense", *serving(kind, options))
        if not padded or "padded" in kind
    ]
    return pytest.mark.parametrize(("kind", "options", "backend"), found)


@cases()
def test_causal(kind, options, backend):
    x = of_five_words(case(kind, options, 37)).to(torch.float32)
    assert leak_from_unseen(x, backend, slice(1, None, 5)) <= TOLERANCE


@cases(padded=True)
def test_padding(kind, options, backend):
    x = of_five_words(case(kind, options, 37)).to(torch.float32)
    assert leak_from_padding(x, backend) <= TOLERANCE


@cases()
def test_decode_equals_prefill(kind, options, backend):
    """Against the rows of decode, and against every backend's own shorter calls."""
    x = of_five_words(case(kind, options, 37)).to(torch.float32)
    assert prefill_apart(x, backend) <= TOLERANCE
    assert prefill_apart(x, backend, step=backend) <= TOLERANCE


@pytest.mark.parametrize("kind", ["causal", "window causal globals", "decode padded"])
@pytest.mark.parametrize("options", OPTIONS)
def test_long_texts(kind, options):
    """Across chunks and blocks, and every backend the same."""
    x = of_five_words(case(kind, options, LARGE)).to(torch.float32)
    for backend in serving(kind, options):
        assert prefill_apart(x, backend) <= TOLERANCE, backend
        assert outputs_gap(x, run(x, backend), run(x, "dense")) <= TOLERANCE, backend


def test_ties_would_be_noticed(monkeypatch):
    """Ranked by rounding alone, as in attention that is not causal, the laws break."""
    monkeypatch.setattr(nb, "TIE", 0.0)
    x = of_five_words(case("causal", "plain", LARGE)).to(torch.float32)
    assert prefill_apart(x, "folded") > 1e-3


def test_the_most_recent_of_equals_are_chosen():
    h = torch.nn.functional.one_hot(torch.tensor([0, 1, 0, 0, 1, 0, 0])).float()[None, None]
    vis = Visibility.of(7, 7, causal=True)
    found = nb.top_k(h, h, vis, (2,), bounded=True)[0, 0].sort(-1).values
    assert found.tolist() == [[-1, -1], [-1, 0], [0, 1], [0, 2], [1, 3], [2, 3], [3, 5]]


def layer(where: str, **options):
    torch.manual_seed(3)
    made = AscenderAttention(32, 4, position=where, omega=1.0, **options).eval()
    words = torch.randn(5, 32)
    text = torch.randint(5, (2, 48), generator=torch.Generator().manual_seed(4))
    return made, words[text]


LAYERS = [
    {}, {"geometry": "shared"}, {"qk_norm": True}, {"neighbours": "scores"}, {"kv_heads": 2},
    {"neighbours": "scores", "kv_heads": 2}, {"window": 24}, {"window": 24, "n_global": 2},
]  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize("options", LAYERS, ids=str)
@pytest.mark.parametrize("where", ["none", "rope", slow("alibi"), slow("t5")])
def test_a_layer_does_not_see_the_length(where, options):
    """A text alone, with more text behind it, padded on the left, and token by token."""
    attention, x = layer(where, **options)
    whole = attention(x, causal=True)

    def apart(other: Tensor, rows: slice = slice(None)) -> float:
        return gap(other, whole[:, rows])

    for n in (17, 40):
        assert apart(attention(x[:, :n], causal=True), slice(n)) <= TOLERANCE
    padded = torch.cat([torch.randn(2, 7, 32), x], 1)
    mask = torch.arange(55).expand(2, -1) >= 7
    if not attention.n_global:  # which go by place: padding would stand there
        assert apart(attention(padded, causal=True, mask=mask)[:, 7:]) <= TOLERANCE
    for first in (1, 40):
        cache = attention.new_cache()
        rows = [attention(x[:, :first], cache=cache)]
        rows += [attention(x[:, i : i + 1], cache=cache) for i in range(first, 48)]
        assert apart(torch.cat(rows, 1)) <= TOLERANCE


@torch.no_grad()
def test_a_retrofitted_model_does_not_see_the_length():
    """Llama's own masks and cache: one token, padding, and a text with more behind it."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(vocab_size=5, pad_token_id=0, **sizes, **heads)
    model = retrofit(transformers.LlamaForCausalLM(config).eval(), {"omega": 1.0})
    text = torch.randint(5, (2, 60))
    whole = model(text).logits
    assert gap(model(text[:, :41]).logits, whole[:, :41]) <= TOLERANCE
    padded = torch.cat([torch.zeros(2, 6, dtype=torch.long), text], 1)
    mask = (torch.arange(66) >= 6).long().expand(2, -1)
    where = (mask.cumsum(-1) - 1).clamp_min(0)
    found = model(padded, attention_mask=mask, position_ids=where).logits[:, 6:]
    assert gap(found, whole) <= TOLERANCE
    cache = transformers.DynamicCache(config=config)
    rows = [model(text[:, :30], past_key_values=cache).logits]
    rows += [model(text[:, i : i + 1], past_key_values=cache).logits for i in range(30, 60)]
    assert gap(torch.cat(rows, 1), whole) <= TOLERANCE


def test_equal_tokens_without_order_give_equal_rows():
    """Not causal: ties are free, and the same input gives the same output."""
    x = of_five_words(case("full", "shared", 37)).to(torch.float32)
    assert torch.equal(run(x, "compact"), run(x, "compact"))
    assert torch.isfinite(asc_attention(**x.call())).all()
