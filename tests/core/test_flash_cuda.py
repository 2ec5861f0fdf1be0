"""The path on CUDA as far as a CPU shows it: the kernel replaced by its definition, and the columns
of half precision that stand for float32."""

import pytest
import torch
import torch.nn.functional as F

from ascender import asc_attention
from ascender.core.backends import flash_cuda, folded, tiles
from ascender.core.backends.flash import attend
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, choose_backend
from ascender.core.combine import LowRank
from ascender.core.rules import Rules
from ascender.kernels import gpu
from ascender.nn.positions.alibi import Alibi

B, H, N, M, D, E = 2, 3, 37, 41, 5, 4


def scores(Q, K, bias, causal):
    s = (Q @ K.mT).float()
    s = s if bias is None else s + bias
    return s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf) if causal else s


def forward(Q, K, V, bias, compute_lse, dropout, causal, *, scale):
    """aten's efficient attention by its definition: widths of 16, lse padded to 32 with ∞."""
    assert (scale, dropout, compute_lse) == (1.0, 0.0, True)
    assert not any(t.shape[-1] % 16 for t in (Q, K, V))
    assert bias is None or (bias.stride(0) % 16 == 0 and bias.shape == (*Q.shape[:3], K.shape[2]))
    s = scores(Q, K, bias, causal)
    lse = F.pad(s.logsumexp(-1), (0, -Q.shape[2] % 32), value=torch.inf)
    seed = torch.zeros((), dtype=torch.long)
    return s.softmax(-1).to(V.dtype) @ V, lse, seed, seed


def backward(g, Q, K, V, bias, out, lse, seed, offset, dropout, wanted, causal, *, scale):
    p = (scores(Q, K, bias, causal) - lse[..., : Q.shape[2], None]).exp()
    ds = p * (g @ V.mT - (g * out).sum(-1, keepdim=True))
    return ds.to(Q.dtype) @ K, ds.mT.to(Q.dtype) @ Q, p.mT.to(Q.dtype) @ g, None


@pytest.fixture
def as_on_cuda(monkeypatch):
    """CPU tensors take the path of CUDA without Triton; calls of the kernel are counted."""
    calls = []
    monkeypatch.setattr(gpu, "on_gpu", lambda t: True)
    monkeypatch.setattr(gpu, "has_triton", lambda: False)
    monkeypatch.setattr(flash_cuda, "_backward", backward)
    monkeypatch.setattr(
        flash_cuda, "_forward", lambda *a, **kw: calls.append(a[0].dtype) or forward(*a, **kw)
    )
    return calls


@pytest.mark.parametrize("use", ["out", "lse", "both"])
@pytest.mark.parametrize("kind", ["full", "causal", "padded"])
@pytest.mark.parametrize("e", [E, 16])  # with and without a spare column
def test_gradients_of_out_and_lse(kind, use, e, as_on_cuda):
    torch.manual_seed(0)
    n = M if kind == "causal" else N
    leaves = [torch.randn(B, H, m, w) for m, w in ((n, D), (M, D), (M, e))]
    bias = None
    if kind == "padded":
        bias = torch.zeros(B, 1, 1, M).index_fill_(-1, torch.tensor([3, 40]), -torch.inf)
    found = []
    for run in (lambda Q, K, V: attend(Q, K, V, causal=kind == "causal", bias=bias), plain):
        inputs = [t.clone().requires_grad_() for t in leaves]
        out, lse = run(*inputs) if run is not plain else plain(*inputs, bias, kind == "causal")
        parts = {"out": out.square().sum(), "lse": lse.sin().sum()}
        loss = sum(parts.values()) if use == "both" else parts[use]
        found.append([out, lse, *torch.autograd.grad(loss, inputs, materialize_grads=True)])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=2e-5)
    assert as_on_cuda == [torch.float32]


def plain(Q, K, V, bias, causal):
    s = scores(Q, K, bias, causal)
    return s.softmax(-1) @ V, s.logsumexp(-1)


def call(dtype=torch.float32, n=70, **more):
    torch.manual_seed(1)
    q, k, v = torch.randn(3, B, H, n, 8)
    z, h = torch.randn(2, B, 1, n, 4)
    sizes = {"k": 3, "omega_sep": 2.0, "kappa": 2.0}
    rules = Rules(**{**sizes, **more.pop("rules", {})})
    tensors = [t.to(dtype) for t in (q, k, v, z, h)]
    mask = torch.ones(B, 1, 1, n, dtype=torch.bool)
    mask[1, ..., -7:] = False
    return tensors, {"rules": rules, "mask": mask, "causal": True, **more}


@pytest.mark.parametrize("causal", [False, True])
def test_the_fold_equals_the_definition(causal, as_on_cuda):
    """With rows of which separation moves nearly all the mass, and rows that see nothing."""
    inputs, options = call(causal=causal)
    options["mask"][0, ..., :2] = False
    found = []
    for backend in ("folded", "dense"):
        leaves = [t.clone().requires_grad_() for t in inputs]
        out = asc_attention(*leaves, backend=backend, **options)
        found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=1e-4 * b.abs().max().item())
    assert len(as_on_cuda) >= 2


@pytest.mark.parametrize("kind", ["alibi", "window", "flock", "flock in float64"])
@pytest.mark.parametrize("room", [1, 1 << 25])  # blocks of a window at once: one, or all
def test_other_paths_equal_the_definition(kind, room, as_on_cuda, monkeypatch):
    """A bias of two columns in the rows that are computed again, windows with globals in pieces of
    any size, flock scope with global queries and without Triton."""
    monkeypatch.setattr(tiles, "GPU_SCORES", room)
    options = {
        "alibi": {"other": LowRank(torch.randn(H, 70, 1), torch.randn(70, 1))},
        "window": {"window": 5, "n_global": 2},
    }.get(kind, {"window": 5, "n_global": 2, "scope": "flock", "rules": {"far": [2, 3, 1]}})
    inputs, options = call(torch.float64 if "64" in kind else torch.float32, **options)
    backend = {"alibi": "folded", "window": "windowed"}.get(kind, "flock")
    found = []
    for name in (backend, "dense"):
        leaves = [t.clone().requires_grad_() for t in inputs]
        out = asc_attention(*leaves, backend=name, **options)
        found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=1e-4 * b.abs().max().item())


def test_tokens_that_are_not_finite_stay_contained(as_on_cuda):
    inputs, options = call()
    inputs[1][0, :, 9] = torch.nan
    inputs[2][1, :, -1] = torch.inf  # padding
    out = asc_attention(*inputs, backend="folded", **options)
    assert out[0, :, 9:].isnan().all()
    assert out[0, :, :9].isfinite().all()
    assert out[1].isfinite().all()


def test_float64_takes_another_backend(as_on_cuda):
    tensors, options = call(torch.float64, 300)
    with pytest.raises(ValueError, match=r"float64 on cpu; expected float32, bfloat16 or float16"):
        asc_attention(*tensors, backend="folded", **options)
    assert choose_backend(build_flock(*tensors, **options)) == "dense"
    assert BACKENDS["folded"].refuses(build_flock(*[t.float() for t in tensors], **options)) is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_six_columns_of_half_precision_are_one_of_float32(dtype):
    """Also where the numbers themselves would be beyond float16."""
    x = torch.linspace(-2, 3, 50).view(1, 1, 50, 1).requires_grad_()
    y = (torch.arange(50) * 4000.0 + 0.123).view(1, 1, 50, 1).requires_grad_()
    a, b = folded.split(x, y, dtype)
    assert a.shape[-1] == 6
    assert a.dtype == b.dtype == dtype
    got, want = a.double() @ b.double().mT, x.double() @ y.double().mT
    assert (got - want).abs().max() < 2e-6 * want.abs().max()
    one = x.detach().to(dtype).double() @ (y / 1e4).detach().to(dtype).double().mT * 1e4
    assert (one - want).abs().max() > 1e-4 * want.abs().max()  # what rounding alone would do
    weight = torch.randn(50, 50, generator=torch.Generator().manual_seed(0))
    grads = (torch.autograd.grad((t.float() * weight).sum(), (x, y)) for t in (got, want))
    for g, w in zip(*grads, strict=True):
        assert (g - w).abs().max() < 0.02 * w.abs().max()  # gradients have the half precision


@pytest.mark.parametrize("split", [True, False])
def test_alibi_in_bfloat16_over_long_texts(split, as_on_cuda, monkeypatch):
    """The last rows of 4096; rounding the columns of positions instead would change the output."""
    if not split:
        monkeypatch.setattr(folded, "split", lambda x, y, dtype: (x, y))
    torch.manual_seed(0)
    n, last = 4096, slice(-32, None)
    p, alibi = torch.arange(n), Alibi(2)
    rules = Rules(k=4, omega_sep=0.0, omega_coh=1.0)
    q, k, v, z, h = (torch.randn(1, g, n, 16).bfloat16() for g in (2, 2, 2, 1, 1))
    with torch.no_grad():
        bias = alibi.bias(p, p, True)
        out = asc_attention(q, k, v, z, h, rules=rules, causal=True, other=bias, backend="folded")
        q, k, v, z, h = (t.double() for t in (q, k, v, z, h))
        bias = alibi.double().bias(p[last], p, True)
        want = asc_attention(
            q[:, :, last], k, v, z[:, :, last], h[:, :, last], z, h, rules=rules, causal=True,
            other=bias, backend="dense",
        )  # fmt: skip
    assert torch.bfloat16 in as_on_cuda
    error = (out[:, :, last].double() - want).norm() / want.norm()
    assert (error < 0.01) == split
