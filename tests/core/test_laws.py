"""The laws of docs/definition.md over every backend and dtype; and proof that each can fail."""

import itertools
import math
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from ascender.core.backends import compact, fold, folded
from ascender.core.rules import RULES
from support.cases import (
    DTYPES,
    FEW,
    KINDS,
    LARGE,
    OPTIONS,
    TOLERANCE,
    H,
    case,
    degenerate,
    each,
    serving,
)
from support.laws import (
    all_finite,
    gap,
    gradients,
    gradients_by_differences,
    leak_from_padding,
    leak_from_unseen,
    moved_apart,
    not_vanilla,
    outputs_gap,
    prefill_apart,
    run,
    shuffled,
)

# test_vectors.py and test_module.py check the shapes; here it would take a third of the time.
pytestmark = pytest.mark.usefixtures("unchecked")


@each("causal")
def test_causal(kind, backend, dtype, device):
    x = case(kind, device=device).to(dtype)
    assert leak_from_unseen(x, backend, slice(0, None, 3)) <= TOLERANCE[dtype]


@each("window", without=("causal",))
def test_window(kind, backend, dtype, device):
    x = case(kind, device=device).to(dtype)
    assert leak_from_unseen(x, backend, slice(0, None, 3)) <= TOLERANCE[dtype]


@each("causal", only=("causal", "causal padded left", "window causal globals", "decode padded"))
def test_causal_across_chunks(kind, backend, dtype, device):
    """The chunk of 128 rows and the block of 64 have edges: tokens on both sides of them."""
    x = case(kind, "shared", LARGE, device=device).to(dtype)
    assert leak_from_unseen(x, backend, slice(60, None, 35)) <= TOLERANCE[dtype]


@each("pad")
def test_padding(kind, backend, dtype, device):
    x = case(kind, device=device).to(dtype)
    assert leak_from_padding(x, backend) <= TOLERANCE[dtype]


@each()
def test_zero_is_vanilla(kind, backend, dtype, device):
    options = "key-bias" if "causal" in KINDS[kind] else "low-rank"
    x = case(kind, options, device=device).to(dtype)
    assert not_vanilla(x, backend) <= TOLERANCE[dtype]


@each()
def test_flock_moves_as_one(kind, backend, dtype, device):
    x = case(kind, device=device).to(dtype)
    assert moved_apart(x, backend, "shift", "rotate", "scale") <= TOLERANCE[dtype]


@each(without=("causal", "window"), only=set(KINDS) - {"tail"})
@pytest.mark.parametrize("options", ["given", "local"])
def test_permutation(kind, backend, dtype, options, device):
    x = case(kind, options, device=device).to(dtype)
    assert shuffled(x, backend) <= TOLERANCE[dtype]


@each("causal")
def test_decode_equals_prefill(kind, backend, dtype, device):
    x = case(kind, device=device).to(dtype)
    assert prefill_apart(x, backend) <= TOLERANCE[dtype]


@each("causal", only=("causal", "window causal globals", "decode padded"))
def test_decode_equals_prefill_beyond_a_tile(kind, backend, dtype, device):
    """Every backend is its own decoder, too."""
    x = case(kind, "given", LARGE, device=device).to(dtype)
    assert prefill_apart(x, backend, step=backend) <= TOLERANCE[dtype]


# Each law can fail.


@pytest.mark.parametrize("backend", ["dense", "folded", "decode", "compact"])
def test_laws_can_fail(backend):
    causal, padded = case("causal"), case("padded right")
    blind = replace(causal, masks={"causal": True})
    assert leak_from_unseen(blind, backend) < 1e-12
    sighted = replace(causal, masks={})  # nothing is hidden: compare the rows before j anyway
    v = causal.leaves["v"].clone()
    v[:, :, -1] *= 2
    assert gap(run(sighted.but(v=v), backend)[:, :, :-1], run(sighted, backend)[:, :, :-1]) > 1e-3

    hidden = ~padded.masks["mask"][..., 0, :]
    assert leak_from_padding(replace(padded, masks={}), backend, hidden) > 1e-3
    assert (
        not_vanilla(causal, backend, {"omega_sep": 1e-3 + 0 * causal.numbers["omega_sep"]}) > 1e-6
    )
    positions = replace(causal, masks={"causal": True})
    assert shuffled(positions, backend) > 1e-3
    assert prefill_apart(replace(causal, masks={}), backend) > 1e-3


@pytest.mark.parametrize("name", ["z", "h"])
def test_a_flock_that_does_not_move_as_one_is_noticed(name):
    x = case("cross")
    t = x.leaves[name]
    bent = x.but(**{name: t + 0.1 * t.square()})
    assert gap(run(bent, "dense"), run(x, "dense")) > 1e-3
    alone = x.but(z=x.leaves["z"] + 0.1)  # the keys only
    assert gap(run(alone, "dense"), run(x, "dense")) > 1e-3


def test_twins_would_notice_a_thousandth():
    x = case("causal")
    for name in set(x.numbers) - {"kappa"}:
        other = replace(x, numbers={**x.numbers, name: x.numbers[name] + 1e-3})
        assert gap(run(other, "folded"), run(x, "dense")) > 1e-7, name


# Finite.


@each(only=FEW)
@pytest.mark.parametrize("how", ["equal", "zero", "huge", "k > M"])
def test_finite(kind, backend, dtype, how, device):
    assert all_finite(degenerate(case(kind, device=device).to(dtype), how), backend)


@pytest.mark.parametrize("backend", ["dense", "folded", "decode", "compact"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_one_token(backend, dtype, causal, device):
    """N = 1: the token looks at itself, whatever the rules say; or at nobody."""
    x = replace(case("full", size=1, device=device).to(dtype), masks={"causal": causal})
    assert all_finite(x, backend)
    assert gap(run(x, backend), x.leaves["v"]) <= TOLERANCE[dtype]
    nobody = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=device)
    assert not run(replace(x, masks={"mask": nobody}), backend).any()


def test_finite_can_fail():
    x = case("full")
    assert not all_finite(x.but(v=x.leaves["v"] * math.inf), "dense")


# Twins: every backend equals the dense definition.


def check_float64(x, backends):
    expected = gradients(x, "dense")
    for backend in backends:
        errors = {name: gap(t, expected[name]) for name, t in gradients(x, backend).items()}
        assert max(errors.values()) < 1e-9, (backend, errors)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_twins_agree_in_float64(kind, options, device):
    check_float64(case(kind, options, device=device), serving(kind, options, device=device))


BEYOND_A_TILE = [
    *((kind, "plain") for kind in KINDS),
    *(("causal padded left", options) for options in OPTIONS[1::2]),
    *(("decode padded", options) for options in OPTIONS[2::2]),
    *(("window globals", options) for options in OPTIONS[1::2]),
]


@pytest.mark.parametrize(("kind", "options"), BEYOND_A_TILE)
def test_twins_agree_in_float64_beyond_a_tile(kind, options, device):
    check_float64(case(kind, options, LARGE, device=device), serving(kind, options, device=device))


@pytest.mark.parametrize(
    ("kind", "size", "window"), [("window causal globals", 283, 263), ("window", 31, 40)]
)
def test_twins_agree_where_the_window_is_wide(kind, size, window, device):
    """Blocks beyond a tile (flash inside the block), and a window wider than the sequence."""
    x = case(kind, "shared", size, device=device)
    check_float64(replace(x, masks={**x.masks, "window": window}), serving(kind, device=device))


def test_twins_agree_with_few_queries_and_many_keys(device):
    """More keys than four tiles."""
    x = case("decode", "shared", 541, device=device)
    check_float64(x.but(q=x.leaves["q"][:, :, -5:]), serving("decode", device=device))


@pytest.mark.parametrize("kind", ["full", "causal", "window"])
def test_twins_agree_where_lists_are_longer_than_the_keys(kind, device):
    """Given lists of 6 over 4 keys, and k = 50: most of a list is empty."""
    x = case(kind, "given local", 4, device=device)
    check_float64(x, serving(kind, device=device))
    long = replace(x, neighbours="semantic", fixed={**x.fixed, "k": 50})
    check_float64(long, serving(kind, device=device))


SOME_OFF = [off for n in (1, 2, 3) for off in itertools.combinations(RULES, n)]


def without(x, off):
    """The case with λ = 0 for some rules."""
    return replace(x, fixed={**x.fixed, **{f"lam_{rule}": 0.0 for rule in off}})


@pytest.mark.parametrize("off", SOME_OFF, ids="-".join)
@pytest.mark.parametrize("options", ["plain", "local matrix", "shared local given", "raw key-norm"])
@pytest.mark.parametrize("kind", FEW)
def test_twins_agree_where_rules_are_off(kind, options, off, device):
    x = without(case(kind, options, device=device), off)
    check_float64(x, serving(kind, options, device=device))


@pytest.mark.parametrize("off", SOME_OFF, ids="-".join)
def test_numbers_of_a_rule_that_is_off_have_gradient_0(off):
    """Not none: an optimiser treats the two differently, and the definition has 0."""
    x = without(case("full"), off)
    numbers = {name: t.clone().requires_grad_() for name, t in x.numbers.items()}
    run(replace(x, numbers=numbers), "compact").sum().backward()
    for rule in off:
        assert numbers[f"omega_{rule}"].grad.eq(0).all()


@pytest.mark.parametrize("off", [(), ("sep",), ("align", "coh")], ids="-".join)
@pytest.mark.parametrize("kind", FEW)
def test_twins_agree_where_compact_works_in_pieces(kind, off, monkeypatch, device):
    monkeypatch.setattr(compact, "MAX_SCORES", 1)
    check_float64(without(case(kind, "shared", device=device), off), ["compact"])


def errors_of(x, backends):
    """backend, name, its error and the dense one's, against float64 on the same rounded inputs."""
    truth, dense = gradients(x.to(torch.float64), "dense"), gradients(x, "dense")
    for backend in backends:
        for name, t in gradients(x, backend).items():
            yield backend, name, gap(t, truth[name]), gap(dense[name], truth[name])


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "folded" in serving(kind)])
def test_twins_agree_where_long_sequences_go_head_by_head(kind, monkeypatch, device):
    monkeypatch.setattr(folded, "LONG" if device == "cpu" else "GPU_LONG", 0)
    dtype, most = (torch.float64, 1e-10) if device == "cpu" else (torch.float32, 1e-5)
    one = []
    monkeypatch.setattr(
        folded, "fold", lambda *of, **more: one.append(of) or fold.fold(*of, **more)
    )
    for options in (o for o in OPTIONS if "matrix" not in o):
        x = case(kind, options, device=device).to(dtype)
        with torch.no_grad():
            assert outputs_gap(x, run(x, "folded"), run(x, "dense")) <= most, options
        assert len(one) == H, options
        one.clear()


@pytest.mark.parametrize("size", [11, LARGE])
@pytest.mark.parametrize("kind", KINDS)
def test_twins_agree_in_float32(kind, size, device):
    """Measured over all options, times the dense error: outputs 1.0 … 1.4 in the median, 8 at worst
    and never above 2.5e-6; gradients 1.0 … 1.9 in the median, never above 1.5e-4."""
    x = case(kind, "plain" if size == LARGE else "shared k-per-head", size, device=device)
    for backend, name, own, dense in errors_of(
        x.to(torch.float32), serving(kind, dtype=torch.float32, device=device)
    ):
        times, floor = (4, 2e-6) if name == "out" else (10, 5e-5)
        assert own <= times * dense + floor, (backend, name, own, dense)


@pytest.mark.parametrize(("options", "size"), [("plain", LARGE), ("shared one-tau key-norm", 11)])
@pytest.mark.parametrize("kind", KINDS)
def test_twins_agree_in_bfloat16(kind, options, size, device):
    """At most twice the dense error (measured: 0.5 … 1.1 in the median, 1.6 at worst)."""
    x = case(kind, options, size, device=device).to(torch.bfloat16)
    truth = run(x.to(torch.float64), "dense")
    dense = outputs_gap(x, run(x, "dense"), truth)
    for backend in serving(kind, dtype=torch.bfloat16, device=device):
        assert outputs_gap(x, run(x, backend), truth) <= 2 * dense, backend


@pytest.mark.parametrize("backend", ["folded", *serving("cross", "matrix", torch.bfloat16)])
def test_bfloat16_where_all_scores_of_a_row_are_equal(backend, device):
    """Two visible keys, both neighbours: k̃_j·u_i is the same for both, so r̃ is 0. What is left
    of 1/√ε times the rounding of bfloat16 must not be felt."""
    x = case("cross", size=LARGE, device=device)
    pair = torch.zeros(1, 1, 1, x.M, dtype=torch.bool, device=device)
    pair[..., [3, 50]] = True
    x = replace(x, masks={**x.masks, "mask": pair}).to(torch.bfloat16)
    truth = run(x.to(torch.float64), "dense")
    assert gap(run(x, backend), truth) <= 2 * gap(run(x, "dense"), truth)


def test_gradients_in_bfloat16(device):
    """By tokens, all kinds together: at most twice the dense error (measured: 0.7 … 1.1). A
    single number's gradient is a sum that may happen to cancel, so it is not compared alone."""
    own, dense = defaultdict(list), defaultdict(list)
    for kind in FEW:
        x = case(kind, size=LARGE, device=device).to(torch.bfloat16)
        backends = serving(kind, dtype=torch.bfloat16, device=device)
        for backend, name, *errors in errors_of(x, backends):
            own[backend, name].append(errors[0])
            dense[backend, name].append(errors[1])
    for (backend, name), errors in own.items():
        if name in ("out", "q", "k", "v", "z", "h"):
            least = math.hypot(*dense[backend, name])
            assert math.hypot(*errors) <= 2 * least, (backend, name, errors, least)


@pytest.mark.parametrize("scale", [2.0**-30, 2.0**-60])
@pytest.mark.parametrize("kind", ["causal padded left", "window globals", "cross padded"])
def test_gradients_of_a_small_loss_are_small(kind, scale, device):
    """A mean over 10⁹ outputs: the gradient is linear in what comes from above."""
    x = case(kind, device=device)
    for backend in ("dense", *serving(kind, device=device)):
        whole, small = gradients(x, backend), gradients(x, backend, scale)
        errors = {name: gap(small[name], t) for name, t in whole.items()}
        assert max(errors.values()) < 1e-9, (backend, errors)


@pytest.mark.parametrize(
    ("kind", "backend"),
    [
        ("causal padded left", "dense"),
        ("causal padded left", "folded"),
        ("window globals", "windowed"),
        ("decode", "decode"),
        ("padded by head", "compact"),
    ],
)
def test_gradcheck(kind, backend):
    """Finite differences along random directions; no neighbour is close to changing."""
    assert gradients_by_differences(case(kind, "shared k-per-head"), backend)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", ["full", "causal", "window"])
def test_twins_agree_where_separation_removes_nearly_all_mass(kind, dtype, monkeypatch, device):
    """Clusters of four duplicates that a bias draws together and away from oneself, and an ω that
    then empties them: out + Σ p v would cancel, so such rows are computed again."""
    x, g = case(kind, "low-rank", 24, device=device), torch.Generator().manual_seed(3)
    cluster = F.one_hot(torch.arange(24) // 4).double()
    draw = torch.cat([9 * cluster, -30 * torch.eye(24)], -1).expand(2, 1, -1, -1)
    look = torch.cat([cluster, torch.eye(24)], -1).expand(2, H, -1, -1)
    z, h = (torch.randn(2, H, 6, w, generator=g).double().repeat_interleave(4, 2) for w in (4, 6))
    z, h = (t + 1e-3 * torch.randn(t.shape, generator=g) for t in (z, h))
    new = {"left": look, "right": draw, "z": z, "h": h}
    x = x.but(**{name: t.to(device) for name, t in new.items()})
    numbers = {"omega_sep": 40 + 0 * x.numbers["omega_sep"], "kappa": 1 + 0 * x.numbers["kappa"]}
    x = replace(x, numbers={**x.numbers, **numbers})
    again, calls = fold.rows_again, []
    monkeypatch.setattr(fold, "rows_again", lambda *args: calls.append(1) or again(*args))
    floor = 1e-9 if dtype == torch.float64 else 1e-4  # measured: 6.4e-5 with AVX-512
    for backend, name, own, dense in errors_of(
        x.to(dtype), serving(kind, dtype=dtype, device=device)
    ):
        assert own <= 10 * dense + floor, (backend, name, own, dense)
    assert calls
