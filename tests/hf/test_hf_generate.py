"""generate(): the tokens and the scores are those of the whole sequence without a cache, for every
attention that decodes, in batches, beams and streams."""

import pytest
import torch

from ascender.hf import AscenderCache, AscenderForCausalLM
from ascender.nn.baselines import ATTENTIONS
from support.generate_cases import (
    DECODERS,
    NEW,
    decoder,
    generate,
    padded,
    same,
    tokens,
    translator,
)
from support.hf_cases import OPTIONS, B, D, N, V, config, make

pytestmark = pytest.mark.usefixtures("unchecked_module")


def test_all_that_decode_are_here():
    able = {name for name, kind in ATTENTIONS.items() if kind.decodes}
    assert able == {attention for attention, _ in DECODERS.values()}


PLACES = [
    (name, position)
    for name in DECODERS
    for position in ("rope", "alibi", "t5", "shaw", "learned")
    if position in ("rope", "learned") or name in ("ascender", "window", "shuffled", "vanilla")
]


@pytest.mark.parametrize(("name", "position"), [*PLACES, ("longformer", "alibi")])
def test_with_and_without_a_cache(name, position):
    model = decoder(name, position=position)
    cached, plain = (generate(model, tokens(), use_cache=use) for use in (True, False))
    same(cached, plain)
    assert not torch.allclose(generate(model, tokens(seed=2))[1], cached[1], atol=1e-3)


def test_twins_where_all_are_neighbours():
    """Repeated tokens, and a neighbourhood that leaves nobody out: nothing to choose."""
    model = make(attention_options={"k": 64})
    ids = tokens() % 5 + 3
    how = dict(max_new_tokens=NEW, do_sample=False, output_logits=True, return_dict_in_generate=1)
    a, b = (model.generate(ids, use_cache=use, **how) for use in (True, False))
    same((a.sequences, torch.stack(a.logits)), (b.sequences, torch.stack(b.logits)))


@pytest.mark.parametrize("normalizer", ["ssmax", "topk"])
def test_other_normalizers(normalizer):
    model = make(normalizer=normalizer)
    same(*(generate(model, tokens(), use_cache=use) for use in (True, False)))


def test_sampling_repeats_by_seed():
    model, found = make(), []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        found.append(model.generate(tokens(), max_new_tokens=NEW, do_sample=True))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    torch.manual_seed(5)
    plain = model.generate(tokens(), max_new_tokens=NEW, do_sample=True, use_cache=False)
    assert torch.equal(plain, found[0])


@pytest.mark.parametrize("name", ["ascender", "window", "vanilla", "performer", "bigbird"])
def test_beams_follow_their_caches(name, monkeypatch):
    model, moved = decoder(name), []
    reorder = AscenderCache.reorder_cache
    monkeypatch.setattr(
        AscenderCache, "reorder_cache",
        lambda self, index: (moved.append(index.tolist()), reorder(self, index))[1],
    )  # fmt: skip
    how = dict(num_beams=3, num_return_sequences=2, max_new_tokens=NEW, no_repeat_ngram_size=1)
    cached, plain = (model.generate(tokens(), use_cache=use, **how) for use in (True, False))
    assert torch.equal(cached, plain)
    assert len(cached) == 2 * B
    assert any(index != sorted(set(index)) for index in moved), "no beam ever moved"
    monkeypatch.setattr(AscenderCache, "reorder_cache", lambda self, index: None)
    assert not torch.equal(model.generate(tokens(), **how), plain), "it matters"


LEFT = [n for n in DECODERS if n not in ("window", "longformer", "bigbird", "shuffled")]


@pytest.mark.parametrize("name", [*LEFT, "window without globals"])
@pytest.mark.parametrize("position", ["rope", "learned"])
def test_left_padding_equals_each_alone(name, position):
    if name in DECODERS:
        model = decoder(name, position=position)
    else:
        model = make(attention_options={"k": 3, "window": 4}, position=position)
    ids, mask = padded()
    batch, logits = generate(model, ids, attention_mask=mask)
    for row in range(3):
        alone = generate(model, ids[row : row + 1, mask[row].bool()])
        same((alone[0][:, -NEW:], alone[1]), (batch[row : row + 1, N:], logits[row : row + 1]))
    unmasked = generate(model, ids, attention_mask=torch.ones_like(mask))[1]
    assert not torch.allclose(unmasked[1:], logits[1:], atol=1e-3), "the mask matters"


def test_left_padding_of_globals_is_refused():
    ids, mask = padded()
    with pytest.raises(ValueError, match="padding on the left"):
        decoder("window").generate(ids, attention_mask=mask, max_new_tokens=2)


@pytest.mark.parametrize("name", ["ascender", "window", "vanilla", "linear"])
def test_prefill_then_decode(name):
    model, ids = decoder(name), tokens()
    cache = model.new_cache()
    with torch.no_grad():
        whole = model(ids, use_cache=False).logits
        steps = [model(ids[:, :5], past_key_values=cache).logits]
        assert cache.get_seq_length() == 5
        steps += [model(ids[:, i : i + 1], past_key_values=cache).logits for i in range(5, 8)]
        steps += [model(ids[:, 8:], past_key_values=cache).logits]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=1e-4)


def test_a_conversation_goes_on_in_its_cache():
    model, ids = make(), tokens()
    cache = model.new_cache()
    first = model.generate(ids, max_new_tokens=3, do_sample=False, past_key_values=cache)
    more = torch.cat([first, tokens(n=4, seed=9)], 1)
    second = model.generate(more, max_new_tokens=3, do_sample=False, past_key_values=cache)
    assert cache.get_seq_length() == N + 3 + 4 + 3 - 1
    assert torch.equal(second, model.generate(more, max_new_tokens=3, do_sample=False))


def test_shared_neighbours_decode():
    model = make(share_neighbours=2)
    seen = []
    model.model.layers[1].attention.register_forward_pre_hook(
        lambda m, args, how: seen.append(how["neighbours"]), with_kwargs=True
    )
    same(*(generate(model, tokens(), use_cache=use) for use in (True, False)))
    assert all(near is not None for near in seen)
    window = make(share_neighbours=2, attention_options={"k": 3, "window": 4, "n_global": 2})
    same(*(generate(window, tokens(), use_cache=use) for use in (True, False)))


@pytest.mark.parametrize("name", DECODERS)
def test_half_precision_on_the_cpu(name):
    """float16: a cache gives what the whole pass gives, and both what float32 gives."""
    model, ids = decoder(name), tokens()
    with torch.no_grad():
        exact = model(ids, use_cache=False).logits
        model.half()
        whole, cache = model(ids, use_cache=False).logits, model.new_cache()
        steps = [model(ids[:, :6], past_key_values=cache).logits]
        steps += [model(ids[:, i : i + 1], past_key_values=cache).logits for i in range(6, 9)]
        steps += [model(ids[:, 9:], past_key_values=cache).logits]
    for logits in (whole, torch.cat(steps, 1)):
        assert logits.dtype == torch.float16
        assert (logits - exact).abs().max() < 0.05 * exact.std()
    assert model.generate(ids, max_new_tokens=3, do_sample=False).shape == (B, N + 3)


@pytest.mark.parametrize("length", [N - 1, N + 1, 1])
def test_masks_of_the_wrong_length_are_refused(length):
    model, ids = make(), tokens()
    for mask in (torch.ones(B, length), torch.ones(B, length, dtype=torch.long)):
        with pytest.raises(ValueError, match=rf"attention_mask has shape \(2, {length}\); expec"):
            model(ids, attention_mask=mask)
    with pytest.raises(ValueError, match=rf"shape \(3, {N}\); expected \(2, {N}\)"):
        model(ids, attention_mask=torch.ones(3, N))
    with pytest.raises(ValueError, match=rf"encoder_attention_mask has shape \(2, {length}\)"):
        translator()(
            encoder_outputs=(torch.zeros(B, N, D),), attention_mask=torch.ones(B, length),
            decoder_input_ids=ids,
        )  # fmt: skip


def test_embeddings_as_a_prompt():
    model, ids = make(), tokens()
    x = model.get_input_embeddings()(ids)
    found = model.generate(inputs_embeds=x, max_new_tokens=NEW, do_sample=False)
    whole = model.generate(ids, max_new_tokens=NEW, do_sample=False)
    assert torch.equal(found, whole[:, N:])


def test_attentions_of_generated_tokens():
    found = make().generate(
        tokens(), max_new_tokens=3, do_sample=False, output_attentions=True,
        output_hidden_states=True, return_dict_in_generate=True,
    )  # fmt: skip
    shapes = [step[0].shape[-2:] for step in found.attentions]
    assert shapes == [(N, N), (1, N + 1), (1, N + 2)]
    torch.testing.assert_close(found.attentions[2][1].sum(-1), torch.ones(B, 2, 1))


def test_saved_models_generate_alike(tmp_path):
    for model in (make(), translator()):
        model.generation_config.max_new_tokens = 5
        model.save_pretrained(tmp_path)
        loaded = type(model).from_pretrained(tmp_path)
        a, b = (m.generate(tokens(), do_sample=False) for m in (model, loaded))
        assert torch.equal(a, b)
    assert OPTIONS["ascender"] == loaded.config.attention_options
    assert AscenderForCausalLM(config()).config.vocab_size == V
