"""One new token of a layer straight from its cache (nn/one_token.py): the same as by the backends,
and only where nothing is unusual."""

from __future__ import annotations

import pytest
import torch

from ascender import AscenderAttention
from ascender.core.schedule import set_lam
from ascender.kernels.build import kernels
from ascender.nn import module
from support.laws import gap

pytestmark = [
    pytest.mark.skipif(kernels().library is None, reason=kernels().reason),
    pytest.mark.usefixtures("unchecked"),
]

FLOCK = {"scope": "flock", "far": 5, "window": 2, "n_global": 1, "k": 3}
SERVED = {
    "plain": {}, "shared": {"geometry": "shared"}, "rope": {"position": "rope"},
    "grouped rope": {"kv_heads": 2, "position": "rope"}, "qk_norm": {"qk_norm": True},
    "shared qk_norm": {"qk_norm": True, "geometry": "shared"}, "ungated": {"gates": False},
    "flock": FLOCK, "flock rope": {**FLOCK, "position": "rope", "kv_heads": 2},
    "flock qk_norm": {**FLOCK, "qk_norm": True}, "flock everyone": {**FLOCK, "far": 99},
    "flock distance": {**FLOCK, "affinity_bias": 8}, "flock raw": {**FLOCK, "standardise": False},
    "flock local": {**FLOCK, "local_scope": "neighbours", "geometry": "shared"},
    "flock without term": {**FLOCK, "affinity_term": False}, "roles": {"roles": ["align"] * 4},
}  # fmt: skip
OTHERS = {
    "window": {"window": 4}, "alibi": {"position": "alibi"}, "shaw": {"position": "shaw"},
    "topk": {"normalizer": "topk"}, "scores": {"neighbours": "scores"},
    "local": {"local_scope": "neighbours"}, "raw": {"standardise": False},
    "k by head": {"k": [1, 2, 3, 4]}, "term": {"affinity": "query-key", "affinity_term": True},
    "flock tied": {**FLOCK, "affinity": "tied"}, "flock window": {**FLOCK, "far": 0},
    "flock by head": {**FLOCK, "affinity_heads": 4}, "flock far by head": {**FLOCK, "far": [1] * 4},
}  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """What one_token returned at every call, None where it left a token to the backends."""
    returned, one_token = [], module.one_token

    def noted(*args):
        returned.append(one_token(*args))
        return returned[-1]

    monkeypatch.setattr(module, "one_token", noted)
    return returned


def layer(options):
    torch.manual_seed(0)
    made = AscenderAttention(32, 4, **{"k": 3, **options}).eval()
    if made.distance_bias is not None:
        made.distance_bias.data.copy_(torch.linspace(-1, 1, made.distance_bias.numel()))
    for name, p in made.named_parameters():
        if name.startswith(("omega", "log_tau")):
            p.data += 0.3 * torch.rand_like(p)
    return made


def decoded(attention, x, first=20, **options):
    cache = attention.new_cache()
    rows = [attention(x[:, :first], causal=True, cache=cache, **options)]
    rows += [attention(x[:, i : i + 1], cache=cache) for i in range(first, x.shape[1])]
    return torch.cat(rows, 1)


@pytest.mark.parametrize("name", SERVED)
@torch.no_grad()
def test_equals_the_full_pass(name, calls):
    attention, x = layer(SERVED[name]), torch.randn(2, 60, 32)
    assert gap(decoded(attention, x), attention(x, causal=True)) < 2e-5
    served = [out for out in calls if out is not None]
    assert len(served) == 40


@pytest.mark.parametrize("name", OTHERS)
@torch.no_grad()
def test_leaves_the_rest_to_the_backends(name, calls):
    attention, x = layer(OTHERS[name]), torch.randn(2, 40, 32)
    assert gap(decoded(attention, x), attention(x, causal=True)) < 2e-5
    assert len(calls) >= 20
    assert all(out is None for out in calls)


@torch.no_grad()
def test_changed_numbers_are_noticed(calls):
    attention, x = layer({}), torch.randn(1, 30, 32)
    before = decoded(attention, x)
    attention.omega_align += 0.5
    after = decoded(attention, x)
    assert gap(after, before) > 1e-3
    assert gap(after, attention(x, causal=True)) < 2e-5
    set_lam(attention, {"sep": 0.0})
    without = decoded(attention, x)
    assert gap(without, after) > 1e-3
    assert gap(without, attention(x, causal=True)) < 2e-5
    assert len(calls) == 30
    assert all(out is not None for out in calls)


@torch.no_grad()
def test_padding_and_numbers_that_are_not_finite(calls):
    attention, x = layer(FLOCK), torch.randn(2, 30, 32)
    mask = torch.ones(2, 20, dtype=torch.bool)
    mask[0, :3] = False
    decoded(attention, x, mask=mask)
    x[1, 25] = torch.nan
    out = decoded(attention, x)
    assert out[1, 25:].isnan().all()
    assert out[0].isfinite().all()
    left = [value is None for value in calls]
    assert left[:15] == [True] * 10 + [False] * 5
    assert all(left[15:])


@torch.inference_mode()
def test_inference_mode(calls):
    attention, x = layer(FLOCK), torch.randn(2, 30, 32)
    assert gap(decoded(attention, x), attention(x, causal=True)) < 2e-5
    assert all(out is not None for out in calls)


def test_with_a_gradient_the_backends_run(calls):
    attention, x = layer(FLOCK), torch.randn(1, 12, 32)
    cache = attention.new_cache()
    attention(x[:, :11], causal=True, cache=cache)
    attention(x[:, 11:], cache=cache).sum().backward()
    assert attention.omega_align.grad.abs().sum() > 0
    assert calls == [None]


@torch.no_grad()
def test_cropped_and_reordered_caches(calls):
    attention, x = layer(FLOCK), torch.randn(2, 30, 32)
    cache = attention.new_cache()
    attention(x[:, :25], causal=True, cache=cache)
    wrong = attention(torch.randn(2, 1, 32), cache=cache)
    cache.crop(1)
    right = attention(x[:, 25:26], cache=cache)
    assert gap(right, attention(x, causal=True)[:, 25:26]) < 2e-5
    assert gap(right, wrong) > 1e-3
    cache.reorder(torch.tensor([1, 0]))
    flipped = attention(x.flip(0)[:, 26:27], cache=cache)
    assert gap(flipped.flip(0), attention(x, causal=True)[:, 26:27]) < 2e-5
    assert all(out is not None for out in calls)
