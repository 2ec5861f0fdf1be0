"""Attention by features against loops and dense products."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from ascender.nn.baselines import linear
from ascender.nn.baselines.linear import elu_features, kernel_attention
from support.linear_cases import HEADS, B, H, N, dense, e, f, make, padding, randn, visible_pairs


def features(n=N, m=N, heads=H):
    """fq, fk > 0 and v."""
    return (
        randn(B, heads, n, f, seed=1).exp(),
        randn(B, heads, m, f, seed=2).exp(),
        randn(B, heads, m, e, seed=3),
    )


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
    assert torch.allclose(
        out, loops(fq, fk, v, visible_pairs(n, m, causal, mask)), rtol=0, atol=1e-12
    )
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
    dense(*theirs, visible_pairs(n, m, causal, mask)).backward(g)
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
        (q.double() + 190).exp(),
        F.elu(k.double()) + 1,
        k.double(),
        visible_pairs(N, N, False, None),
    )
    assert torch.allclose(got.double(), want, atol=1e-5)
