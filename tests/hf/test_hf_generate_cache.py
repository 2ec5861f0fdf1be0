"""Caches in generate(): streams beyond the trained length, cropping, assisted generation."""

import copy

import pytest
import torch
import transformers

from support.generate_cases import DECODERS, decoder, tokens, translator
from support.hf_cases import B, N, make

pytestmark = pytest.mark.usefixtures("unchecked_module")

STREAMS = {
    "window": ("ascender", {"k": 16, "window": 4, "n_global": 2}),
    "shared": ("ascender", {"k": 16, "window": 4, "geometry": "shared", "qk_norm": True}),
    **{name: DECODERS[name] for name in ("longformer", "performer", "linear")},
}


def streamed(model, ids, new):
    """(tokens, bytes of the cache and tokens held in it after every step)."""
    cache, sizes, held = model.new_cache(), [], []

    def look(*_):
        sizes.append(cache.nbytes())
        held.append(max(getattr(each, "held", 0) for each in cache.own))

    model.register_forward_hook(look)
    found = model.generate(ids, max_new_tokens=new, do_sample=False, past_key_values=cache)
    return found, sizes, held


@pytest.mark.parametrize(
    ("name", "position"),
    [
        *(("window", p) for p in ("rope", "alibi", "none", "t5")),
        ("shared", "rope"), ("longformer", "rope"), ("longformer", "alibi"), ("performer", "rope"),
        ("linear", "none"),
    ],
)  # fmt: skip
def test_streams_beyond_the_trained_length(name, position):
    """64 tokens where 16 were the most: the memory stays, the rows are those of the whole pass."""
    attention, options = STREAMS[name]
    fields = {"max_position_embeddings": 16, "position": position}
    model = make(attention=attention, attention_options=options, **fields)
    found, sizes, held = streamed(model, tokens(), new=64)
    assert found.shape[1] == N + 64
    assert sizes[20] == sizes[-1] > 0
    assert max(held) <= 4 * (2 * 4 + 2)  # of a window of 4 to both sides and 2 globals
    with torch.no_grad():
        logits = model(found, use_cache=False).logits[:, N - 1 : -1]
    assert torch.equal(logits.argmax(-1), found[:, N:])


def test_without_a_window_the_memory_grows():
    _, sizes, held = streamed(make(max_position_embeddings=16), tokens(), new=64)
    assert sizes[-1] > 2 * sizes[20]
    assert held[-1] == N + 64 - 1


def test_learned_positions_end():
    model = make(position="learned", max_position_embeddings=16)
    with pytest.raises(ValueError, match="position 16; expected one in the table"):
        model.generate(tokens(), max_new_tokens=16, do_sample=False)


def test_what_cannot_be_says_so():
    model = make()
    for kind in ("static", "offloaded", "quantized"):
        with pytest.raises(ValueError, match=f"cache_implementation = '{kind}'; expected None"):
            model.generate(tokens(1), cache_implementation=kind, max_new_tokens=2)
    for name in ("linear", "performer"):
        with pytest.raises(ValueError, match=f"assisted generation with {name} attention"):
            decoder(name).generate(tokens(1), prompt_lookup_num_tokens=2, max_new_tokens=2)
        with pytest.raises(NotImplementedError, match="expected greedy, sampling or beam"):
            decoder(name).new_cache().crop(-1)
    with pytest.raises(ValueError, match=r"(?i)contrastive"):
        model.generate(tokens(1), penalty_alpha=0.6, top_k=4, max_new_tokens=2)
    with pytest.raises(ValueError, match="tokens_to_remove = 2; expected 0, or less"):
        model.new_cache().crop(2)
    with pytest.raises(ValueError, match="n = 1 of 0 tokens"):
        model.new_cache().crop(-1)
    with pytest.raises(TypeError, match="past_key_values is DynamicCache; expected AscenderCache"):
        model(tokens(), past_key_values=transformers.DynamicCache())
    graph = make(attention="graph")
    with pytest.raises(ValueError, match="cannot decode with a cache"):
        graph(tokens(), use_cache=True, neighbours=tokens())


CROPPED = [name for name in DECODERS if name not in ("linear", "performer")]


@pytest.mark.parametrize("name", CROPPED)
def test_a_cache_goes_back(name):
    """Tokens forgotten leave no trace, beyond the window too."""
    model, ids = decoder(name), tokens(n=30)
    cache, wrong = model.new_cache(), tokens(n=3, seed=5)
    with torch.no_grad():
        for start in range(0, 30, 2):
            model(ids[:, start : start + 2], past_key_values=cache)
            model(wrong, past_key_values=cache)
            assert cache.get_seq_length() == start + 5
            cache.crop(-3)
        found = model(ids[:, :2], past_key_values=cache).logits
        whole = model(torch.cat([ids, ids[:, :2]], 1), use_cache=False).logits
    torch.testing.assert_close(found, whole[:, -2:], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", CROPPED)
def test_assisted_generation_is_greedy(name):
    model, ids = decoder(name), tokens(1).repeat(1, 2)
    how = dict(max_new_tokens=12, do_sample=False)
    wanted = model.generate(ids, **how)
    assert torch.equal(model.generate(ids, prompt_lookup_num_tokens=3, **how), wanted)
    other = make(seed=3)  # guesses wrong most of the time
    assert torch.equal(model.generate(ids, assistant_model=other, **how), wanted)


def test_assisted_translation():
    model = translator()
    how = dict(max_new_tokens=12, do_sample=False)
    found = model.generate(tokens(1), assistant_model=translator(), **how)
    assert torch.equal(found, model.generate(tokens(1), **how))


def test_masks_beside_a_cache():
    model, ids = make(), tokens()
    cache = model.new_cache()
    with torch.no_grad():
        model(ids[:, :8], past_key_values=cache)
        with pytest.raises(ValueError, match=r"expected \(2, 3\), or \(2, 11\) with the 8 tokens"):
            model(ids[:, 8:], past_key_values=cache, attention_mask=torch.ones(B, 8))
        found = [
            model(ids[:, 8:], past_key_values=copy.deepcopy(cache), attention_mask=mask).logits
            for mask in (torch.ones(B, 3), torch.ones(B, N), None)
        ]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_a_cache_where_it_is_wanted():
    model = make()
    assert model(tokens()).past_key_values is None  # with gradients none by default
    assert model(tokens(), use_cache=True).past_key_values.get_seq_length() == N
    with torch.no_grad():
        assert model(tokens()).past_key_values.batch_size == B
        assert model(tokens(), labels=tokens()).past_key_values is None
        assert make("masked")(tokens()).past_key_values is None
