"""What Longformer and BigBird have in common: precisions, costs, refusals."""

import pytest
import torch
import torch.nn.functional as F

from ascender.core.visibility import Visibility
from ascender.measure.flops import count as flops
from ascender.nn.baselines.bigbird import BigBird, Plan, bigbird_attention
from ascender.nn.baselines.longformer import Longformer, window_attention
from ascender.nn.slot import Unsupported
from support.patterned import B, H, Sharp, Slope, largest, patterned_path

DIM = 15
path = pytest.fixture(params=["blocks", "square"], autouse=True)(patterned_path)
KINDS = {
    "longformer": (Longformer, {"window": 5, "n_global": 2}),
    "bigbird": (BigBird, {"block": 3, "random": 1}),
}


@pytest.fixture(params=KINDS)
def name(request):
    return request.param


def make(name, **options):
    kind, usual = KINDS[name]
    torch.manual_seed(0)
    return kind(DIM, H, **{**usual, **options}).double()


def tokens(n):
    g = torch.Generator().manual_seed(1)
    return torch.randn(B, n, DIM, dtype=torch.double, generator=g)


def by_blocks(name, x, causal):
    """Attention over (1, 2, N, 8) by a narrow pattern."""
    N = x[0].shape[2]
    if name == "longformer":
        return window_attention(*x, Visibility.of(N, N, causal=causal, window=8))
    return bigbird_attention(*x, Visibility.of(N, N, causal=causal), Plan(block=16, random=2))


def test_bfloat16_and_autocast(name):
    n = 149 if name == "longformer" else 47
    module, x = make(name).float(), tokens(n).float().requires_grad_()
    want = module(x)
    with torch.autocast("cpu", torch.bfloat16):
        half = module(x)
    half.float().sum().backward()
    assert half.dtype == torch.bfloat16
    assert torch.allclose(half.float(), want, atol=0.03)
    assert torch.allclose(module.bfloat16()(x.bfloat16()).float(), want, atol=0.03)


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_short_costs_no_more_than_the_square(name, causal, path):
    def share(N):
        x = [torch.zeros(1, 2, N, 8) for _ in range(3)]
        square = flops(lambda: F.scaled_dot_product_attention(*x, is_causal=causal))
        return flops(lambda: by_blocks(name, x, causal)) / square

    assert (share(64) == 1) is (path == "square")
    assert share(512) < 1 or (causal and name == "bigbird")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_linear_in_n(name, causal, training):
    def run(N, attend):
        x = [torch.zeros(1, 2, N, 8, requires_grad=training) for _ in range(3)]
        y = attend(x)
        if training:
            y.sum().backward()

    def blocks(x):
        if name == "bigbird":
            return by_blocks(name, x, causal)
        N = x[0].shape[2]
        return window_attention(*x, Visibility.of(N, N, causal=causal, window=32, n_global=3))

    def dense(x):
        N = x[0].shape[2]
        return F.scaled_dot_product_attention(
            *x, attn_mask=Visibility.of(N, N, causal=causal).visible
        )

    for measure in (flops, largest):
        once, twice, far = (measure(lambda N=N: run(N, blocks)) for N in (512, 1024, 2048))
        assert far - twice == pytest.approx(2 * (twice - once), rel=0.02), measure
        assert far < 2.1 * twice
        assert measure(lambda: run(2048, dense)) > 3.5 * measure(lambda: run(1024, dense))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": -1}, r"window = -1; expected an int ≥ 0"),
        ({"dropout": 0.1}, r"dropout = 0.1 acts on the weights, which \w+ attention"),
        ({"position": "t5"}, r"position 't5' needs the matrix of scores, which \w+ .* rope"),
        ({"position": "shaw"}, r"position 'shaw' needs the matrix of scores"),
        ({"normalizer": Sharp()}, "normalizer 'sharp' needs whole rows .* expected one of softmax"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        make(name, **options)


def test_refusals(name):
    module, x = make(name), tokens(11)
    with pytest.raises(Unsupported, match=r"other of shape \(11, 11\) .* expected LowRank or one"):
        module(x, other=torch.zeros(11, 11, dtype=torch.double))
    with pytest.raises(Unsupported, match=r"mask of shape \(1, 1, 11, 11\) differs by query"):
        module(x, mask=torch.ones(11, 11, dtype=torch.bool)[None, None])
    with pytest.raises(Unsupported, match="cross-attention"):
        module(x, x)
    with pytest.raises(Unsupported, match=r"'slope' needs the matrix .* causal=True also alibi"):
        make(name, position=Slope())(x)
    with pytest.raises(Unsupported, match="no matrix of scores to take apart"):
        module(x, return_parts=True)
