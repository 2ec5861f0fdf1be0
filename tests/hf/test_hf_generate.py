"""generate(): the tokens and the scores are those of the whole sequence without a cache, for every
attention that decodes, in batches, beams and streams."""

import copy

import jaxtyping
import pytest
import torch
import transformers

from ascender.hf import AscenderCache, AscenderForCausalLM, AscenderForConditionalGeneration
from ascender.nn.baselines import ATTENTIONS
from ascender.nn.cache import CrossKV
from support.hf_cases import OPTIONS, B, D, N, V, config, make

NEW = 6
DECODERS = {
    "ascender": ("ascender", {"k": 3}),
    "shared": ("ascender", {"k": 3, "geometry": "shared", "numbers": "shared"}),
    "qk_norm": ("ascender", {"k": 3, "geometry": "shared", "qk_norm": True}),
    "window": ("ascender", {"k": 3, "window": 4, "n_global": 2}),
    "local": ("ascender", {"k": 3, "local_scope": "neighbours", "neighbours": "scores"}),
    "flock": ("ascender", {"k": 3, "scope": "flock", "far": 3, "window": 1}),
    "flock tied": ("ascender", {"k": 3, "scope": "flock", "far": 3, "affinity": "tied"}),
    "shuffled": ("shuffled", {"k": 3}),
    "vanilla": ("vanilla", {}),
    "matched": ("matched", {}),
    "longformer": ("longformer", {"window": 4, "n_global": 2}),
    "bigbird": ("bigbird", {"block": 3}),
    "performer": ("performer", {"features": 32}),
    "linear": ("linear", {}),
}


@pytest.fixture(autouse=True, scope="module")
def without_the_checks_of_shapes():
    """They are on in test_hf_models.py; here they would take most of the time."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def tokens(b=B, n=N, seed=1):
    """No token twice in a row. Twins have the same h where positions leave it alone, so who of
    them is among the k nearest is a matter of rounding, which no two ways of computing share."""
    random = torch.Generator().manual_seed(seed)
    return torch.stack([3 + torch.randperm(V - 3, generator=random)[:n] for _ in range(b)])


def decoder(name, **fields):
    attention, options = DECODERS[name]
    return make(attention=attention, attention_options=options, **fields)


def generate(model, ids, **how):
    """(tokens, logits of every new one)."""
    found = model.generate(
        ids, max_new_tokens=NEW, do_sample=False, output_logits=True, no_repeat_ngram_size=1,
        suppress_tokens=[0], return_dict_in_generate=True, **how,
    )  # fmt: skip
    return found.sequences, torch.stack(found.logits, 1)


def same(a, b):
    assert torch.equal(a[0], b[0])
    torch.testing.assert_close(a[1], b[1], atol=2e-5, rtol=1e-4)


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


def padded():
    ids, mask = tokens(3), torch.ones(3, N, dtype=torch.long)
    for row, pad in ((1, 3), (2, 7)):
        ids[row, :pad], mask[row, :pad] = 0, 0
    return ids, mask


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


# --- encoder and decoder


def translator(**fields):
    return make("seq2seq", **fields)


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


def test_saved_models_generate_alike(tmp_path):
    for model in (make(), translator()):
        model.generation_config.max_new_tokens = 5
        model.save_pretrained(tmp_path)
        loaded = type(model).from_pretrained(tmp_path)
        a, b = (m.generate(tokens(), do_sample=False) for m in (model, loaded))
        assert torch.equal(a, b)
    assert OPTIONS["ascender"] == loaded.config.attention_options
    assert AscenderForCausalLM(config()).config.vocab_size == V
