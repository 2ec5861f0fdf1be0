"""The package against what was worked out elsewhere: the vectors, and the loops of the oracle."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from ascender import Rules, asc_attention, asc_parts
from ascender.core.checks import build_flock
from support.cases import KINDS, NATIVE, case
from support.laws import gap, run
from support.shapes import shapes
from support.worked_cases import (
    NAMES,
    PARTS,
    VECTORS,
    check_oracle,
    in_the_repository,
    load,
    oracle_of,
)

TOLERANCE = 1e-10


def call_of(name):
    """The vector as arguments of asc_attention, and its results."""
    data, asked = load(name)
    meta, names = data["meta"], ("q", "k", "v", "z_q", "h_q", "z_k", "h_k")
    call = {key: torch.from_numpy(data[key]) for key in names}
    numbers = {key: torch.from_numpy(np.atleast_1d(x)) for key, x in asked["rule"].items()}
    scopes = {key: meta[key] for key in ("standardise", "separation_scope", "local_scope")}
    call["rules"] = Rules(**numbers, **scopes)
    call |= {key: meta[key] for key in ("causal", "window", "n_global", "cross")}
    call |= {key: meta[key] for key in ("scope", "affinity", "affinity_term") if key in meta}
    call["neighbours"] = meta["neighbours"]
    if meta["neighbours"] == "given":
        call["neighbours"] = torch.from_numpy(data["neighbours"])
    if "other" in data:
        call["other"] = torch.from_numpy(data["other"])
    if meta["pad"]:
        M = data["k"].shape[2]
        call["mask"] = torch.stack([torch.arange(M) < n for n in meta["pad"]])[:, None, None]
    results = {key: torch.from_numpy(x) for key, x in data.items() if key != "meta"}
    return call, {"part_aff": torch.zeros_like(results["part_base"])} | results


# Written out: what is not here must be refused.
FLOCK = {name for name in NAMES if name.startswith("flock")}
SERVED = {
    "dense": set(NAMES),
    "compact": set(NAMES) - {"scope_all"},
    "decode": set(NAMES) - {"scope_all"},
    "folded": set(NAMES) - {"scope_all", "other_bias", "repeated_causal", "window"} - FLOCK,
    "windowed": {"window"},
    "flock": FLOCK,
}


@in_the_repository
def test_all_vectors_are_here():
    assert len(VECTORS) == len(NAMES) == 22
    assert len(FLOCK) == 7


@pytest.mark.parametrize("backend", SERVED)
@pytest.mark.parametrize("name", NAMES)
def test_vector(name, backend):
    call, expected = call_of(name)
    if name not in SERVED[backend]:
        with pytest.raises(ValueError, match=f"backend='{backend}' cannot"):
            asc_attention(**call, backend=backend)
        return
    out = asc_attention(**call, backend=backend)
    assert torch.allclose(out, expected["out"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("backend", ["flock", *(["native"] if NATIVE else [])])
@pytest.mark.parametrize("name", sorted(FLOCK))
def test_vector_in_float32(name, backend):
    call, expected = call_of(name)
    call = {key: x.float() if torch.is_tensor(x) else x for key, x in call.items()}
    assert gap(asc_attention(**call, backend=backend), expected["out"]) < 3e-6


@pytest.mark.parametrize("name", sorted(FLOCK))
def test_flock_of_a_vector(name):
    call, expected = call_of(name)
    flock = build_flock(**call)
    assert torch.equal(flock.scope.mask(flock.far).expand_as(expected["flock"]), expected["flock"])


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_a_vector(name):
    call, expected = call_of(name)
    out, parts = asc_attention(**call, return_parts=True)
    assert torch.allclose(out, expected["out"], rtol=0, atol=TOLERANCE)
    for part in PARTS:
        want = expected["weights" if part == "weights" else f"part_{part}"]
        assert torch.allclose(getattr(parts, part), want, rtol=0, atol=TOLERANCE), part


@pytest.mark.parametrize("name", NAMES)
def test_parts_of_some_rows_and_heads(name):
    call, _ = call_of(name)
    _, whole = asc_attention(**call, return_parts=True)
    n = call["q"].shape[2]
    rows, heads = [n - 1, 0, -2], [2, 0]
    for some in (None, heads):
        parts = asc_parts(**call, rows=rows, heads=some)
        for part in PARTS:
            want = getattr(whole, part)[:, slice(None) if some is None else some][:, :, rows]
            assert torch.allclose(getattr(parts, part), want, rtol=0, atol=1e-12), part


# Dense against the oracle, on cases that no vector covers.


@pytest.mark.parametrize("options", ["plain", "raw shared", "local", "scores k-per-head",
                                     "local given low-rank", "bare", "matrix grouped"])  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_dense_is_the_oracle(kind, options):
    check_oracle(case(kind, options), bare="bare" in options)


@pytest.mark.parametrize("local_scope", ["visible", "neighbours"])
@pytest.mark.parametrize("kind", ["causal", "window by head", "cross padded", "any mask", "tail"])
def test_dense_is_the_oracle_where_separation_is_everywhere(kind, local_scope):
    x = case(kind)
    x = replace(x, fixed={**x.fixed, "separation_scope": "all", "local_scope": local_scope})
    assert gap(run(x, "dense"), torch.from_numpy(oracle_of(x)["out"])) < 1e-12


def test_the_oracle_would_notice():
    x = case("any mask")
    for name in set(x.numbers) - {"kappa"}:
        other = replace(x, numbers={**x.numbers, name: x.numbers[name] + 1e-3})
        assert gap(run(other, "dense"), torch.from_numpy(oracle_of(x)["out"])) > 1e-7, name


@pytest.mark.parametrize("backend", ["dense", "folded", "decode", "compact"])
@pytest.mark.parametrize("axes", [1, 2, 3, 4])
def test_a_bias_may_leave_out_leading_axes(axes, backend):
    """(M,), (1, M), (1, 1, M), (1, 1, 1, M) are the same bias."""
    call = case("full").call()
    bias = torch.linspace(-2, 2, 11, dtype=torch.float64)
    full = asc_attention(**call, other=bias.expand(2, 3, 11, 11), backend="dense")
    short = asc_attention(**call, other=bias.view((1,) * (axes - 1) + (11,)), backend=backend)
    assert gap(short, full) < 1e-12


# Any shape and any mask.


@given(shapes())
def test_dense_is_the_oracle_for_any_shape(x):
    assert gap(run(x, "dense"), torch.from_numpy(oracle_of(x)["out"])) < 1e-9


@given(shapes())
def test_every_backend_is_dense_for_any_shape(x):
    expected = run(x, "dense")
    fast = "folded" if x.masks.get("window") is None else "windowed"
    for backend in (fast, "decode", "compact"):
        assert gap(run(x, backend), expected) < 1e-9, backend
        assert run(x, backend).shape == expected.shape
