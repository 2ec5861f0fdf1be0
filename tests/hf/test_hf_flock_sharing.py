"""share_neighbours in flock scope: one list of far keys for several layers, in passes, caches,
beams and training."""

import pytest
import torch

from ascender.core.schedule import set_visible_phase
from ascender.core.scope import FarKeys
from ascender.nn.module import AscenderAttention
from support.hf_cases import HEADS, B, N, inputs, make, tokens

pytestmark = pytest.mark.usefixtures("unchecked")

FLOCK = {"k": 2, "scope": "flock", "far": 2, "window": 1}


def model(head="causal", share=2, layers=4, options=FLOCK, **fields):
    return make(
        head, share_neighbours=share, num_hidden_layers=layers,
        attention_options={**FLOCK, **options}, initializer_range=0.4, **fields,
    )  # fmt: skip


def given_lists(made):
    """What every layer is given, in the order of the calls."""
    seen = []
    for layer in made.modules():
        if isinstance(layer, AscenderAttention):
            layer.register_forward_pre_hook(
                lambda m, args, how: seen.append(how.get("neighbours")), with_kwargs=True
            )
    return seen


@pytest.mark.parametrize(
    ("share", "given"), [(1, [0, 0, 0, 0]), (2, [0, 1, 0, 1]), (3, [0, 1, 1, 0])]
)
def test_layers_that_go_by_one_search(share, given):
    made = model(share=share)
    seen = given_lists(made)
    shared = made(tokens()).logits
    assert [isinstance(far, FarKeys) for far in seen] == [bool(x) for x in given]
    layers = [block.attention for block in made.model.layers]
    assert [layer.far_from_below for layer in layers] == [bool(x) for x in given]
    if share == 3:
        assert torch.equal(seen[1].index, seen[2].index)
    alone = model(share=1)
    alone.load_state_dict(made.state_dict())
    same = torch.allclose(shared, alone(tokens()).logits, atol=1e-4)
    assert same == (share == 1), "sharing makes a difference"


def test_looking_changes_nothing():
    looked = model()(tokens(), output_parts=True)
    torch.testing.assert_close(looked.logits, model()(tokens()).logits, atol=1e-5, rtol=1e-5)
    held = [(parts.weights > 0)[0, 0] for parts in looked.parts]
    assert torch.equal(held[0], held[1])
    assert torch.equal(held[2], held[3])
    assert not torch.equal(held[0], held[2])


def test_a_flock_of_everyone_is_visible_scope_without_sharing():
    made = model(options={"far": 2 * N})
    affinity = {"k": 2, "affinity": "query-key", "affinity_term": True, "affinity_heads": 1}
    visible = make(num_hidden_layers=4, attention_options=affinity)
    visible.load_state_dict(made.state_dict())
    want = visible(tokens()).logits
    torch.testing.assert_close(made(tokens()).logits, want, atol=1e-4, rtol=1e-4)
    few = model()
    few.load_state_dict(made.state_dict())
    assert not torch.allclose(few(tokens()).logits, want, atol=1e-2)
    set_visible_phase(few, True)
    torch.testing.assert_close(few(tokens()).logits, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [{}, {"window": None}, {"far": 0}, {"neighbours": "scores"}, {"n_global": 1}],
    ids=str,
)
def test_decoding_equals_the_full_pass(options):
    made, ids = model(options=options), tokens()
    with torch.no_grad():
        whole, cache = made(ids, use_cache=False).logits, made.new_cache()
        steps = [made(ids[:, :5], past_key_values=cache).logits]
        steps += [made(ids[:, i : i + 1], past_key_values=cache).logits for i in range(5, 8)]
        steps += [made(ids[:, 8:], past_key_values=cache).logits]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("beams", [1, 3])
def test_generation_with_left_padding(beams):
    """Greedy and beams, with a cache and without; a padded row says what it says alone."""
    made, ids = model(), tokens()
    ids[1, :4] = 0
    mask = (ids != 0).long()
    how = {"max_new_tokens": 8, "do_sample": False, "num_beams": beams, "pad_token_id": 0}
    with_, without = (
        made.generate(ids, attention_mask=mask, use_cache=use, **how) for use in (True, False)
    )
    assert torch.equal(with_, without)
    alone = made.generate(ids[1:, 4:], **how)[0]
    assert torch.equal(with_[1, 4 : 4 + len(alone)], alone)


@pytest.mark.parametrize("head", [head for head in HEADS if head != "model"])
def test_gradient_checkpointing(head):
    plain, frugal = model(head).train(), model(head).train()
    frugal.gradient_checkpointing_enable()
    for made in (plain, frugal):
        made(**inputs(head)).loss.backward()
    for (name, p), q in zip(plain.named_parameters(), frugal.named_parameters(), strict=True):
        torch.testing.assert_close(p.grad, q[1].grad, msg=name)
    learned = {n for n, p in plain.named_parameters() if p.grad is not None and p.grad.any()}
    assert any(".1.attention.P_k" in name for name in learned), "by its affinity term"


def test_saved_and_loaded(tmp_path):
    made = model()
    made.save_pretrained(tmp_path)
    loaded = type(made).from_pretrained(tmp_path)
    assert [block.attention.far_from_below for block in loaded.model.layers] == [False, True] * 2
    assert torch.equal(loaded(tokens()).logits, made(tokens()).logits)


def test_the_index_loss_is_of_layers_that_search():
    made = model(index_loss=1.0, options={"affinity_term": False}).train()
    made(tokens(), labels=tokens()).loss.backward()
    grads = [block.attention.P_k.weight.grad for block in made.model.layers]
    assert [g is not None and bool(g.any()) for g in grads][0::2] == [True, True]
    alone = model(index_loss=0.0, options={"affinity_term": False}).train()
    alone(tokens(), labels=tokens()).loss.backward()
    for block, other in list(zip(made.model.layers, alone.model.layers, strict=True))[1::2]:
        torch.testing.assert_close(block.attention.P_k.weight.grad, other.attention.P_k.weight.grad)


def test_lists_of_the_caller_come_first():
    made = model()
    seen = given_lists(made)
    lists = torch.tensor([[max(0, i - 3)] for i in range(N)])
    made(tokens(), neighbours=lists)
    assert all(near is lists for near in seen)


def test_rows_of_a_batch_are_apart():
    made = model()
    whole = made(tokens()).logits
    for b in range(B):
        torch.testing.assert_close(made(tokens()[b : b + 1]).logits[0], whole[b])
