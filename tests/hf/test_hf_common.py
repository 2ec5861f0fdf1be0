"""What transformers' ModelTesterMixin asks of every model and no other file here does: the same
laws in a few lines, since its tests are not installed (test_hf_mixins.py runs them all)."""

import copy

import pytest
import torch

from support.hf_cases import HEADS, B, D, V, config, inputs, make, states, tokens


@pytest.mark.parametrize("head", ["causal", "masked", "seq2seq"])
def test_a_vocabulary_grows_and_shrinks(head):
    model, ids = make(head), {"input_ids": tokens() % 20}
    if head == "seq2seq":
        ids["decoder_input_ids"] = tokens(seed=4) % 20
    with torch.no_grad():
        wanted = model(**ids).logits
        for size in (V + 10, V - 5):
            table = model.resize_token_embeddings(size)
            assert table.weight.shape == (size, D)
            assert model.config.vocab_size == size
            logits = model(**ids).logits
            assert logits.shape[-1] == size
            torch.testing.assert_close(logits[..., : V - 5], wanted[..., : V - 5])
    tables = [m.weight for m in model.modules() if getattr(m, "num_embeddings", 0)]
    assert all(weight is model.lm_head.weight for weight in tables), "still tied"


@pytest.mark.parametrize("head", ["model", "causal", "masked", "sequence", "token"])
def test_gradients_reach_states_and_weights(head):
    asked = {"output_hidden_states": True, "output_attentions": True}
    found = make(head)(**inputs(head, labels=False), **asked)
    for t in (*found.hidden_states, *found.attentions):
        t.retain_grad()
    states(head, found).square().mean().backward()
    for t in (*found.hidden_states, *found.attentions):
        assert t.grad is not None
        assert t.grad.abs().max() > 0


@pytest.mark.parametrize("head", HEADS)
def test_from_a_state_dict(head):
    """Without a folder: name None, a config and the weights, all by keyword."""
    model = make(head)
    fresh = HEADS[head][0].from_pretrained(
        pretrained_model_name_or_path=None,
        config=model.config,
        state_dict=copy.deepcopy(model.state_dict()),
    )
    given = inputs(head, labels=False)
    with torch.no_grad():
        assert torch.equal(states(head, fresh(**given)), states(head, model(**given)))


@pytest.mark.parametrize("head", HEADS)
def test_rows_of_a_batch_are_alone(head):
    model, given = make(head), inputs(head, labels=False)
    with torch.no_grad():
        together = states(head, model(**given))
        for row in range(B):
            alone = model(**{name: t[row : row + 1] for name, t in given.items()})
            torch.testing.assert_close(states(head, alone)[0], together[row], atol=1e-5, rtol=1e-4)


def test_what_is_declared():
    """What transformers takes for granted of a model that says so: ours says no."""
    for kind, _ in HEADS.values():
        for name in ("sdpa", "flash_attn", "flex_attn", "attention_backend"):
            assert getattr(kind, f"_supports_{name}") is False
        assert kind._can_compile_fullgraph is False
    with pytest.raises(ValueError, match="scaled_dot_product_attention"):
        HEADS["causal"][0]._from_config(config(), attn_implementation="sdpa")
    assert make().new_cache().is_croppable
    assert not make(attention="linear").new_cache().is_croppable
    assert not make().new_cache().is_compileable
