"""One new token by the C kernel (kernels/token.c) equals the definition."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from ascender import AscenderAttention, Cache
from ascender.core.attention import attend
from ascender.core.backends import decode as module
from ascender.kernels.build import kernels
from support.cases import BY_QUERY, case
from support.laws import calls_of, definition_gap, gap, run

pytestmark = pytest.mark.skipif(kernels().library is None, reason=kernels().reason)

OPTIONS = (
    "plain", "one-tau", "key-norm", "float-norm", "bare", "bare key-norm", "grouped", "shared",
    "wide-values", "shared one-tau key-norm", "grouped bare",
)  # fmt: skip


def last(options="plain", size=11, kind="decode"):
    """A case of one query."""
    x = case(kind, options, size).to(torch.float32)
    one = {name: x.leaves[name][:, :, -1:] for name in BY_QUERY if name in x.leaves}
    near = x.neighbours if isinstance(x.neighbours, str) else x.neighbours[:, :, -1:]
    return replace(x.but(**one), neighbours=near)


def apart(x):
    return definition_gap(x, "decode")


@pytest.fixture
def served(monkeypatch):
    return calls_of(monkeypatch, module, "token")


@pytest.mark.parametrize("size", [11, 157])
@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_equals_the_definition(options, size, served):
    x = last(options, size)
    truth = run(x.to(torch.float64), "dense")
    assert apart(x) <= 4 * gap(run(x, "dense"), truth) + 2e-6
    assert len(served) == 1


@pytest.mark.parametrize("off", [("align",), ("sep",), ("coh",), ("align", "sep"), ("coh", "sep")])
@torch.no_grad()
def test_rules_switched_off(off, served):
    x = last()
    x = replace(x, fixed={**x.fixed, **{f"lam_{rule}": 0.0 for rule in off}})
    assert apart(x) < 3e-6
    assert served


@pytest.mark.parametrize("options", ["plain", "shared"])
@torch.no_grad()
def test_numbers_that_all_heads_share(options, served):
    x = last(options)
    numbers = {name: t[:1] if name < "k" else t[0] for name, t in x.numbers.items()}
    x = replace(x, numbers=numbers, fixed={**x.fixed, "lam_coh": 0.5})
    assert apart(x) < 3e-6
    assert served


@torch.no_grad()
def test_a_thousandth_is_noticed():
    x = last()
    for name, t in x.numbers.items():
        if name != "kappa":
            other = replace(x, numbers={**x.numbers, name: t + 1e-3})
            assert gap(run(other, "decode"), run(x, "decode")) > 1e-6, name


@pytest.mark.parametrize("leaf", ["q", "k", "v", "z", "h"])
@torch.no_grad()
def test_a_token_that_is_not_a_number(leaf):
    x = last()
    t = x.leaves[leaf].clone()
    t[0, 1, 0] = torch.nan
    x = x.but(**{leaf: t})
    out, expected = run(x, "decode"), run(x, "dense")
    assert torch.equal(out.isnan().any(-1), expected.isnan().any(-1))
    assert out.isnan().any()
    assert gap(out[1], expected[1]) < 1e-5


def test_every_other_case_goes_the_long_way(served):
    """A gradient, a second row, a mask, a window, lists, few keys, other dtypes, other rules."""
    run(last(), "decode")
    with torch.no_grad():
        for options in ("given", "scores", "local", "raw", "low-rank", "k-per-head"):
            run(last(options), "decode")
        for kind in ("decode padded", "decode window", "cross"):
            run(last(kind=kind), "decode")
        run(case("decode"), "decode")
        run(last().to(torch.bfloat16), "decode")
        run(last().to(torch.float64), "decode")
        run(replace(last(), fixed={"k": 11}), "decode")
        assert not served
        run(last(), "decode")
    assert served


@torch.no_grad()
def test_a_cache_gives_the_same(served):
    x = last("shared", 23)
    call = x.call()
    cache = Cache()
    for part in (slice(0, 20), slice(20, 23)):
        cache.append(*(x.leaves[name][:, :, part] for name in "kvzh"))
    flock = cache.flock(call["q"], call["z_q"], call["h_q"], rules=call["rules"])
    assert gap(attend(flock, "decode"), run(x, "dense")) < 1e-5
    cache.reorder(torch.tensor([1, 0]))
    flipped = (call[name].flip(0) for name in ("q", "z_q", "h_q"))
    flock = cache.flock(*flipped, rules=call["rules"])
    assert gap(attend(flock, "decode").flip(0), run(x, "dense")) < 1e-5
    assert len(served) == 2


@torch.no_grad()
def test_leaves_that_learn(served):
    x = last("bare")
    learning = x.but(**{name: t.clone().requires_grad_() for name, t in x.leaves.items()})
    assert torch.equal(run(learning, "decode"), run(x, "decode"))
    assert len(served) == 2


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_mode(mode):
    torch.manual_seed(0)
    layer, x = AscenderAttention(12, 3, head_dim=10, d_z=5, d_a=7, k=4), torch.randn(2, 11, 12)
    with mode():
        cache = layer.new_cache()
        layer(x[:, :8], cache=cache)
        rest = tokens(layer, cache, x[:, 8:])
        assert gap(rest, layer(x, causal=True, backend="dense")[:, 8:]) < 1e-5


def tokens(layer, cache, x):
    """x one by one."""
    return torch.cat([layer(x[:, i : i + 1], cache=cache) for i in range(x.shape[1])], 1)


@pytest.mark.slow
@pytest.mark.parametrize("n_global", [0, 2])
@pytest.mark.parametrize("position", ["none", "rope", "alibi"])
@pytest.mark.parametrize("qk_norm", [False, True])
@torch.no_grad()
def test_a_window_of_a_cache(n_global, position, qk_norm, served):
    torch.manual_seed(0)
    layer = AscenderAttention(
        12, 3, head_dim=10, d_z=5, d_a=7, k=4, window=6, n_global=n_global, position=position,
        qk_norm=qk_norm,
    )  # fmt: skip
    x = torch.randn(2, 43, 12)
    cache = layer.new_cache()
    first, rest = layer(x[:, :7], cache=cache), tokens(layer, cache, x[:, 7:])
    whole = layer(x, causal=True, backend="dense")
    assert gap(torch.cat([first, rest], 1), whole) < 1e-5
    assert len(served) == (36 if n_global == 0 and position != "alibi" else 0)


@torch.no_grad()
def test_lists_of_a_window_go_by_what_the_cache_holds():
    torch.manual_seed(0)
    layer = AscenderAttention(12, 3, head_dim=10, d_z=5, d_a=7, k=4, window=6)
    x = torch.randn(2, 13, 12)
    one, other = layer.new_cache(), layer.new_cache()
    for i in range(13):
        y, near = layer(x[:, i : i + 1], cache=one, return_neighbours=True)
        assert gap(y, layer(x[:, i : i + 1], cache=other)) < 1e-5
    assert near.min() >= 13 - 7
    assert near.max() == 11


@pytest.mark.parametrize("change", ["omega_align", "log_kappa", "lam_sep", "k"])
@torch.no_grad()
def test_numbers_that_change_on_the_way(change):
    """A cache remembers the rules, and notices where they are others."""
    torch.manual_seed(0)
    layer = AscenderAttention(12, 3, head_dim=10, d_z=5, d_a=7, k=4)
    x = torch.randn(2, 11, 12)
    cache = layer.new_cache()
    tokens(layer, cache, x[:, :-2])
    before = layer(x[:, -2:-1], cache=cache)
    same, other = copy.deepcopy(cache), cache
    value = getattr(layer, change)
    if isinstance(value, torch.Tensor):
        value.sub_(1)
    else:
        setattr(layer, change, value // 2)
    expected = layer(x, causal=True, backend="dense")[:, -1:]
    assert gap(layer(x[:, -1:], cache=other), expected) < 1e-5
    assert gap(before, layer(x[:, :-1], causal=True, backend="dense")[:, -1:]) > 2e-5
    layer.version = lambda: same._rules[0]  # one that does not notice
    assert gap(layer(x[:, -1:], cache=same), expected) > 2e-5
