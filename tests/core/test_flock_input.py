"""Bad input in flock scope: an error that names the argument, its value and what was expected."""

import pytest
import torch

from ascender import AscenderAttention, Rules, asc_attention, asc_parts
from ascender.core.schedule import set_visible_phase
from ascender.nn.baselines import attention
from support.bad_input_cases import refuses
from support.cases import A, B, D, E, H, K, N, Z

pytestmark = pytest.mark.usefixtures("unchecked")

QK = {"affinity": "query-key"}


def tokens(**changes):
    """A good call, changed."""
    widths = {"q": D, "k": D, "v": E, "z_q": Z, "h_q": A}
    call = {name: torch.randn(B, H, N, width) for name, width in widths.items()}
    return {**call, "rules": Rules(k=K, far=2), "scope": "flock", **changes}


def test_the_good_call_is_good():
    assert asc_attention(**tokens()).shape == (B, H, N, E)
    assert asc_attention(**tokens(n_global=2)).shape == (B, H, N, E), "a window is not needed here"
    assert asc_attention(**tokens(rules=Rules(far=0))).shape == (B, H, N, E), "oneself is left"


CALLS = {
    "scope": ({"scope": "flok"}, ValueError, "unknown scope 'flok' (did you mean 'flock'?)",
              "expected one of visible, flock"),
    "no scope": ({"scope": None}, ValueError, "unknown scope None", "visible, flock"),
    "affinity": ({"affinity": "qk"}, ValueError, "unknown affinity 'qk'", "tied, query-key"),
    "term": ({"affinity_term": 1}, ValueError, "affinity_term = 1", "expected True or False"),
    "width of h": (
        {"h_k": torch.randn(B, H, N, 5), **QK}, ValueError, "h_k has shape (2, 3, 11, 5)",
        "expected width 6",
    ),
    "heads of h": (
        {"h_k": torch.randn(B, 1, N, A), **QK}, ValueError, "h_q has 3 heads and h_k 1",
        "expected the same",
    ),
    "bias": ({"affinity_bias": 3, **QK}, TypeError, "affinity_bias is int", "(buckets,)"),
    "axes of a bias": (
        {"affinity_bias": torch.ones(2, 4), **QK}, TypeError, "affinity_bias is (2, 4)", "(buckets",
    ),
    "buckets": (
        {"affinity_bias": torch.ones(5), **QK}, ValueError, "affinity_bias has 5 buckets",
        "an even number of at least 4",
    ),
    "bias of a cosine": (
        {"affinity_bias": torch.ones(8)}, ValueError, "affinity_bias with affinity='tied'",
        "expected affinity='query-key'",
    ),
    "bias in cross-attention": (
        {"affinity_bias": torch.ones(8), "cross": True, **QK}, ValueError,
        "affinity_bias with cross=True", "expected affinity_bias=None",
    ),
    "heads of far": (
        {"rules": Rules(far=[1, 2])}, ValueError, "far has 2 values", "one a head (3)",
    ),
    "heads of omega_aff": (
        {"rules": Rules(omega_aff=torch.ones(2))}, ValueError, "omega_aff has 2 values", "(3)",
    ),
    "nobody": (
        {"rules": Rules(far=0), "cross": True}, ValueError, "far = 0 with cross=True",
        "every flock would be empty", "expected far ≥ 1",
    ),
    "nobody in a head": (
        {"rules": Rules(far=[2, 0, 1]), "cross": True}, ValueError, "far = 0 with cross=True",
    ),
    "window in cross-attention": (
        {"window": 2, "cross": True}, ValueError, "window = 2", "cross=True", "far=… only",
    ),
    "globals in cross-attention": (
        {"n_global": 2, "cross": True}, ValueError, "n_global = 2", "cross=True", "far=… only",
    ),
    "window": ({"window": -1}, ValueError, "window = -1", "expected an int ≥ 0"),
    "half a window": ({"window": 1.5}, ValueError, "window = 1.5", "expected an int ≥ 0"),
    "n_global": ({"n_global": -1}, ValueError, "n_global = -1", "expected an int ≥ 0"),
    "folded": (
        {"backend": "folded"}, ValueError, "backend='folded' cannot", "flock scope",
        "expected scope='visible'", "backend='flock'",
    ),
    "windowed": (
        {"backend": "windowed", "window": 2}, ValueError, "backend='windowed' cannot",
        "flock scope", "expected scope='visible'",
    ),
    "no flock": (
        {"backend": "flock", "scope": "visible"}, ValueError, "scope is 'visible'",
        "expected scope='flock'",
    ),
    "parts": (
        {"backend": "flock", "return_parts": True}, ValueError, "N×M matrices", "backend='dense'",
    ),
    "name": ({"afinity": "tied"}, TypeError, "no option 'afinity'", "did you mean 'affinity'"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls(name):
    changes, error, *words = CALLS[name]
    with refuses(error, *words):
        asc_attention(**tokens(**changes))


def test_parts_of_rows():
    with refuses(ValueError, "far = 0 with cross=True"):
        asc_parts(**tokens(rules=Rules(far=0), cross=True), rows=[0])


def test_half_precision_on_the_cpu():
    half = {name: t.half() if torch.is_tensor(t) else t for name, t in tokens().items()}
    with refuses(ValueError, "backend='flock' cannot", "float16", "expected bfloat16"):
        asc_attention(**half, backend="flock")


@pytest.mark.parametrize(
    ("numbers", "error", "words"),
    [
        ({"far": -1}, ValueError, ("far = -1", "expected at least 0 far keys")),
        ({"far": (3, -2, 1)}, ValueError, ("far = -2", "expected at least 0 far keys")),
        ({"far": torch.tensor([1, -4])}, ValueError, ("far = -4", "at least 0")),
        ({"far": []}, ValueError, ("far = []", "at least 0")),
        ({"far": 1.5}, TypeError, ("far = 1.5", "expected an int, or one a head")),
        ({"far": "3"}, TypeError, ("far = '3'", "expected an int")),
        ({"far": None}, TypeError, ("far = None", "expected an int")),
        ({"omega_aff": "x"}, TypeError, ("omega_aff is 'x'", "expected a number")),
    ],
)
def test_numbers(numbers, error, words):
    with refuses(error, *words):
        Rules(**numbers)


FLOCK = {"scope": "flock"}
LAYERS = {
    "scope": ({"scope": "flok"}, "unknown scope 'flok'", "expected one of visible, flock"),
    "affinity": ({"affinity": "qk"}, "unknown affinity 'qk'", "tied, query-key"),
    "far": ({**FLOCK, "far": -1}, "far = -1", "at least 0"),
    "far keys of no flock": ({"far": 4}, "far = 4 with scope='visible'", "expected scope='flock'"),
    "half a key": ({**FLOCK, "far": 1.5}, "far = 1.5", "expected an int"),
    "far by head": ({**FLOCK, "far": [1, 2, 3]}, "far has 3 values", "one a head (2)"),
    "term": ({"affinity_term": "yes"}, "affinity_term = 'yes'", "True or False"),
    "bias": ({**FLOCK, "affinity_bias": -2}, "affinity_bias = -2", "expected an int ≥ 0"),
    "buckets": ({**FLOCK, "affinity_bias": 3}, "affinity_bias has 3 buckets", "even number"),
    "bias of a cosine": (
        {**FLOCK, "affinity_bias": 8, "affinity": "tied"}, "affinity_bias with affinity='tied'",
        "expected affinity='query-key'",
    ),
    "affinity_heads": (
        {**FLOCK, "affinity_heads": 3}, "affinity_heads = 3", "a divisor of heads = 2",
    ),
    "d_a": ({**FLOCK, "d_a": 0}, "d_a = 0", "expected an int ≥ 1"),
    "window": ({**FLOCK, "window": "a"}, "window = 'a'", "expected an int ≥ 0"),
    "n_global": ({**FLOCK, "n_global": -2}, "n_global = -2", "expected an int ≥ 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    options, *words = LAYERS[name]
    with refuses((ValueError, TypeError), *words):
        AscenderAttention(8, 2, **options)


@pytest.mark.parametrize(
    "name", ["vanilla", "longformer", "bigbird", "performer", "linear", "graph"]
)
def test_attention_that_has_none(name):
    with refuses(ValueError, "scope = 'flock'", name, "expected one of ascender, shuffled"):
        attention(name, 8, 2, **FLOCK)
    with refuses(TypeError, f"{name} attention has no option 'affinity'"):
        attention(name, 8, 2, affinity="tied")


def test_nobody_to_cross_to():
    x, context = torch.randn(B, N, 8), torch.randn(B, 5, 8)
    with refuses(ValueError, "far = 0 in cross-attention", "expected far ≥ 1"):
        AscenderAttention(8, 2, **FLOCK, far=0)(x, context)


def test_backends_of_a_layer():
    x = torch.randn(B, N, 8)
    with refuses(ValueError, "backend='folded' cannot", "flock scope"):
        AscenderAttention(8, 2, **FLOCK)(x, backend="folded")
    with refuses(ValueError, "backend='flock' cannot", "scope is 'visible'"):
        AscenderAttention(8, 2)(x, backend="flock")


def test_a_cache_that_forgets_lengths():
    """Of a layer of tied affinity: the answers would be wrong, and nobody would know."""
    x, cache = torch.randn(B, N, 8), AscenderAttention(8, 2).new_cache()
    with refuses(
        ValueError, "h at length 1", "affinity='query-key'", "expected this layer's new_cache()"
    ):
        AscenderAttention(8, 2, **FLOCK)(x, cache=cache)


def test_the_cache_of_a_visible_phase_forgets_nothing():
    layer = AscenderAttention(8, 2, **FLOCK, far=0, window=2)
    assert layer.new_cache().window == 2
    set_visible_phase(layer, True)
    assert layer.new_cache().window is None
