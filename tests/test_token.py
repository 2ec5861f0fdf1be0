"""One new token by the short way (backends/token.py) equals the definition."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from ascender import Cache
from ascender.attention import attend
from ascender.backends import decode as module
from cases import BY_QUERY, case
from laws import gap, run

OPTIONS = (
    "plain", "one-tau", "key-norm", "float-norm", "bare", "bare key-norm", "grouped", "shared",
    "wide-values", "shared one-tau key-norm", "grouped bare",
)  # fmt: skip


def last(options="plain", size=11, kind="decode"):
    """A case of one query."""
    x = case(kind, options, size)
    one = {name: x.leaves[name][:, :, -1:] for name in BY_QUERY if name in x.leaves}
    near = x.neighbours if isinstance(x.neighbours, str) else x.neighbours[:, :, -1:]
    return replace(x.but(**one), neighbours=near)


@pytest.fixture
def served(monkeypatch):
    """How often the short way was taken."""
    calls, token = [], module.token
    monkeypatch.setattr(module, "token", lambda flock: calls.append(1) or token(flock))
    return calls


@pytest.mark.parametrize("size", [11, 157])
@pytest.mark.parametrize("options", OPTIONS)
@torch.no_grad()
def test_equals_the_definition(options, size, served):
    x = last(options, size)
    assert gap(run(x, "decode"), run(x, "dense")) < 1e-12
    narrow = x.to(torch.float32)
    truth = run(narrow.to(torch.float64), "dense")
    own, dense = (gap(run(narrow, backend), truth) for backend in ("decode", "dense"))
    assert own <= 4 * dense + 2e-6
    assert len(served) == 2


@pytest.mark.parametrize("off", [("align",), ("sep",), ("coh",), ("align", "sep"), ("coh", "sep")])
@torch.no_grad()
def test_rules_switched_off(off, served):
    x = last()
    x = replace(x, fixed={**x.fixed, **{f"lam_{rule}": 0.0 for rule in off}})
    assert gap(run(x, "decode"), run(x, "dense")) < 1e-12
    assert served


@pytest.mark.parametrize("options", ["plain", "shared"])
@torch.no_grad()
def test_numbers_that_all_heads_share(options, served):
    x = last(options)
    numbers = {name: t[:1] if name < "k" else t[0] for name, t in x.numbers.items()}
    x = replace(x, numbers=numbers, fixed={**x.fixed, "lam_coh": 0.5})
    assert gap(run(x, "decode"), run(x, "dense")) < 1e-12
    assert served


@torch.no_grad()
def test_a_thousandth_is_noticed():
    x = last()
    for name, t in x.numbers.items():
        if name != "kappa":
            other = replace(x, numbers={**x.numbers, name: t + 1e-3})
            assert gap(run(other, "decode"), run(x, "dense")) > 1e-7, name


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
    assert gap(out[1], expected[1]) < 1e-12


def test_every_other_case_goes_the_long_way(served):
    """A gradient, a second row, a mask, a window, lists, few keys, bfloat16, other rules."""
    run(last(), "decode")
    with torch.no_grad():
        for options in ("given", "scores", "local", "raw", "low-rank", "k-per-head"):
            run(last(options), "decode")
        for kind in ("decode padded", "decode window", "cross"):
            run(last(kind=kind), "decode")
        run(case("decode"), "decode")
        run(last().to(torch.bfloat16), "decode")
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
    assert gap(attend(flock, "decode"), run(x, "dense")) < 1e-12
    cache.reorder(torch.tensor([1, 0]))
    flipped = (call[name].flip(0) for name in ("q", "z_q", "h_q"))
    flock = cache.flock(*flipped, rules=call["rules"])
    assert gap(attend(flock, "decode").flip(0), run(x, "dense")) < 1e-12
    assert len(served) == 2
