"""Linear attention as a module: formula, decoding, precision, options."""

import pytest
import torch
import torch.nn.functional as F

from ascender.core.normalizers import Softmax
from ascender.nn.baselines import attention
from ascender.nn.baselines.linear import LinearAttention, StateCache
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.slot import Unsupported
from support.linear_cases import DIM, HEADS, B, N, dense, make, padding, randn, visible_pairs


def tokens(n=N, seed=7):
    return randn(B, n, DIM, seed=seed)


def by_formula(module, x, context=None, causal=False, real=None, temperature=1.0):
    """The module's projections through the dense product, on elu + 1 of torch's own."""
    source = x if context is None else context
    split = lambda t: t.unflatten(-1, (-1, DIM // HEADS)).transpose(1, 2)  # noqa: E731
    q, k, v = split(module.W_Q(x)), split(module.W_K(source)), split(module.W_V(source))
    q, k = (module.position.rotate(t, torch.arange(t.shape[2])) for t in (q, k))
    k, v = (t.repeat_interleave(HEADS // t.shape[1], 1) for t in (k, v))
    mask = None if real is None else real[:, None]
    visible = visible_pairs(x.shape[1], source.shape[1], causal, mask)
    out = dense(F.elu(q / temperature) + 1, F.elu(k) + 1, v, visible)
    return module.W_O(out.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pad", [None, "left", "right"])
@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}, {"position": "rope"}])
def test_the_module_is_the_formula(causal, pad, options):
    module, x = make(**options), tokens()
    real = None if pad is None else padding(N, pad)[:, 0]
    want = by_formula(module, x, causal=causal, real=real)
    assert torch.allclose(module(x, causal=causal, mask=real), want, atol=1e-12)


def test_it_is_no_softmax():
    module, plain = make(), make(Vanilla)
    assert module.state_dict().keys() == plain.state_dict().keys()
    assert not torch.allclose(module(tokens()), plain(tokens()), atol=1e-3)


def test_rope_acts_but_not_by_distance_alone():
    """elu + 1 of turned vectors is no function of the distance, as softmax's score is."""
    module, x = make(position="rope"), tokens()
    assert not torch.allclose(module(x), make()(x), atol=1e-3)
    at = torch.arange(N)
    assert torch.allclose(module(x, positions=at), module(x), atol=1e-12)
    moved = (module(x, positions=at + 5) - module(x)).abs().max().detach()
    assert float(moved) > 1e-6


def test_temperature_divides_the_query():
    module, x = make(normalizer=Softmax(0.5)), tokens()
    assert torch.allclose(module(x), by_formula(module, x, temperature=0.5), atol=1e-12)
    assert not torch.allclose(module(x), by_formula(module, x), atol=1e-3)


def test_cross_attention():
    module, x, context = make(), tokens(5), tokens(9, seed=8)
    real = torch.ones(B, 9, dtype=torch.bool)
    real[:, 6:] = False
    want = by_formula(module, x, context[:, :6])
    assert torch.allclose(module(x, context, mask=real), want, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}, {"position": "rope"}])
@pytest.mark.parametrize("pad", [None, "left"])
def test_decoding_is_the_causal_pass(options, pad):
    module, x = make(**options), tokens()
    real = None if pad is None else padding(N, pad)[:, 0]
    want = module(x, causal=True, mask=real)
    cache, rows = module.new_cache(), []
    for a, b in [(0, 4), *((i, i + 1) for i in range(4, N))]:
        mask = None if real is None else real[:, a:b]
        rows.append(module(x[:, a:b], cache=cache, mask=mask))
        assert len(cache) == b
    assert torch.allclose(torch.cat(rows, 1), want, atol=1e-12)


def test_the_cache_does_not_grow_and_follows_beams():
    module, x = make(), tokens()
    cache, other = module.new_cache(), module.new_cache()
    assert cache.nbytes() == 0
    cache.reorder(torch.tensor([0]))
    flip = torch.tensor([1, 0])
    real = padding(4, "left")[:, 0]
    module(x[:, :4], cache=cache, mask=real)
    size = cache.nbytes()
    cache.reorder(flip)
    module(x[flip, :4], cache=other, mask=real[flip])
    got, want = (module(x[:, 4:7], cache=c) for c in (cache, other))
    assert torch.allclose(got, want, atol=1e-12)
    assert torch.equal(cache.real, other.real)
    assert cache.nbytes() == size == B * HEADS * 6 * (6 + 1) * 8


def test_gradients_pass_through_the_cache():
    module, x, x2 = make(), tokens().requires_grad_(), tokens().requires_grad_()
    cache = module.new_cache()
    y = torch.cat([module(x[:, :6], cache=cache), module(x[:, 6:], cache=cache)], 1)
    y.square().sum().backward()
    module(x2, causal=True).square().sum().backward()
    assert torch.allclose(x.grad, x2.grad, atol=1e-12)


def test_autocast_is_left_at_the_door():
    module, x = make().float(), tokens().float()
    want = module(x, causal=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = module(x, causal=True)
    assert got.dtype == torch.bfloat16
    assert float((got - want).detach().abs().max()) < 0.02


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("n", [1, N])
def test_finite(causal, scale, n):
    module, x = make().float(), (tokens(n).float() * scale).requires_grad_()
    y = module(x, causal=causal)
    y.sum().backward()
    assert bool(y.isfinite().all())
    assert bool(x.grad.isfinite().all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"position": "alibi"},
            "'alibi' uses bias, which linear attention .*expected one of none",
        ),
        ({"position": "t5"}, "'t5' uses bias, .*; expected one of none, rope, learned, sinus"),
        ({"position": "shaw"}, "'shaw' uses scores, values, .*; expected one of none, rope"),
        ({"window": 4}, "window = 4: linear attention has no window; expected one of"),
        ({"dropout": 0.1}, "dropout = 0.1: linear attention has no weights to drop; expected 0"),
        ({"normalizer": "topk"}, "'topk' works on the exponents of a softmax.* one of softmax$"),
        ({"normalizer": "ssmax"}, "'ssmax' works on the exponents of a softmax.* one of softmax$"),
    ],
)
def test_options_that_cannot_be_had(options, message):
    with pytest.raises(Unsupported, match=message):
        make(**options)


def test_calls_that_cannot_be_had():
    module, x = make(), tokens()
    with pytest.raises(Unsupported, match="no scores to add a bias to; expected other=None"):
        module(x, other=torch.zeros(N, N))
    with pytest.raises(Unsupported, match=r"mask differs by query.*expected padding \(B, M\)"):
        module(x, mask=torch.ones(1, 1, N, N, dtype=torch.bool))
    with pytest.raises(Unsupported, match=r"no matrix of scores.*expected one of vanilla"):
        module(x, return_parts=True)
    with pytest.raises(TypeError, match=r"cache is KVCache; expected linear\.new_cache\(\)"):
        module(x, cache=make(Vanilla).new_cache())


def test_by_name():
    module = attention("linear", DIM, HEADS)
    assert type(module) is LinearAttention
    assert isinstance(module.new_cache(), StateCache)
