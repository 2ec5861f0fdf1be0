"""Normalisers in attention: the laws of docs/definition.md over the backends that run them."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ascender import Cache, Rules, asc_attention, asc_parts
from ascender.core.attention import attend
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, choose_backend
from ascender.core.normalizers import (
    NORMALIZERS,
    Entmax15,
    LengthAware,
    ScalableSoftmax,
    Softmax,
    Sparsemax,
    TopK,
    normalizer,
)
from support.laws import (
    KINDS,
    LARGE,
    A,
    B,
    D,
    E,
    H,
    K,
    Z,
    all_finite,
    case,
    gap,
    leak_from_padding,
    leak_from_unseen,
    prefill_apart,
    run,
    serving,
    spoilt_wrongly,
    visible,
)
from support.normalizer_cases import (
    EXACT,
    ROWS,
    SPARSE,
    Blind,
    Whole,
    able,
    everywhere,
    make,
    under,
    with_s,
)

DOCS = Path(__file__).resolve().parents[2] / "docs" / "normalizers.md"


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
        (lambda: normalizer("sparsemax", heads=2, size=3), "no option 'size'.*temperature"),
        (lambda: Softmax(0.0), "temperature = 0.0.*positive"),
        (lambda: Softmax("hot"), "temperature = 'hot'"),
        (lambda: ScalableSoftmax(0), "heads = 0"),
        (lambda: ScalableSoftmax(2, s=-1.0), "s = -1.0.*positive"),
        (lambda: LengthAware(1), "reference = 1.*≥ 2"),
        (lambda: TopK(0), "size = 0.*≥ 1"),
        (lambda: TopK(1.5), r"size = 1.5; expected an int ≥ 1, or a share.*\(0, 1\)"),
        (lambda: TopK("8"), "size = '8'; expected an int ≥ 1, or a share"),
        (lambda: TopK(4, temperature=[1, 2]), r"temperature = \[1, 2\]; expected a positive"),
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
