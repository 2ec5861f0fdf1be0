"""FAVOR+ against its formula, the softmax it estimates, and performer-pytorch."""

import math

import pytest
import torch

from ascender.core.normalizers import LengthAware, Softmax
from ascender.nn.baselines import attention
from ascender.nn.baselines.linear import kernel_attention
from ascender.nn.baselines.performer import (
    Performer,
    key_features,
    orthogonal_gaussian,
    query_features,
)
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.slot import Unsupported

B, H, N, d, e, m = 2, 3, 11, 5, 7, 13
DIM, HEADS = 18, 3


def randn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.double, generator=g)


def qkv(n=N):
    return randn(B, H, n, d, seed=1), randn(B, H, n, d, seed=2), randn(B, H, n, e, seed=3)


def draw(seed=0, rows=m, width=d):
    return orthogonal_gaussian(rows, width, seed).double()


def phi(x, omega):
    """φ_r(x) = exp(ω_r·x̂ − ‖x̂‖²/2)/√m, one feature at a time."""
    y = x / x.shape[-1] ** 0.25
    half = (y * y).sum(-1) / 2
    one = [torch.exp((y * w).sum(-1) - half) for w in omega]
    return torch.stack(one, -1) / len(omega) ** 0.5


# ω.


@pytest.mark.parametrize("rows", [3, 5, 13])
def test_rows_of_a_block_are_orthogonal(rows):
    omega = draw(rows=rows)
    assert omega.shape == (rows, d)
    unit = omega / omega.norm(dim=-1, keepdim=True)
    for a in range(0, rows, d):
        gram = unit[a : a + d] @ unit[a : a + d].mT
        assert torch.allclose(gram, torch.eye(len(gram)).double(), atol=1e-6)
    assert not torch.allclose(omega.norm(dim=-1), omega.norm(dim=-1)[:1], atol=1e-3)


def test_a_row_is_gaussian():
    """E ω = 0, E ω ωᵀ = I, E ‖ω‖⁴ = d(d + 2): within five standard errors, every entry of every
    row of the block; the uncorrected signs of QR do not pass."""
    seeds = 2000
    drawn = torch.stack([draw(seed, rows=d) for seed in range(seeds)])
    assert float(drawn.mean(0).abs().max()) < 5 / seeds**0.5
    second = torch.einsum("src,srk->rck", drawn, drawn) / seeds
    assert float((second - torch.eye(d)).abs().max()) < 5 * (2 / seeds) ** 0.5
    fourth = drawn.norm(dim=-1) ** 4
    error = 5 * float(fourth.std()) / fourth.numel() ** 0.5
    assert float(fourth.mean()) == pytest.approx(d * (d + 2), abs=error)
    raw = torch.linalg.qr(randn(seeds, d, d)).Q.mT.mean(0)
    assert float(raw.abs().max()) > 5 / seeds**0.5


def test_a_seed_is_a_draw():
    assert torch.equal(draw(3), draw(3))
    assert not torch.allclose(draw(3), draw(4), atol=0.1)
    state = torch.get_rng_state()
    draw(3)
    assert torch.equal(torch.get_rng_state(), state), "nobody else's dice are thrown"
    with pytest.raises(ValueError, match="features = 0 in width 5; expected at least 1 of each"):
        draw(rows=0)


# φ.


def test_features_are_the_formula():
    q, k, _ = qkv()
    omega = draw()
    assert torch.allclose(key_features(k, omega), phi(k, omega), atol=1e-12)
    got, want = query_features(q, omega), phi(q, omega)
    assert torch.allclose(got, want / want.amax(-1, keepdim=True), atol=1e-12)


def test_the_kernel_is_unbiased():
    """Mean over seeds of φ(q)·φ(k) = exp(q·k/√d), every pair within four standard errors (of short
    vectors: the tail of the estimate is that of a log-normal)."""
    q, k, _ = (t[:1, :1, :6] / 2 for t in qkv())
    seeds = 2000
    draws = [draw(seed) for seed in range(seeds)]
    found = torch.stack([key_features(q, w) @ key_features(k, w).mT for w in draws])
    want = (q @ k.mT / d**0.5).exp()
    off = (found.mean(0) - want) / (found.std(0) / seeds**0.5)
    assert float(off.abs().max()) < 4
    bare = torch.stack([(q @ w.mT).exp() @ (k @ w.mT).exp().mT / m for w in draws[:500]])
    off = (bare.mean(0) - want) / (bare.std(0) / 500**0.5)
    assert float(off.abs().max()) > 4, "without −‖x‖²/2 and the scale it is not"


@pytest.mark.parametrize("causal", [False, True])
def test_the_error_falls_like_one_over_root_m(causal):
    q, k, v = (t / 2 for t in qkv())
    score = q @ k.mT / d**0.5
    if causal:
        score = score.masked_fill(torch.ones(N, N).triu(1).bool(), -math.inf)
    want = score.softmax(-1) @ v

    def error(rows):
        found = []
        for seed in range(12):
            w = draw(seed, rows=rows)
            out, _ = kernel_attention(query_features(q, w), key_features(k, w), v, causal=causal)
            found.append((out - want).square().mean())
        return float(torch.stack(found).mean()) ** 0.5

    few, many = error(50), error(5000)
    assert few / many == pytest.approx(10, rel=0.3)
    assert many < 0.01


def test_gradients_are_those_of_the_formula():
    omega, g = draw(), randn(B, H, N, e, seed=4)
    for causal in (False, True):
        ours, theirs = ([t.requires_grad_() for t in qkv()] for _ in range(2))
        (q, k, v), (q2, k2, v2) = ours, theirs
        fq, fk = query_features(q, omega), key_features(k, omega)
        kernel_attention(fq, fk, v, causal=causal)[0].backward(g)
        A = phi(q2, omega) @ phi(k2, omega).mT
        A = A.tril() if causal else A
        (A / A.sum(-1, keepdim=True) @ v2).backward(g)
        for a, b in zip(ours, theirs, strict=True):
            assert torch.allclose(a.grad, b.grad, rtol=0, atol=1e-11)


def test_keys_on_a_direction_do_not_overflow():
    """ω·k̂ − ‖k̂‖²/2 is largest at k̂ = ω, where it is ‖ω‖²/2."""
    omega = (draw() * 20 / draw().norm(dim=-1, keepdim=True)).float()
    k = (omega * d**0.25)[None, None].requires_grad_()
    assert bool(((k * d**-0.25 @ omega.mT) - 200).diagonal(dim1=-2, dim2=-1).exp().isinf().all())
    q, v = randn(1, 1, m, d).float().requires_grad_(), randn(1, 1, m, e).float()
    out, _ = kernel_attention(query_features(q, omega), key_features(k, omega), v)
    out.sum().backward()
    assert all(bool(t.isfinite().all()) for t in (out, q.grad, k.grad))


def test_half_precision_features_are_single():
    q, k, _ = (t.bfloat16() for t in qkv())
    omega = draw()
    for feature, x in ((query_features, q), (key_features, k)):
        got = feature(x, omega)
        assert got.dtype == torch.float
        assert torch.allclose(got, feature(x.double(), omega).float(), rtol=1e-5)


# performer-pytorch.


@pytest.fixture
def theirs():
    return pytest.importorskip("performer_pytorch.performer_pytorch", exc_type=ImportError)


def test_features_are_performer_pytorchs(theirs):
    """Up to its factors: one of the row for queries, one for all keys of a head."""
    q, k, _ = (t[:1, :1] for t in qkv())
    omega = draw()
    a = theirs.softmax_kernel(q, projection_matrix=omega, is_query=True, eps=0.0)
    b = theirs.softmax_kernel(k, projection_matrix=omega, is_query=False, eps=0.0)
    row = query_features(q, omega) / a
    assert torch.allclose(row, row[..., :1], rtol=1e-10)
    every = key_features(k, omega) / b
    assert torch.allclose(every, every[:, :, :1, :1], rtol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_performer_pytorchs(theirs, causal):
    q, k, v = qkv()
    torch.manual_seed(0)
    omega = theirs.gaussian_orthogonal_random_matrix(m, d).double()
    a = theirs.softmax_kernel(q, projection_matrix=omega, is_query=True, eps=0.0)
    b = theirs.softmax_kernel(k, projection_matrix=omega, is_query=False, eps=0.0)
    if causal:
        want = theirs.causal_linear_attention_noncuda(a, b, v, eps=0.0)
    else:
        want = theirs.linear_attention(a, b, v)
    out, _ = kernel_attention(query_features(q, omega), key_features(k, omega), v, causal=causal)
    assert torch.allclose(out, want, atol=1e-11)


def test_their_projection_has_our_shape(theirs):
    torch.manual_seed(0)
    drawn = torch.stack([theirs.gaussian_orthogonal_random_matrix(m, d) for _ in range(500)])
    ours = torch.stack([draw(seed) for seed in range(500)]).float()
    for a in (0, d, 2 * d):
        gram = drawn[:, a : a + d] @ drawn[:, a : a + d].mT
        assert float((gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))).abs().max()) < 1e-4
    norms, theirs_norms = ours.norm(dim=-1), drawn.norm(dim=-1)
    error = 5 * float(norms.std()) * (2 / norms.numel()) ** 0.5
    assert float(norms.mean()) == pytest.approx(float(theirs_norms.mean()), abs=error)


def test_a_later_key_reaches_earlier_rows_there_and_not_here(theirs):
    """A maximum over all keys, with its ε, carries them everywhere."""
    q, k, v = qkv()
    omega, j = draw(), 8
    changed = k.clone()
    changed[:, :, j] *= 6

    def ours(k):
        return kernel_attention(query_features(q, omega), key_features(k, omega), v, causal=True)[0]

    def published(k):
        a = theirs.softmax_kernel(q, projection_matrix=omega, is_query=True)
        b = theirs.softmax_kernel(k, projection_matrix=omega, is_query=False)
        return theirs.causal_linear_attention_noncuda(a, b, v)

    assert torch.equal(ours(k)[:, :, :j], ours(changed)[:, :, :j])
    assert not torch.equal(ours(k)[:, :, j], ours(changed)[:, :, j])
    assert not torch.allclose(published(k)[:, :, :j], published(changed)[:, :, :j], atol=1e-3)


# In the slot.


def make(kind=Performer, **options):
    torch.manual_seed(0)
    return kind(DIM, HEADS, **options).double().eval()


def tokens(n=N, seed=7):
    return randn(B, n, DIM, seed=seed)


def padding():
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :4] = False
    return real


OPTIONS = [
    {}, {"kv_heads": 1}, {"position": "rope"}, {"normalizer": LengthAware(3)},
    {"normalizer": Softmax(0.4)},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("causal", [False, True])
def test_many_features_are_vanilla(options, causal):
    """With positions, groups and what scales q, padding included: all that is left is the error
    of the estimate."""
    module, plain = make(features=20_000, **options), make(Vanilla, **options)
    plain.load_state_dict({k: t for k, t in module.state_dict().items() if k != "omega"})
    x, real = tokens() / 2, padding()
    want = plain(x, causal=causal, mask=real)
    off = (module(x, causal=causal, mask=real) - want).detach().square().mean().sqrt()
    assert float(off) < 0.01
    for other in OPTIONS:
        if other != options:
            there = make(features=20_000, **other)(x, causal=causal, mask=real)
            assert float((there - want).detach().square().mean().sqrt()) > 3 * float(off)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("real", [None, padding()])
def test_decoding_is_the_causal_pass(options, real):
    module, x = make(features=m, **options), tokens()
    want = module(x, causal=True, mask=real)
    cache, rows = module.new_cache(), []
    for a, b in [(0, 4), (4, 7), *((i, i + 1) for i in range(7, N))]:
        rows.append(module(x[:, a:b], cache=cache, mask=None if real is None else real[:, a:b]))
    assert torch.allclose(torch.cat(rows, 1), want, atol=1e-12)
    assert cache.nbytes() == B * HEADS * m * (6 + 1) * 8


def test_no_bit_of_the_past_depends_on_the_future():
    module, x = make(features=m).float(), tokens().float()
    changed = x.clone()
    changed[:, 6] *= 100
    assert torch.equal(module(x, causal=True)[:, :6], module(changed, causal=True)[:, :6])
    assert not torch.equal(module(x)[:, :6], module(changed)[:, :6])


def test_directions_are_saved_and_redrawn():
    a, b = make(features=m, seed=1), make(features=m, seed=2)
    x = tokens()
    assert not torch.allclose(a(x), b(x), atol=1e-4)
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(x), b(x))
    b.redraw(2)
    assert torch.equal(b.omega, draw(2, width=6))
    assert not torch.allclose(a(x), b(x), atol=1e-4)
    b.redraw(1)
    assert torch.equal(a(x), b(x))
    assert "features=13" in repr(a)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("n", [1, N])
def test_finite(causal, scale, n):
    module, x = make().float(), (tokens(n).float() * scale).requires_grad_()
    y = module(x, causal=causal)
    y.sum().backward()
    assert bool(y.isfinite().all())
    assert bool(x.grad.isfinite().all())


def test_what_cannot_be_had():
    with pytest.raises(Unsupported, match=r"'topk' needs whole rows.* one of softmax, ssmax, l"):
        make(normalizer="topk")
    with pytest.raises(Unsupported, match=r"'alibi' uses bias, which performer.*none, rope"):
        make(position="alibi")
    with pytest.raises(Unsupported, match="performer attention has no window"):
        make(window=3)
    with pytest.raises(Unsupported, match="performer attention has no matrix of scores"):
        make()(tokens(), return_parts=True)
    with pytest.raises(ValueError, match="features = 0; expected an int ≥ 1"):
        make(features=0)


def test_by_name():
    module = attention("performer", DIM, HEADS, features=m, seed=3)
    assert type(module) is Performer
    assert torch.equal(module.omega, orthogonal_gaussian(m, 6, 3))
