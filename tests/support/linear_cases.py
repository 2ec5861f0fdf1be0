"""Random tensors for the tests of attention by features."""

import torch

from ascender.nn.baselines.linear import LinearAttention

B, H, N, f, e = 2, 3, 11, 5, 7
DIM, HEADS = 18, 3


def randn(*shape, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.double, generator=g)


def padding(m, kind):
    real = torch.ones(B, 1, m, dtype=torch.bool)
    if kind == "left":
        real[1, :, :4] = False
    elif kind == "right":
        real[1, :, -5:] = False
    elif kind == "head":
        real = randn(B, H, m, seed=4) > -0.3
    elif kind == "all":
        real[1] = False
    return real


def make(kind=LinearAttention, **options):
    torch.manual_seed(0)
    return kind(DIM, HEADS, **options).double().eval()


def visible_pairs(n, m, causal, mask):
    visible = torch.ones(B, H, n, m, dtype=torch.bool)
    if causal:
        visible = visible.tril(m - n)
    return visible if mask is None else visible & mask[..., None, :]


def dense(fq, fk, v, visible):
    A = (fq @ fk.mT).masked_fill(~visible, 0)
    return A / A.sum(-1, keepdim=True).clamp_min(1e-30) @ v
