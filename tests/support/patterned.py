"""What the tests of windows and of blocks share: the slow truth, and things to plug in."""

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ascender.core.combine import LowRank
from ascender.core.normalizers import Normalizer
from ascender.nn.baselines import patterned
from ascender.nn.positions import Position

B, H, D, E, R = 2, 3, 7, 5, 2
LEAVES = ("q", "k", "v", "left", "right", "by_key")


def patterned_path(request, monkeypatch):
    """A fixture: everything holds in blocks and, where it is short, in one piece."""
    if request.param == "blocks":
        monkeypatch.setattr(patterned, "SHORT", 0)
    return request.param


def leaves(N, M, kv_heads=H, seed=0):
    """Tensors of unequal sizes to differentiate by."""
    g = torch.Generator().manual_seed(seed)

    def randn(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.double).requires_grad_()

    return {
        "q": randn(B, H, N, D), "k": randn(B, kv_heads, M, D), "v": randn(B, kv_heads, M, E),
        "left": randn(H, N, R), "right": randn(B, 1, M, R), "by_key": randn(H, 1, M),
    }  # fmt: skip


def bias(x, kind):
    """None, one number a key, or a low-rank matrix."""
    if kind == "low rank":
        return LowRank(x["left"], x["right"])
    return x["by_key"] if kind == "by key" else None


def padding(M, side="right"):
    """(B, 1, 1, M); the second of the batch is cut."""
    real = torch.ones(B, 1, 1, M, dtype=torch.bool)
    cut = -(-M // 3)
    real[1, ..., slice(0, cut) if side == "left" else slice(M - cut, None)] = False
    return real


def plain(q, k, v, visible, other=None, n=None):
    """softmax over V(i) of q·k/√d + β, times v, with whole matrices; a row that sees nothing
    is 0. `n`: how often each key counts."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    s = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
    if other is not None:
        s = s + (
            torch.einsum("...ir,...jr->...ij", other.left, other.right)
            if isinstance(other, LowRank)
            else other
        )
    s = s - s.detach().amax(-1, keepdim=True)
    e = s.exp() * visible if n is None else s.exp() * visible * n
    total = e.sum(-1, keepdim=True)
    return torch.einsum("bhij,bhje->bhie", e / torch.where(total > 0, total, 1), v)


def gaps(x, got, want):
    """The largest difference, of outputs and of the gradient by each leaf, by name."""
    g = torch.Generator().manual_seed(9)
    along = torch.randn(got.shape, generator=g, dtype=got.dtype)
    both = [
        torch.autograd.grad(y, list(x.values()), along, allow_unused=True, retain_graph=True)
        for y in (got, want)
    ]
    errors = {"out": float((got - want).detach().abs().max())}
    for name, a, b in zip(x, *both, strict=True):
        assert (a is None) == (b is None), name
        errors[name] = 0.0 if a is None else float((a - b).abs().max())
    return errors


class Largest(TorchDispatchMode):
    """How many numbers the largest tensor has that an operator makes (views are not made)."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(t, torch.Tensor):
                self.numel = max(self.numel, t.untyped_storage().nbytes() // t.element_size())
        return out


def largest(call):
    with Largest() as mode:
        call()
    return mode.numel


class Turn(Position):
    """An embedding and a rotation of the first two columns, as any position might have."""

    name = "turn"

    def embed(self, x, p):
        return x + torch.cos(0.7 * p)[..., None].to(x.dtype)

    def rotate(self, t, p):
        p = p.view(-1, 1, p.shape[-1]) if p.ndim == 2 else p
        c, s = torch.cos(0.3 * p).to(t.dtype), torch.sin(0.3 * p).to(t.dtype)
        a, b = t[..., 0], t[..., 1]
        turned = torch.stack([c * a - s * b, s * a + c * b], -1)
        return torch.cat([turned, t[..., 2:]], -1)


class Slope(Position):
    """β_ij = −slope·(p − j) where causal, up to a constant of the row; else the matrix of
    −slope·|p − j|."""

    name = "slope"
    needs = "matrix"
    causal_needs = "columns"

    def bias(self, p, j, causal):
        slopes = torch.tensor([0.5, 0.25, 0.125], dtype=torch.double).view(-1, 1, 1)
        return slopes * j if causal else -slopes * (p[:, None] - j).abs()


class Grow(Normalizer):
    """Scores of a row times s log n, over a temperature."""

    name = "grow"
    temperature = 0.7
    softmax = True

    def __init__(self):
        super().__init__(self.temperature)
        self.s = nn.Parameter(torch.tensor(0.6, dtype=torch.double))

    def sharpen(self, q, n):
        return q * (1 + self.s * n.clamp_min(1).to(q.dtype).log())


class Sharp(Normalizer):
    """One that needs whole rows of scores."""

    name = "sharp"
    softmax = False
