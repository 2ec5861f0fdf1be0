"""Normalisers against entmax, oracles of their own, and the laws of docs/definition.md."""

import math
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import entmax
import numpy as np
import pytest
import torch
from torch.autograd.gradcheck import GradcheckError, gradcheck

from ascender import Cache, LowRank, Rules, asc_attention, asc_parts
from ascender.core.attention import attend
from ascender.core.backends import topk_sparse
from ascender.core.backends.topk_sparse import top_attention
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, backends_for, choose_backend
from ascender.core.normalizers import (
    NORMALIZERS,
    Entmax15,
    LengthAware,
    Normalizer,
    ScalableSoftmax,
    Softmax,
    Sparsemax,
    TopK,
    normalizer,
)
from ascender.nn.baselines.vanilla import Vanilla
from ascender.nn.compat import CompatCell, LawBroken, check
from support.laws import (
    KINDS,
    LARGE,
    TOLERANCE,
    A,
    B,
    Case,
    D,
    E,
    H,
    K,
    Z,
    all_finite,
    case,
    cotangent,
    gap,
    gradients,
    leak_from_padding,
    leak_from_unseen,
    prefill_apart,
    run,
    serving,
    spoilt_wrongly,
    visible,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "normalizers.md"
OFF = {"lam_align": 0.0, "lam_sep": 0.0, "lam_coh": 0.0}  # vanilla scores
EXACT = TOLERANCE[torch.float64]
SPARSE = ("topk", "sparsemax", "entmax15")


def make(name):
    """One of each, with options that matter at the sizes of the laws."""
    options = {"softmax": {"temperature": 0.7}, "length": {"reference": 6}, "topk": {"size": 3}}
    made = normalizer(name, heads=H, **options.get(name, {}))
    if name == "ssmax":
        with torch.no_grad():
            made.log_s.copy_(torch.tensor([0.4, 0.9, 1.6]).log())
    return made


@dataclass(frozen=True)
class Under(Case):
    """A case of the laws under a normaliser."""

    normalizer: Normalizer | None = None

    def call(self):
        return {**super().call(), "normalizer": self.normalizer}


def under(norm, kind, options="plain", **sizes):
    norm = make(norm) if isinstance(norm, str) else norm
    return Under(**vars(case(kind, options, **sizes)), normalizer=norm)


def able(kind):
    """The backends that a normaliser runs on."""
    return backends_for("columns" if kind.softmax else "rows")


ROWS = ("dense", "decode")


def everywhere(*kinds, among=tuple(BACKENDS)):
    """normaliser × kind × backend, over the backends that have both."""
    found = [
        (name, kind, backend)
        for name in NORMALIZERS
        for kind in kinds
        for backend in ("dense", *serving(kind))
        if backend in able(NORMALIZERS[name]) and backend in among
    ]
    return pytest.mark.parametrize(("name", "kind", "backend"), found, ids=map("-".join, found))


class Blind(Normalizer):
    """A broken one: softmax over everything."""

    name, softmax = "blind", False

    def weights(self, total, visible):
        return torch.softmax(total, -1)


class Whole(LengthAware):
    """A broken one: n = M instead of |V(i)|."""

    def sharpen(self, q, n):
        return super().sharpen(q, torch.full_like(n, int(n.max())))


# The weights themselves.


def rows(seed=0, hidden=0.4):
    """(scores, V): spread over a few units, so that sparse weights are neither one-hot nor full;
    one row sees everything, one a single key, one nothing."""
    g = torch.Generator().manual_seed(seed)
    total = 1.5 * torch.randn(2, 3, 5, 13, generator=g, dtype=torch.float64)
    V = torch.rand(2, 1, 5, 13, generator=g) > hidden
    V[:, :, 1], V[:, :, 2], V[:, :, 3] = True, False, False
    V[:, :, 2, 4] = True
    return total, V


def by_rows(total, V, oracle):
    """An oracle of one list of scores, over the visible keys of every row."""
    out = torch.zeros_like(total)
    V = V.expand_as(total)
    for b, h, i in np.ndindex(*total.shape[:3]):
        seen = V[b, h, i]
        if seen.any():
            out[b, h, i, seen] = torch.tensor(oracle(total[b, h, i, seen].tolist())).to(total)
    return out


def sparsemax_oracle(s):
    """Sorted, the largest k with 1 + k s_k > Σ_{l≤k} s_l; τ = (Σ_{l≤k} s_l − 1)/k."""
    z = sorted(s, reverse=True)
    k = max(k for k in range(1, len(z) + 1) if 1 + k * z[k - 1] > sum(z[:k]))
    tau = (sum(z[:k]) - 1) / k
    return [max(0.0, x - tau) for x in s]


def entmax_oracle(s):
    """τ by bisection: Σ max(0, s/2 − τ)² falls from above 1 to 0."""
    low, high = max(s) / 2 - 1, max(s) / 2
    for _ in range(100):
        tau = (low + high) / 2
        low, high = (tau, high) if sum(max(0.0, x / 2 - tau) ** 2 for x in s) > 1 else (low, tau)
    return [max(0.0, x / 2 - low) ** 2 for x in s]


def topk_oracle(s, size=3):
    kept = sorted(range(len(s)), key=lambda j: (-s[j], j))[:size]
    mass = sum(math.exp(s[j]) for j in kept)
    return [math.exp(s[j]) / mass if j in kept else 0.0 for j in range(len(s))]


ORACLES = {
    "softmax": lambda s: topk_oracle(s, len(s)),
    "topk": topk_oracle,
    "sparsemax": sparsemax_oracle,
    "entmax15": entmax_oracle,
}


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("seed", range(4))
def test_weights_equal_the_oracle(name, seed):
    total, V = rows(seed)
    got = make(name).weights(total, V)
    assert torch.allclose(got, by_rows(total, V, ORACLES[name]), atol=1e-12)
    others = [by_rows(total, V, oracle) for n, oracle in ORACLES.items() if n != name]
    assert all((got - other).abs().max() > 1e-2 for other in others)


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_weights_equal_entmax(name):
    """Outputs and gradients, on each row's visible keys alone."""
    total, V = rows(7)
    x = total.clone().requires_grad_()
    pull = torch.randn(total.shape, generator=torch.Generator().manual_seed(1)).double()
    got = make(name).weights(x, V)
    (got * pull).sum().backward()
    for b, h, i in np.ndindex(*total.shape[:3]):
        seen = V.expand_as(total)[b, h, i]
        assert (got[b, h, i, ~seen] == 0).all()
        assert (x.grad[b, h, i, ~seen] == 0).all()
        if not seen.any():
            continue
        alone = total[b, h, i, seen].clone().requires_grad_()
        expected = getattr(entmax, name)(alone, dim=-1)
        (expected * pull[b, h, i, seen]).sum().backward()
        assert torch.allclose(got[b, h, i, seen], expected, atol=1e-12)
        assert torch.allclose(x.grad[b, h, i, seen], alone.grad, atol=1e-12)
    assert x.grad.abs().max() > 0.1


@pytest.mark.parametrize("name", NORMALIZERS)
def test_laws_of_a_row(name):
    """≥ 0, sums to 1 or is empty, 0 outside V; a number added to a row changes nothing."""
    total, V = rows(3)
    norm = make(name)
    got = norm.weights(total, V)
    assert (got >= 0).all()
    assert torch.allclose(got.sum(-1), V.any(-1).double().expand(2, 3, -1), atol=1e-12)
    assert (got.masked_select(~V.expand_as(got)) == 0).all()
    moved = norm.weights(total + 3 * total[..., :1], V)
    assert torch.allclose(moved, got, atol=1e-12)
    assert not torch.allclose(norm.weights(3 * total, V), got, atol=1e-2)


@pytest.mark.parametrize("name", SPARSE)
def test_gradcheck(name):
    """Numerically, with a row of one key and a row of none."""
    total, V = rows(5)
    norm = make(name)
    some, V = total[:1, :1, :, :7].clone().requires_grad_(), V[..., :7]
    assert gradcheck(lambda s: norm.weights(s, V[:1]), (some,))

    def straight_through(s):
        soft = Softmax().weights(s, V[:1])
        return norm.weights(s.detach(), V[:1]) + soft - soft.detach()

    with pytest.raises(GradcheckError):
        gradcheck(straight_through, (some,))


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_precision(name, dtype):
    """In at least float32: no further from float64 than rounding the scores and the weights."""
    total, V = rows(2)
    total = total.to(dtype)
    got, truth = make(name).weights(total, V), make(name).weights(total.double(), V)
    assert got.dtype == dtype
    assert (got.double() - truth).abs().max() <= {torch.float32: 1e-6, torch.bfloat16: 4e-3}[dtype]


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scale", [0.0, 1e4, 1e30])
def test_finite(name, dtype, scale):
    total, V = rows(4)
    x = (scale * total).to(dtype).requires_grad_()
    got = make(name).weights(x, V)
    (got.double() * total).sum().backward()
    assert got.isfinite().all()
    assert x.grad.isfinite().all()
    assert (got.masked_select(~V.expand_as(got)) == 0).all()
    assert torch.allclose(got.double().sum(-1), V.any(-1).double().expand(2, 3, -1), atol=2e-2)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_minus_infinity_hides_and_nan_spoils_its_row(name):
    total, V = rows(6)
    norm = make(name)
    hidden = total.masked_fill(~V, -torch.inf)
    everyone = torch.ones_like(V)
    assert torch.equal(norm.weights(hidden, everyone), norm.weights(total, V))
    seen = total.clone()
    seen[1, 2, 1, 6] = torch.nan  # row 1 sees everything
    got, expected = norm.weights(seen, V), norm.weights(total, V)
    assert got[1, 2, 1].sum().isnan()
    got[1, 2, 1] = expected[1, 2, 1]
    assert torch.equal(got, expected)
    unseen = total.masked_fill(~V, torch.nan)
    assert torch.equal(norm.weights(unseen, V), expected)


def test_topk_ties_and_sizes():
    """Never more than `size`, of ties the earliest; size ≥ M is softmax, size 1 the largest."""
    s = torch.tensor([1.0, 2.0, 1.0, 1.0, 2.0, 0.0]).view(1, 1, 1, 6)
    everyone = torch.ones(1, 1, 1, 6, dtype=torch.bool)
    kept = {size: TopK(size).weights(s, everyone).nonzero()[:, -1].tolist() for size in range(1, 6)}
    assert kept == {1: [1], 2: [1, 4], 3: [0, 1, 4], 4: [0, 1, 2, 4], 5: [0, 1, 2, 3, 4]}
    total, V = rows(8)
    soft = Softmax().weights(total, V)
    for size in (13, 14, 1000):
        assert torch.allclose(TopK(size).weights(total, V), soft, atol=1e-15)
    assert not torch.allclose(TopK(12).weights(total, V), soft, atol=1e-4)
    assert ((TopK(4).weights(total, V) > 0).sum(-1) <= 4).all()


# In attention: the same laws on every backend that a normaliser runs on.


@everywhere("causal padded left", "window causal globals", among=ROWS)
def test_nothing_leaks_from_the_unseen(name, kind, backend):
    assert leak_from_unseen(under(name, kind), backend, slice(1, None, 4)) <= EXACT


@everywhere("padded by head", "cross padded", among=ROWS)
def test_nothing_leaks_from_padding(name, kind, backend):
    assert leak_from_padding(under(name, kind), backend) <= EXACT


@pytest.mark.parametrize("backend", ROWS)
def test_a_leak_is_noticed(backend):
    assert leak_from_unseen(under(Blind(), "causal"), backend, slice(1, None, 4)) > 1e-2
    assert leak_from_padding(under(Blind(), "padded right"), backend) > 1e-2


TWINS = tuple(b for b in BACKENDS if b != "dense")


@everywhere("any mask", "causal padded left", "window globals", "decode", among=TWINS)
def test_twins_agree(name, kind, backend):
    """Outputs and every gradient, that of s among them."""
    x = under(name, kind, "low-rank" if "looks" not in KINDS[kind] else "plain")
    expected, by_s = with_s(x, "dense")
    got, by_s_too = with_s(x, backend)
    assert max(gap(got[n], expected[n]) for n in expected) <= 3 * EXACT
    if name == "ssmax":
        assert by_s.norm() > 1e-3
        assert gap(by_s_too, by_s) <= 3 * EXACT


def with_s(x, backend):
    """The gradients of laws.py, and that by log s."""
    x.normalizer.zero_grad()
    found = gradients(x, backend)
    return found, getattr(getattr(x.normalizer, "log_s", None), "grad", None)


@pytest.mark.parametrize("kind", ["causal padded left", "window globals"])
def test_scaled_rows_go_through_flash_and_blocks(kind):
    x = under("ssmax", kind, size=LARGE)
    backend = serving(kind)[0]
    assert choose_backend(build_flock(**{**x.call(), "other": None})) != "dense"
    assert gap(run(x, backend), run(x, "dense")) <= 3 * EXACT
    assert gap(run(replace(x, normalizer=None), backend), run(x, "dense")) > 1e-2


@everywhere("causal padded left", "any mask", among=ROWS)
def test_empty_rows_are_zero_and_gradients_finite(name, kind, backend):
    x = under(name, kind)
    empty = ~visible(x).any(-1).expand(B, H, -1)
    assert empty.any()
    assert (run(x, backend)[empty] == 0).all()
    assert all_finite(x, backend)


@everywhere("window causal", "causal padded right", among=("dense",))
def test_decode_equals_prefill(name, kind, backend):
    assert prefill_apart(under(name, kind), backend) <= 3 * EXACT


def test_a_wrong_length_is_noticed():
    assert prefill_apart(under(Whole(6), "causal"), "dense") > 1e-2


@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("backend", ROWS)
@pytest.mark.parametrize("leaf", ["q", "k", "v", "z"])
def test_nan_spoils_the_rows_that_see_it(name, backend, leaf):
    kind = "any mask" if leaf in "kz" else "causal padded left"
    assert spoilt_wrongly(under(name, kind), backend, leaf, 5) == 0


@pytest.mark.parametrize("window", [None, 2])
@pytest.mark.parametrize("name", NORMALIZERS)
def test_a_cache_decodes_under_a_normalizer(name, window):
    """Token by token from a cache, bounded or not, equals the full pass."""
    g = torch.Generator().manual_seed(3)
    widths = {"q": D, "k": D, "v": E, "z_q": Z, "h_q": A}
    x = {n: torch.randn(B, H, 13, w, generator=g).double() for n, w in widths.items()}
    norm, rules = make(name), Rules(k=K, omega_coh=0.7, omega_align=0.9)
    globals_ = 0 if window is None else 1
    full = asc_attention(
        **x, rules=rules, causal=True, window=window, n_global=globals_, normalizer=norm,
        backend="dense",
    )  # fmt: skip
    cache = Cache(window=window, n_global=globals_)
    for i in range(13):
        q, k, v, z, h = (t[:, :, i : i + 1] for t in x.values())
        cache.append(k, v, z, h)
        flock = cache.flock(q, z, h, rules=rules, normalizer=norm)
        if i in (0, 1, 7, 12):
            assert gap(attend(flock, "decode"), full[:, :, i : i + 1]) <= 3 * EXACT
        plain = cache.flock(q, z, h, rules=rules)
    assert gap(attend(plain, "decode"), full[:, :, -1:]) > 1e-3


def test_parts_show_the_weights():
    x = under("sparsemax", "causal")
    call = x.call()
    _, parts = asc_attention(**call, return_parts=True)
    assert torch.allclose(parts.weights, Sparsemax().weights(parts.total, visible(x)))
    some = asc_parts(rows=[3, 7], heads=[1], **call)
    assert torch.allclose(some.weights, parts.weights[:, 1:2, [3, 7]])
    assert (parts.weights == 0).sum() > (~visible(x).expand_as(parts.weights)).sum()


# What each one is.


@pytest.mark.parametrize("backend", ["dense", "folded", "decode", "compact"])
def test_temperature_is_tau_score(backend):
    x = under(Softmax(0.6), "causal")
    cooler = {**x.numbers, "tau_score": 0.6 * x.numbers["tau_score"]}
    expected = run(replace(x, numbers=cooler, normalizer=None), backend)
    assert gap(run(x, backend), expected) <= EXACT
    assert gap(run(replace(x, normalizer=Softmax()), backend), expected) > 1e-2
    plain = run(replace(x, normalizer=None), backend)
    assert torch.equal(run(replace(x, normalizer=Softmax()), backend), plain)


def scaled_softmax(x, scale):
    """Vanilla attention with row i's scores times scale(head, n_i), in loops."""
    call, V = x.call(), visible(x).expand(B, H, -1, -1)
    tau = call["rules"].tau_score.tolist()
    out = torch.zeros(B, H, x.N, E, dtype=torch.float64)
    for b, h, i in np.ndindex(B, H, x.N):
        seen = V[b, h, i].nonzero().flatten().tolist()
        factor = scale(h, len(seen)) / (D**0.5 * tau[h]) if seen else 0.0
        w = [math.exp(factor * float(call["q"][b, h, i] @ call["k"][b, h, j])) for j in seen]
        for weight, j in zip(w, seen, strict=True):
            out[b, h, i] += weight / sum(w) * call["v"][b, h, j]
    return out


@pytest.mark.parametrize("kind", ["causal padded left", "padded by head", "window globals"])
def test_scales_are_the_papers(kind):
    s = make("ssmax").log_s.double().exp().tolist()
    scales = {
        "ssmax": lambda h, n: s[h] * math.log(n),
        "length": lambda h, n: math.log(n) / math.log(6),
    }
    for name, scale in scales.items():
        x = under(name, kind)
        x = replace(x, fixed={**x.fixed, **OFF})
        for backend in ("dense", *serving(kind)):
            assert gap(run(x, backend), scaled_softmax(x, scale)) <= EXACT
        assert gap(run(x, "dense"), scaled_softmax(x, lambda h, n: 1.0)) > 1e-2


def test_length_is_vanilla_at_the_reference():
    x = under(LengthAware(11), "full")
    vanilla = run(replace(x, normalizer=None), "dense")
    assert gap(run(x, "dense"), vanilla) <= EXACT
    assert gap(run(replace(x, normalizer=LengthAware(12)), "dense"), vanilla) > 1e-3


@pytest.mark.parametrize("name", ["ssmax", "length"])
def test_one_visible_key(name):
    """log 1 = 0: the weight is 1, the gradients finite; no visible key at all likewise."""
    norm = make(name)
    q = torch.randn(B, H, 2, D, requires_grad=True)
    n = torch.tensor([0, 1]).view(1, 1, 2, 1)
    sharp = norm.sharpen(q, n)
    assert (sharp == 0).all()
    sharp.sum().backward()
    assert q.grad.isfinite().all()
    x = under(name, "causal", size=1)
    assert torch.allclose(run(x, "dense"), x.leaves["v"])
    found, by_s = with_s(x, "dense")
    assert all(t.isfinite().all() for t in found.values())
    assert by_s is None or by_s.isfinite().all()


def test_ssmax_learns_one_positive_number_a_head():
    norm = ScalableSoftmax(H)
    assert [p.shape for p in norm.parameters()] == [(H,)]
    assert torch.allclose(norm.log_s.exp(), torch.full((H,), 0.43))
    x = Under(**vars(case("full")), normalizer=norm)
    run(x, "dense").sum().backward()
    assert (norm.log_s.grad != 0).all()
    half = norm.sharpen(torch.ones(B, H, 2, D, dtype=torch.bfloat16), torch.full((1, 1, 1, 1), 7))
    assert half.dtype == torch.bfloat16


# Which backends: data, the table, and the errors.


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize(
    ("backend", "kind"), [("folded", "causal"), ("windowed", "window"), ("compact", "full")]
)
def test_a_backend_that_cannot_says_so(name, backend, kind):
    with pytest.raises(ValueError, match=rf"{backend}.*{name} needs whole rows.*dense.*decode"):
        run(under(name, kind), backend)
    run(under("softmax", kind), backend)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_auto_takes_one_that_can(name):
    assert set(able(NORMALIZERS[name])) <= set(BACKENDS)
    assert NORMALIZERS[name].softmax == (set(able(NORMALIZERS[name])) == set(BACKENDS))
    for kind in KINDS:
        taken = choose_backend(build_flock(**under(name, kind).call()))
        assert taken in able(NORMALIZERS[name])
    auto = under(name, "causal", size=LARGE + 40)
    assert choose_backend(build_flock(**auto.call())) == ("decode" if name in SPARSE else "folded")
    assert gap(run(auto, "auto"), run(auto, "dense")) <= 3 * EXACT


def table(text):
    """name → (class, backends) of the Markdown table."""
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    cells = ([c.strip() for c in line.strip("|").split("|")] for line in lines)
    return {
        name.strip("`"): (re.match(r"`(\w+)\(", kind)[1], tuple(backends.split(", ")))
        for name, kind, _, backends, _ in cells
    }


def test_the_table_is_the_code():
    text = DOCS.read_text(encoding="utf-8")
    said = {name: (kind.__name__, able(kind)) for name, kind in NORMALIZERS.items()}
    assert table(text) == said
    assert table(text.replace("dense, decode", "dense")) != said
    assert all(kind.name == name for name, kind in NORMALIZERS.items())


def test_by_name():
    assert isinstance(normalizer("entmax15", heads=2), Entmax15)
    assert normalizer("ssmax", heads=5, s=2.0).log_s.shape == (5,)
    assert normalizer("length", heads=5, reference=64).reference == 64


@pytest.mark.parametrize(
    ("make_it", "words"),
    [
        (lambda: normalizer("sofmax", heads=2), "unknown normalizer 'sofmax'.*softmax, ssmax"),
        (lambda: normalizer("topk", heads=2, k=3), "topk has no option 'k'.*size"),
        (lambda: normalizer("sparsemax", heads=2, size=3), "no option 'size'.*none"),
        (lambda: Softmax(0.0), "temperature = 0.0.*positive"),
        (lambda: Softmax("hot"), "temperature = 'hot'"),
        (lambda: ScalableSoftmax(0), "heads = 0"),
        (lambda: ScalableSoftmax(2, s=-1.0), "s = -1.0.*positive"),
        (lambda: LengthAware(1), "reference = 1.*≥ 2"),
        (lambda: TopK(0), "size = 0.*≥ 1"),
        (lambda: run(under(ScalableSoftmax(H + 1), "full"), "dense"), "ssmax has 4 heads.*3"),
    ],
)
def test_errors_name_the_value(make_it, words, monkeypatch):
    import jaxtyping

    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises((ValueError, TypeError), match=words):
        make_it()


def test_a_name_is_no_normalizer():
    x = case("full")
    with pytest.raises(Exception, match="sparsemax"):
        asc_attention(**x.call(), normalizer="sparsemax")


@pytest.mark.parametrize("kind", [Sparsemax, Entmax15])
def test_missing_entmax_names_the_extra(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "entmax", None)
    with pytest.raises(
        ImportError, match=re.escape('pip install "ascender-attention[normalizers]"')
    ):
        kind()


# Top-k over index lists.


def vanilla(kind, options="plain", **sizes):
    """(case without rules and at τ_score 1, its Visibility)."""
    x = under(TopK(4), kind, options, **sizes)
    one = {**x.numbers, "tau_score": torch.ones_like(x.numbers["tau_score"])}
    x = replace(x, fixed={**x.fixed, **OFF}, numbers=one)
    return x, build_flock(**x.call()).vis


def by_lists(x, vis, size=4):
    call = x.call()
    return top_attention(call["q"], call["k"], call["v"], vis, size, call.get("other"))


def with_gradients(x, compute):
    """The output, and the gradients by every leaf that vanilla attention reads."""
    names = [n for n in x.leaves if n not in ("z", "h", "z_q", "h_q")]
    leaves = {n: x.leaves[n].clone().requires_grad_() for n in names}
    out = compute(x.but(**leaves))
    out.backward(cotangent(x, out.shape[-1]))
    return {"out": out.detach(), **{n: t.grad for n, t in leaves.items()}}


@pytest.mark.parametrize(
    ("kind", "options"),
    [(kind, "low-rank") for kind in KINDS]
    + [
        (kind, o)
        for kind in ("full", "any mask", "decode")
        for o in ("plain", "key-bias", "grouped")
    ],
)
def test_active_equals_the_definition(kind, options, monkeypatch):
    monkeypatch.setattr(topk_sparse, "CHUNK", 37)  # rows three at a time
    x, vis = vanilla(kind, options)
    expected = with_gradients(x, lambda y: run(y, "dense"))
    got = with_gradients(x, lambda y: by_lists(y, vis))
    assert max(gap(got[n], expected[n]) for n in expected) <= EXACT
    assert gap(by_lists(x, vis, 3), expected["out"]) > 1e-2
    assert (got["out"][~visible(x).any(-1).expand(B, H, -1)] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_active_in_other_precisions(dtype):
    x, vis = vanilla("causal padded left", size=LARGE)
    got = by_lists(x.to(dtype), vis)
    assert got.dtype == dtype
    truth = run(replace(x.to(dtype).to(torch.float64), normalizer=TopK(4)), "dense")
    assert gap(got, truth) <= TOLERANCE[dtype]


def test_active_with_ties_and_many():
    """Equal keys: the earliest, as in the definition. size ≥ M: plain attention."""
    x, vis = vanilla("causal")
    keys = x.leaves["k"].round()  # whole numbers: equal keys have equal scores to the last bit
    keys[:, :, ::2] = keys[:, :, :1]
    x = x.but(k=keys, q=x.leaves["q"].round())
    assert gap(by_lists(x, vis), run(x, "dense")) <= EXACT
    later = run(x.but(k=keys.flip(2), v=x.leaves["v"].flip(2)), "dense")
    assert gap(by_lists(x, vis), later) > 1e-2
    soft = run(replace(x, normalizer=None), "dense")
    assert gap(by_lists(x, vis, 11), soft) <= EXACT
    assert gap(by_lists(x, vis, 50), soft) <= EXACT


@pytest.mark.parametrize("kind", ["causal padded left", "any mask", "cross"])
@pytest.mark.parametrize("leaf", ["q", "k", "v"])
def test_active_nan_spoils_the_rows_that_see_it(kind, leaf):
    for token in (0, 4):
        x, vis = vanilla(kind)
        t, V = x.leaves[leaf].clone(), visible(x).expand(B, H, -1, -1)
        t[1, 1, token, -1] = torch.nan
        expected = torch.zeros_like(V[..., 0])
        if leaf == "q":
            expected[1, 1, token] = V[1, 1, token].any()
        else:
            expected[1, 1] = V[1, 1, :, token]
        got = by_lists(x.but(**{leaf: t}), vis)
        assert torch.equal(got.isnan(), expected[..., None].expand_as(got))
        assert gap(got[~expected], by_lists(x, vis)[~expected]) <= EXACT


def saved(compute):
    """The numbers in the largest tensor that autograd keeps."""
    sizes = []

    def pack(t):
        sizes.append(t.numel())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        compute()
    return max(sizes)


def test_active_keeps_lists_not_matrices():
    """O(N · size): what is kept for backward never has N · M numbers; the definition's has."""
    n, size = 503, 4
    x, vis = vanilla("causal", size=n)
    x = x.but(**{name: t.requires_grad_() for name, t in x.leaves.items()})
    assert saved(lambda: by_lists(x, vis, size)) <= B * H * n * max(size, D, E)
    assert saved(lambda: run(x, "dense")) >= B * H * n * n


def test_active_errors():
    x, vis = vanilla("full", "matrix")
    with pytest.raises(ValueError, match=r"other of shape.*LowRank.*dense"):
        by_lists(x, vis)
    x, vis = vanilla("full")
    with pytest.raises(ValueError, match="size = 0"):
        by_lists(x, vis, 0)
    left, right = torch.randn(H, 11, 2).double(), torch.randn(11, 2).double()
    call = x.call()
    folded = top_attention(call["q"], call["k"], call["v"], vis, 4, LowRank(left, right))
    matrix = {**call, "other": left @ right.mT}
    assert gap(folded, asc_attention(**matrix, backend="dense")) <= EXACT


# In the slot.


@pytest.mark.parametrize("name", NORMALIZERS)
def test_the_slot_takes_it(name):
    """The laws of compat.py: sight, the definition, decoding, that it acts, gradients."""
    for attention in ("ascender", "vanilla"):
        for mode in ("padded", "decode"):
            assert check(CompatCell(attention, "none", name, mode)).runs


def test_a_normalizer_that_does_nothing_is_noticed():
    with pytest.raises(LawBroken, match="normalizer changes nothing"):
        check(
            CompatCell("vanilla", "none", "ssmax", "full"),
            lambda *sizes, normalizer, **options: Vanilla(*sizes, **options),
        )


@pytest.mark.parametrize("kv_heads", [1, 3])
def test_vanilla_takes_lists_when_long(kv_heads):
    torch.manual_seed(0)
    module = Vanilla(15, 3, kv_heads=kv_heads, normalizer=TopK(5)).double()
    for n, matrices in ((31, True), (211, False)):
        x = torch.randn(2, n, 15).double().requires_grad_()
        real = torch.arange(n) >= torch.tensor([[0], [4]])
        got = module(x, causal=True, mask=real)
        want = module(x, causal=True, mask=real, return_parts=True)[0]
        assert gap(got, want) <= EXACT
        most = saved(lambda x=x, real=real: module(x, causal=True, mask=real))
        assert (most >= 2 * 3 * n * n) == matrices
