"""AscenderAttention with a cache: decoding, padding, bounded caches, beams."""

import pytest
import torch

from support.module_cases import (
    VARIANTS,
    B,
    N,
    beams_apart,
    cache_gradients_apart,
    check_nan_in_a_cache,
    check_rows_of_a_cache,
    make,
    tokens,
)


@pytest.mark.parametrize("name", VARIANTS)
def test_decoding_equals_the_full_pass(name):
    module, x = make(**VARIANTS[name]), tokens()
    want = module(x, causal=True)
    cache = module.new_cache()
    with torch.no_grad():
        parts = [module(x[:, :7], cache=cache), module(x[:, 7:8], cache=cache)]
        parts += [module(x[:, 8:11], cache=cache)]
        parts += [module(x[:, i : i + 1], cache=cache) for i in range(11, N)]
    assert len(cache) == N
    assert torch.allclose(torch.cat(parts, 1), want, atol=1e-10)
    assert not torch.allclose(module(x), want, atol=1e-3), "the full pass is causal"


def test_decoding_with_left_padding():
    module, x = make(), tokens()
    real = torch.ones(B, N, dtype=torch.bool)
    real[1, :5] = False
    want = module(x, causal=True, mask=real)
    cache = module.new_cache()
    with torch.no_grad():
        got = [module(x[:, :9], cache=cache, mask=real[:, :9])]
        got += [module(x[:, i : i + 1], cache=cache, mask=real[:, : i + 1]) for i in range(9, N)]
    assert torch.allclose(torch.cat(got, 1), want, atol=1e-10)


def test_padding_that_begins_after_real_tokens():
    """A cache that has held only real tokens learns of padding later."""
    module, x = make(), tokens(6)
    cache = module.new_cache()
    real = torch.tensor([[True], [False]])
    with torch.no_grad():
        first = module(x[:, :5], cache=cache)
        last = module(x[:, 5:], cache=cache, mask=real)
    mask = torch.ones(B, 6, dtype=torch.bool)
    mask[1, 5] = False
    want = module(x, causal=True, mask=mask)
    assert torch.allclose(torch.cat([first, last], 1), want, atol=1e-10)


def test_a_bounded_cache_stays_bounded():
    window, g = 4, 2
    module, x = make(window=window, n_global=g), tokens(200)
    want = module(x, causal=True)
    cache, sizes = module.new_cache(), []
    with torch.no_grad():
        got = []
        for i in range(200):
            got.append(module(x[:, i : i + 1], cache=cache))
            sizes.append(cache.nbytes())
    assert torch.allclose(torch.cat(got, 1), want, atol=1e-10)
    assert cache.held <= 2 * (window + g) + 1
    assert sizes[-1] == sizes[50], "memory does not grow with the stream"


def test_beams_reorder():
    assert beams_apart(make(), tokens(), 6) < 1e-10


def test_gradients_through_a_cache():
    assert cache_gradients_apart(make(), tokens(6), 4) < 1e-9


@pytest.mark.parametrize("options", [{}, {"kv_heads": 1}, {"geometry": "shared"}])
def test_rows_of_a_cache_by_the_definition(options):
    check_rows_of_a_cache(make(**options), tokens())
    check_nan_in_a_cache(make(**options), tokens())
