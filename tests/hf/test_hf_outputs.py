"""What a model gives on demand: weights, named terms, states; and what shares its neighbours."""

import pytest
import torch
from torch import nn

from ascender.core.neighbours import graph, grid
from ascender.nn.positions import POSITIONS
from support.hf_cases import HEADS, B, H, M, N, inputs, make, states, tokens


@pytest.mark.parametrize("head", HEADS)
def test_outputs_on_demand(head):
    model, given = make(head), inputs(head, labels=False)
    plain = model(**given)
    full = model(**given, output_attentions=True, output_parts=True, output_hidden_states=True)
    torch.testing.assert_close(states(head, full), states(head, plain), atol=1e-5, rtol=1e-5)
    assert not set(plain) & {"attentions", "parts", "hidden_states", "cross_parts"}
    if head == "seq2seq":
        groups = [
            (full.encoder_attentions, full.encoder_parts, N, N),
            (full.decoder_attentions, full.decoder_parts, M, M),
            (full.cross_attentions, full.cross_parts, M, N),
        ]
        layers = (full.encoder_hidden_states, full.decoder_hidden_states)
    else:
        groups, layers = [(full.attentions, full.parts, N, N)], (full.hidden_states,)
    for hidden in layers:
        assert len(hidden) == 3
    for weights, parts, n, m in groups:
        assert len(weights) == len(parts) == 2
        for A, p in zip(weights, parts, strict=True):
            assert A.shape == (B, H, n, m)
            torch.testing.assert_close(A.sum(-1), torch.ones(B, H, n))
            assert torch.equal(A, p.weights)
            terms = p.base + p.align + p.sep + p.coh + p.other
            ratio = (terms / p.total)[p.total.abs() > 1e-3]  # τ_score, one a head
            assert ratio.isfinite().all()
            assert float(ratio.std()) < 0.1
            assert p.sep.abs().max() > 0


def test_terms_sum_to_the_total():
    model = make()
    for layer in model.model.layers:
        layer.attention.log_tau_score.data.zero_()
    for p in model(tokens(), output_parts=True).parts:
        torch.testing.assert_close(p.base + p.align + p.sep + p.coh + p.other, p.total)


def test_outputs_by_the_config():
    model = make(output_attentions=True, output_hidden_states=True)
    assert len(model(tokens()).attentions) == 2
    assert len(model(tokens()).hidden_states) == 3
    assert model(tokens(), output_attentions=False).attentions is None


def test_looking_changes_nothing_where_neighbours_are_shared():
    model = make(share_neighbours=2)
    looked = model(tokens(), output_parts=True).logits
    torch.testing.assert_close(looked, model(tokens()).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("head", ["causal", "seq2seq", "model"])
def test_a_tuple_where_wanted(head):
    model, given = make(head), inputs(head)
    row = model(**given, return_dict=False)
    assert isinstance(row, tuple)
    assert torch.equal(row[0], model(**given)[0])


def test_an_attention_without_scores_says_so():
    with pytest.raises(ValueError, match="no matrix of scores"):
        make(attention="longformer")(tokens(), output_attentions=True)


def test_hidden_states_end_with_the_normed():
    model = make("model")
    output = model(tokens(), output_hidden_states=True)
    assert torch.equal(output.hidden_states[-1], output.last_hidden_state)
    assert torch.equal(output.hidden_states[0], model.embed_tokens(tokens()))


# --- neighbours


def test_shared_neighbours_are_reused():
    seen = []

    def spy(module, args, kwargs):
        seen.append(kwargs["neighbours"])

    model = make(share_neighbours=2, num_hidden_layers=3)
    for block in model.model.layers:
        block.attention.register_forward_pre_hook(spy, with_kwargs=True)
    shared = model(tokens()).logits
    assert [near is None for near in seen] == [True, False, True]
    alone = make(num_hidden_layers=3)(tokens()).logits
    assert not torch.allclose(shared, alone, atol=1e-5), "it makes a difference"


@pytest.mark.parametrize("head", ["causal", "masked", "seq2seq"])
def test_plain_layers_have_no_rules(head, tmp_path):
    """Scores of plain layers are the dot products alone; decoding and saving are as ever."""
    model = make(head, plain_layers=[1]).eval()
    given = inputs(head)
    output = model(**given, output_parts=True)
    ruled = [bool(p.coh.abs().max() > 0) for p in (getattr(output, "parts", None) or ())]
    if head != "seq2seq":
        assert ruled == [True, False]
    model.save_pretrained(tmp_path)
    again = HEADS[head][0].from_pretrained(tmp_path).eval()
    assert again.config.plain_layers == [1]
    torch.testing.assert_close(again(**given).logits, output.logits)
    if head == "causal":
        ids = tokens()
        with torch.no_grad():
            cache = model.model.new_cache()
            steps = [model(ids[:, i : i + 1], past_key_values=cache).logits for i in range(N)]
            torch.testing.assert_close(torch.cat(steps, 1), model(ids).logits, atol=1e-4, rtol=1e-4)


def test_neighbours_pass_through_to_every_layer():
    model, ids = make("masked"), tokens()
    near = grid(1, N, 1)
    given = model(ids, neighbours=near, output_parts=True)
    for p in given.parts:  # separation acts on the listed ones only
        row = p.sep[0, 0, 5]
        far = torch.tensor([j for j in range(N) if j not in (4, 5, 6)])
        assert torch.unique(row[far].round(decimals=5)).numel() == 1
    assert not torch.allclose(given.logits, model(ids).logits, atol=1e-4)


@pytest.mark.parametrize("attention", ["graph", "ascender"])
def test_a_graph_in_a_model(attention):
    model, ids = make("token", attention=attention), tokens()
    ring = graph(torch.tensor([[i, (i + 1) % N] for i in range(N)]).T, N)
    if attention == "graph":
        for layer in model.model.layers:
            nn.init.normal_(layer.attention.table)
    path = grid(1, N, 1)
    a, b = (model(ids, neighbours=near).logits for near in (ring, path))
    assert not torch.allclose(a, b, atol=1e-4)
    if attention == "graph":
        with pytest.raises(ValueError, match="expected index lists"):
            model(ids)
        with torch.no_grad():  # a graph has no past: no cache is made by default
            causal = make(attention="graph")
            assert causal(ids, neighbours=path).past_key_values is None


@pytest.mark.parametrize("head", ["causal", "seq2seq"])
def test_layers_draw_anew(head):
    """Performer's ω differs by layer, in encoder, decoder and between them, and by the seed."""

    def drawn(**options):
        fields = {"attention": "performer", "attention_options": {"features": 32, **options}}
        modules = make(head, **fields).modules()
        return [m.omega for m in modules if type(m).__name__ == "Performer"]

    found = drawn()
    assert len(found) == {"causal": 2, "seq2seq": 6}[head]
    for i, a in enumerate(found):
        assert not any(torch.equal(a, b) for b in found[:i])
    assert all(torch.equal(a, b) for a, b in zip(found, drawn(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(found, drawn(seed=100), strict=True))
    layers = [m for m in make(head, attention="shuffled").modules() if hasattr(m, "seed")]
    assert [m.seed for m in layers] == {"causal": [0, 1], "seq2seq": [0, 1, 2, 4, 3, 5]}[head]


def test_every_position_has_a_model():
    assert set(POSITIONS) >= {"rope", "alibi", "t5", "shaw", "learned", "sinusoidal", "none"}
    found = [make(position=p)(tokens()).logits for p in POSITIONS]
    for i, a in enumerate(found):
        for b in found[:i]:
            assert not torch.allclose(a, b, atol=1e-4)
