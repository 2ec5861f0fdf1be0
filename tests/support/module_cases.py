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


@torch.no_grad()
def beams_apart(module, x, n):
    """How far a cache of n tokens whose batch was reordered is from the full pass."""
    cache, order = module.new_cache(), torch.tensor([1, 1])
    module(x[:, :n], cache=cache)
    cache.reorder(order)
    got = module(x[order, n : n + 1], cache=cache)
    return float((got - module(x[order, : n + 1], causal=True)[:, n:]).abs().max())


def cache_gradients_apart(module, x, n):
    """How far gradients through a cache, n tokens and the rest, are from those of the full pass."""
    x, cache = x.requires_grad_(), module.new_cache()
    y = torch.cat([module(x[:, :n], cache=cache), module(x[:, n:], cache=cache)], 1)
    (got,) = torch.autograd.grad(y.square().sum(), x)
    (want,) = torch.autograd.grad(module(x, causal=True).square().sum(), x)
    return float((got - want).abs().max())


def check_rows_of_a_cache(module, x):
    """By the definition: rows 7 and 8, then 9 and 10 with their parts, as in the full pass."""
    want, parts = module(x, causal=True, return_parts=True)
    cache = module.new_cache()
    with torch.no_grad():
        module(x[:, :7], cache=cache)
        assert torch.allclose(module(x[:, 7:9], cache=cache, backend="dense"), want[:, 7:9])
        last, some = module(x[:, 9:11], cache=cache, return_parts=True)
    assert torch.allclose(last, want[:, 9:11], atol=1e-10)
    for name, t in {**some.terms(), "total": some.total}.items():
        assert torch.allclose(t, getattr(parts, name)[:, :, 9:11, :11], atol=1e-10), name


def check_nan_in_a_cache(module, x):
    """A NaN among what the cache holds reaches later rows of its own text only."""
    want, spoilt, cache = module(x, causal=True), x.clone(), module.new_cache()
    spoilt[1, 3] = torch.nan
    with torch.no_grad():
        module(spoilt[:, :7], cache=cache)
        got = module(x[:, 7:8], cache=cache)
    assert torch.allclose(got[0], want[0, 7:8], atol=1e-10)
    assert bool(got[1].isnan().all())
