"""A small AscenderAttention in every variant, and tokens for it."""

import torch

from ascender import AscenderAttention

B, N, DIM, HEADS = 2, 23, 24, 3
VARIANTS = {
    "plain": {},
    "shared": {"geometry": "shared"},
    "qk_norm": {"qk_norm": True},
    "shared qk_norm": {"geometry": "shared", "qk_norm": True},
    "grouped": {"kv_heads": 1},
    "window": {"window": 4, "n_global": 2},
    "local": {"local_scope": "neighbours"},
    "scores": {"neighbours": "scores"},
    "per-head k": {"k": [2, 5, 3]},
    "roles": {"roles": ["align", "sep", "coh"]},
    "raw": {"standardise": False},
    "ungated": {"gates": False},
    "shared numbers": {"numbers": "shared", "roles": ["align", "sep", "all"]},
    "all shared": {"numbers": "shared", "geometry": "shared"},
}


def make(**options):
    torch.manual_seed(0)
    module = AscenderAttention(DIM, HEADS, **{"k": 3, "omega": 0.6, **options}).double()
    for p in module.parameters():
        if p.ndim == 1:
            p.data += 0.2 * torch.rand_like(p)
    return module


def tokens(n=N):
    return torch.randn(B, n, DIM, dtype=torch.double, generator=torch.Generator().manual_seed(1))
