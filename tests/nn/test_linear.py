"""Attention by features against loops and dense products; linear attention in the slot."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from ascender.core.normalizers import Softmax
from ascender.nn.baselines import attention, linear
from ascender.nn.baselines.linear import LinearAttention, StateCache, elu_features, kernel_attention
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.slot import Unsupported

B, H, N, f, e = 2, 3, 11, 5, 7
DIM, HEADS = 18, 3


def randn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.double, generator=g)


def features(n=N, m=N, heads=H):
    """fq, fk > 0 and v."""
    return (
        randn(B, heads, n, f, seed=1).exp(),
        randn(B, heads, m, f, seed=2).exp(),
        randn(B, heads, m, e, seed=3),
    )


def seen(n, m, causal, mask):
    visible = torch.ones(B, H, n, m, dtype=torch.bool)
    if causal:
        visible = visible.tril(m - n)
    return visible if mask is None else visible & mask[..., None, :]


def loops(fq, fk, v, visible):
    """out_i = Σ_j (f(q_i)·f(k_j)) v_j / Σ_j f(q_i)·f(k_j), one pair at a time."""
    out = torch.zeros(*fq.shape[:3], v.shape[-1], dtype=torch.double)
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in fq.shape[:3])).tolist():
        total = 0.0
        for j in visible[b, h, i].nonzero()[:, 0].tolist():
            a = sum(float(x) * float(y) for x, y in zip(fq[b, h, i], fk[b, h, j], strict=True))
            out[b, h, i] += a * v[b, h, j]
            total += a
        if total:
            out[b, h, i] /= total
    return out


def dense(fq, fk, v, visible):
    A = (fq @ fk.mT).masked_fill(~visible, 0)
    return A / A.sum(-1, keepdim=True).clamp_min(1e-30) @ v


def padding(m, kind):
    real = torch.ones(B, 1, m, dtype=torch.bool)
    if kind == "left":
        real[1, :, :4] = False
    elif kind == "right":
        real[1, :, -5:] = False
    elif kind == "head":
        real = randn(B, H, m, seed=4) > -0.3
    elif kind == "all":
        real[1] = False
    return real


KINDS = [
    (N, N, False, None), (N, N, True, None), (5, N, True, None), (1, N, True, None),
    (5, N, False, "right"), (13, N, False, "head"), (N, N, True, "left"), (N, N, True, "head"),
    (4, N, True, "right"), (N, N, True, "all"), (1, 1, True, None),
]  # fmt: skip


@pytest.fixture(params=[2, 4, 64])
def chunk(request, monkeypatch):
    monkeypatch.setattr(linear, "CHUNK", request.param)


@pytest.mark.parametrize(("n", "m", "causal", "pad"), KINDS)
def test_it_is_the_sum_over_visible_keys(chunk, n, m, causal, pad):
    fq, fk, v = features(n, m)
    mask = None if pad is None else padding(m, pad)
    out, (S, s) = kernel_attention(fq, fk, v, causal=causal, mask=mask)
    assert torch.allclose(out, loops(fq, fk, v, seen(n, m, causal, mask)), rtol=0, atol=1e-12)
    held = fk if mask is None else fk * mask[..., None]
    assert torch.allclose(S, held.mT @ v, atol=1e-12)
    assert torch.allclose(s, held.sum(-2), atol=1e-12)


def test_empty_rows_are_zero():
    fq, fk, v = features()
    out, _ = kernel_attention(fq, fk, v, causal=True, mask=padding(N, "left"))
    empty = out[1, :, :4]
    assert torch.equal(empty, torch.zeros_like(empty))
    assert bool((out[1, :, 4:] != 0).all())


@pytest.mark.parametrize(("n", "m", "causal", "pad"), KINDS)
def test_gradients_are_those_of_the_dense_product(chunk, n, m, causal, pad):
    mask = None if pad is None else padding(m, pad)
    ours, theirs = ([t.requires_grad_() for t in features(n, m)] for _ in range(2))
    g = randn(B, H, n, e, seed=5)
    kernel_attention(*ours, causal=causal, mask=mask)[0].backward(g)
    dense(*theirs, seen(n, m, causal, mask)).backward(g)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a.grad, b.grad, rtol=0, atol=1e-12)


def test_gradients_by_differences(monkeypatch):
    """The state's too, in both directions."""
    monkeypatch.setattr(linear, "CHUNK", 2)
    tensors = [t[:1, :2, :3].requires_grad_() for t in features()]
    past = [randn(1, 2, f, e, seed=6).requires_grad_(), randn(1, 2, f).exp().requires_grad_()]

    def run(fq, fk, v, S, s):
        out, state = kernel_attention(fq, fk, v, causal=True, state=(S, s))
        return out, *state

    assert torch.autograd.gradcheck(run, [*tensors, *past])


@pytest.mark.parametrize("causal", [False, True])
def test_it_is_performer_pytorchs(causal):
    theirs = pytest.importorskip("performer_pytorch.performer_pytorch", exc_type=ImportError)
    way = partial(theirs.causal_linear_attention_noncuda, eps=0.0, chunk_size=3)
    fq, fk, v = features()
    want = (way if causal else theirs.linear_attention)(fq, fk, v)
    assert torch.allclose(kernel_attention(fq, fk, v, causal=causal)[0], want, atol=1e-12)


@pytest.mark.parametrize("j", [1, 63, 64, 100, 156])
def test_no_bit_of_an_earlier_row_depends_on_a_later_key(j):
    fq, fk, v = (t.float() for t in features(157, 157))
    changed_k, changed_v = fk.clone(), v.clone()
    changed_k[:, :, j], changed_v[:, :, j] = 1e6, -1e6
    run = lambda k, v, causal: kernel_attention(fq, k, v, causal=causal)[0]  # noqa: E731
    a, b = run(fk, v, True), run(changed_k, changed_v, True)
    assert torch.equal(a[:, :, :j], b[:, :, :j])
    assert not torch.equal(a[:, :, j], b[:, :, j])
    leaking = run(fk, v, False)[:, :, :j], run(changed_k, changed_v, False)[:, :, :j]
    assert not torch.equal(*leaking), "the test can fail"


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bad", [1e6, float("inf"), float("nan")])
def test_no_bit_depends_on_padding(causal, bad):
    fq, fk, v = features()
    mask = padding(N, "right")
    k2, v2 = (t.clone() for t in (fk, v))
    k2[1, :, -5:], v2[1, :, -5:] = bad, bad
    run = partial(kernel_attention, causal=causal, mask=mask)
    assert torch.equal(run(fq, fk, v)[0], run(fq, k2, v2)[0])
    assert not torch.equal(kernel_attention(fq, fk, v)[0], kernel_attention(fq, k2, v2)[0])


@pytest.mark.parametrize("steps", [[1] * N, [4, 1, 1, 5], [N - 1, 1], [3, 8]])
def test_rows_from_the_state_are_those_of_the_whole(chunk, steps):
    fq, fk, v = features()
    mask = padding(N, "left")
    want, end = kernel_attention(fq, fk, v, causal=True, mask=mask)
    state, rows, a = None, [], 0
    for n in steps:
        c = slice(a, a + n)
        out, state = kernel_attention(
            fq[:, :, c], fk[:, :, c], v[:, :, c], causal=True, mask=mask[..., c], state=state
        )
        rows.append(out)
        a += n
    assert torch.allclose(torch.cat(rows, 2), want, atol=1e-12)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(state, end, strict=True))


def test_a_factor_of_a_query_or_of_all_keys_is_nothing():
    fq, fk, v = features()
    for causal in (False, True):
        want, _ = kernel_attention(fq, fk, v, causal=causal)
        got, _ = kernel_attention(fq * randn(B, H, N, 1).exp(), fk * 1e3, v, causal=causal)
        assert torch.allclose(got, want, atol=1e-12)
    got, _ = kernel_attention(fq, fk * randn(B, H, N, 1).exp(), v)
    assert not torch.allclose(got, want, atol=1e-3), "a key's own factor is something"


@pytest.mark.parametrize("causal", [False, True])
def test_precisions(causal):
    fq, fk, v = features(157, 157)
    want, _ = kernel_attention(fq, fk, v, causal=causal)
    out, state = kernel_attention(fq.float(), fk.float(), v.float(), causal=causal)
    assert out.dtype == torch.float
    assert float((out - want).abs().max()) < 3e-6
    half = [t.bfloat16() for t in (fq, fk, v)]
    out, state = kernel_attention(*half, causal=causal)
    assert out.dtype == torch.bfloat16
    assert all(t.dtype == torch.float for t in state)
    exact, _ = kernel_attention(*(t.double() for t in half), causal=causal)
    worst = (out - exact).abs() / exact.abs().clamp_min(1e-2)
    assert float(worst.max()) < 2**-8, "one rounding, at the end"


def test_the_denominator_has_a_floor():
    fq, fk, v = (t.float().requires_grad_() for t in features())
    for small in (0.0, 1e-22, 1e-38):
        for causal in (False, True):
            out, _ = kernel_attention(fq * small, fk, v, causal=causal)
            out.square().sum().backward()
            assert all(bool(t.isfinite().all()) for t in (out, fq.grad, fk.grad, v.grad))
    nothing, _ = kernel_attention(fq * 1e-30, fk, v)
    assert torch.equal(nothing, torch.zeros(B, H, N, e))
    something, _ = kernel_attention(fq * 1e-22, fk, v)
    assert torch.allclose(something, kernel_attention(fq, fk, v)[0], atol=1e-5)


def test_causal_queries_are_no_more_than_the_keys():
    with pytest.raises(ValueError, match="12 queries on 11 keys; expected causal queries at the"):
        kernel_attention(*features(12, N), causal=True)


def cost(way, n):
    """(FLOPs forward and backward, bytes kept for backward)."""
    q, k, v = (randn(1, 1, n, 16, seed=s).requires_grad_() for s in (1, 2, 3))
    kept = {}

    def keep(t):
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with FlopCounterMode(display=False) as count:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
            y = way(q, k, v)
        y.sum().backward()
    return count.get_total_flops(), sum(kept.values())


def by_elu(q, k, v, causal):
    return kernel_attention(elu_features(q), elu_features(k), v, causal=causal)[0]


def test_work_and_memory_are_linear_in_the_length():
    square = lambda q, k, v: (q @ k.mT).softmax(-1) @ v  # noqa: E731
    for way in (partial(by_elu, causal=False), partial(by_elu, causal=True)):
        (work, kept), (work4, kept4) = cost(way, 256), cost(way, 1024)
        assert work4 == pytest.approx(4 * work, rel=0.02)
        assert kept4 == pytest.approx(4 * kept, rel=0.02)
        assert kept < 8 * 256 * 16 * 8, "a few times the inputs"
    (work, kept), (work4, kept4) = cost(square, 256), cost(square, 1024)
    assert work4 == 16 * work
    assert kept4 > 12 * kept


# elu + 1.


def test_elu_features():
    x = torch.cat([randn(500) * 3, torch.zeros(1), torch.tensor([-1e4, 1e4])]).double()
    x = x.view(1, 1, -1, 1).requires_grad_()
    y = elu_features(x)
    assert torch.allclose(y, F.elu(x) + 1, rtol=0, atol=1e-12)
    (ours,) = torch.autograd.grad(y.sum(), x)
    (theirs,) = torch.autograd.grad(F.elu(x).sum(), x)
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


def test_elu_features_keep_their_digits():
    x = torch.tensor([-20.0]).view(1, 1, 1, 1)
    want = float(x.double().exp())
    assert float(elu_features(x)) == pytest.approx(want, rel=1e-6)
    assert float(F.elu(x) + 1) != pytest.approx(want, rel=0.5), "which the sum does not"


def test_a_query_far_below_zero_still_looks():
    module = make().float()
    q, k = (t.float() for t in (randn(B, HEADS, N, 5) - 200, randn(B, HEADS, N, 5, seed=1)))
    assert float(elu_features(q).max()) == 0
    got = kernel_attention(*module.features(q, k), k)[0]
    want = dense(
        (q.double() + 190).exp(), F.elu(k.double()) + 1, k.double(), seen(N, N, False, None)
    )
    assert torch.allclose(got.double(), want, atol=1e-5)


# In the slot.


def make(kind=LinearAttention, **options):
    torch.manual_seed(0)
    return kind(DIM, HEADS, **options).double().eval()


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
    visible = seen(x.shape[1], source.shape[1], causal, mask)
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
