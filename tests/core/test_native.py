"""The C kernel equals the definition: every option, any shape, threads, compile, checkpoints."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

from ascender import AscenderAttention, Rules, asc_attention
from ascender.kernels import library
from ascender.kernels.build import kernels
from support.cases import FEW, KINDS, OPTIONS, case
from support.laws import gap, gradients

pytestmark = pytest.mark.skipif(kernels().library is None, reason=kernels().reason)


def check(x):
    """Outputs and gradients in float32 against the definition in float64, by its own error."""
    truth, dense = gradients(x.to(torch.float64), "dense"), gradients(x, "dense")
    for name, t in gradients(x, "native").items():
        times, least = (4, 2e-6) if name == "out" else (10, 5e-5)
        error = gap(t, truth[name])
        assert error <= times * gap(dense[name], truth[name]) + least, (name, error)


@pytest.mark.parametrize(
    "kind", [k if k in FEW else pytest.param(k, marks=pytest.mark.slow) for k in KINDS]
)
def test_every_option(kind):
    for options in OPTIONS:
        check(case(kind, options).to(torch.float32))


SIZES = st.tuples(*(st.integers(a, b) for a, b in [(1, 3)] * 2 + [(1, 40)] * 4 + [(2, 40)]))


@pytest.mark.usefixtures("unchecked")
@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(
    SIZES, st.integers(0, 30), st.integers(1, 40), st.booleans(), st.sampled_from(["self", "cross"])
)
def test_any_shape(sizes, more, k, causal, kind):
    B, H, N, d, e, dz, da = sizes
    M, g = N + more, torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=g)

    tensors = [draw(B, H, N, d), draw(B, H, M, d), draw(B, H, M, e)]
    tensors += [draw(B, 1, N, dz), draw(B, H, N, da), draw(B, 1, M, dz), draw(B, H, M, da)]
    options = {"cross": True} if kind == "cross" else {"causal": causal}
    weight = draw(B, H, N, e)
    found = {}
    for backend, dtype in (("native", torch.float32), ("dense", torch.float64)):
        leaves = [t.to(dtype).requires_grad_() for t in tensors]
        out = asc_attention(*leaves, rules=Rules(k=k), backend=backend, **options)
        grads = torch.autograd.grad(out, leaves, weight.to(dtype), allow_unused=True)
        found[backend] = [out, *grads]
    for a, b in zip(found["native"], found["dense"], strict=True):
        size = max(1.0, float(b.detach().abs().max()))
        assert float((a - b).detach().abs().max()) <= 2e-3 * size


@pytest.mark.parametrize("team", ["openmp", "pool"])
def test_threads_change_nothing(team, monkeypatch):
    if team == "pool":
        monkeypatch.setattr(library, "_openmp", lambda: None)
    layer = AscenderAttention(32, 4, backend="native")
    x, threads, outputs = torch.randn(5, 21, 32), torch.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            outputs.append(layer(x))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(out, outputs[0]) for out in outputs)


FORKED = """
import os, torch
from ascender import Rules, asc_attention
torch.set_num_threads(2)
x = torch.randn(2, 2, 9, 4, generator=torch.Generator().manual_seed(0))
def out():
    return asc_attention(x, x, x, x, x, rules=Rules(k=2), backend="native")
before = out()
child = os.fork()
if not child:
    os._exit(0 if torch.equal(out(), before) else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_threads_after_a_fork():
    """The child has none of its parent's threads, and must not wait for them."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "0\n"


def test_checkpoint():
    layer, x = AscenderAttention(32, 4, backend="native"), torch.randn(2, 9, 32, requires_grad=True)
    grads = [
        torch.autograd.grad(out.square().sum(), x)[0]
        for out in (layer(x), checkpoint(layer, x, use_reentrant=False))
    ]
    assert torch.equal(*grads)


@pytest.mark.slow
def test_compile_keeps_it_in_one_graph():
    layer, x = AscenderAttention(32, 4, backend="native"), torch.randn(2, 9, 32, requires_grad=True)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    plain, traced = (
        torch.autograd.grad(f(x, causal=True).square().sum(), x)[0] for f in (layer, compiled)
    )
    assert gap(traced, plain) <= 1e-5


def test_second_gradients_are_refused():
    layer, x = AscenderAttention(32, 4, backend="native"), torch.randn(1, 5, 32, requires_grad=True)
    (grad,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": torch.float64}, "dtype torch.float64; expected float32 or bfloat16"),
        ({"dropout": 0.1}, "dropout = 0.1 needs the weights"),
    ],
)
def test_what_it_refuses(change, reason):
    t = torch.randn(1, 2, 5, 4, dtype=change.pop("dtype", torch.float32))
    with pytest.raises(ValueError, match=reason):
        asc_attention(t, t, t, t, t, rules=Rules(), backend="native", **change)


def test_torch_func_takes_another_backend():
    t = torch.randn(3, 1, 2, 5, 4)
    rules = Rules()
    mapped = torch.func.vmap(lambda x: asc_attention(x, x, x, x, x, rules=rules))(t)
    plain = torch.stack([asc_attention(x, x, x, x, x, rules=rules) for x in t])
    assert gap(mapped, plain) <= 1e-6
