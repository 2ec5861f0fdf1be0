"""generate() of encoder-decoder models: caches, beams, padding."""

import pytest
import torch

from ascender.hf import AscenderForConditionalGeneration
from ascender.nn.cache import CrossKV
from support.generate_cases import DECODERS, NEW, generate, padded, same, tokens, translator
from support.hf_cases import B, D, N, config

pytestmark = pytest.mark.usefixtures("unchecked_module")


@pytest.mark.parametrize(
    "name", ["ascender", "qk_norm", "window", "vanilla", "longformer", "performer", "linear"]
)
@pytest.mark.parametrize("position", ["rope", "learned"])
def test_translation_with_and_without_a_cache(name, position):
    attention, options = DECODERS[name]
    model = translator(attention=attention, attention_options=options, position=position)
    cached, plain = (generate(model, tokens(), use_cache=use) for use in (True, False))
    same(cached, plain)
    assert not torch.allclose(generate(model, tokens(seed=8))[1], cached[1], atol=1e-3)


@pytest.mark.parametrize("cross", ["vanilla", "linear"])
def test_another_cross_attention(cross):
    model = translator(cross_attention=cross)
    assert model.decoder.layers[0].cross.name == cross
    same(*(generate(model, tokens(), use_cache=use) for use in (True, False)))


def test_translation_by_beams():
    model = translator()
    how = dict(num_beams=3, num_return_sequences=3, max_new_tokens=NEW, no_repeat_ngram_size=1)
    cached, plain = (model.generate(tokens(), use_cache=use, **how) for use in (True, False))
    assert torch.equal(cached, plain)


def test_padding_of_what_is_translated():
    model = translator()
    ids, mask = padded()
    for flip in (False, True):
        x, m = (ids.flip(1), mask.flip(1)) if flip else (ids, mask)
        batch, logits = generate(model, x, attention_mask=m)
        for row in range(3):
            alone = generate(model, x[row : row + 1, m[row].bool()])
            same(alone, (batch[row : row + 1], logits[row : row + 1]))


def test_the_encoder_is_read_once():
    """Keys, values, z and h of the encoder's states are made at the first token, then kept."""
    model = translator()
    cross = model.decoder.layers[1].cross
    sizes = {"W_K": [], "U": [], "W_Q": []}
    for name, seen in sizes.items():
        getattr(cross, name).register_forward_pre_hook(
            lambda m, args, seen=seen: seen.append(args[0].shape[1])
        )
    model.generate(tokens(), max_new_tokens=4, do_sample=False)
    assert sizes["W_K"] == [N, 1, 1, 1]
    assert sizes["W_Q"] == [1, 1, 1, 1]
    assert sizes["U"] == [1, N, 1, 1, 1, 1, 1, 1]  # of the rows, then of the context


def test_memory_is_for_a_context():
    module = config().make_attention(None)
    x, context = torch.randn(B, 3, D), torch.randn(B, 5, D)
    memory = CrossKV()
    first = module(x, context, cache=memory)
    assert set(memory) == {"k", "v", "z_k", "h_k"}
    assert torch.equal(module(x, context, cache=memory), first)
    assert torch.equal(module(x, context), first)
    with pytest.raises(ValueError, match="CrossKV, without a context"):
        module(x, cache=CrossKV())
    memory.reorder(torch.tensor([1, 0]))
    swapped = module(x.flip(0), context.flip(0), cache=memory)
    torch.testing.assert_close(swapped, first.flip(0))


def test_start_tokens_are_asked_for():
    model = AscenderForConditionalGeneration(config(decoder_start_token_id=None))
    with pytest.raises(ValueError, match="decoder_start_token_id = None"):
        model(tokens(), labels=tokens())
