"""Normalisers against entmax and oracles of their own; what each is, by name, in the slot."""

import math
from dataclasses import replace

import entmax
import numpy as np
import pytest
import torch
from torch.autograd.gradcheck import GradcheckError, gradcheck

from ascender.core.normalizers import (
    NORMALIZERS,
    LengthAware,
    ScalableSoftmax,
    Softmax,
    TopK,
)
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.compat import CompatCell, LawBroken, check
from support.laws import (
    B,
    D,
    E,
    H,
    case,
    gap,
    run,
    serving,
    visible,
)
from support.normalizer_cases import (
    EXACT,
    OFF,
    SPARSE,
    Under,
    make,
    under,
    with_s,
)

# The weights themselves.


def rows(seed=0, hidden=0.4):
    """(scores, V): spread over a few units, so that sparse weights are neither one-hot nor full;
    one row sees everything, one a single key, one nothing."""
    g = torch.Generator().manual_seed(seed)
    total = 1.5 * torch.randn(2, 3, 5, 13, generator=g, dtype=torch.float64)
    V = torch.rand(2, 1, 5, 13, generator=g) > hidden
    V[:, :, 1], V[:, :, 2], V[:, :, 3] = True, False, False
    V[:, :, 2, 4] = True
    return total, V


def by_rows(total, V, oracle):
    """An oracle of one list of scores, over the visible keys of every row."""
    out = torch.zeros_like(total)
    V = V.expand_as(total)
    for b, h, i in np.ndindex(*total.shape[:3]):
        seen = V[b, h, i]
        if seen.any():
            out[b, h, i, seen] = torch.tensor(oracle(total[b, h, i, seen].tolist())).to(total)
    return out


def sparsemax_oracle(s):
    """Sorted, the largest k with 1 + k s_k > Σ_{l≤k} s_l; τ = (Σ_{l≤k} s_l − 1)/k."""
    z = sorted(s, reverse=True)
    k = max(k for k in range(1, len(z) + 1) if 1 + k * z[k - 1] > sum(z[:k]))
    tau = (sum(z[:k]) - 1) / k
    return [max(0.0, x - tau) for x in s]


def entmax_oracle(s):
    """τ by bisection: Σ max(0, s/2 − τ)² falls from above 1 to 0."""
    low, high = max(s) / 2 - 1, max(s) / 2
    for _ in range(100):
        tau = (low + high) / 2
        low, high = (tau, high) if sum(max(0.0, x / 2 - tau) ** 2 for x in s) > 1 else (low, tau)
    return [max(0.0, x / 2 - low) ** 2 for x in s]


def topk_oracle(s, size=3):
    kept = sorted(range(len(s)), key=lambda j: (-s[j], j))[:size]
    mass = sum(math.exp(s[j]) for j in kept)
    return [math.exp(s[j]) / mass if j in kept else 0.0 for j in range(len(s))]


ORACLES = {
    "softmax": lambda s: topk_oracle(s, len(s)),
    "topk": topk_oracle,
    "sparsemax": sparsemax_oracle,
    "entmax15": entmax_oracle,
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("seed", range(4))
def test_weights_equal_the_oracle(name, seed):
    total, V = rows(seed)
    got = make(name).weights(total, V)
    assert torch.allclose(got, by_rows(total, V, ORACLES[name]), atol=1e-12)
    others = [by_rows(total, V, oracle) for n, oracle in ORACLES.items() if n != name]
    assert all((got - other).abs().max() > 1e-2 for other in others)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_weights_equal_entmax(name):
    """Outputs and gradients, on each row's visible keys alone."""
    total, V = rows(7)
    x = total.clone().requires_grad_()
    pull = torch.randn(total.shape, generator=torch.Generator().manual_seed(1)).double()
    got = make(name).weights(x, V)
    (got * pull).sum().backward()
    for b, h, i in np.ndindex(*total.shape[:3]):
        seen = V.expand_as(total)[b, h, i]
        assert (got[b, h, i, ~seen] == 0).all()
        assert (x.grad[b, h, i, ~seen] == 0).all()
        if not seen.any():
            continue
        alone = total[b, h, i, seen].clone().requires_grad_()
        expected = getattr(entmax, name)(alone, dim=-1)
        (expected * pull[b, h, i, seen]).sum().backward()
        assert torch.allclose(got[b, h, i, seen], expected, atol=1e-12)
        assert torch.allclose(x.grad[b, h, i, seen], alone.grad, atol=1e-12)
    assert x.grad.abs().max() > 0.1


@pytest.mark.parametrize("name", NORMALIZERS)
def test_laws_of_a_row(name):
    """≥ 0, sums to 1 or is empty, 0 outside V; a number added to a row changes nothing."""
    total, V = rows(3)
    norm = make(name)
    got = norm.weights(total, V)
    assert (got >= 0).all()
    assert torch.allclose(got.sum(-1), V.any(-1).double().expand(2, 3, -1), atol=1e-12)
    assert (got.masked_select(~V.expand_as(got)) == 0).all()
    moved = norm.weights(total + 3 * total[..., :1], V)
    assert torch.allclose(moved, got, atol=1e-12)
    assert not torch.allclose(norm.weights(3 * total, V), got, atol=1e-2)


@pytest.mark.parametrize("name", SPARSE)
def test_gradcheck(name):
    """Numerically, with a row of one key and a row of none."""
    total, V = rows(5)
    norm = make(name)
    some, V = total[:1, :1, :, :7].clone().requires_grad_(), V[..., :7]
    assert gradcheck(lambda s: norm.weights(s, V[:1]), (some,))

    def straight_through(s):
        soft = Softmax().weights(s, V[:1])
        return norm.weights(s.detach(), V[:1]) + soft - soft.detach()

    with pytest.raises(GradcheckError):
        gradcheck(straight_through, (some,))


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_precision(name, dtype):
    """In at least float32: no further from float64 than rounding the scores and the weights."""
    total, V = rows(2)
    total = total.to(dtype)
    got, truth = make(name).weights(total, V), make(name).weights(total.double(), V)
    assert got.dtype == dtype
    assert (got.double() - truth).abs().max() <= {torch.float32: 1e-6, torch.bfloat16: 4e-3}[dtype]


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1e4, 1e30])
def test_finite(name, dtype, scale):
    total, V = rows(4)
    x = (scale * total).to(dtype).requires_grad_()
    got = make(name).weights(x, V)
    (got.double() * total).sum().backward()
    assert got.isfinite().all()
    assert x.grad.isfinite().all()
    assert (got.masked_select(~V.expand_as(got)) == 0).all()
    assert torch.allclose(got.double().sum(-1), V.any(-1).double().expand(2, 3, -1), atol=2e-2)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_minus_infinity_hides_and_nan_spoils_its_row(name):
    total, V = rows(6)
    norm = make(name)
    hidden = total.masked_fill(~V, -torch.inf)
    everyone = torch.ones_like(V)
    assert torch.equal(norm.weights(hidden, everyone), norm.weights(total, V))
    seen = total.clone()
    seen[1, 2, 1, 6] = torch.nan  # row 1 sees everything
    got, expected = norm.weights(seen, V), norm.weights(total, V)
    assert got[1, 2, 1].sum().isnan()
    got[1, 2, 1] = expected[1, 2, 1]
    assert torch.equal(got, expected)
    unseen = total.masked_fill(~V, torch.nan)
    assert torch.equal(norm.weights(unseen, V), expected)


def test_topk_ties_and_sizes():
    """Never more than `size`, of ties the earliest; size ≥ M is softmax, size 1 the largest."""
    s = torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0, 0.0]).view(1, 1, 1, 6)
    everyone = torch.ones(1, 1, 1, 6, dtype=torch.bool)
    kept = {size: TopK(size).weights(s, everyone).nonzero()[:, -1].tolist() for size in range(1, 6)}
    assert kept == {1: [1], 2: [1, 4], 3: [0, 1, 4], 4: [0, 1, 2, 4], 5: [0, 1, 2, 3, 4]}
    total, V = rows(8)
    soft = Softmax().weights(total, V)
    for size in (13, 14, 1000):
        assert torch.allclose(TopK(size).weights(total, V), soft, atol=1e-15)
    assert not torch.allclose(TopK(12).weights(total, V), soft, atol=1e-4)
    assert ((TopK(4).weights(total, V) > 0).sum(-1) <= 4).all()


@pytest.mark.parametrize("share", [0.06, 0.29, 0.5, 0.99])
def test_topk_keeps_a_share_of_the_visible(share):
    """⌊share · n_i⌋ of the n_i keys of row i, at least one: the same as TopK(that many)."""
    total, V = rows(9)
    got = TopK(share).weights(total, V)
    counts = set()
    for b, h, i in np.ndindex(*total.shape[:3]):
        row, seen = total[b, h, i], V.expand(total.shape)[b, h, i]
        n = int(seen.sum())
        size = max(1, (n * round(100 * share)) // 100)
        counts.add(size)
        want = TopK(size).weights(row.view(1, 1, 1, -1), seen.view(1, 1, 1, -1)).flatten()
        assert torch.allclose(got[b, h, i], want, atol=1e-15)
    assert len(counts) > 1 or share < 0.1  # rows of several lengths


def test_a_share_is_not_rounded_down_by_floats():
    """0.29 · 100 is 28.999999999999996 in floating point, and 29 keys."""
    s, everyone = torch.arange(100.0).view(1, 1, 1, -1), torch.ones(1, 1, 1, 100, dtype=torch.bool)
    assert int((TopK(0.29).weights(s, everyone) > 0).sum()) == 29


@pytest.mark.parametrize("size", [5, 0.3])
@pytest.mark.parametrize("n", [31, 211])
def test_vanilla_topk_decodes_what_it_computes_at_once(size, n):
    torch.manual_seed(0)
    module = Vanilla(15, 3, position="alibi", normalizer=TopK(size, temperature=0.6)).double()
    x = torch.randn(2, n, 15).double()
    cache, full = module.new_cache(), module(x, causal=True)
    steps = torch.cat([module(x[:, i : i + 1], cache=cache) for i in range(n)], 1)
    assert gap(steps, full) <= EXACT
    assert gap(module(x, causal=True, return_parts=True)[0], full) <= EXACT
    module.normalizer = TopK(size)
    assert gap(module(x, causal=True), full) > 1e-2  # the temperature matters


# What each one is.


@pytest.mark.parametrize("kind", NORMALIZERS.values())
def test_every_normalizer_divides_by_its_temperature(kind):
    own = {"heads": H} if kind is ScalableSoftmax else {}
    x = under(kind(**own, temperature=0.5), "causal")
    cooler = {**x.numbers, "tau_score": 0.5 * x.numbers["tau_score"]}
    expected = run(replace(x, numbers=cooler, normalizer=kind(**own)), "dense")
    assert gap(run(x, "dense"), expected) <= EXACT
    assert gap(run(replace(x, normalizer=kind(**own)), "dense"), expected) > 1e-2
    assert repr(kind(**own, temperature=0.5)).endswith("temperature=0.5)")


@pytest.mark.parametrize("backend", ["dense", "folded", "decode", "compact"])
def test_temperature_is_tau_score(backend):
    x = under(Softmax(0.6), "causal")
    cooler = {**x.numbers, "tau_score": 0.6 * x.numbers["tau_score"]}
    expected = run(replace(x, numbers=cooler, normalizer=None), backend)
    assert gap(run(x, backend), expected) <= EXACT
    assert gap(run(replace(x, normalizer=Softmax()), backend), expected) > 1e-2
    plain = run(replace(x, normalizer=None), backend)
    assert torch.equal(run(replace(x, normalizer=Softmax()), backend), plain)


def scaled_softmax(x, scale):
    """Vanilla attention with row i's scores times scale(head, n_i), in loops."""
    call, V = x.call(), visible(x).expand(B, H, -1, -1)
    tau = call["rules"].tau_score.tolist()
    out = torch.zeros(B, H, x.N, E, dtype=torch.float64)
    for b, h, i in np.ndindex(B, H, x.N):
        seen = V[b, h, i].nonzero().flatten().tolist()
        factor = scale(h, len(seen)) / (D**0.5 * tau[h]) if seen else 0.0
        w = [math.exp(factor * float(call["q"][b, h, i] @ call["k"][b, h, j])) for j in seen]
        for weight, j in zip(w, seen, strict=True):
            out[b, h, i] += weight / sum(w) * call["v"][b, h, j]
    return out


@pytest.mark.parametrize("kind", ["causal padded left", "padded by head", "window globals"])
def test_scales_are_the_papers(kind):
    s = make("ssmax").log_s.double().exp().tolist()
    scales = {
        "ssmax": lambda h, n: s[h] * math.log(n),
        "length": lambda h, n: math.log(n) / math.log(6),
    }
    for name, scale in scales.items():
        x = under(name, kind)
        x = replace(x, fixed={**x.fixed, **OFF})
        for backend in ("dense", *serving(kind)):
            assert gap(run(x, backend), scaled_softmax(x, scale)) <= EXACT
        assert gap(run(x, "dense"), scaled_softmax(x, lambda h, n: 1.0)) > 1e-2


def test_length_is_vanilla_at_the_reference():
    x = under(LengthAware(11), "full")
    vanilla = run(replace(x, normalizer=None), "dense")
    assert gap(run(x, "dense"), vanilla) <= EXACT
    assert gap(run(replace(x, normalizer=LengthAware(12)), "dense"), vanilla) > 1e-3


@pytest.mark.parametrize("name", ["ssmax", "length"])
def test_one_visible_key(name):
    """log 1 = 0: the weight is 1, the gradients finite; no visible key at all likewise."""
    norm = make(name)
    q = torch.randn(B, H, 2, D, requires_grad=True)
    n = torch.tensor([0, 1]).view(1, 1, 2, 1)
    sharp = norm.sharpen(q, n)
    assert (sharp == 0).all()
    sharp.sum().backward()
    assert q.grad.isfinite().all()
    x = under(name, "causal", size=1)
    assert torch.allclose(run(x, "dense"), x.leaves["v"])
    found, by_s = with_s(x, "dense")
    assert all(t.isfinite().all() for t in found.values())
    assert by_s is None or by_s.isfinite().all()


def test_ssmax_learns_one_positive_number_a_head():
    norm = ScalableSoftmax(H)
    assert [p.shape for p in norm.parameters()] == [(H,)]
    assert torch.allclose(norm.log_s.exp(), torch.full((H,), 0.43))
    x = Under(**vars(case("full")), normalizer=norm)
    run(x, "dense").sum().backward()
    assert (norm.log_s.grad != 0).all()
    half = norm.sharpen(torch.ones(B, H, 2, D, dtype=torch.bfloat16), torch.full((1, 1, 1, 1), 7))
    assert half.dtype == torch.bfloat16


# In the slot.


@pytest.mark.parametrize("name", NORMALIZERS)
def test_the_slot_takes_it(name):
    """The laws of compat.py: sight, the definition, decoding, that it acts, gradients."""
    for attention in ("ascender", "vanilla"):
        for mode in ("padded", "decode"):
            assert check(CompatCell(attention, "none", name, mode)).runs


def test_a_normalizer_that_does_nothing_is_noticed():
    with pytest.raises(LawBroken, match="normalizer changes nothing"):
        check(
            CompatCell("vanilla", "none", "ssmax", "full"),
            lambda *sizes, normalizer, **options: Vanilla(*sizes, **options),
        )
