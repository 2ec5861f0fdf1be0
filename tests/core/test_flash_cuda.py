"""The path on CUDA as far as a CPU shows it: the kernel replaced by its definition, and the columns
of half precision that stand for float32."""

import sys
import types

import pytest
import torch
import torch.nn.functional as F

from ascender import asc_attention
from ascender.core.backends import flash_cuda, folded, stock_kernels, tiles
from ascender.core.backends.flash import attend
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, choose_backend
from ascender.core.combine import LowRank
from ascender.core.rules import Rules
from ascender.kernels import gpu
from ascender.nn.positions.alibi import Alibi
from support.gpu_traced import Launches
from support.kernels_by_definition import OPERATORS, scores

B, H, G, N, M, D, E = 2, 6, 2, 37, 41, 5, 4


def fa4(q, k, v, softmax_scale, causal, return_lse):
    """FlashAttention-4: (batch, tokens, heads, width)."""
    assert return_lse
    assert softmax_scale == 1.0
    Q, K, V = (t.transpose(1, 2) for t in (q, k, v))
    out, lse = plain(Q, K, V, None, causal)
    return out.transpose(1, 2), lse


@pytest.fixture
def as_on_cuda(monkeypatch):
    """CPU tensors take the path of CUDA without Triton; calls of the kernels are counted."""
    calls = []

    def counted(run):
        return lambda *a, **kw: calls.append(a[0].dtype) or run(*a, **kw)

    operators = {
        name: run if name.endswith("backward") else counted(run) for name, run in OPERATORS.items()
    }
    monkeypatch.setattr(stock_kernels, "aten", types.SimpleNamespace(**operators))
    monkeypatch.setattr(gpu, "on_gpu", lambda t: True)
    monkeypatch.setattr(gpu, "has_triton", lambda: False)
    return calls


@pytest.mark.parametrize("use", ["out", "lse", "both"])
@pytest.mark.parametrize("kind", ["full", "causal", "padded"])
@pytest.mark.parametrize("e", [E, 16])  # with and without a spare column
@pytest.mark.parametrize("heads", [(H, H), (H, G), (G, G), (1, 1)])  # of keys and of values
def test_gradients_of_out_and_lse(kind, use, e, heads, as_on_cuda):
    same_gradients(kind, use, e, heads)
    assert as_on_cuda == [torch.float32]


def same_gradients(kind, use, e, heads):
    """Of the path on CUDA and of the definition."""
    torch.manual_seed(0)
    n = M if kind == "causal" else N
    sizes = ((H, n, D), (heads[0], M, D), (heads[1], M, e))
    leaves = [torch.randn(B, *size) for size in sizes]
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
        assert torch.allclose(a, b, atol=3e-5)


@pytest.mark.parametrize("e", [E, 16])
@pytest.mark.parametrize("kind", ["full", "causal"])
@pytest.mark.parametrize("name", ["flash", "cudnn", "fa4"])
def test_every_kernel_has_these_gradients(name, kind, e, as_on_cuda, monkeypatch):
    """In float32, which none of them takes: only numbers are tested here."""
    kernel = stock_kernels.KERNELS[name]
    monkeypatch.setattr(flash_cuda, "choose", lambda need: kernel)
    package, cute = types.ModuleType("flash_attn"), types.ModuleType("flash_attn.cute")
    cute.flash_attn_func = fa4
    monkeypatch.setitem(sys.modules, "flash_attn", package)
    monkeypatch.setitem(sys.modules, "flash_attn.cute", cute)
    for use in ("out", "lse", "both"):
        same_gradients(kind, use, e, (H, G))
    assert len(as_on_cuda) == (0 if name == "fa4" else 3)


def plain(Q, K, V, bias, causal):
    K, V = (t.repeat_interleave(Q.shape[1] // t.shape[1], 1) for t in (K, V))
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


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [1, G])
@pytest.mark.parametrize(
    "kind", ["plain", "rotary", "one length", "alibi", "mask by head", "by head"]
)
def test_grouped_keys_stay_grouped(kind, groups, causal, as_on_cuda, monkeypatch):
    """The fold over keys that heads share equals the definition, and no pass has more heads of keys
    and values than there are, unless something else of the keys differs by head."""
    inputs, options = call(causal=causal)
    q, k, v, z, h = inputs
    k, v = k[:, :groups], v[:, :groups]
    if kind == "rotary":
        options["bare"] = torch.randn_like(k)
    if kind == "one length":
        k = F.normalize(k, dim=-1)
        options["key_norm"] = 1.0
    if kind == "alibi":
        options["other"] = LowRank(torch.randn(H, 70, 1), torch.randn(70, 1))
    if kind == "mask by head":
        options["mask"] = torch.rand(B, H, 1, 70) > 0.2
    if kind == "by head":
        z = torch.randn(B, H, 70, 4)
    heads = []
    run = flash_cuda.attend

    def counted(Q, K, V, *more):
        heads.append((K.shape[1], V.shape[1]))
        return run(Q, K, V, *more)

    monkeypatch.setattr(flash_cuda, "attend", counted)
    found = []
    for backend in ("folded", "dense"):
        leaves = [t.clone().requires_grad_() for t in (q, k, v, z, h)]
        out = asc_attention(*leaves, backend=backend, **options)
        found.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=1e-4 * b.abs().max().item())
    of_keys, of_values = heads[-1]
    assert of_values == (H if kind == "mask by head" else groups)
    assert of_keys == (H if "by head" in kind else groups)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [1, G])
@pytest.mark.parametrize(
    "kind", ["plain", "rotary", "globals", "scores", "alibi", "losses", "mask by head", "by head"]
)
def test_grouped_keys_stay_grouped_in_windows(kind, groups, causal, as_on_cuda, monkeypatch):
    """Blocks have the rows of all heads that share keys, and equal the definition."""
    inputs, options = call(causal=causal, window=5)
    q, k, v, z, h = inputs
    k, v = k[:, :groups], v[:, :groups]
    if kind == "rotary":
        options["bare"] = torch.randn_like(k)
    if kind == "globals":
        options["n_global"] = 2
    if kind == "scores":
        options["neighbours"] = "scores"
    if kind == "alibi":
        options["other"] = LowRank(torch.randn(H, 70, 1), torch.randn(70, 1))
    if kind == "mask by head":
        options["mask"] = torch.rand(B, H, 1, 70) > 0.2
    if kind == "by head":
        z = torch.randn(B, H, 70, 4)
    heads = []
    run = tiles.TileScores.apply

    def counted(q, k, v, *more):
        heads.append((q.shape[1], k.shape[1], v.shape[1]))
        return run(q, k, v, *more)

    monkeypatch.setattr(tiles.TileScores, "apply", counted)
    found = []
    for backend in ("windowed", "dense"):
        leaves = [t.clone().requires_grad_() for t in (q, k, v, z, h)]
        asked = {**options, "return_losses": kind == "losses"}
        out = asc_attention(*leaves, backend=backend, **asked)
        out, losses = out if kind == "losses" else (out, None)
        loss = out.square().sum()
        if losses is not None:
            loss = loss + losses.align + losses.sep + losses.coh
        found.append([out, *torch.autograd.grad(loss, leaves)])
    for a, b in zip(*found, strict=True):
        assert torch.allclose(a, b, atol=1e-4 * b.abs().max().item())
    assert heads[-1] == (H if "by head" in kind else groups,) * 3


@pytest.mark.parametrize("kind", ["alibi", "window", "flock", "flock in float64"])
@pytest.mark.parametrize("room", [1, 1 << 25])  # blocks of a window at once: one, or all
def test_other_paths_equal_the_definition(kind, room, as_on_cuda, monkeypatch):
    """A bias of two columns in the rows that are computed again, windows with globals in pieces of
    any size, flock scope with global queries and without Triton."""
    monkeypatch.setattr(tiles, "GPU_SCORES", room)
    far = {"far": [2, 3, 1, 2, 2, 4]}
    options = {
        "alibi": {"other": LowRank(torch.randn(H, 70, 1), torch.randn(70, 1))},
        "window": {"window": 5, "n_global": 2},
    }.get(kind, {"window": 5, "n_global": 2, "scope": "flock", "rules": far})
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


HALF, FULL = torch.bfloat16, torch.float32
CHOICES = [  # dtype, widths, bias, capability, whether FlashAttention-4 is installed
    ("efficient", (FULL, 144, 64, False, (9, 0)), True),
    ("efficient", (HALF, 144, 64, True, (9, 0)), True),
    ("efficient", (HALF, 144, 64, False, None), True),
    ("efficient", (HALF, 144, 64, False, (7, 5)), True),
    ("flash", (HALF, 144, 64, False, (8, 0)), True),
    ("flash", (HALF, 64, 64, False, (9, 0)), False),
    ("flash", (HALF, 208, 64, False, (9, 0)), False),
    ("efficient", (HALF, 208, 64, False, (8, 6)), False),
    ("efficient", (HALF, 272, 64, False, (9, 0)), True),
    ("cudnn", (HALF, 112, 64, False, (9, 0)), False),
    ("fa4", (HALF, 144, 64, False, (9, 0)), True),
    ("flash", (HALF, 144, 64, False, (10, 0)), True),
    ("fa4", (HALF, 112, 64, False, (10, 0)), True),
]


@pytest.mark.parametrize(("name", "need", "there"), CHOICES)
def test_which_kernel_is_taken(name, need, there, monkeypatch):
    monkeypatch.setattr(stock_kernels, "installed", lambda: there)
    assert stock_kernels.choose(stock_kernels.Pass(*need)).name == name


def test_a_kernel_by_name(monkeypatch):
    need = stock_kernels.Pass(HALF, 64, 64, capability=(9, 0))
    monkeypatch.setenv("ASCENDER_GPU_KERNEL", "efficient")
    assert stock_kernels.choose(need).name == "efficient"
    monkeypatch.setenv("ASCENDER_GPU_KERNEL", "flash")
    with pytest.raises(ValueError, match=r"'flash' cannot: torch.float32; expected .* efficient"):
        stock_kernels.choose(stock_kernels.Pass(FULL, 64, 64, capability=(9, 0)))
    monkeypatch.setenv("ASCENDER_GPU_KERNEL", "flsh")
    with pytest.raises(ValueError, match=r"unknown ASCENDER_GPU_KERNEL 'flsh' \(did you mean"):
        stock_kernels.choose(need)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["efficient", "flash", "cudnn"])
def test_calls_have_the_operators_signature(name, causal, monkeypatch):
    """torch's own shape functions, on meta tensors: keys that heads share are views."""
    kernel = stock_kernels.KERNELS[name]
    monkeypatch.setattr(flash_cuda, "choose", lambda need: kernel)
    monkeypatch.setattr(gpu, "on_gpu", lambda t: True)
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)
    sizes = ((H, N, 80), (G, N, 80), (G, N, 64))
    leaves = [
        torch.randn(B, *size, dtype=HALF, device="meta", requires_grad=True) for size in sizes
    ]
    with Launches() as launches:
        out, lse = attend(*leaves, causal=causal)
        (out.sum() + lse.sum()).backward()
    assert out.shape == (B, H, N, 64)
    assert lse.shape == (B, H, N)
    operator = f"_scaled_dot_product_{name}_attention"
    assert {operator, operator + "_backward"} <= set(launches.names)
    assert [t.grad.shape for t in leaves] == [t.shape for t in leaves]


@pytest.mark.parametrize(("omega", "padded", "name"), [
    (0.0, False, "flash"), (0.0, True, "efficient"), (1.0, False, "efficient"),
])  # fmt: skip
def test_the_fold_asks_for_a_kernel(omega, padded, name, as_on_cuda, monkeypatch):
    """Half precision without separation, which needs float32, and without padding, a bias."""
    asked = []
    choose = stock_kernels.choose
    monkeypatch.setattr(flash_cuda, "capability", lambda device: (8, 0))
    monkeypatch.setattr(flash_cuda, "choose", lambda need: asked.append(choose(need)) or asked[-1])
    inputs, options = call(HALF, rules={"omega_sep": omega})
    options["mask"] = options["mask"] if padded else None
    out = asc_attention(*inputs, backend="folded", **options)
    assert asked[-1].name == name
    want = asc_attention(*[t.double() for t in inputs], backend="dense", **options)
    assert (out - want).abs().max() < 0.02 * want.abs().max()
