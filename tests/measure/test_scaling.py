"""The formulas of docs/scaling.md against operators, lists and caches of small sizes.

Exact, to the last product or number:
    FLOPs of a layer, dense and in flock scope by torch operators, of a prompt and of one token.
    What these do beyond the formulas is named in each test: lists filled up to one length, pairs
    above the diagonal within a chunk of rows, keys of window and globals that the index ranks too
    members of all flocks; numbers in a cache; numbers of the cache that a retrofitted layer reads
Bounded only:
    buffers of a cache have room for more tokens; pairs of the index lie between N(N + 1)/2 and N²
Bytes between processes: tests/nn/test_context_parallel.py. Nothing of this is measured at the sizes
of the page's tables.
"""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ascender import AscenderAttention
from ascender.core import neighbours
from ascender.core.backends.flock import FlockLists, _ListedRows
from ascender.measure import scaling, scaling_tables
from ascender.measure.flops import Problem, count
from ascender.measure.scaling import MODELS, FlockShape, ModelShape
from ascender.nn.baselines import attention
from support.scaling_cases import FLOCK, SMALL, B, N

pytestmark = pytest.mark.usefixtures("unchecked")

PUBLISHED = {
    "SmolLM2-135M": 134_515_008, "Llama-3.2-1B": 1_235_814_400, "Llama-3.2-3B": 3_212_749_824,
    "Llama-3.1-8B": 8_030_261_248, "Llama-3.1-70B": 70_553_706_496,
}  # fmt: skip


@pytest.fixture(autouse=True)
def by_torch_operators(monkeypatch):
    """Not by the C kernels, which do not count."""
    monkeypatch.setattr(FlockLists, "compiled", False)


def layer(flock=FLOCK, **options):
    """A layer of SMALL in flock scope; without rules they are off by λ = 0."""
    torch.manual_seed(0)
    made = AscenderAttention(
        SMALL.dim, SMALL.heads, kv_heads=SMALL.kv_heads, head_dim=SMALL.head_dim, scope="flock",
        far=flock.far, window=flock.window, n_global=flock.n_global, d_a=flock.d_a, d_z=flock.d_z,
        geometry="shared", position="rope" if flock.rotary else None, affinity_term=flock.term,
        affinity_heads=flock.affinity_heads, k=3, **options,
    )  # fmt: skip
    if not flock.rules:
        made.lam_align = made.lam_sep = made.lam_coh = 0.0
    return made.eval()


def vanilla():
    return attention(
        "vanilla", SMALL.dim, SMALL.heads, kv_heads=SMALL.kv_heads, head_dim=SMALL.head_dim
    ).eval()


def tokens(n=N):
    return torch.randn(B, n, SMALL.dim, generator=torch.Generator().manual_seed(1))


def weights():
    """FLOPs of a token with W_Q, W_K, W_V and W_O."""
    return 2 * (SMALL.layer_weights - 3 * SMALL.dim * SMALL.inner)


def unused_z(flock):
    """FLOPs of a token's z, which the layer projects with the rules off too."""
    return 0 if flock.rules else 2 * SMALL.dim * flock.d_z


# The shapes.


def test_parameters_as_published():
    assert {m.name: m.parameters for m in MODELS} == PUBLISHED


def test_the_shapes_are_llamas():
    transformers = pytest.importorskip("transformers")
    for m in MODELS:
        config = transformers.LlamaConfig(
            vocab_size=m.vocab, hidden_size=m.dim, intermediate_size=m.inner,
            num_hidden_layers=m.layers, num_attention_heads=m.heads,
            num_key_value_heads=m.kv_heads, head_dim=m.head_dim, tie_word_embeddings=m.tied,
        )  # fmt: skip
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM(config)
        assert model.num_parameters() == m.parameters
        multiplied = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
        assert sum(module.weight.numel() for module in multiplied) == m.multiplied


# FLOPs.


@torch.no_grad()
def test_dense_prefill():
    module, x = vanilla(), tokens()
    seen = scaling.dense_flops(SMALL, scaling.pairs(N))
    assert count(lambda: module(x, causal=True)) == B * (N * weights() + seen)


FLOCKS = {
    "rules": FLOCK,
    "rules alone": replace(FLOCK, term=False),
    "term alone": replace(FLOCK, rules=False),
    "index alone": replace(FLOCK, rules=False, term=False),
    "no rotation": replace(FLOCK, rotary=False),
    "window alone": replace(FLOCK, far=0, window=9),
}


@pytest.mark.parametrize("name", FLOCKS)
@torch.no_grad()
def test_flock_prefill(name):
    """Lists are filled up to L keys; a chunk of rows looks at all keys up to its last."""
    flock, x = FLOCKS[name], tokens()
    module = layer(flock)
    ranked = Problem(N, causal=True).searched_pairs if flock.far else 0
    token = weights() + scaling.map_flops(SMALL, flock) + unused_z(flock)
    listed = scaling.listed_flops(SMALL, flock, N * flock.size)
    counted = count(lambda: module(x, causal=True))
    assert counted == B * (N * token + scaling.index_flops(flock, ranked) + listed)


def test_a_wrong_formula_is_noticed():
    """Every width of the formula is in the counts above."""
    right = scaling.listed_flops(SMALL, FLOCK, 1), scaling.map_flops(SMALL, FLOCK)
    for name in ("d_a", "d_z"):
        wrong = replace(FLOCK, **{name: 6})
        assert scaling.listed_flops(SMALL, wrong, 1) != right[0]
        assert scaling.map_flops(SMALL, wrong) != right[1]
    assert scaling.listed_flops(replace(SMALL, head_dim=9), FLOCK, 1) != right[0]


@torch.no_grad()
def test_pairs_of_the_index():
    """With few rows a chunk, the counted pairs come down to those of the formula."""
    assert scaling.pairs(N) == sum(range(1, N + 1))
    counted = []
    for rows in (N, 8, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(neighbours, "CHUNK", rows * N)
            module, x = layer(), tokens()
            counted.append(count(lambda module=module, x=x: module(x, causal=True)) // B)
    token = weights() + scaling.map_flops(SMALL, FLOCK)
    rest = N * token + scaling.listed_flops(SMALL, FLOCK, N * FLOCK.size)
    index = [c - rest for c in counted]
    assert index[0] == scaling.index_flops(FLOCK, N * N)
    assert index[0] > index[1] > index[2] == scaling.index_flops(FLOCK, scaling.pairs(N))


@pytest.mark.parametrize("n_global", [0, 1, 6])
@pytest.mark.parametrize("n", [1, 4, 11, N])
def test_members_of_all_flocks(n, n_global):
    flock = replace(FLOCK, n_global=n_global)
    module = layer(flock)
    with torch.no_grad():
        call = module.flock(module.call(tokens(n), causal=True))
    mask = call.scope.mask(call.far)
    assert int(mask[0, 0].sum()) == scaling.flock_pairs(n, flock)
    assert mask[0, 0].sum(-1).tolist() == [flock.listed(i + 1) for i in range(n)]
    if not n_global:
        assert int(_ListedRows(call.repeat_kv()).valid[0, 0].sum()) == scaling.flock_pairs(n, flock)


@pytest.mark.parametrize("name", [name for name in FLOCKS if name != "window alone"])
@torch.no_grad()
def test_decoding_flops(name):
    """The layer ranks the keys of its window too, without using their scores."""
    flock, x = FLOCKS[name], tokens()
    module = layer(flock)
    cache = module.new_cache()
    module(x[:, : N - 1], cache=cache)
    want = scaling.decode_flops(SMALL, flock, N)
    want = want["index"] + want["listed"] + scaling.index_flops(flock, N - flock.ranked(N))
    counted = count(lambda: module(x[:, N - 1 :], cache=cache))
    assert counted == B * (weights() + unused_z(flock) + want)


@torch.no_grad()
def test_dense_decoding_flops():
    module, x = vanilla(), tokens()
    cache = module.new_cache()
    module(x[:, : N - 1], cache=cache)
    counted = count(lambda: module(x[:, N - 1 :], cache=cache))
    assert counted == B * (weights() + scaling.dense_flops(SMALL, N))


# Bytes.


def numbers(cache):
    """Of a token in one sequence."""
    return sum(cache[name].numel() for name in cache._buffers) / B / len(cache)


@pytest.mark.parametrize("name", ["rules", "no rotation"])
@torch.no_grad()
def test_numbers_in_a_cache(name):
    flock = FLOCKS[name]
    for module, of in ((layer(flock), flock), (vanilla(), None)):
        cache = module.new_cache()
        module(tokens(), cache=cache)
        each = scaling.cache_numbers(SMALL, of)
        assert numbers(cache) == each
        assert cache.nbytes() == 4 * B * each * 2 * N, "room for twice the tokens"
    assert scaling.cache_numbers(SMALL) == SMALL.kv


def test_numbers_in_the_cache_of_a_retrofitted_model():
    """The index alone: h^k as further columns of the keys, filled up to whole heads."""
    transformers = pytest.importorskip("transformers")
    import ascender

    config = transformers.LlamaConfig(
        vocab_size=11, hidden_size=24, intermediate_size=20, num_hidden_layers=1,
        num_attention_heads=6, num_key_value_heads=3, head_dim=8,
    )  # fmt: skip
    shape = ModelShape("tiny", 1, 24, 6, 3, 8, 20, 11, False)
    flock = FlockShape(far=4, window=2, n_global=1, d_a=6)
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(11, (1, 9))
    held = []
    for retrofit in (False, True):
        if retrofit:
            ascender.retrofit(model, scope="flock", far=4, window=2, n_global=1, d_a=6)
        with torch.no_grad():
            (part,) = model(ids, use_cache=True).past_key_values.layers
        held.append((part.keys.numel() + part.values.numel()) / 9)
    assert held == [scaling.cache_numbers(shape), scaling.cache_numbers(shape, flock)]


class Reads(TorchDispatchMode):
    """Numbers of given tensors that operators take: rows that are selected, or else all of a view
    of them."""

    def __init__(self, **watched):
        super().__init__()
        self.of = {t.untyped_storage().data_ptr(): name for name, t in watched.items()}
        self.read = dict.fromkeys(watched, 0)

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        out = operator(*args, **(kwargs or {}))
        name = operator.overloadpacket.__name__
        for t in args:
            dense = isinstance(t, torch.Tensor) and t.layout == torch.strided
            if not dense or operator.is_view:
                continue
            if (watched := self.of.get(t.untyped_storage().data_ptr())) is not None:
                few = name in ("index_select", "gather")
                self.read[watched] += (out if few else t).numel()
        return out


@torch.no_grad()
def test_numbers_that_decoding_reads():
    """By the decoding of retrofitted models: h^k of all keys outside window and globals, k and v of
    the flock."""
    pytest.importorskip("transformers")
    from ascender.hf.retrofit.sparse_decode import attend_one

    flock = replace(FLOCK, n_global=2, rules=False, term=False)
    index = layer(flock)
    index.window, index.n_global = flock.window, flock.n_global
    g = torch.Generator().manual_seed(0)
    q, h_q = (torch.randn(1, h, 1, w, generator=g) for h, w in ((SMALL.heads, 8), (1, 4)))
    for M in (12, N):
        k, v = (torch.randn(1, SMALL.kv_heads, M, 8, generator=g) for _ in "kv")
        h_k = torch.randn(1, 1, M, 4, generator=g)
        with Reads(k=k, v=v, h=h_k) as reads:
            attend_one(index, q, k, v, h_q, h_k, None)
        assert sum(reads.read.values()) == scaling.decode_reads(SMALL, flock, M)
        assert reads.read["h"] == flock.ranked(M) * flock.index
        want = scaling.decode_flops(SMALL, flock, M)
        counted = count(lambda k=k, v=v, h_k=h_k: attend_one(index, q, k, v, h_q, h_k, None))
        assert counted == want["index"] + want["listed"] - scaling.map_flops(SMALL, flock)


@torch.no_grad()
def test_a_layer_reads_rows_of_the_flock_only():
    """Whatever stands in the cache for other keys changes nothing: they are not read."""
    module, x = layer(), tokens()
    cache = module.new_cache()
    module(x[:, : N - 2], cache=cache)
    flocks = module.parts(module.call(x, causal=True))[1].weights[:, :, N - 2 :].amax((1, 2)) > 0
    expected = module(x, causal=True)[:, N - 2 :]
    others = ~flocks[:, None, : N - 2, None]  # of both tokens that follow
    assert others.sum() > N / 2
    for name in ("k", "v"):
        cache[name].masked_fill_(others, torch.nan)
    out = torch.cat([module(x[:, i : i + 1], cache=cache) for i in (N - 2, N - 1)], 1)
    assert torch.allclose(out, expected, atol=1e-5)


# Between processes.


def test_everything_travels_to_later_processes():
    N, P = 40, 5
    block = [i // (N // P) for i in range(N)]
    assert scaling.remote_rows(N, P) == sum(P - 1 - b for b in block)


@pytest.mark.parametrize(("N", "P", "far"), [(512, 8, 2), (600, 12, 5)])
def test_rows_of_a_random_choice(N, P, far):
    g, n, trials = torch.Generator().manual_seed(0), N // P, 20
    asked = 0
    for _ in range(trials):
        scores = torch.rand(N, N, generator=g).masked_fill(~torch.ones(N, N).tril(-1).bool(), -1)
        best = scores.topk(far, -1)
        for r in range(1, P):
            rows = slice(r * n, (r + 1) * n)
            keys = best.indices[rows][best.values[rows] >= 0].unique()
            asked += int((keys < r * n).sum())
    assert asked / trials == pytest.approx(scaling.expected_rows(N, P, far), rel=0.03)


@pytest.mark.parametrize("flock", [scaling_tables.FLOCK, scaling_tables.RULES])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_break_even(model, flock):
    N, P = 1 << 17, 8
    share = scaling.break_even(model, flock)
    dense, equal = (
        scaling.exchanged(model, of, N, P, share * scaling.remote_rows(N, P))
        for of in (None, flock)
    )
    assert equal["index"] + equal["rows"] == pytest.approx(dense["rows"])
    assert 0 < share < 1
