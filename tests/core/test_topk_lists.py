"""Top-k over index lists: vanilla attention on the best keys of each row."""

from dataclasses import replace

import pytest
import torch

from ascender import LowRank, asc_attention
from ascender.core.backends import topk_sparse
from ascender.core.backends.topk_sparse import top_attention
from ascender.core.normalizers import TopK
from ascender.nn.baselines.vanilla import Vanilla
from support.laws import (
    KINDS,
    LARGE,
    TOLERANCE,
    B,
    D,
    E,
    H,
    cotangent,
    gap,
    run,
    visible,
)
from support.normalizer_cases import EXACT, vanilla


def by_lists(x, vis, size=4):
    call = x.call()
    return top_attention(call["q"], call["k"], call["v"], vis, size, call.get("other"))


def with_gradients(x, compute):
    """The output, and the gradients by every leaf that vanilla attention reads."""
    names = [n for n in x.leaves if n not in ("z", "h", "z_q", "h_q")]
    leaves = {n: x.leaves[n].clone().requires_grad_() for n in names}
    out = compute(x.but(**leaves))
    out.backward(cotangent(x, out.shape[-1]))
    return {"out": out.detach(), **{n: t.grad for n, t in leaves.items()}}


@pytest.mark.parametrize(
    ("kind", "options"),
    [(kind, "low-rank") for kind in KINDS]
    + [
        (kind, o)
        for kind in ("full", "any mask", "decode")
        for o in ("plain", "key-bias", "grouped")
    ],
)
def test_active_equals_the_definition(kind, options, monkeypatch):
    monkeypatch.setattr(topk_sparse, "CHUNK", 37)  # rows three at a time
    x, vis = vanilla(kind, options)
    expected = with_gradients(x, lambda y: run(y, "dense"))
    got = with_gradients(x, lambda y: by_lists(y, vis))
    assert max(gap(got[n], expected[n]) for n in expected) <= EXACT
    assert gap(by_lists(x, vis, 3), expected["out"]) > 1e-2
    assert (got["out"][~visible(x).any(-1).expand(B, H, -1)] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_active_in_other_precisions(dtype):
    x, vis = vanilla("causal padded left", size=LARGE)
    got = by_lists(x.to(dtype), vis)
    assert got.dtype == dtype
    truth = run(replace(x.to(dtype).to(torch.float64), normalizer=TopK(4)), "dense")
    assert gap(got, truth) <= TOLERANCE[dtype]


def test_active_with_ties_and_many():
    """Equal keys: the earliest, as in the definition. size ≥ M: plain attention."""
    x, vis = vanilla("causal")
    keys = x.leaves["k"].round()  # whole numbers: equal keys have equal scores to the last bit
    keys[:, :, ::2] = keys[:, :, :1]
    x = x.but(k=keys, q=x.leaves["q"].round())
    assert gap(by_lists(x, vis), run(x, "dense")) <= EXACT
    later = run(x.but(k=keys.flip(2), v=x.leaves["v"].flip(2)), "dense")
    assert gap(by_lists(x, vis), later) > 1e-2
    soft = run(replace(x, normalizer=None), "dense")
    assert gap(by_lists(x, vis, 11), soft) <= EXACT
    assert gap(by_lists(x, vis, 50), soft) <= EXACT


@pytest.mark.parametrize("kind", ["causal padded left", "any mask", "cross"])
@pytest.mark.parametrize("leaf", ["q", "k", "v"])
def test_active_nan_spoils_the_rows_that_see_it(kind, leaf):
    for token in (0, 4):
        x, vis = vanilla(kind)
        t, V = x.leaves[leaf].clone(), visible(x).expand(B, H, -1, -1)
        t[1, 1, token, -1] = torch.nan
        expected = torch.zeros_like(V[..., 0])
        if leaf == "q":
            expected[1, 1, token] = V[1, 1, token].any()
        else:
            expected[1, 1] = V[1, 1, :, token]
        got = by_lists(x.but(**{leaf: t}), vis)
        assert torch.equal(got.isnan(), expected[..., None].expand_as(got))
        assert gap(got[~expected], by_lists(x, vis)[~expected]) <= EXACT


def saved(compute):
    """The numbers in the largest tensor that autograd keeps."""
    sizes = []

    def pack(t):
        sizes.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        compute()
    return max(sizes)


def test_active_keeps_lists_not_matrices():
    """O(N · size): what is kept for backward never has N · M numbers; the definition's has."""
    n, size = 503, 4
    x, vis = vanilla("causal", size=n)
    x = x.but(**{name: t.requires_grad_() for name, t in x.leaves.items()})
    assert saved(lambda: by_lists(x, vis, size)) <= B * H * n * max(size, D, E)
    assert saved(lambda: run(x, "dense")) >= B * H * n * n


def test_active_errors():
    x, vis = vanilla("full", "matrix")
    with pytest.raises(ValueError, match=r"other of shape.*LowRank.*dense"):
        by_lists(x, vis)
    x, vis = vanilla("full")
    with pytest.raises(ValueError, match="size = 0"):
        by_lists(x, vis, 0)
    left, right = torch.randn(H, 11, 2).double(), torch.randn(11, 2).double()
    call = x.call()
    folded = top_attention(call["q"], call["k"], call["v"], vis, 4, LowRank(left, right))
    matrix = {**call, "other": left @ right.mT}
    assert gap(folded, asc_attention(**matrix, backend="dense")) <= EXACT


@pytest.mark.parametrize("kv_heads", [1, 3])
def test_vanilla_takes_lists_when_long(kv_heads):
    torch.manual_seed(0)
    module = Vanilla(15, 3, kv_heads=kv_heads, normalizer=TopK(5)).double()
    for n, matrices in ((31, True), (211, False)):
        x = torch.randn(2, n, 15).double().requires_grad_()
        real = torch.arange(n) >= torch.tensor([[0], [4]])
        got = module(x, causal=True, mask=real)
        want = module(x, causal=True, mask=real, return_parts=True)[0]
        assert gap(got, want) <= EXACT
        most = saved(lambda x=x, real=real: module(x, causal=True, mask=real))
        assert (most >= 2 * 3 * n * n) == matrices
