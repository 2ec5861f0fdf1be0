"""The laws of docs/definition.md, sections 7 and 8, in flock scope; and proof that each can fail.

a flock of everyone is everyone            m ≥ M equals visible scope, outputs and gradients
the future does not choose                 token j changes no list and no row before j
decode equals prefill                      lists included
ω_aff = 0 and all ω = 0                    plain attention over F(i)
"""

from dataclasses import replace

import pytest
import torch

from ascender.core import neighbours as nb
from support.cases import BY_QUERY, DTYPES, FEW, KINDS, LARGE, NATIVE, TOLERANCE, B, H, degenerate
from support.flock_cases import flock_serving, flocked, lists
from support.laws import (
    all_finite,
    gap,
    gradients,
    leak_from_padding,
    leak_from_unseen,
    moved_apart,
    outputs_gap,
    plain,
    prefill_apart,
    prefix,
    real,
    run,
    shuffled,
    visible,
)
from support.worked_cases import oracle_of

pytestmark = pytest.mark.usefixtures("unchecked")

BACKENDS = ("dense", *flock_serving())
OMEGAS = ("omega_align", "omega_sep", "omega_coh", "omega_aff")


def each(*words, without=(), only=tuple(KINDS)):
    """kind × backend × dtype: lists in every dtype, F as a mask in float64."""
    found = [
        (kind, backend, dtype)
        for kind, spec in KINDS.items()
        if all(word in spec for word in words) and not any(word in spec for word in without)
        if kind in only
        for dtype in DTYPES
        for backend in ("dense", *flock_serving(dtype))
        if (backend == "flock" or dtype == torch.float64)
        and (kind in FEW or (backend, dtype) == ("flock", torch.float32))
    ]
    assert found
    ids = [f"{kind}-{backend}-{str(dtype)[6:]}" for kind, backend, dtype in found]
    return pytest.mark.parametrize(("kind", "backend", "dtype"), found, ids=ids)


def with_far(x, m):
    return replace(x, fixed={**x.fixed, "far": m})


# A flock of everyone is everyone.


def everyone(x, how):
    """The case where everybody is in the flock, and the same in visible scope."""
    masks = {name: t for name, t in x.masks.items() if name not in ("window", "n_global")}
    seen = replace(x, masks=masks, flock={**x.flock, "scope": "visible"})
    if how == "far":
        return with_far(x, x.M + 3), seen
    near = {"window": x.M} if how == "window" else {"window": 0, "n_global": x.M}
    return replace(with_far(x, 0), masks={**masks, **near}), seen


@each()
def test_a_flock_of_everyone_is_everyone(kind, backend, dtype, device):
    options = "shared distance" if dtype == torch.float64 else "tied"
    flock, seen = everyone(flocked(kind, options, device=device).to(dtype), "far")
    expected = gradients(seen, "dense")
    for name, t in gradients(flock, backend).items():
        if name == "out" or dtype == torch.float64:
            assert gap(t, expected[name]) <= 10 * TOLERANCE[dtype], name


@pytest.mark.parametrize("how", ["window", "globals"])
@pytest.mark.parametrize("kind", [k for k in FEW if "cross" not in k])
def test_so_is_a_window_or_globals_of_everyone(kind, how, device):
    flock, seen = everyone(flocked(kind, "distance", device=device), how)
    expected = gradients(seen, "dense")
    for backend in BACKENDS:
        for name, t in gradients(flock, backend).items():
            assert gap(t, expected[name]) <= 1e-10, (backend, name)


def test_a_flock_of_nearly_everyone_is_not():
    flock, seen = everyone(flocked("full"), "far")
    assert gap(run(with_far(flock, flock.M - 2), "dense"), run(seen, "dense")) > 1e-3


# The future does not choose.


def replaced(x, j):
    """The case with another token j."""
    new, first = {}, x.M - x.N
    for name, t in x.leaves.items():
        here = j - first if name in BY_QUERY else j
        if here >= 0:
            new[name] = t.clone()
            new[name][:, :, here] = 1 - 2 * t[:, :, here]
    return x.but(**new)


def chosen_otherwise(x, j):
    """How many rows that do not see j choose other keys where j is another token."""
    before, after = lists(x), lists(replaced(x, j))
    V = visible(x).expand(B, H, -1, -1)
    return sum(
        old[b][h][i] != new[b][h][i]
        for old, new in zip(before, after, strict=True)
        for b, h, i in torch.nonzero(~V[..., j]).tolist()
        if i != j - x.M + x.N
    )


@each("causal")
def test_the_future_does_not_choose(kind, backend, dtype, device):
    x = flocked(kind, "distance far-per-head", device=device).to(dtype)
    assert leak_from_unseen(x, backend, slice(0, None, 4)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", ["shared", "tied no-term"])
@pytest.mark.parametrize("kind", ["causal padded left", "decode window", "any mask"])
def test_nor_does_it_change_a_list(kind, options, dtype):
    x = flocked(kind, options).to(dtype)
    assert sum(chosen_otherwise(x, j) for j in (1, x.M // 2, x.M - 1)) == 0


@pytest.mark.parametrize("kind", ["causal", "causal padded left", "window causal globals"])
def test_nor_across_chunks(kind):
    x = flocked(kind, "shared", LARGE).to(torch.float32)
    assert leak_from_unseen(x, "flock", slice(60, None, 45)) <= TOLERANCE[torch.float32]
    assert chosen_otherwise(x, 70) == 0


def test_a_key_that_is_seen_does_choose():
    x = flocked("causal")
    masks = {name: t for name, t in x.masks.items() if name != "causal"}
    assert lists(replaced(replace(x, masks=masks), x.M - 1)) != lists(replace(x, masks=masks))


@each("pad")
def test_padding(kind, backend, dtype, device):
    x = flocked(kind, "distance", device=device).to(dtype)
    assert leak_from_padding(x, backend) <= TOLERANCE[dtype]


# Decode equals prefill.


@each("causal")
def test_decode_equals_prefill(kind, backend, dtype, device):
    """By every backend's own shorter calls, and by those of decode."""
    x = flocked(kind, "distance far-per-head", device=device).to(dtype)
    for step in {backend, "decode"}:
        assert prefill_apart(x, backend, step) <= 2 * TOLERANCE[dtype]


@pytest.mark.parametrize("options", ["shared", "tied", "distance far-per-head", "given"])
@pytest.mark.parametrize("kind", ["causal", "window causal globals", "decode padded"])
def test_decoding_chooses_as_prefill_does(kind, options):
    """A padded query's own row is nobody's."""
    x = flocked(kind, options)
    whole = lists(x)
    for i in (0, x.N // 2, x.N - 1):
        for rows, row in zip(whole, lists(prefix(x, i)), strict=True):
            for b, h in torch.nonzero(real(x)[:, :, i]).tolist():
                assert rows[b][h][i] == row[b][h][0]


@each("causal", only=("causal", "window causal globals", "decode padded"))
def test_decode_equals_prefill_beyond_a_tile(kind, backend, dtype, device):
    x = flocked(kind, "shared", LARGE, device=device).to(dtype)
    assert prefill_apart(x, backend, step=backend) <= TOLERANCE[dtype]


# Zero is plain attention over F(i).


@each()
def test_zero_is_plain_attention_over_the_flock(kind, backend, dtype, device):
    options = "key-bias distance" if "causal" in KINDS[kind] else "shared low-rank"
    x = flocked(kind, options, device=device).to(dtype)
    zero = {name: torch.zeros_like(x.numbers[name]) for name in OMEGAS}
    F = torch.from_numpy(oracle_of(x.to(torch.float64))["flock"]).to(device)
    expected = plain(x, F)
    off = replace(x, numbers={**x.numbers, **zero})
    assert outputs_gap(x, run(off, backend), expected) <= TOLERANCE[dtype]
    no_term = replace(off, flock={**off.flock, "affinity_term": False})
    assert outputs_gap(x, run(no_term, backend), expected) <= TOLERANCE[dtype]


@pytest.mark.parametrize("name", OMEGAS)
def test_a_thousandth_is_not_zero(name):
    x = flocked("causal")
    zero = {n: torch.zeros_like(x.numbers[n]) for n in OMEGAS}
    F = torch.from_numpy(oracle_of(x)["flock"])
    small = replace(x, numbers={**x.numbers, **zero, name: zero[name] + 1e-3})
    assert gap(run(small, "flock"), plain(x, F)) > 1e-6
    if name == OMEGAS[0]:
        off = replace(x, numbers={**x.numbers, **zero})
        assert gap(run(off, "flock"), plain(x)) > 1e-3, "everything visible is not the flock"


# The laws of section 7 that are left.


@each()
def test_flock_moves_as_one(kind, backend, dtype, device):
    """Without the term lengths of h do not count where affinity is tied."""
    x = flocked(kind, "tied no-term", device=device).to(dtype)
    assert moved_apart(x, backend, "shift", "rotate", "scale") <= TOLERANCE[dtype]
    x = flocked(kind, device=device).to(dtype)
    assert moved_apart(x, backend, "shift", "rotate") <= TOLERANCE[dtype]


def test_lengths_count_for_an_answer():
    assert moved_apart(flocked("full"), "dense", "scale") > 1e-3
    assert moved_apart(flocked("full", "tied"), "dense", "scale") > 1e-3


@each(without=("causal", "window"), only=set(KINDS) - {"tail"})
@pytest.mark.parametrize("options", ["shared", "given"])
def test_permutation(kind, backend, dtype, options, device):
    x = flocked(kind, options, device=device).to(dtype)
    assert shuffled(x, backend) <= TOLERANCE[dtype]


def test_places_are_noticed():
    assert shuffled(flocked("full", "distance"), "flock") > 1e-3
    assert shuffled(flocked("window"), "flock") > 1e-3
    assert shuffled(flocked("causal"), "flock") > 1e-3
    assert prefill_apart(flocked("full"), "flock") > 1e-3
    assert leak_from_padding(
        replace(flocked("full"), masks={}),
        "flock",
        ~flocked("padded right").masks["mask"][..., 0, :],
    ) > 1e-3  # fmt: skip


@each(only=("causal padded left", "window globals", "cross padded"))
@pytest.mark.parametrize("how", ["equal", "zero", "huge", "k > M", "far > M"])
def test_finite(kind, backend, dtype, how, device):
    x = flocked(kind, device=device).to(dtype)
    x = with_far(x, 50) if how == "far > M" else degenerate(x, how)
    assert all_finite(x, backend)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
def test_one_token(dtype, causal, device):
    """N = 1: the token looks at itself; or at nobody."""
    x = replace(flocked("full", size=1, device=device).to(dtype), masks={"causal": causal})
    nobody = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=device)
    for backend in ("dense", *flock_serving(dtype, device=device)):
        assert all_finite(x, backend)
        assert gap(run(x, backend), x.leaves["v"]) <= TOLERANCE[dtype]
        assert not run(replace(x, masks={"mask": nobody}), backend).any()


# Repeated tokens: which of equals is chosen depends neither on the length nor on what comes later.


def of_five_words(x):
    """The case with tokens drawn from five, but for their values."""
    word = torch.randint(5, (x.M,), generator=torch.Generator().manual_seed(5))
    same = {name: t for name, t in x.leaves.items() if name != "v"}
    return x.but(
        **{n: t[:, :, word[x.M - x.N :] if n in BY_QUERY else word] for n, t in same.items()}
    )


@pytest.mark.parametrize("options", ["shared", "shared tied", "distance far-per-head", "scores"])
@pytest.mark.parametrize("kind", ["causal", "causal padded left", "window causal globals"])
def test_repeated_tokens(kind, options):
    x = of_five_words(flocked(kind, options, 37)).to(torch.float32)
    assert leak_from_unseen(x, "flock", slice(1, None, 9)) <= 1e-5
    for backend in ("flock", "dense", *(["native"] if NATIVE else [])):
        assert prefill_apart(x, backend, step=backend) <= 1e-5
        assert outputs_gap(x, run(x, backend), run(x, "flock")) <= 1e-5
    if x.masks.get("mask") is not None:
        assert leak_from_padding(x, "flock") <= 1e-5


def test_ties_would_be_noticed(monkeypatch):
    """Ranked by rounding alone, in float64 by place, the far keys depend on what comes later."""
    monkeypatch.setattr(nb, "TIE", 0.0)
    x = of_five_words(flocked("causal", "shared", LARGE))
    assert prefill_apart(x, "flock", step="flock") > 1e-3
