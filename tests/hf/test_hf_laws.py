"""The laws of the attention in a whole model: causality, padding, masks, inputs."""

import pytest
import torch

from ascender.hf import AscenderModel
from support.hf_cases import HEADS, OPTIONS, PAIRS, B, N, V, config, inputs, make, states, tokens


@pytest.mark.parametrize(("attention", "position"), [p for p in PAIRS if p[0] != "graph"])
def test_causal(attention, position):
    model = make(attention=attention, position=position)
    ids = tokens()
    other = ids.clone()
    other[:, 6] = (other[:, 6] + 1) % V
    with torch.no_grad():
        for cached in (False, True):
            a, b = (model(x, use_cache=cached).logits for x in (ids, other))
            torch.testing.assert_close(a[:, :6], b[:, :6], atol=1e-6, rtol=1e-6)
            assert not torch.allclose(a[:, 6:], b[:, 6:], atol=1e-3)
    seeing = AscenderModel(
        config(attention=attention, attention_options={**OPTIONS.get(attention, {})})
    )
    seeing.load_state_dict(make("model", attention=attention).state_dict())
    a, b = (seeing(x).last_hidden_state for x in (ids, other))
    assert not torch.allclose(a[:, :6], b[:, :6], atol=1e-4), "an encoder sees what comes"


SIDES = {"left": slice(0, 4), "right": slice(7, N)}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("position", ["rope", "learned", "t5"])
def test_padding_never_leaks(head, side, position):
    model = make(head, position=position)
    given = inputs(head, labels=False)
    mask = torch.ones(B, N, dtype=torch.long)
    mask[1, SIDES[side]] = 0
    ids = given["input_ids"].clone()
    ids[1, SIDES[side]] = 2
    other = {**given, "input_ids": ids}
    a, b = (states(head, model(**x, attention_mask=mask)) for x in (given, other))
    rows = mask.bool() if a.shape[1] == N and a.ndim == 3 else ...
    assert torch.equal(a[rows], b[rows])
    if (head, side) != ("causal", "right"):
        a, b = (states(head, model(**x)) for x in (given, other))
        assert not torch.allclose(a[rows], b[rows], atol=1e-4), "without a mask it does leak"
    alone = {name: t[1:] for name, t in given.items()}
    alone["input_ids"] = given["input_ids"][1:, mask[1].bool()]
    one = states(head, model(**alone))
    both = states(head, model(**given, attention_mask=mask))[1:]
    both = both[:, mask[1].bool()] if rows is not ... else both
    torch.testing.assert_close(one, both, atol=1e-5, rtol=1e-5)


def test_padding_where_globals_count_from_the_first_is_refused():
    mask = torch.ones(B, N)
    mask[1, :3] = 0
    for attention, options in (("ascender", {"window": 3, "n_global": 1}), ("bigbird", {})):
        model = make(attention=attention, attention_options=options)
        with pytest.raises(
            ValueError, match=r"padding on the left with.*expected padding on the r"
        ):
            model(tokens(), attention_mask=mask)
        assert model(tokens(), attention_mask=mask.flip(1)).logits.isfinite().all()


def test_masks_of_four_axes():
    g = torch.Generator().manual_seed(1)  # no token twice: ties are broken by age only if causal
    model, ids = make("masked"), torch.stack([3 + torch.randperm(V - 3, generator=g)[:N]] * B)
    seen = torch.ones(N, N, dtype=torch.bool).tril()[None, None]
    want = make()(ids).logits
    torch.testing.assert_close(model(ids, attention_mask=seen).logits, want, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match=r"attention_mask is torch.float32.*expected"):
        model(ids, attention_mask=torch.zeros(B, 1, N, N))


def test_embeddings_instead_of_tokens():
    model, ids = make(), tokens()
    x = model.get_input_embeddings()(ids)
    assert torch.equal(model(inputs_embeds=x).logits, model(ids).logits)
    with pytest.raises(ValueError, match="exactly one"):
        model(ids, inputs_embeds=x)


def test_a_slip_in_an_input_is_named():
    with pytest.raises(TypeError, match=r"'attention_maks' \(did you mean 'attention_mask'"):
        make()(tokens(), attention_maks=torch.zeros(B, N))
    make()(tokens(), token_type_ids=tokens())  # what tokenizers add does no harm
