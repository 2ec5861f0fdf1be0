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

from ascender import asc_attention
from ascender.core.choose_backend import BACKENDS, backends_for
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
from support.position_cases import DIM, NONE, SIZES, B, D, H, M, N, make, places, randn, tail

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

    def run(backend, window, scope):
        dtype = torch.float32 if backend == "native" else torch.float64
        here = copy.deepcopy(at).to(dtype)
        qs, *others = (t.to(dtype) for t in (q, k, v, z))
        qs, (ks, vs, zs) = qs.requires_grad_(), others
        out = asc_attention(
            here.rotate(qs, p), here.rotate(ks, j), vs, zs, zs, rules=NONE, causal=causal,
            window=window, bare=ks, other=here.bias(p, j, causal), backend=backend,
            scope=scope,
        )  # fmt: skip
        leaves = [qs, *(here.parameters() if name == "t5" else ())]  # the rest act on the tokens
        return out.detach(), *torch.autograd.grad(out.sin().sum(), leaves)

    for backend in BACKENDS:
        if backend == "fused":  # on a GPU only: tests/gpu/test_passes.py
            continue
        how = (4 if backend == "windowed" else None, "flock" if backend == "flock" else "visible")
        if backend not in named:
            with pytest.raises(ValueError, match="cannot"):
                run(backend, *how)
            continue
        for got, want in zip(run(backend, *how), run("dense", *how), strict=True):
            most = 1e-5 if backend == "native" else 1e-10
            assert torch.allclose(got.double(), want, atol=most), backend


def test_a_wrong_need_would_be_noticed(monkeypatch):
    monkeypatch.setattr(T5, "needs", "columns")
    with pytest.raises(ValueError, match="matrix of scores"):
        test_backends_are_those_that_serve_it("t5", True)
    monkeypatch.setattr(T5, "needs", "rows")
    with pytest.raises(pytest.fail.Exception):
        test_backends_are_those_that_serve_it("t5", False)


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
