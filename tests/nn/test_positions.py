"""Positions: against transformers' modules and loops, their laws, and the backends they name."""

import copy
import math
import pickle
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from ascender import LowRank, Rules, asc_attention
from ascender.core.affinity import bucket
from ascender.core.choose_backend import BACKENDS, backends_for
from ascender.core.visibility import Visibility
from ascender.nn.baselines.longformer import window_attention
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.positions import (
    POSITIONS,
    T5,
    Alibi,
    Learned,
    Position,
    Rope,
    Shaw,
    Sinusoidal,
    position,
)
from ascender.nn.positions.alibi import slopes
from ascender.nn.positions.rope import LONGEST, cos_sin, turn

B, H, N, M, D, E = 2, 3, 5, 11, 6, 7
DIM = H * D
SIZES = {"dim": DIM, "heads": H, "head_dim": D}
NONE = Rules(omega_align=0.0, omega_sep=0.0, omega_coh=0.0)


def randn(*shape, seed=0, dtype=torch.double):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def make(name, **options):
    """A position in float64 whose tables are not small."""
    made = position(name, **SIZES, **options).double()
    for i, table in enumerate(made.parameters()):
        table.data = randn(*table.shape, seed=i)
    return made


def tail(n=N, m=M, start=0):
    """p and j where the queries are the last n of m keys."""
    return torch.arange(start + m - n, start + m), torch.arange(start, start + m)


def dense(bias):
    return bias.dense() if isinstance(bias, LowRank) else bias


def weights(bias, p, j, causal, base=None):
    """softmax of a base score and a bias over what is visible."""
    s = randn(1, H, len(p), len(j)) if base is None else base
    s = s + dense(bias)
    return torch.softmax(s.masked_fill((j > p[:, None]) & causal, -torch.inf), -1)


@st.composite
def places(draw, n_min=1):
    """p, j of every kind: one token, a tail, a whole, an offset, a cache with a hole."""
    m = draw(st.integers(n_min, 13))
    n = draw(st.integers(1, m))
    start = draw(st.sampled_from([0, 1, 97, 40_000]))
    p, j = tail(n, m, start)
    hole = draw(st.integers(0, m - n))
    j = torch.cat([j[:hole], j[hole:] + draw(st.integers(0, 40))])
    return p + (j[-1] - p[-1]), j


# ---- the slot ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POSITIONS)
def test_each_is_made_by_its_name(name):
    made = position(name, **SIZES)
    assert type(made) is POSITIONS[name]
    assert made.name == name
    assert "acts" in type(made).__doc__
    assert made.causal_needs is None or made.causal_needs != made.needs
    again = pickle.loads(pickle.dumps(copy.deepcopy(made)))
    assert repr(again) == repr(made)


def test_none_is_the_base_and_does_nothing():
    none, (p, j) = position(None, **SIZES), tail()
    x, q, A = randn(B, N, DIM), randn(B, H, N, D), randn(B, H, N, M)
    assert type(none) is type(position("none", **SIZES)) is Position
    assert none.embed(x, p) is x
    assert none.rotate(q, p) is q
    assert none.bias(p, j, True) is none.scores(q, p, j) is none.values(A, p, j) is None
    assert not list(none.parameters())


def test_options_reach_the_position():
    made = position("rope", **SIZES, base=500.0, scaling="linear", factor=2.0)
    assert (made.head_dim, made.base, made.factor) == (D, 500.0, 2.0)
    assert repr(made) == "Rope(head_dim=6, base=500, scaling='linear', factor=2.0)"
    assert repr(position("t5", **SIZES, buckets=8)) == "T5(heads=3, buckets=8, max_distance=128)"
    assert repr(position("learned", **SIZES, length=9)) == "Learned(dim=18, length=9)"
    mine = Shaw(D, clip=2)
    assert position(mine, **SIZES) is mine


WRONG = {
    "unknown position 'aliby' (did you mean 'alibi'?); expected one of none, rope, alibi, t5, ": (
        lambda: position("aliby", **SIZES)
    ),
    "'t5' has no option 'bucket' (did you mean 'buckets'?); expected one of buckets, max_dist": (
        lambda: position("t5", **SIZES, bucket=8)
    ),
    "position 'none' has no option 'base'; expected none": (
        lambda: position(None, **SIZES, base=2.0)
    ),
    "base with a position already made": lambda: position(Rope(D), **SIZES, base=2.0),
    "has heads = 4; expected 3": lambda: position(Alibi(4), **SIZES),
    "has head_dim = 8; expected 6": lambda: position(Rope(8), **SIZES),
    "has dim = 4; expected 18": lambda: position(Sinusoidal(4), **SIZES),
    "head_dim = 7; expected an even number": lambda: Rope(7),
    "unknown scaling 'yarn'; expected one of linear, ntk, llama3": lambda: Rope(D, scaling="yarn"),
    "factor = 2.0; expected 1 without a scaling": lambda: Rope(D, factor=2.0),
    "factor = 0.5; expected at least 1": lambda: Rope(D, scaling="ntk", factor=0.5),
    "base = 0.0; expected a positive": lambda: Rope(D, base=0.0),
    "low_freq_factor = 4.0, high_freq_factor = 4.0": lambda: Rope(D, low_freq_factor=4.0),
    "original_length = 0": lambda: Rope(D, original_length=0),
    "t has width 8; expected head_dim = 6": (
        lambda: Rope(D).rotate(randn(B, H, N, 8), torch.arange(N))
    ),
    "heads = 0": lambda: Alibi(0),
    "buckets = 7; expected an even number": lambda: T5(H, buckets=7),
    "max_distance = 16; expected more than buckets/2 = 16": lambda: T5(H, max_distance=16),
    "clip = -1": lambda: Shaw(D, clip=-1),
    "position 9; expected one in the table, 0 … 8": (
        lambda: Learned(4, 9).embed(randn(B, 2, 4), torch.tensor([3, 9]))
    ),
    "position -1; expected one in the table": (
        lambda: Learned(4, 9).embed(randn(B, 2, 4), torch.tensor([[3, -1], [0, 1]]))
    ),
    "length = 0": lambda: Learned(4, 0),
    "dim = 0": lambda: Sinusoidal(0),
}


@pytest.mark.parametrize("message", WRONG)
def test_errors_name_the_value_and_what_was_expected(message):
    with pytest.raises((ValueError, TypeError)) as error:
        WRONG[message]()
    assert message in str(error.value)


# ---- the backends they name ----------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "full"])
@pytest.mark.parametrize("name", POSITIONS)
def test_backends_are_those_that_serve_it(name, causal):
    """Every backend named gives what dense gives, gradients too; every other one refuses."""
    at, m = make(name), 17
    p = j = torch.arange(m)
    q, k, v, z = (randn(B, H, m, D, seed=i) for i in range(4))
    named = backends_for((at.causal_needs if causal else None) or at.needs)
    if name == "shaw":  # needs the weights, which only dense has
        assert named == ("dense",)
        assert at.values(randn(B, H, m, m), p, j) is not None
        return

    def run(backend, window):
        dtype = torch.float32 if backend == "native" else torch.float64
        here = copy.deepcopy(at).to(dtype)
        qs, *others = (t.to(dtype) for t in (q, k, v, z))
        qs, (ks, vs, zs) = qs.requires_grad_(), others
        out = asc_attention(
            here.rotate(qs, p), here.rotate(ks, j), vs, zs, zs, rules=NONE, causal=causal,
            window=window, bare=ks, other=here.bias(p, j, causal), backend=backend,
        )  # fmt: skip
        leaves = [qs, *(here.parameters() if name == "t5" else ())]  # the rest act on the tokens
        return out.detach(), *torch.autograd.grad(out.sin().sum(), leaves)

    for backend in BACKENDS:
        window = 4 if backend == "windowed" else None
        if backend not in named:
            with pytest.raises(ValueError, match="cannot"):
                run(backend, window)
            continue
        for got, want in zip(run(backend, window), run("dense", window), strict=True):
            most = 1e-5 if backend == "native" else 1e-10
            assert torch.allclose(got.double(), want, atol=most), backend


def test_a_wrong_need_would_be_noticed(monkeypatch):
    monkeypatch.setattr(T5, "needs", "columns")
    with pytest.raises(ValueError, match="matrix of scores"):
        test_backends_are_those_that_serve_it("t5", True)
    monkeypatch.setattr(T5, "needs", "rows")
    with pytest.raises(pytest.fail.Exception):
        test_backends_are_those_that_serve_it("t5", False)


# ---- rotary --------------------------------------------------------------------------------------

SCALED = {
    "plain": ({}, {"rope_type": "default", "rope_theta": 10000.0}),
    "base": ({"base": 5e5}, {"rope_type": "default", "rope_theta": 5e5}),
    "linear": (
        {"scaling": "linear", "factor": 4.0},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    ),
    # theirs grows with the length: at 3 times the one learned on, factor 2 is ours at 5
    "ntk": (
        {"scaling": "ntk", "factor": 5.0},
        {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    ),
    "llama3": (
        {"base": 5e5, "scaling": "llama3", "factor": 8.0, "original_length": 200},
        {
            "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 200,
        },
    ),
}  # fmt: skip


def llama(theirs, d, length=23):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=H * d, num_attention_heads=H, head_dim=d, max_position_embeddings=length,
        rope_parameters=theirs,
    )  # fmt: skip
    return LlamaRotaryEmbedding(config)


@pytest.mark.parametrize("kind", SCALED)
def test_rope_is_llamas(kind):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    ours, theirs = SCALED[kind]
    d, length = 10, 23
    rope, p = Rope(d, **ours), torch.arange(3 * length if kind == "ntk" else 31)
    q, k = (randn(B, H, len(p), d, seed=i, dtype=torch.float32).requires_grad_() for i in (1, 2))
    reference = llama(theirs, d, length)
    cos, sin = reference(q, p.expand(B, -1))
    assert torch.allclose(rope.theta.float(), reference.inv_freq, rtol=2e-6)
    want = apply_rotary_pos_emb(q, k, cos, sin)
    got = rope.rotate(q, p), rope.rotate(k, p.expand(B, -1))
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, atol=3e-5)
    grads = [torch.autograd.grad(sum(y.sin().sum() for y in ys), [q, k]) for ys in (got, want)]
    for a, b in zip(*grads, strict=True):
        assert torch.allclose(a, b, atol=3e-5)


def test_llama3_has_all_three_bands():
    ours, _ = SCALED["llama3"]
    ratio = Rope(10, base=5e5).theta / Rope(10, **ours).theta
    assert ratio[0] == 1
    assert ratio[-1] == 8
    assert ((ratio > 1) & (ratio < 8)).any()


def test_interleaved_pairs_would_be_noticed():
    """The other layout is not Llama's."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    d, p = 10, torch.arange(31)
    q = randn(B, H, len(p), d, dtype=torch.float32)
    cos, sin = llama(SCALED["plain"][1], d)(q, p.expand(B, -1))
    mixed = torch.cat([q[..., ::2], q[..., 1::2]], -1)
    want = apply_rotary_pos_emb(q, q, cos, sin)[0]
    assert not torch.allclose(Rope(d).rotate(mixed, p), want, atol=0.1)


@given(places(), st.sampled_from(sorted(SCALED)), st.integers(-50, 500))
def test_rope_knows_only_distance(place, kind, shift):
    rope, (p, j) = Rope(D, **SCALED[kind][0]), place
    q, k = randn(B, H, len(p), D), randn(B, H, len(j), D, seed=1)

    def scores(s):
        return rope.rotate(q, p + s) @ rope.rotate(k, j + s).mT

    assert torch.allclose(scores(0), scores(shift), atol=1e-9)
    turned = rope.rotate(q, p)
    assert torch.allclose(turned.norm(dim=-1), q.norm(dim=-1))
    assert torch.allclose(rope.rotate(turned, -p), q)
    assert torch.equal(rope.rotate(q, 0 * p), q)
    if shift and int(p[-1]):
        assert not torch.allclose(rope.rotate(q, p + shift), turned)


@pytest.mark.parametrize("scaling", ["linear", "ntk", "llama3"])
@pytest.mark.parametrize("d", [2, 6])
def test_factor_one_is_no_scaling(scaling, d):
    plain, t, p = Rope(d), randn(B, H, N, d), torch.arange(7, 7 + N)
    assert torch.allclose(Rope(d, scaling=scaling).rotate(t, p), plain.rotate(t, p))
    scaled = Rope(d, scaling=scaling, factor=4.0, original_length=4)
    assert math.isfinite(scaled.rotate(t, p).sum())
    if d > 2:
        assert not torch.allclose(scaled.rotate(t, p), plain.rotate(t, p))


def test_far_positions_keep_their_digits():
    """Float32 tokens, a hundred thousand positions on: what float32 angles would lose."""
    rope, far = Rope(64), 100_003
    q, k = (randn(B, H, N, 64, seed=i, dtype=torch.float32) for i in (1, 2))

    def scores(p, angles=rope.turns):
        return turn(q, *angles(p, torch.float32)) @ turn(k, *angles(p, torch.float32)).mT

    p = torch.arange(N)
    assert (scores(p) - scores(p + far)).abs().max() < 2e-5
    coarse = scores(p + far, lambda p, dtype: cos_sin(p, rope.theta.float(), dtype))
    assert (scores(p) - coarse).abs().max() > 1e-3


def test_rope_takes_positions_by_batch_of_any_int():
    rope, t = Rope(D), randn(B, H, N, D)
    p = torch.tensor([[0, 1, 2, 3, 4], [70, 3, 9, 9, 0]])
    want = torch.cat([rope.rotate(t[b : b + 1], p[b]) for b in range(B)])
    assert torch.equal(rope.rotate(t, p), want)
    assert torch.equal(rope.rotate(t, p.int()), want)
    assert not torch.allclose(rope.rotate(t, p[:1]), want)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_the_table_is_what_is_computed(dtype):
    rope = Rope(D)
    t = randn(B, H, 4, D).to(dtype)
    p = torch.tensor([0, 63, 64, 4001])
    far = torch.tensor([0, 63, LONGEST, -2])
    wide = torch.promote_types(dtype, torch.float32)
    for at in (p, far):
        got, want = rope.rotate(t, at), turn(t, *cos_sin(at, rope.theta, wide))
        assert got.dtype == dtype
        assert torch.equal(got, want)
        true = turn(t.double(), *cos_sin(at, rope.theta, torch.double))
        assert (got - true).abs().max() <= 8 * torch.finfo(dtype).eps


def test_a_table_made_in_inference_mode_serves_training():
    rope, p = Rope(D, base=1234.5), torch.arange(N)
    with torch.inference_mode():
        rope.rotate(randn(B, H, N, D), p)
    t = randn(B, H, N, D).requires_grad_()
    rope.rotate(t, p).square().sum().backward()
    assert torch.allclose(t.grad, 2 * t)


@pytest.mark.parametrize("name", ["rope", "alibi"])
def test_casts_and_meta_leave_constants_whole(name):
    constant, sizes = {"rope": "theta", "alibi": "slopes"}[name], {**SIZES, "heads": 11}
    made, want = position(name, **sizes), getattr(position(name, **sizes).double(), constant)
    assert not made.state_dict()
    assert torch.equal(getattr(made.bfloat16(), constant), want.to(getattr(made, constant).dtype))
    assert torch.equal(getattr(made.double(), constant), want)
    assert not torch.equal(want.bfloat16().double(), want)
    with torch.device("meta"):
        empty = position(name, **sizes)
    assert torch.equal(getattr(empty.to_empty(device="cpu").double(), constant), want)


# ---- ALiBi ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [*range(1, 18), 31, 32, 33, 112])
def test_slopes_are_blooms(heads):
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    assert torch.allclose(Alibi(heads).slopes, theirs, rtol=2e-6)


def test_slopes_are_the_papers():
    assert slopes(8) == tuple(2.0**-h for h in range(1, 9))
    assert slopes(3) == (2.0**-4, 2.0**-8, 2.0**-2)
    assert slopes(1) == (2.0**-8,)


def test_alibi_attends_as_bloom():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    p, j = tail()
    theirs = build_alibi_tensor(torch.ones(1, M), H, torch.float32)
    want = weights(theirs.double(), p, j, True)
    assert torch.allclose(weights(make("alibi").bias(p, j, True), p, j, True), want, atol=1e-6)
    assert not torch.allclose(weights(-theirs.double(), p, j, True), want, atol=1e-2)


@given(places(), st.integers(-1000, 1000))
def test_alibi_is_minus_slope_times_distance(place, shift):
    (p, j), alibi = place, make("alibi")
    loop = torch.tensor(
        [[[-s * abs(x - y) for y in j.tolist()] for x in p.tolist()] for s in slopes(H)]
    )
    full, folding = alibi.bias(p, j, False), alibi.bias(p, j, True)
    assert torch.allclose(full, loop.double(), rtol=1e-6)
    assert isinstance(folding, LowRank)
    seen = (j <= p[:, None]).expand_as(full)
    assert torch.allclose(folding.dense()[seen], full[seen], atol=1e-12 * int(j[-1] + 1))
    for causal in (True, False):
        a, b = (weights(alibi.bias(p + s, j + s, causal), p, j, causal) for s in (0, shift))
        assert torch.allclose(a, b, atol=1e-12)
    if len(j) > 1:
        assert not torch.allclose(weights(-full, p, j, False), weights(full, p, j, False))


def test_alibi_keeps_the_digits_of_far_rows():
    """Float32, rows far from the origin: a row of s·j alone would lose two digits."""
    p, j = torch.tensor([20, 21, 15_000, 30_000]), torch.arange(30_001)
    base = randn(1, H, len(p), len(j))
    alibi = Alibi(H)
    exact = weights(make("alibi").bias(p, j, True), p, j, True, base)
    ours = weights(alibi.bias(p, j, True), p, j, True, base.float())
    bare = weights(alibi.slopes[:, None, None] * j, p, j, True, base.float())
    assert (ours - exact).abs().max() < 1e-6
    assert (bare - exact).abs().max() > 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dense", "compact", "folded", "windowed", "decode"])
def test_alibi_folded_keeps_its_digits(backend):
    m = 701
    p, alibi = torch.arange(m), Alibi(11)
    q, k, v, z = (randn(1, 11, m, D, seed=i) for i in range(4))
    window = 20 if backend == "windowed" else None

    def run(dtype, backend, at):
        args = (t.to(dtype) for t in (q, k, v, z, z))
        bias = at.bias(p, p, True)
        return asc_attention(
            *args, rules=NONE, causal=True, window=window, other=bias, backend=backend
        )

    want = run(torch.double, "dense", copy.deepcopy(alibi).double())
    assert (run(torch.float32, backend, alibi) - want).abs().max() < 2e-6


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_alibi_in_baselines_does_not_round_distances(dtype):
    torch.manual_seed(0)
    most = {torch.float32: 2e-6, torch.bfloat16: 1e-2}[dtype]
    module, x = Vanilla(DIM, H, position="alibi").eval(), randn(1, 1301, DIM)
    want = copy.deepcopy(module).double()(x, causal=True)
    assert (copy.deepcopy(module).to(dtype)(x.to(dtype), causal=True) - want).abs().max() < most

    vis = Visibility.of(1301, 1301, causal=True, window=600)
    q, k, v = (randn(1, H, 1301, D, seed=i).to(dtype) for i in range(3))
    bias = [module.position.to(d).bias(vis.p, vis.j, True) for d in (dtype, torch.double)]
    want = window_attention(*(t.double() for t in (q, k, v)), vis, bias[1])
    assert (window_attention(q, k, v, vis, bias[0]) - want).abs().max() < 2 * most


# ---- T5 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("buckets", "far"), [(32, 128), (8, 20), (4, 3), (64, 256), (10, 100)])
def test_buckets_are_t5s(causal, buckets, far):
    from transformers.models.t5.modeling_t5 import T5Attention

    r = torch.arange(-3 * far, 3 * far + 1)
    want = T5Attention._relative_position_bucket(r, not causal, buckets, far)
    got = bucket(r, causal, buckets, far)
    assert torch.equal(got, want)
    assert set(got.tolist()) <= set(range(buckets))
    assert not torch.equal(bucket(-r, causal, buckets, far), want)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 29), (5, 29), (29, 29)])
def test_bias_is_t5s(causal, n, m):
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(
        d_model=DIM, d_kv=D, num_heads=H, is_decoder=causal, relative_attention_num_buckets=8,
        relative_attention_max_distance=20,
    )  # fmt: skip
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double()
    ours = T5(H, buckets=8, max_distance=20).double()
    ours.load_state_dict({"table": theirs.relative_attention_bias.weight})
    want = theirs.compute_bias(n, m, past_seen_tokens=m - n)[0]
    got = ours.bias(*tail(n, m), causal)
    assert torch.equal(got, want)
    grads = [
        torch.autograd.grad(y.exp().sum(), [table])[0]
        for y, table in ((got, ours.table), (want, theirs.relative_attention_bias.weight))
    ]
    assert torch.allclose(*grads)


@given(places(), st.integers(-1000, 1000), st.booleans())
def test_t5_knows_only_distance_and_one_value_is_vanilla(place, shift, causal):
    (p, j), t5 = place, make("t5", buckets=8, max_distance=20)
    bias = t5.bias(p, j, causal)
    assert torch.equal(bias, t5.bias(p + shift, j + shift, causal))
    for h in range(H):
        for i, n in ((0, 0), (len(p) - 1, len(j) // 2)):
            r = j[n] - p[i]
            assert bias[h, i, n] == t5.table[bucket(r, causal, 8, 20), h]
    torch.nn.init.constant_(t5.table, 0.7)
    flat = weights(t5.bias(p, j, causal), p, j, causal)
    assert torch.allclose(flat, weights(torch.zeros(()), p, j, causal))
    if len(j) > 4:
        assert not torch.allclose(flat, weights(bias, p, j, causal))


# ---- Shaw ----------------------------------------------------------------------------------------


def shaw_by_hand(q, A, a_K, a_V, p, j):
    """Both sides by loops, one pair at a time."""
    c = (len(a_K) - 1) // 2
    scores = q.new_zeros(*q.shape[:3], len(j))
    values = q.new_zeros(*A.shape[:3], a_V.shape[1])
    for i, at in enumerate(p.tolist()):
        for n, there in enumerate(j.tolist()):
            r = max(-c, min(c, there - at)) + c
            scores[:, :, i, n] = q[:, :, i] @ a_K[r]
            values[:, :, i] += A[:, :, i, n, None] * a_V[r]
    return scores, values


@given(places(), st.integers(0, 6), st.integers(-1000, 1000))
def test_shaw_is_its_loops(place, clip, shift):
    (p, j), shaw = place, make("shaw", clip=clip)
    q = randn(B, H, len(p), D, seed=3).requires_grad_()
    A = randn(B, H, len(p), len(j), seed=4).softmax(-1).requires_grad_()
    leaves = [q, A, shaw.a_K, shaw.a_V]
    want = shaw_by_hand(*leaves, p, j)
    for s in (0, shift):
        got = shaw.scores(q, p + s, j + s), shaw.values(A, p + s, j + s)
        for a, b in zip(got, want, strict=True):
            assert torch.allclose(a, b)
        grads = [torch.autograd.grad(x.sin().sum() + y.cos().sum(), leaves, retain_graph=True)
                 for x, y in (got, want)]  # fmt: skip
        for a, b in zip(*grads, strict=True):
            assert torch.allclose(a, b)
    if clip:
        assert not torch.allclose(shaw.values(A, p + clip, j), want[1])


def test_shaw_keys_are_wav2vec2_berts():
    from transformers import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

    clip = 3
    config = Wav2Vec2BertConfig(
        hidden_size=DIM, num_attention_heads=H, position_embeddings_type="relative_key",
        left_max_position_embeddings=clip, right_max_position_embeddings=clip,
        attention_dropout=0.0, attn_implementation="eager",
    )  # fmt: skip
    theirs, x = Wav2Vec2BertSelfAttention(config).double().eval(), randn(B, M, DIM)
    shaw, p = make("shaw", clip=clip), torch.arange(M)
    shaw.a_K.data = theirs.distance_embedding.weight.data.clone()
    shaw.a_V.data.zero_()

    def ours():
        layers = (theirs.linear_q, theirs.linear_k, theirs.linear_v)
        q, k, v = (layer(x).unflatten(-1, (H, D)).transpose(1, 2) for layer in layers)
        A = ((q @ k.mT + shaw.scores(q, p, p)) / D**0.5).softmax(-1)
        return theirs.linear_out((A @ v + shaw.values(A, p, p)).transpose(1, 2).flatten(2))

    want, got = theirs(x)[0], ours()
    assert torch.allclose(got, want)
    a, b = (
        torch.autograd.grad(y.sin().sum(), [table])[0]
        for y, table in ((got, shaw.a_K), (want, theirs.distance_embedding.weight))
    )
    assert torch.allclose(a, b)
    shaw.a_K.data = shaw.a_K.data.flip(0)
    assert not torch.allclose(ours(), want)


def test_shaw_of_zeros_is_vanilla_and_of_one_vector_adds_it():
    (p, j), shaw = tail(), make("shaw", clip=2)
    q, A = randn(B, H, N, D), randn(B, H, N, M).softmax(-1)
    A[:, :, 1] = 0  # a row that sees nothing
    shaw.a_V.data[:] = shaw.a_V.data[0]
    out = shaw.values(A, p, j)
    assert torch.allclose(out[:, :, 0], shaw.a_V[0].expand(B, H, -1))
    assert not out[:, :, 1].any()
    for table in shaw.parameters():
        table.data.zero_()
    assert not shaw.scores(q, p, j).any()
    assert not shaw.values(A, p, j).any()


class Largest(TorchDispatchMode):
    """The size of the largest tensor made inside."""

    numbers = 0

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        out = f(*args, **(kwargs or {}))
        for t in out if isinstance(out, list | tuple) else [out]:
            if isinstance(t, torch.Tensor):
                self.numbers = max(self.numbers, t.untyped_storage().nbytes() // t.element_size())
        return out


def test_shaw_makes_no_vector_for_every_pair():
    shaw, p = Shaw(D, clip=2).double(), torch.arange(M)
    q, A = randn(1, 1, M, D).requires_grad_(), randn(1, 1, M, M).requires_grad_()
    with Largest() as ours:
        (shaw.scores(q, p, p).sum() + shaw.values(A, p, p).sum()).backward()
    assert ours.numbers == M * M
    with Largest() as naive:
        torch.einsum("bhnd,nmd->bhnm", q, shaw.a_K[shaw.r(p, p)])
    assert naive.numbers >= M * M * D


def test_shaw_sums_half_precision_in_float32():
    """4000 equal weights beyond the clip: a sum in bfloat16 would stop at 256 of them."""
    shaw, m = Shaw(D, clip=1), 4000
    shaw.a_V.data[:] = 1
    A = torch.full((1, 1, 1, m), 1 / m).bfloat16()
    out = shaw.values(A, *tail(1, m))
    assert out.dtype == torch.bfloat16
    assert (out - 1).abs().max() < 0.01
    assert shaw.scores(randn(1, 1, 1, D).bfloat16(), *tail(1, m)).dtype == torch.float32


# ---- absolute ------------------------------------------------------------------------------------


def test_sinusoids_are_those_of_2017():
    from transformers.models.distilbert.modeling_distilbert import create_sinusoidal_embeddings

    want = create_sinusoidal_embeddings(M, DIM, torch.empty(M, DIM))
    got = Sinusoidal(DIM).embed(torch.zeros(B, M, DIM), torch.arange(M))
    assert torch.allclose(got, want.expand(B, -1, -1), atol=1e-6)
    halves = torch.cat([want[:, ::2], want[:, 1::2]], -1)
    assert not torch.allclose(got[0], halves, atol=0.1)


@given(places(), st.integers(1, 12), st.sampled_from([10000.0, 50.0]))
def test_sinusoids_by_hand_and_their_law(place, dim, base):
    p = place[0]
    e = Sinusoidal(dim, base).embed(torch.zeros(1, len(p), dim, dtype=torch.double), p)[0]
    for i, at in enumerate(p.tolist()):
        for c in range(dim):
            angle = at / base ** (2 * (c // 2) / dim)
            assert math.isclose(e[i, c], (math.cos if c % 2 else math.sin)(angle), abs_tol=1e-9)
    if dim % 2 == 0:
        assert torch.allclose(e.square().sum(-1), torch.tensor(dim / 2).double())
        assert torch.allclose((e[1:] * e[:-1]).sum(-1), (e[:1] * e[1:2]).sum(-1))


@pytest.mark.parametrize("name", ["learned", "sinusoidal"])
def test_absolute_ones_take_positions_by_batch(name):
    made, x = make(name), randn(B, N, DIM)
    p = torch.tensor([[0, 1, 2, 3, 4], [70, 3, 9, 9, 0]])
    want = torch.cat([made.embed(x[b : b + 1], p[b]) for b in range(B)])
    assert torch.equal(made.embed(x, p), want)
    assert not torch.allclose(made.embed(x, p[0]), want)
    assert made.embed(x.bfloat16(), p).dtype == torch.bfloat16


def test_learned_is_an_embedding_and_zero_is_vanilla():
    made, x, p = make("learned", length=M), randn(B, N, DIM), torch.tensor([4, 0, 10, 4, 7])
    got = made.embed(x, p)
    assert torch.equal(got, x + made.table[p])
    got.sum().backward()
    used = torch.zeros(M).index_add(0, p, torch.ones(N)) * B
    assert torch.equal(made.table.grad, used[:, None].double().expand(-1, DIM))
    made.table.data.zero_()
    assert torch.equal(made.embed(x, p), x)


# ---- compiled ------------------------------------------------------------------------------------

COMPILE = """
import torch
from ascender import LowRank
from ascender.nn.positions import POSITIONS, position

def run(at, x, q, A, p, j, causal):
    bias = at.bias(p, j, causal)
    bias = bias.dense() if isinstance(bias, LowRank) else bias
    made = at.embed(x, p), at.rotate(q, p), bias, at.scores(q, p, j), at.values(A, p, j)
    return [t for t in made if t is not None]

x, q, A = (torch.randn(2, *shape) for shape in ((5, 18), (3, 5, 6), (3, 5, 11)))
p, j = torch.arange(6, 11), torch.arange(11)
for name in POSITIONS:
    torch.compiler.reset()
    at = position(name, dim=18, heads=3, head_dim=6)
    whole = torch.compile(run, backend="eager", fullgraph=True)
    for causal in (True, False):
        for got, want in zip(whole(at, x, q, A, p, j, causal), run(at, x, q, A, p, j, causal)):
            assert torch.allclose(got, want, atol=1e-6), name
"""


def test_each_compiles_without_a_graph_break():
    """In a process of its own: shapes checked at run time do not go with torch.compile."""
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
