"""Runs Triton kernels in Triton's interpreter, on tensors of the CPU, in a process of its own: the
interpreter is chosen where triton is imported. `python -m support.gpu_interpreted NAME` prints the
relative errors {case: {tensor: gap}} of a group of cases."""

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

GROUPS = {}
SIZE = 5  # tokens; the interpreter takes about 0.1 s a query and head


@lru_cache
def errors(name):
    """What the process of a group printed."""
    root = Path(__file__).parents[1]
    places = [str(root), str(root.parent / "src"), os.environ.get("PYTHONPATH", "")]
    settings = {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-W", "ignore", "-m", "support.gpu_interpreted", name]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def group(name):
    def keep(run):
        GROUPS[name] = run
        return run

    return keep


LISTS = {
    "lists": (
        ("causal padded left", "shared distance", "float32"),
        ("cross padded", "shared tied local", "float32"),
    ),
    "more lists": (
        ("window globals", "bare far-per-head k-per-head", "float32"),
        ("full", "shared", "bfloat16"),
        ("decode window", "grouped raw", "float32"),
        ("any mask", "given local", "float32"),
        ("causal", "low-rank no-term wide-values", "float32"),
        ("padded by head", "scores one-tau", "float32"),
        ("causal", "tied key-norm", "bfloat16"),
    ),
}


def lists(cases):
    """Flock scope by the Triton kernel against the definition in float64."""
    import torch

    from ascender.kernels import gpu
    from support.flock_cases import flocked
    from support.laws import gap, gradients

    found = {}
    for kind, options, dtype in cases:
        x = flocked(kind, options, SIZE).to(getattr(torch, dtype))
        gpu.on_gpu = lambda t: False
        want = gradients(x.to(torch.float64), "dense")
        gpu.on_gpu = lambda t: True
        got = gradients(x, "flock")
        found[f"{kind}, {options}, {dtype}"] = {name: gap(got[name], want[name]) for name in want}
    return found


for name, cases in LISTS.items():
    group(name)(lambda cases=cases: lists(cases))


@group("sums")
def sums():
    """dot, bag and their gradients against gathers, ragged in every axis."""
    import torch

    from ascender.core.backends.index_lists import Lists
    from ascender.kernels import gpu
    from support.laws import gap

    gpu.on_gpu = lambda t: True
    B, H, N, M, K, w = 2, 3, 7, 11, 5, 19
    g = torch.Generator().manual_seed(0)
    index = torch.randint(-1, M, (B, 1, N, K), generator=g)
    shapes = {"x": (B, H, N, w), "y": (B, H, M, w), "p": (B, H, N, K)}
    leaves = {n: torch.randn(s, generator=g).requires_grad_() for n, s in shapes.items()}
    x, y, p = leaves.values()
    wide, there = index.expand(B, H, N, K).clamp_min(0), (index >= 0)[..., None]
    taken = y[torch.arange(B).view(B, 1, 1, 1), torch.arange(H).view(1, H, 1, 1), wide] * there
    own = Lists(index, H, M)
    pairs = {
        "dot": (own.dot(x, y), (x.unsqueeze(-2) * taken).sum(-1)),
        "bag": (own.bag(p, y), (p.unsqueeze(-1) * taken).sum(-2)),
        "count": (own.bag(None, y), taken.sum(-2)),
    }
    found = {}
    for name, (got, want) in pairs.items():
        sides = [
            torch.autograd.grad(t.sin().sum(), [x, y, p], retain_graph=True, materialize_grads=True)
            for t in (got, want)
        ]
        found[name] = {"out": gap(got, want)}
        found[name] |= {n: gap(a, b) for n, a, b in zip(leaves, *sides, strict=True)}
    return found


DECODED = {
    "grouped, rotary": {"kv_heads": 2, "position": "rope", "far": 2, "window": 1, "k": 2},
    "shared, one length": {"geometry": "shared", "qk_norm": True, "far": 3, "n_global": 1, "k": 2},
}


@group("decode")
def decode():
    """A text, then three tokens from the cache, against the definition of all rows in float64. The
    second sequence has a token that is not finite: rows that see it are NaN, and no other."""
    import torch

    from ascender import AscenderAttention
    from ascender.core import neighbours as nb
    from ascender.kernels import gpu
    from ascender.nn import one_token
    from support.laws import gap

    nb.compiled = one_token.compiled = lambda t: False
    found = {}
    for name, options in DECODED.items():
        torch.manual_seed(0)
        layer = AscenderAttention(16, 4, scope="flock", d_z=3, d_a=4, **options)
        x = torch.randn(2, 8, 16)
        want = layer.double()(x.double(), causal=True, backend="dense")
        layer.float()
        x[1, 3] = torch.nan
        gpu.on_gpu = lambda t: True
        with torch.no_grad():
            cache = layer.new_cache()
            got = torch.cat([layer(part, cache=cache) for part in x.split([5, 1, 1, 1], 1)], 1)
        gpu.on_gpu = lambda t: False
        spoiled = got[1].isnan().any(-1).tolist() == [False] * 3 + [True] * 5
        room = cache.buffers["k"].shape[2] > len(cache)
        found[name] = {"out": gap(got[0], want[0]), "before": gap(got[1, :3], want[1, :3])}
        found[name] |= {"as expected": float(spoiled and room)}
    return found


TOP_K = {  # shapes (B, heads of x, N, M, width), sizes, bounded, with a bias, visibility
    "causal": ((2, 1, 63, 63, 5), (4,), True, False, {"causal": True}),
    "tail by head": ((1, 3, 21, 111, 16), (4, 1, 3), False, True, {"causal": True}),
    "cross": ((2, 2, 13, 45, 4), (3,), False, False, {"cross": True}),
    "far": ((1, 1, 63, 63, 4), (2,), False, False, {"causal": True, "beyond": 3, "n_global": 2}),
    "window": ((1, 1, 35, 35, 4), (4,), True, False, {"window": 2, "n_global": 1}),
}


@group("top-k")
def top_k():
    """The share of rows in which Triton finds other keys than the definition does in float64; in
    every case tokens repeat and some are masked."""
    import torch

    from ascender.core import neighbours as nb
    from ascender.core.visibility import Visibility
    from ascender.kernels import gpu

    nb.compiled = lambda t: False
    found, g = {}, torch.Generator().manual_seed(0)
    for name, ((B, h, N, M, w), sizes, bounded, biased, kinds) in TOP_K.items():
        x, y = torch.randn(B, h, N, w, generator=g), torch.randn(B, h, M, w, generator=g)
        if bounded:
            x, y = (torch.nn.functional.normalize(t, dim=-1) for t in (x, y))
        if kinds.get("causal"):
            y[:, :, 7:] = torch.where(
                torch.rand(M - 7, 1, generator=g) > 0.7, y[:, :, :-7], y[:, :, 7:]
            )
        bias = torch.randn(2049, generator=g) if biased else None
        vis = Visibility.of(N, M, mask=torch.rand(B, 1, 1, M, generator=g) > 0.2, **kinds)
        gpu.on_gpu = lambda t: True
        got = nb.top_k(x, y, vis, sizes, bounded, bias)
        gpu.on_gpu = lambda t: False
        bias = None if bias is None else bias.double()
        want = nb.top_k(x.double(), y.double(), vis, sizes, bounded, bias)
        other = (got.sort(-1).values != want.expand_as(got).sort(-1).values).any(-1)
        found[name] = {"rows": float(other.double().mean()), "none": float((want < 0).all())}
    return found


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    print(json.dumps(GROUPS[sys.argv[1]]()))
