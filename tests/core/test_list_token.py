"""One new token in flock scope by the C kernel (kernels/list_token.c) equals the definition."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ascender import AscenderAttention
from ascender.core.backends import flock as module
from ascender.kernels.build import kernels
from support.cases import BY_QUERY
from support.flock_cases import flocked
from support.laws import calls_of, definition_gap, gap, run

pytestmark = [
    pytest.mark.skipif(kernels().library is None, reason=kernels().reason),
    pytest.mark.usefixtures("unchecked"),
]

# Of cases in which the heads share h, so that there is one list.
OPTIONS = (
    "plain", "shared", "bare", "bare key-norm", "key-norm", "grouped", "grouped bare", "raw",
    "local", "no-term", "distance", "one-tau wide-values", "shared float-norm",
)  # fmt: skip


def last(options="plain", size=11, kind="decode", far=3):
    """A case of one query at the end of `size` keys; all heads have the h of the first."""
    x = flocked(kind, options, size)
    leaves = {name: t[:, :, -1:] if name in BY_QUERY else t for name, t in x.leaves.items()}
    leaves |= {name: leaves[name][:, :1] for name in ("h", "h_q") if name in leaves}
    given = x.neighbours if isinstance(x.neighbours, str) else x.neighbours[:, :, -1:]
    fixed = {**x.fixed, "far": far, "k": 4}
    return replace(x, leaves=leaves, fixed=fixed, neighbours=given).to(torch.float32)


def near(x, window, n_global):
    return replace(x, masks={**x.masks, "window": window, "n_global": n_global})


def apart(x):
    return definition_gap(x, "flock")


@pytest.fixture
def served(monkeypatch):
    return calls_of(monkeypatch, module, "_token")


@pytest.mark.parametrize("size", [11, 301])
@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_equals_the_definition(options, size, served):
    x = last(options, size)
    truth = run(x.to(torch.float64), "dense")
    assert apart(x) <= 4 * gap(run(x, "dense"), truth) + 3e-6
    assert len(served) == 1


@pytest.mark.parametrize("far", [0, 1, 7, 40, 500])
@pytest.mark.parametrize(("window", "n_global"), [(0, 0), (3, 0), (0, 2), (5, 4), (400, 1)])
@torch.no_grad()
def test_window_globals_and_far_keys(window, n_global, far, served):
    x = near(last("distance", 301, far=far), window, n_global)
    assert apart(x) < 1e-5
    assert len(served) == 1


@torch.no_grad()
def test_more_globals_than_keys_go_the_long_way(served):
    x = near(last(), 2, 11)
    assert apart(x) < 1e-5
    assert not served


@pytest.mark.parametrize("off", [("align",), ("sep",), ("coh",), ("align", "sep", "coh")])
@torch.no_grad()
def test_rules_switched_off(off, served):
    x = last(size=43)
    x = replace(x, fixed={**x.fixed, **{f"lam_{rule}": 0.0 for rule in off}})
    assert apart(x) < 5e-6
    assert served


@torch.no_grad()
def test_a_thousandth_is_noticed(served):
    x = last(size=43)
    for name, t in x.numbers.items():
        if name not in ("k", "kappa"):
            other = replace(x, numbers={**x.numbers, name: t + 1e-3})
            assert gap(run(other, "flock"), run(x, "flock")) > 1e-6, name
    assert served


@torch.no_grad()
def test_of_equal_keys_the_most_recent_are_chosen(served):
    x = last(size=43, far=5)
    h = x.leaves["h"]
    x = x.but(h=h[:, :, :1].expand_as(h).clone())
    assert apart(x) < 5e-6
    v = x.leaves["v"].clone()
    v[:, :, :37] += 1  # the flock is the newest token and the five before it
    assert torch.equal(run(x.but(v=v), "flock"), run(x, "flock"))
    v[:, :, 37] += 1
    assert not torch.equal(run(x.but(v=v), "flock"), run(x, "flock"))
    assert len(served) == 5


@pytest.mark.parametrize("leaf", ["q", "k", "v", "z", "h", "h_q"])
@pytest.mark.parametrize("far", [3, 0])
@torch.no_grad()
def test_a_token_that_is_not_a_number(leaf, far):
    x = last(size=43, far=far)
    t = x.leaves[leaf].clone()
    t[0, 0, 0] = torch.nan
    x = x.but(**{leaf: t})
    out, expected = run(x, "flock"), run(x, "dense")
    assert torch.equal(out.isnan().any(-1), expected.isnan().any(-1))
    assert out.isnan().any()
    assert gap(out[1], expected[1]) < 1e-5


@torch.no_grad()
def test_other_cases_go_the_long_way(served):
    """Lists by head, a bias of keys, tied affinity, other dtypes, masks."""
    for options in ("tied", "given", "scores", "low-rank", "key-bias"):
        run(last(options), "flock")
    run(last(far=(2, 3, 1)), "flock")
    run(last(kind="decode padded"), "flock")
    run(last().to(torch.float64), "flock")
    run(last().to(torch.bfloat16), "flock")
    assert not served
    with torch.enable_grad():
        run(last(), "flock")
    assert not served
    run(last(), "flock")
    assert served


@torch.no_grad()
def test_a_cached_token_that_is_not_a_number_is_remembered(served):
    """No later token reads the keys again to find out."""
    layer = AscenderAttention(32, 4, scope="flock", far=2, window=1, k=2).eval()
    x, cache = torch.randn(2, 30, 32), layer.new_cache()
    x[0, 3] = torch.nan
    layer(x[:, :20], causal=True, cache=cache)
    out = torch.cat([layer(x[:, i : i + 1], cache=cache) for i in range(20, 30)], 1)
    assert out[0].isnan().all()
    assert out[1].isfinite().all()
    assert served


@torch.no_grad()
def test_far_keys_of_the_layer_below(served):
    torch.manual_seed(0)
    options = {"scope": "flock", "far": 5, "window": 2, "n_global": 1, "k": 3}
    below, above = (AscenderAttention(32, 4, **options).eval() for _ in range(2))
    x, caches = torch.randn(2, 60, 32), [below.new_cache(), above.new_cache()]
    y, far = below(x, causal=True, return_neighbours=True)
    whole, steps = above(y, causal=True, neighbours=far), []
    for part in (slice(0, 20), *(slice(i, i + 1) for i in range(20, 60))):
        y, far = below(x[:, part], causal=True, cache=caches[0], return_neighbours=True)
        steps.append(above(y, causal=True, neighbours=far, cache=caches[1]))
    assert gap(torch.cat(steps, 1), whole) < 1e-5
    assert len(served) == 80  # layers that hand lists on go by the backends
