"""A window with globals against loops and against transformers' Longformer."""

from types import SimpleNamespace

import pytest
import torch

from ascender.core.visibility import Visibility
from ascender.nn.baselines import attention
from ascender.nn.baselines.longformer import Longformer, window_attention
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.cache import KVCache
from support.oracles import visible_oracle
from support.patterned import (
    B,
    Grow,
    H,
    Slope,
    Turn,
    bias,
    gaps,
    leaves,
    padding,
    patterned_path,
    plain,
)

DIM, W, G = 15, 5, 2


path = pytest.fixture(params=["blocks", "square"], autouse=True)(patterned_path)


def seen(N, M, mask=None, **kinds):
    """V by loops, (b, 1, N, M)."""
    V = torch.from_numpy(visible_oracle(N, M, **kinds))[:, None]
    return V if mask is None else V & mask


def by_window(x, N, M, other=None, mask=None, **kinds):
    vis = Visibility.of(N, M, mask=mask, **kinds)
    got = window_attention(x["q"], x["k"], x["v"], vis, other)
    return got, plain(x["q"], x["k"], x["v"], seen(N, M, mask, **kinds), other)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("side", [None, "right", "left"])
@pytest.mark.parametrize(("N", "M"), [(149, 149), (71, 149)])
@pytest.mark.parametrize("window", [W, 70])
def test_window_is_the_definition(causal, side, N, M, window):
    x, mask = leaves(N, M, kv_heads=1), None if side is None else padding(M, side)
    for kind, g in (("by key", G), ("low rank", 0), ("none", 83)):
        kinds = dict(causal=causal, window=window, n_global=g, mask=mask)
        found = gaps(x, *by_window(x, N, M, bias(x, kind), **kinds))
        assert max(found.values()) < 1e-11, (kind, found)


@pytest.mark.parametrize(
    ("N", "M", "w", "g"), [(1, 1, 0, 0), (1, 1, 3, 2), (7, 7, 0, 0), (5, 5, 90, 9), (64, 64, 3, 1)]
)
@pytest.mark.parametrize("causal", [False, True])
def test_small_sizes(N, M, w, g, causal):
    x = leaves(N, M)
    found = gaps(x, *by_window(x, N, M, causal=causal, window=w, n_global=g))
    assert max(found.values()) < 1e-11


def test_one_token_more_is_noticed():
    x = leaves(149, 149)
    got = by_window(x, 149, 149, window=W)[0]
    assert not torch.allclose(got, by_window(x, 149, 149, window=W + 1)[1], atol=1e-3)


def test_what_is_hidden_reaches_nobody():
    N, mask = 149, padding(149)
    x = leaves(N, N)
    kinds = dict(window=W, n_global=G, mask=mask)
    want = by_window(x, N, N, **kinds)[0]
    bad = {n: t.masked_fill(~mask.mT, torch.nan) if n in "kv" else t for n, t in x.items()}
    got = window_attention(bad["q"], bad["k"], bad["v"], Visibility.of(N, N, **kinds))
    assert torch.equal(got, want)
    nobody = Visibility.of(N, N, window=W, n_global=G, mask=torch.zeros_like(mask))
    out = window_attention(x["q"], x["k"], x["v"], nobody)
    assert bool((out == 0).all())
    assert all(bool(g.isfinite().all()) for g in torch.autograd.grad(out.sum(), [x["q"], x["k"]]))


# transformers.


def theirs(w):
    hf = pytest.importorskip("transformers.models.longformer.modeling_longformer")
    config = SimpleNamespace(
        hidden_size=DIM, num_attention_heads=H, attention_window=[2 * w],
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(3)
    return hf.LongformerSelfAttention(config, 0).double()


def ours(hf, w, g, **options):
    """With their weights, and no W_O."""
    module = Longformer(DIM, H, window=w, n_global=g, bias=True, **options).double()
    pairs = {"W_Q": "query", "W_K": "key", "W_V": "value"}
    pairs |= {"W_QG": "query_global", "W_KG": "key_global", "W_VG": "value_global"}
    for here, there in pairs.items():
        if getattr(module, here) is not None:
            getattr(module, here).load_state_dict(getattr(hf, there).state_dict())
    torch.nn.init.eye_(module.W_O.weight)
    torch.nn.init.zeros_(module.W_O.bias)
    return module


def run_theirs(hf, x, real, g):
    """As LongformerModel calls it: −10000 padding, 0 local, +10000 global."""
    merged = torch.where(real, 0.0, -10000.0).double()
    merged[:, :g] = 10000.0
    is_global = merged > 0
    return hf(
        x, attention_mask=merged, is_index_masked=merged < 0, is_index_global_attn=is_global,
        is_global_attn=bool(is_global.any()),
    )[0]  # fmt: skip


@pytest.mark.parametrize("g", [0, 1, 4])
@pytest.mark.parametrize("pad", [0, 13])
def test_transformers_longformer(g, pad):
    w, N = 6, 96  # theirs wants a multiple of 2w
    hf, real = theirs(w), torch.ones(B, N, dtype=torch.bool)
    real[1, N - pad :] = False
    module = ours(hf, w, g)
    x = torch.randn(B, N, DIM, dtype=torch.double, requires_grad=True)
    want, got = run_theirs(hf, x, real, g), module(x, mask=real)
    assert torch.allclose(got[real], want[real], rtol=0, atol=1e-6), "their softmax is float32"
    along = torch.randn_like(want) * real[..., None]
    a, b = (torch.autograd.grad(y, x, along, retain_graph=True)[0] for y in (got, want))
    assert float((a - b)[real].abs().max()) < 1e-5, "theirs has NaN for what sees only padding"
    assert bool(a.isfinite().all())
    wide = ours(hf, 2 * w, g)(x, mask=real)
    assert not torch.allclose(wide[real], want[real], atol=1e-2), "their window counts both sides"
    if g:
        shared = ours(hf, w, g, global_projections=False)(x, mask=real)
        off = (shared - want).detach().abs().amax(-1)
        assert float(off[:, :g].min()) > 1e-3, "global rows have projections of their own"
        assert float(off[:, g:][real[:, g:]].max()) < 1e-6


# The object.


def make(**options):
    torch.manual_seed(0)
    return Longformer(DIM, H, **{"window": W, "n_global": G, **options}).double()


def tokens(n, seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(B, n, DIM, dtype=torch.double, generator=g)


@pytest.mark.parametrize("causal", [False, True])
def test_a_wide_window_is_vanilla(causal):
    module, x = make(window=40, global_projections=False, position=Turn()), tokens(31)
    plain_one = Vanilla(DIM, H, position=Turn()).double()
    plain_one.load_state_dict(module.state_dict())
    want = plain_one(x, causal=causal)
    assert torch.allclose(module(x, causal=causal), want, atol=1e-12)
    module.window = W
    assert not torch.allclose(module(x, causal=causal), want, atol=1e-3)


@pytest.mark.parametrize("positions", [None, torch.arange(31) * 3, torch.arange(62).view(2, 31)])
def test_global_projections_start_as_copies(positions):
    module, x = make(position=Turn(), kv_heads=1), tokens(31)
    shared = make(position=Turn(), kv_heads=1, global_projections=False)
    y = module(x, positions=positions)
    assert torch.allclose(y, shared(x, positions=positions), atol=1e-12)
    y.square().sum().backward()
    assert all(bool((W.weight.grad != 0).any()) for W in (module.W_QG, module.W_KG, module.W_VG))
    torch.nn.init.normal_(module.W_KG.weight)
    moved = (module(x, positions=positions) - y).abs().amax(-1) > 1e-6
    assert bool(moved[:, :G].all())
    assert not bool(moved[:, G:].any())
    assert torch.equal(module(x, causal=True), shared(x, causal=True)), "no overview"


def test_no_globals_no_projections():
    assert make(n_global=0).W_QG is None
    assert make(global_projections=False).W_QG is None


def in_pieces(module, x, cache, cuts, mask=None):
    out, a = [], 0
    for n in cuts:
        real = None if mask is None else mask[:, a : a + n]
        out.append(module(x[:, a : a + n], cache=cache, mask=real))
        a += n
    return torch.cat(out, 1)


CUTS = [1, 30, 1, 1, 9, *[1] * 20, 41]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("position", [Turn, Slope])
@torch.no_grad()
def test_decode_equals_prefill(masked, position):
    N = sum(CUTS)
    module, x = make(position=position(), kv_heads=1, normalizer=Grow()), tokens(N)
    real = None
    if masked:
        real = torch.ones(B, N, dtype=torch.bool)
        real[1, :3] = real[0, 47] = False
    want = module(x, causal=True, mask=real)
    got = in_pieces(module, x, module.new_cache(), CUTS, real)
    rows = torch.ones(B, N, dtype=torch.bool) if real is None else real
    assert torch.allclose(got[rows], want[rows], atol=1e-12)
    forgetful = KVCache(window=W)
    if position is Turn and not masked:
        assert not torch.allclose(in_pieces(module, x, forgetful, CUTS), want, atol=1e-3)


@torch.no_grad()
def test_the_cache_is_bounded():
    module, cache = make(), make().new_cache()
    for a in range(90):
        module(tokens(1, seed=a), cache=cache)
    assert len(cache) == 90
    assert cache.held <= 2 * (W + G) + 2


def test_normaliser_and_temperature():
    N, mask = 149, padding(149)[:, 0, 0]
    module, x = make(normalizer=Grow(), global_projections=False), tokens(N)
    by_key = torch.randn(H, 1, N, dtype=torch.double)
    for causal in (False, True):
        q, k, v = (module._split(lin(x)) for lin in (module.W_Q, module.W_K, module.W_V))
        V = seen(N, N, mask[:, None, None], causal=causal, window=W, n_global=G)
        n = V.sum(-1, keepdim=True)
        sharp = module.normalizer.sharpen(q, n) / Grow.temperature
        want = plain(sharp, k, v, V, by_key / Grow.temperature)
        got = module(x, causal=causal, mask=mask, other=by_key)
        assert torch.allclose(got, module._merge(want), atol=1e-12)
        got.sum().backward(retain_graph=True)
        assert float(module.normalizer.s.grad) != 0


def test_no_row_sees_further():
    module, N = make(), 31
    x = tokens(N)[:1]
    V = torch.from_numpy(visible_oracle(N, N, window=W, n_global=G))[0]
    changed = x.repeat(N, 1, 1)
    changed[range(N), range(N)] *= -1
    for one, near in ((module, True), (Vanilla(DIM, H).double(), False)):
        moved = ((one(changed) - one(x)).abs().amax(-1) > 1e-12).T  # [row, token]
        assert bool((moved & ~V).any()) != near


def test_a_window_is_needed():
    with pytest.raises(
        ValueError, match=r"window = None; expected an int ≥ 0: tokens on each side"
    ):
        make(window=None)
    with pytest.raises(ValueError, match=r"no window; expected Visibility\(window=…\)"):
        window_attention(*(torch.zeros(1, 1, 3, 2) for _ in range(3)), Visibility.of(3, 3))


def test_by_name():
    module = attention("longformer", DIM, H, window=7)
    assert (type(module), module.window) == (Longformer, 7)
