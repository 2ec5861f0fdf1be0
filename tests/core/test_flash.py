"""The kernels behind the fold: flash with a differentiable log-sum-exp, sums over index lists."""

import pytest
import torch

from ascender.core.backends import flash_narrow_values as module
from ascender.core.backends.flash import attend
from ascender.core.backends.index_lists import Lists

B, H, N, M, D, E = 2, 3, 37, 41, 5, 4


def tensors(n=N, m=M):
    torch.manual_seed(0)
    shapes = ((B, H, n, D), (B, H, m, D), (B, H, m, E))
    return [torch.randn(s, dtype=torch.double, requires_grad=True) for s in shapes]


def in_the_open(Q, K, V, causal, bias):
    s = Q @ K.mT
    if causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    s = s if bias is None else s + bias
    return torch.softmax(s, -1) @ V, torch.logsumexp(s, -1)


def padding():
    return torch.zeros(B, 1, 1, M).double().index_fill(-1, torch.tensor([3, 40]), -torch.inf)


@pytest.mark.parametrize("use", ["out", "lse", "both"])
@pytest.mark.parametrize("kind", ["full", "causal", "padded"])
def test_gradients_of_out_and_lse(kind, use):
    """Also where only lse has a gradient: the kernel's own backward has none for it."""
    leaves = tensors(n=M if kind == "causal" else N)
    bias = padding() if kind == "padded" else None
    got = attend(*leaves, causal=kind == "causal", bias=bias)
    want = in_the_open(*leaves, kind == "causal", bias)
    losses = []
    for out, lse in (got, want):
        parts = {"out": out.square().sum(), "lse": lse.sin().sum()}
        losses.append(sum(parts.values()) if use == "both" else parts[use])
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    pairs = (torch.autograd.grad(loss, leaves, materialize_grads=True) for loss in losses)
    for a, b in zip(*pairs, strict=True):
        assert torch.allclose(a, b, atol=1e-12)


@pytest.fixture
def slim(monkeypatch):
    """The blocks of narrow values, small enough for several of them; how often they served."""
    served, forward = [], module.forward
    for name, size in {"ROWS": 7, "KEYS": 13, "LONG": 1}.items():
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(module, "forward", lambda *call: served.append(1) or forward(*call))
    return served


@pytest.mark.parametrize("use", ["out", "lse", "both"])
@pytest.mark.parametrize("kind", ["full", "causal", "padded"])
@pytest.mark.parametrize("scale", [1, 30])
def test_narrow_values_in_blocks(kind, use, scale, slim):
    """The same where V is much narrower than Q, also at scores of thousands."""
    n = M if kind == "causal" else N
    Q, K, V = (scale * torch.randn(B, H, m, w).double() for m, w in ((n, D), (M, D), (M, 2)))
    leaves = [t.requires_grad_() for t in (Q, K, V)]
    bias = padding() if kind == "padded" else None
    got = attend(*leaves, causal=kind == "causal", bias=bias)
    want = in_the_open(*leaves, kind == "causal", bias)
    for a, b in zip(got, want, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-11)
    losses = [{"out": o.sin().sum(), "lse": lse.sin().sum()} for o, lse in (got, want)]
    chosen = [sum(each.values()) if use == "both" else each[use] for each in losses]
    pairs = (torch.autograd.grad(loss, leaves, materialize_grads=True) for loss in chosen)
    for a, b in zip(*pairs, strict=True):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-10)
    assert len(slim) == (kind != "padded")


def test_blocks_are_for_narrow_values_only(slim):
    attend(*tensors())
    assert not slim


def lists():
    index = torch.randint(-1, M, (B, 1, N, 6), generator=torch.Generator().manual_seed(1))
    return index, Lists(index, H, M)


def test_sums_over_lists_are_gathers():
    index, own = lists()
    x, y, _ = tensors()
    p = torch.randn(B, H, N, 6, dtype=torch.double, requires_grad=True)
    where = index.clamp_min(0).expand(B, H, N, 6)
    taken = y[torch.arange(B).view(B, 1, 1, 1), torch.arange(H).view(1, H, 1, 1), where]
    taken = taken * (index >= 0).unsqueeze(-1)
    pairs = {
        "dot": (own.dot(x, y), (x.unsqueeze(-2) * taken).sum(-1)),
        "bag": (own.bag(p, y), (p.unsqueeze(-1) * taken).sum(-2)),
        "sum": (own.bag(None, y), taken.sum(-2)),
    }
    for name, (got, want) in pairs.items():
        assert torch.allclose(got, want, atol=1e-12), name
        sides = [
            torch.autograd.grad(
                t.square().sum(), [x, y, p], retain_graph=True, materialize_grads=True
            )
            for t in (got, want)
        ]
        for a, b in zip(*sides, strict=True):
            assert torch.allclose(a, b, atol=1e-12), name


def test_lists_longer_than_the_keys():
    index = torch.full((1, 1, 2, 9), -1)
    index[..., 0, 7], index[..., 1, 2] = 1, 2
    own = Lists(index, 1, 3)
    y = torch.eye(3).view(1, 1, 3, 3)
    assert own.bag(None, y)[0, 0].tolist() == [[0, 1, 0], [0, 0, 1]]
