"""Relative positions (ALiBi, T5, Shaw) against the papers' and other libraries' formulas."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from ascender import LowRank, asc_attention
from ascender.core.affinity import bucket
from ascender.core.visibility import Visibility
from ascender.nn.baselines import attention
from ascender.nn.baselines.longformer import window_attention
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.positions import T5, Alibi, Shaw
from ascender.nn.positions.alibi import slopes
from support.position_cases import DIM, NONE, B, D, H, M, N, make, places, randn, tail


def dense(bias):
    return bias.dense() if isinstance(bias, LowRank) else bias


def weights(bias, p, j, causal, base=None):
    """softmax of a base score and a bias over what is visible."""
    s = randn(1, H, len(p), len(j)) if base is None else base
    s = s + dense(bias)
    return torch.softmax(s.masked_fill((j > p[:, None]) & causal, -torch.inf), -1)


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


def both_by_hand(q, k, shaw, p, j):
    """(q_i + a^Q_r)·(k_j + a^K_r), one pair at a time."""
    rows = []
    for i, at in enumerate(p.tolist()):
        for n, there in enumerate(j.tolist()):
            r = max(-shaw.clip, min(shaw.clip, there - at)) + shaw.clip
            rows.append(((q[:, :, i] + shaw.a_Q[r]) * (k[:, :, n] + shaw.a_K[r])).sum(-1))
    return torch.stack(rows, -1).unflatten(-1, (len(p), len(j)))


@given(places(), st.integers(0, 6), st.integers(-1000, 1000))
def test_shaw_on_queries_is_its_loops(place, clip, shift):
    """With the base score the three terms are one product of two shifted vectors."""
    (p, j), shaw = place, make("shaw", clip=clip, queries=True)
    q = randn(B, H, len(p), D, seed=3).requires_grad_()
    k = randn(B, H, len(j), D, seed=4).requires_grad_()
    leaves = [q, k, shaw.a_K, shaw.a_Q]
    want = both_by_hand(q, k, shaw, p, j)
    for s in (0, shift):
        got = q @ k.mT + shaw.scores(q, p + s, j + s) + shaw.key_scores(k, p + s, j + s)
        assert torch.allclose(got, want)
        a, b = (torch.autograd.grad(x.sin().sum(), leaves, retain_graph=True) for x in (got, want))
        assert all(torch.allclose(x, y) for x, y in zip(a, b, strict=True))
    if clip and len(j) > 1:
        wrong = shaw.key_scores(k.flip(2), p, j)
        assert not torch.allclose(q @ k.mT + shaw.scores(q, p, j) + wrong, want)


def shaw_layer(kind, kv_heads=3, **options):
    """A layer with Shaw's positions whose tables are not small."""
    torch.manual_seed(0)
    at = make("shaw", clip=2, **options)
    return attention(kind, DIM, H, kv_heads=kv_heads, position=at).double()


@pytest.mark.parametrize("kv_heads", [1, 3])
@pytest.mark.parametrize("kind", ["vanilla", "ascender"])
def test_attention_with_shaw_on_queries(kind, kv_heads):
    """The base score is the oracle's, rows see nothing of the future or of padding, decoding with
    a cache equals the full pass, and a^Q = 0 is queries=False."""
    layer, x = shaw_layer(kind, kv_heads, queries=True), randn(B, M, DIM, seed=9)
    out, parts = layer(x, causal=True, return_parts=True)
    streams, p = layer.project(x), torch.arange(M)
    k = streams["k"].repeat_interleave(H // kv_heads, 1)
    want = both_by_hand(streams["q"], k, layer.position, p, p) / D**0.5
    seen = torch.ones(M, M, dtype=torch.bool).tril()
    assert torch.allclose((parts.base + parts.other)[..., seen], want[..., seen])
    assert torch.allclose(layer(x, causal=True), out)
    cache = layer.new_cache()
    steps = [layer(x[:, :4], cache=cache)]
    steps += [layer(x[:, i : i + 1], cache=cache) for i in range(4, M)]
    assert torch.allclose(torch.cat(steps, 1), out)
    later = torch.cat([x[:, :6], randn(B, M - 6, DIM, seed=5)], 1)
    assert torch.allclose(layer(later, causal=True)[:, :6], out[:, :6])
    assert not torch.allclose(layer(later)[:, :6], layer(x)[:, :6])
    real = torch.arange(M) < torch.tensor([[M], [7]])
    junk = x.masked_fill(~real[..., None], torch.nan)
    assert torch.allclose(layer(junk, mask=real)[real], layer(x, mask=real)[real])
    plain = shaw_layer(kind, kv_heads)
    plain.load_state_dict({n: t for n, t in layer.state_dict().items() if not n.endswith("a_Q")})
    assert not torch.allclose(plain(x), layer(x))
    layer.position.a_Q.data.zero_()
    assert torch.allclose(plain(x), layer(x))


def test_gradients_with_shaw_on_queries():
    layer, x = shaw_layer("ascender", queries=True), randn(1, 5, DIM, seed=7).requires_grad_()
    tables = [layer.position.a_Q, layer.position.a_K]
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, causal=True), (x, *tables))


def test_shaw_without_the_option_is_as_before():
    """The same names, and the same draws, as weights that were saved before it."""
    torch.manual_seed(0)
    plain = Shaw(D, clip=2)
    torch.manual_seed(0)
    with_queries = Shaw(D, clip=2, queries=True)
    assert list(plain.state_dict()) == ["a_K", "a_V"]
    for name, table in plain.state_dict().items():
        assert torch.equal(table, with_queries.state_dict()[name])
    assert plain.key_scores(randn(1, 1, M, D), *tail()) is None
    assert repr(with_queries) == "Shaw(head_dim=6, clip=2, queries=True)"


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
    shaw, p = Shaw(D, clip=2, queries=True).double(), torch.arange(M)
    q, A = randn(1, 1, M, D).requires_grad_(), randn(1, 1, M, M).requires_grad_()
    with Largest() as ours:
        scores = shaw.scores(q, p, p) + shaw.key_scores(q, p, p)
        (scores.sum() + shaw.values(A, p, p).sum()).backward()
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
