"""Forward on fake CUDA tensors, backward on meta tensors: nobody waits for a number, devices do not
meet, and the launches are few, however long the text."""

import pytest
import torch

from ascender import AscenderAttention
from ascender.kernels import gpu
from support.gpu_traced import Launches, fake_cuda

pytestmark = pytest.mark.usefixtures("unchecked")
HALF = {"dtype": torch.bfloat16}
CASES = {
    "causal": {},
    "full": {"causal": False},
    "padded": {"padded": True},
    "half": HALF,
    "alibi": {"position": "alibi"},
    "alibi in half": {"position": "alibi", **HALF},
    "rotary": {"position": "rope"},
    "window": {"window": 64},
    "flock": {"scope": "flock"},
    "flock in half": {"scope": "flock", "window": 8, **HALF},
}
KERNEL = {"flock": "list_attention", "flock in half": "list_attention", "window": "bmm"}


@pytest.fixture(autouse=True)
def with_triton(monkeypatch):
    """Its kernels are operators here: only what they return matters."""
    monkeypatch.setattr(gpu, "has_triton", lambda: True)


@pytest.fixture
def meta_as_gpu(monkeypatch):
    known = torch.is_autocast_enabled
    monkeypatch.setattr(gpu, "on_gpu", lambda t: t.device.type in ("cuda", "meta"))
    monkeypatch.setattr(
        torch, "is_autocast_enabled", lambda *kind: kind != ("meta",) and known(*kind)
    )


def run(device, name, n=500):
    """The module's output and the launches of its call."""
    options = dict(CASES[name])
    call = {"causal": options.pop("causal", True)}
    dtype = options.pop("dtype", torch.float32)
    padded = options.pop("padded", False)
    torch.set_default_dtype(dtype)
    with torch.device(device):
        module = AscenderAttention(64, 4, **options)
        torch.set_default_dtype(torch.float32)
        x = torch.randn(2, n, 64, dtype=dtype)
        if padded:
            call["mask"] = torch.ones(2, n, dtype=torch.bool)
        with Launches() as launches:
            return module(x, **call), launches.names


@pytest.mark.parametrize("name", CASES)
def test_forward_waits_for_nothing(name):
    with fake_cuda(), torch.no_grad():
        out, names = run("cuda", name)
    assert out.device.type == "cuda"
    assert KERNEL.get(name, "_scaled_dot_product_efficient_attention") in names
    assert "_local_scalar_dense" not in names


@pytest.mark.parametrize("name", CASES)
def test_backward_waits_for_nothing(name, meta_as_gpu):
    with Launches() as launches:
        out, _ = run("meta", name)
        out.float().sum().backward()
    backward = {"list_attention": "list_attention_backward"}
    kernel = KERNEL.get(name, "_scaled_dot_product_efficient_attention")
    assert (
        backward.get(kernel, kernel if kernel == "bmm" else kernel + "_backward") in launches.names
    )


@pytest.mark.parametrize(("name", "most"), [("causal", 800), ("flock", 200), ("window", 2000)])
def test_launches_do_not_grow_with_the_text(name, most, meta_as_gpu):
    short, long = (len(run("meta", name, n)[1]) for n in (2000, 32000))
    assert long <= short <= most


def test_what_reads_a_number_is_noticed(monkeypatch):
    monkeypatch.setattr(gpu, "on_gpu", lambda t: False)
    with fake_cuda(), torch.no_grad(), pytest.raises(Exception, match="_local_scalar_dense"):
        run("cuda", "causal")
