"""Bad input: an error that names the argument, its value and what was expected. And NaN, which is
no error: it spoils the rows that see it and no other."""

import math
from dataclasses import replace

import pytest
import torch

from ascender import LowRank, Rules, asc_attention, asc_parts
from ascender.core.neighbours import graph
from support.bad_input_cases import rand, refuses, tokens
from support.cases import FEW, KINDS, TOLERANCE, A, B, D, E, H, K, N, Z, case, each
from support.laws import outputs_gap, run, spoilt_wrongly

pytestmark = pytest.mark.usefixtures("unchecked")


def test_the_good_call_is_good():
    assert asc_attention(**tokens()).shape == (B, H, N, E)


SHAPES = {
    "rank of q": ({"q": rand(H, N, D)}, "q is (3, 11, 7)", "(batch, heads, tokens, width)"),
    "rank of k": ({"k": rand(B, H, N, D, 1)}, "k is (2, 3, 11, 7, 1)", "expected a tensor"),
    "no tensor": ({"v": [1.0]}, "v is list", "expected a tensor"),
    "rank of z_q": ({"z_q": rand(N, Z)}, "z_q is (11, 4)", "expected a tensor"),
    "rank of h_k": ({"h_k": rand(N, A)}, "h_k is (11, 6)", "expected a tensor"),
    "rank of bare": ({"bare": rand(N, D)}, "bare is (11, 7)", "expected a tensor"),
    "empty": ({"q": rand(B, H, N, 0)}, "q has shape (2, 3, 11, 0)", "expected no empty axis"),
    "batch of k": ({"k": rand(5, H, N, D)}, "k has shape (5, 3, 11, 7)", "expected batch 2"),
    "heads of k": ({"k": rand(B, 2, N, D)}, "k has shape (2, 2, 11, 7)", "expected 3 heads"),
    "heads of v": ({"v": rand(B, 6, N, E)}, "v has shape (2, 6, 11, 5)", "a divisor of 3"),
    "heads of z_q": ({"z_q": rand(B, 2, N, Z)}, "z_q has shape (2, 2, 11, 4)", "3 heads", "or 1"),
    "heads of h_k": ({"h_k": rand(B, 1, N, A)}, "h_q has 3 heads and h_k 1", "expected the same"),
    "width of k": ({"k": rand(B, H, N, 8)}, "k has shape (2, 3, 11, 8)", "expected width 7"),
    "width of z_k": ({"z_k": rand(B, H, N, 9)}, "z_k has shape (2, 3, 11, 9)", "expected width 4"),
    "width of h_k": ({"h_k": rand(B, H, N, 9)}, "h_k has shape (2, 3, 11, 9)", "expected width 6"),
    "width of bare": ({"bare": rand(B, H, N, 2)}, "bare has shape (2, 3, 11, 2)", "width 7"),
    "tokens of v": ({"v": rand(B, H, 4, E)}, "v has shape (2, 3, 4, 5)", "expected 11 tokens"),
    "tokens of z_q": ({"z_q": rand(B, H, 4, Z)}, "z_q has shape (2, 3, 4, 4)", "11 tokens"),
    "z_k left out": (
        {"k": rand(B, H, 17, D), "v": rand(B, H, 17, E)}, "z_k is missing", "17 keys",
        "expected z_k of 17 tokens",
    ),
    "mask shape": (
        {"mask": torch.ones(B, 1, 1, 5, dtype=torch.bool)}, "mask has shape (2, 1, 1, 5)",
        "broadcasts to (2, 3, 11, 11)",
    ),
    "other shape": ({"other": rand(N, 4)}, "other has shape (11, 4)", "to (2, 3, 11, 11)"),
    "low rank": (
        {"other": LowRank(rand(N, 2), rand(9, 2))}, "other.right has shape (9, 2)", "(…, 11, rank)",
    ),
    "neighbours shape": (
        {"neighbours": torch.zeros(B, 4, K, dtype=torch.long)}, "neighbours has shape (2, 4, 3)",
        "N = 11",
    ),
    "N > M": (
        {name: rand(B, H, 4, w) for name, w in (("k", D), ("v", E), ("z_k", Z), ("h_k", A))},
        "11 queries and 4 keys", "N ≤ M", "or cross=True",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name):
    changes, *words = SHAPES[name]
    with refuses(ValueError, *words):
        asc_attention(**tokens(**changes))


@pytest.mark.parametrize(
    ("key_norm", "words"),
    [
        (0.0, ("key_norm = 0", "expected a positive number")),
        (-2.0, ("key_norm = -2", "expected a positive number")),
        (torch.ones(2), ("key_norm has", "2", "one a head (3)")),
    ],
)
def test_key_norm(key_norm, words):
    with refuses(ValueError, *words):
        asc_attention(**tokens(key_norm=key_norm))


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (((N, 2), (N, 3)), ("other has ranks 2 and 3", "expected the same")),
        (((B, 2, N, 2), (B, 2, N, 2)), ("other.left has shape (2, 2, 11, 2)", "over 2 × 3 heads")),
    ],
)
def test_low_rank(shapes, words):
    left, right = (rand(*shape) for shape in shapes)
    with refuses(ValueError, *words):
        asc_attention(**tokens(other=LowRank(left, right)))


DTYPES = {
    "q": ({"q": torch.ones(B, H, N, D, dtype=torch.long)}, "q has dtype torch.int64", "floating"),
    "k": ({"k": rand(B, H, N, D).double()}, "k has dtype torch.float64", "expected torch.float32"),
    "mask": ({"mask": torch.ones(N, N)}, "mask has dtype torch.float32", "expected torch.bool"),
    "neighbours": ({"neighbours": rand(N, K)}, "neighbours has dtype torch.float32", "int64"),
    "other": ({"other": torch.ones(N, N, dtype=torch.long)}, "other is torch.int64", "LowRank"),
    "no other": ({"other": 3.0}, "other is float", "expected a floating-point tensor or LowRank"),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name):
    changes, *words = DTYPES[name]
    with refuses(TypeError, *words):
        asc_attention(**tokens(**changes))


VALUES = {
    "causal cross": ({"causal": True, "cross": True}, "causal=True with cross=True", "cross=False"),
    "window cross": ({"window": 3, "cross": True}, "window=3 with cross=True", "a bool mask"),
    "window": ({"window": -1}, "window = -1", "expected an int ≥ 0"),
    "half a window": ({"window": 1.5}, "window = 1.5", "expected an int ≥ 0"),
    "n_global": ({"window": 3, "n_global": -2}, "n_global = -2", "expected an int ≥ 0"),
    "n_global alone": ({"n_global": 2}, "n_global = 2 without a window", "expected window="),
    "dropout": ({"dropout": 1.5}, "dropout = 1.5", "expected a number in [0, 1)"),
    "neighbours": ({"neighbours": "near"}, "unknown neighbours 'near'", "semantic, scores"),
    "backend": ({"backend": "flash"}, "unknown backend 'flash'", "auto, dense"),
    "heads of omega": (
        {"rules": Rules(omega_sep=torch.ones(2))}, "omega_sep has 2 values", "one a head (3)",
    ),
    "heads of k": ({"rules": Rules(k=[1, 2])}, "k has 2 values", "one a head (3)"),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    changes, *words = VALUES[name]
    with refuses(ValueError, *words):
        asc_attention(**tokens(**changes))


RULES = {
    "k": ({"k": 0}, "k = 0", "expected at least 1"),
    "k of a head": ({"k": (3, -1, 2)}, "k = -1", "expected at least 1"),
    "tau_sep": ({"tau_sep": -1.0}, "tau_sep = -1", "expected a positive number"),
    "tau_coh": ({"tau_coh": torch.tensor([1.0, -0.5])}, "tau_coh = -0.5", "a positive number"),
    "tau_score": ({"tau_score": 0.0}, "tau_score = 0", "expected a positive number"),
    "kappa": ({"kappa": math.nan}, "kappa = nan", "expected a positive number"),
    "lam_sep": ({"lam_sep": 1.5}, "lam_sep = 1.5", "expected a number in [0, 1]"),
    "rank": ({"delta": torch.ones(3, 1)}, "delta has shape (3, 1)", "one value a head"),
    "separation_scope": (
        {"separation_scope": "near"},
        "separation_scope 'near'",
        "neighbours, all",
    ),
    "local_scope": ({"local_scope": "all"}, "local_scope 'all'", "visible, neighbours"),
}


@pytest.mark.parametrize("name", RULES)
def test_rules(name):
    changes, *words = RULES[name]
    with refuses(ValueError, *words):
        Rules(**changes)


CANNOT = {
    "matrix": ("folded", {"other": rand(B, H, N, N)}, "other of shape (2, 3, 11, 11)", "LowRank"),
    "mask": ("folded", {"mask": torch.ones(N, N) > 0}, "mask of shape (1, 1, 11, 11)", "padding"),
    "window": (
        "folded",
        {"window": 3},
        "window = 3",
        "or backend='dense' or backend='compact'",
    ),
    "no window": ("windowed", {}, "no window", "expected window="),
    "dropout": ("folded", {"dropout": 0.5}, "dropout = 0.5", "backend='dense'"),
    "scope": (
        "decode",
        {"rules": Rules(separation_scope="all")},
        "separation_scope = 'all'",
        "dense",
    ),
    "parts": ("folded", {"return_parts": True}, "N×M matrices", "expected backend='dense'"),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_a_backend_cannot(name):
    backend, changes, *words = CANNOT[name]
    with refuses(ValueError, backend, *words):
        asc_attention(**tokens(**changes), backend=backend)


@pytest.mark.parametrize("backend", ["folded", "windowed", "decode", "compact"])
def test_half_precision_on_the_cpu(backend):
    call = tokens(window=2 if backend == "windowed" else None)
    half = {name: t.half() for name, t in call.items() if isinstance(t, torch.Tensor)}
    with refuses(ValueError, backend, "float16", "expected bfloat16, float32 or float64"):
        asc_attention(**{**call, **half}, backend=backend)


def test_rows_and_heads_of_parts():
    with refuses(ValueError, "rows = [11]", "0 … 10"):
        asc_parts(**tokens(), rows=[11])
    with refuses(ValueError, "heads = [-4]", "0 … 2"):
        asc_parts(**tokens(), rows=[0], heads=[-4])


def test_edges_of_a_graph():
    with refuses(ValueError, "edges has shape (3,)", "expected (2, number of edges)"):
        graph(torch.zeros(3, dtype=torch.long), nodes=4)
    with refuses(ValueError, "edges name nodes 0 … 4", "expected 0 … 3"):
        graph(torch.tensor([[0], [4]]), nodes=4)


# NaN in gives NaN out in the rows that see it and in no other.


@each(only=set(KINDS) - {"padded right", "causal padded right"})
def test_nan_spoils_the_rows_that_see_it(kind, backend, dtype, device):
    if dtype == torch.float64 and kind in FEW:
        pytest.skip("seen in float32 and bfloat16")
    x = case(kind, "bare" if kind in FEW else "plain", device=device).to(dtype)
    tokens = {"q": x.N - 1, "k": x.M // 2, "v": 0, "z": 0, "h": x.M - 1, "bare": 1, "z_q": 0}
    wrong = {name: spoilt_wrongly(x, backend, name, tokens.get(name, 0)) for name in x.leaves}
    assert not {name: rows for name, rows in wrong.items() if rows}


@each(only=("cross", "decode"))
@pytest.mark.parametrize("name", ["h", "z"])
def test_nan_spoils_rows_even_where_no_list_names_the_token(kind, backend, dtype, name, device):
    x = case(kind, "local", device=device).to(dtype)
    nobody = torch.full((1, x.N, 1), -1, device=device)
    assert spoilt_wrongly(replace(x, neighbours=nobody), backend, name, 2) == 0


@each("pad", only=FEW)
def test_nan_in_padding_spoils_nothing(kind, backend, dtype, device):
    x = case(kind, device=device).to(dtype)
    hidden = ~x.masks["mask"][..., 0, :, None]
    fill = {name: x.leaves[name].masked_fill(hidden, math.nan) for name in ("k", "v", "z", "h")}
    assert outputs_gap(x, run(x.but(**fill), backend), run(x, backend)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("backend", ["dense", "folded", "decode", "compact"])
def test_nan_in_a_bias_for_padding_spoils_nothing(backend, device):
    x = case("padded left", "key-bias", device=device)
    bias = x.leaves["bias"].masked_fill(~x.masks["mask"].mT, math.nan)
    assert outputs_gap(x, run(x.but(bias=bias), backend), run(x, backend)) <= 1e-12


@pytest.mark.parametrize(
    ("numbers", "error", "words"),
    [
        ({"k": "3"}, TypeError, ("k = '3'", "expected an int")),
        ({"k": 2.5}, TypeError, ("k = 2.5", "expected an int")),
        ({"k": torch.tensor([1.5, 2.0])}, TypeError, ("k = tensor([1.5", "expected an int")),
        ({"k": []}, ValueError, ("k = []", "at least 1 neighbour")),
        ({"omega_sep": "x"}, TypeError, ("omega_sep is 'x'", "expected a number")),
    ],
)
def test_kinds_of_numbers(numbers, error, words):
    with refuses(error, *words):
        Rules(**numbers)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mask": [True]}, ("mask has list", "expected torch.bool")),
        ({"rules": None}, ("rules is NoneType", "expected Rules")),
        ({"bare": rand(B, H, N, D).double()}, ("bare has dtype torch.float64", "torch.float32")),
    ],
)
def test_kinds_of_arguments(changes, words):
    with refuses(TypeError, *words):
        asc_attention(**tokens(**changes))


def test_a_list_of_nobody():
    with refuses(ValueError, "neighbours has shape (11, 0)", "expected (N, K)"):
        asc_attention(**tokens(neighbours=torch.zeros(N, 0, dtype=torch.long)))
