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

FUSED = {  # kind, options, type, keys
    "fused": (
        ("causal", "shared grouped low-rank", "float32", 35),
        ("padded by head", "plain", "float32", 11),
        ("cross padded", "bare one-tau wide-values", "float32", 11),
        ("decode padded", "shared key-norm k-per-head", "bfloat16", 11),
    ),
    "more fused": (
        ("full", "shared one-tau grouped", "float32", 111),
        ("causal padded left", "key-bias raw", "float32", 63),
        ("causal padded right", "given local", "float32", 11),
        ("tail", "bare key-norm grouped", "float32", 11),
        ("causal", "scores k-per-head", "float32", 11),
        ("causal", "shared low-rank", "bfloat16", 63),
    ),
}


def fused(cases):
    """The fold by Triton kernels against the definition in float64, over the cases of the laws."""
    import torch

    from ascender.kernels import gpu
    from support.cases import case
    from support.laws import gap, gradients

    found = {}
    for kind, options, dtype, size in cases:
        x = case(kind, options, size).to(getattr(torch, dtype))
        gpu.on_gpu = lambda t: False
        want = gradients(x.to(torch.float64), "dense")
        gpu.on_gpu = lambda t: True
        got = gradients(x, "fused")
        found[f"{kind}, {options}, {dtype}"] = {name: gap(got[name], want[name]) for name in want}
    return found


for name, cases in FUSED.items():
    group(name)(lambda cases=cases: fused(cases))


LOSSES = {
    "causal padded grouped low-rank": "float32",
    "by head wide": "float32",
    "causal local": "bfloat16",
}


@group("losses")
def losses():
    """The three losses and the output of `fused` against the definition in float64, and all
    gradients of their sum. The values of "wide" do not fit into one pass with the columns of z."""
    import torch

    from ascender import LowRank, asc_attention
    from ascender.core.backends import fused
    from ascender.core.rules import Rules
    from ascender.kernels import gpu
    from support.laws import gap

    B, H, n, found = 2, 4, 9, {}
    for words, dtype in LOSSES.items():
        g, has = torch.Generator().manual_seed(0), set(words.split())
        G, Z = 2 if "grouped" in has or "wide" in has else H, H if "head" in has else 1
        fused.WIDEST = 6 if "wide" in has else 128
        sizes = {"q": (H, n, 6), "k": (G, n, 6), "v": (G, n, 5), "z": (Z, n, 3), "h": (1, n, 4)}
        if "low-rank" in has:
            sizes |= {"left": (H, n, 2), "right": (1, n, 2)}
        leaves = {name: torch.randn(B, *size, generator=g) for name, size in sizes.items()}
        leaves = {name: t.to(getattr(torch, dtype)) for name, t in leaves.items()}
        leaves["omega_sep"] = torch.tensor([0.7, 0.9, 0.5, 1.1])
        mask = torch.ones(B, 1, 1, n, dtype=torch.bool)
        mask[1, ..., :2] = "padded" not in has
        weight, sides = torch.randn(B, H, n, 5, generator=g), []
        for name in ("fused", "dense"):
            gpu.on_gpu = lambda t, name=name: name == "fused"
            kind = torch.float64 if name == "dense" else None
            x = {n: t.detach().to(kind or t.dtype).requires_grad_() for n, t in leaves.items()}
            rules = Rules(
                k=2, kappa=2.0, omega_sep=x["omega_sep"],
                local_scope="neighbours" if "local" in has else "visible",
            )  # fmt: skip
            out, each = asc_attention(
                *(x[n] for n in "qkvzh"), rules=rules, causal="causal" in has, mask=mask,
                other=LowRank(x["left"], x["right"]) if "left" in x else None,
                backend=name, return_losses=True,
            )  # fmt: skip
            parts = [each.align, each.sep, each.coh]
            loss = (out * weight).sum() + 3 * each.align + 5 * each.sep + 7 * each.coh
            sides.append([out, *parts, *torch.autograd.grad(loss, list(x.values()))])
        names = ("out", "align", "sep", "coh", *leaves)
        found[f"{words}, {dtype}"] = {
            name: gap(a, b) for name, a, b in zip(names, *sides, strict=True)
        }
    return found


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


# By group: words that say what a pass has, and its type. "wide" widths are no power of two.
PASSES = {
    "passes": (
        ("causal align narrow ranks grouped sep", "float32"),
        ("packed causal align narrow ranks grouped sep", "float32"),
        ("padded by head wide narrow ranks sep", "float32"),
        ("causal align narrow ranks grouped sep", "bfloat16"),
    ),
    "more passes": (
        ("causal tail align narrow grouped sep long", "float32"),
        ("padded narrow ranks wide", "float32"),
        ("padded by head causal align ranks sep", "float32"),
        ("packed align", "float32"),
        ("", "float32"),
        ("padded wide narrow", "bfloat16"),
        ("packed causal align narrow ranks sep", "bfloat16"),
        ("causal align narrow ranks sep", "float16"),
        ("align narrow", "float16"),
    ),
}


def pass_inputs(words, dtype):
    """Random inputs of kernels/gpu/main_pass.py; those with gradients are leaves."""
    import torch

    words, g = set(words.split()), torch.Generator().manual_seed(0)
    B, H = (1 if "packed" in words else 2), 4
    G, M = (2 if "grouped" in words else H), (111 if "long" in words else 63)
    N = 47 if "tail" in words else (35 if "padded" in words and "causal" not in words else M)
    d, e, w = (20, 24, 5) if "wide" in words else (16, 16, 4)

    def randn(*shape, scale=1.0, to=dtype):
        return (scale * torch.randn(*shape, generator=g)).to(to).requires_grad_()

    of = {"q": randn(B, H, N, d), "k": randn(B, G, M, d), "v": randn(B, G, M, e)}
    of["scale"] = (0.2 + 0.1 * torch.rand(H, generator=g)).requires_grad_()
    if "align" in words:
        of |= {"a": randn(B, H, N, d, scale=0.3), "u": randn(B, G, M, d, scale=0.3)}
    if "narrow" in words:
        of |= {"c": randn(B, H, N, w), "z": randn(B, 1, M, w)}
    if "ranks" in words:
        ranks = {"scale": 0.3, "to": torch.float32}
        of |= {"x": randn(B, H, N, 2, **ranks), "y": randn(B, 1, M, 2, **ranks)}
    if "padded" in words:
        of["mask"] = torch.rand(B, H if "head" in words else 1, M, generator=g) > 0.3
        of["mask"][..., :2] = False
    if "packed" in words:
        of |= {"cu": torch.tensor([0, 35, 35, 36, M], dtype=torch.int32), "longest": 35}
    if "sep" in words:
        of |= pass_lists(of, words, g)
    return {**of, "causal": "causal" in words}


def pass_lists(of, words, g):
    """Lists of three keys that a row sees, and their biases; the rest of a list is empty."""
    import torch

    (B, H, N, _), M = of["q"].shape, of["k"].shape[2]
    i, j = torch.arange(N)[:, None] + M - N, torch.arange(M)
    ok = (j <= i).expand(B, -1, -1) if "causal" in words else torch.ones(B, N, M) > 0
    if "mask" in of:
        ok = ok & of["mask"].all(1)[:, None]
    if "cu" in of:
        sequence = torch.searchsorted(of["cu"][1:].contiguous(), j, right=True)
        ok = ok & (sequence[:, None] == sequence)
    top = torch.rand(B, N, M, generator=g).masked_fill(~ok, -1).topk(3)
    lists = top.indices.masked_fill(top.values < 0, -1)[:, None].int()
    bias = torch.randn(B, H, N, 3, generator=g).sub(1).masked_fill(lists < 0, 0)
    return {"lists": lists, "bias": bias.requires_grad_()}


def both_sides(inputs, ours, plain, grads_of):
    """The gaps of results and gradients, `plain` in float64."""
    import torch

    from support.laws import gap

    names = [n for n, t in inputs.items() if isinstance(t, torch.Tensor) and t.requires_grad]
    sides = []
    for run, dtype in ((ours, None), (plain, torch.float64)):
        leaves = {n: inputs[n].detach().to(dtype or inputs[n].dtype) for n in names}
        for t in leaves.values():
            t.requires_grad_()
        results = run({**inputs, **leaves})
        w = [torch.randn(t.shape, generator=torch.Generator().manual_seed(1)) for t in results]
        loss = sum((t * x).sum() for t, x in zip(results[:grads_of], w, strict=False))
        grads = torch.autograd.grad(loss, list(leaves.values()))
        sides.append([*results, *grads])
    found = [gap(*(t.nan_to_num(neginf=0) for t in pair)) for pair in zip(*sides, strict=True)]
    results = ["out", "second", "third"][: len(found) - len(names)]
    return dict(zip([*results, *names], found, strict=True))


def passes(cases):
    """The main pass with separation against its definition in float64."""
    import torch

    from ascender.kernels.gpu.main_pass import Pass, definition, main_pass

    def ours(given):
        out, lse, left = main_pass(Pass(**given))
        return out, lse, out.new_zeros(()) if left is None else left

    def plain(given):
        out, lse, left = definition(Pass(**given))
        return out, lse, left if "lists" in given else out.new_zeros(())

    return {
        f"{words}, {dtype}": both_sides(pass_inputs(words, getattr(torch, dtype)), ours, plain, 2)
        for words, dtype in cases
    }


for name, cases in PASSES.items():
    group(name)(lambda cases=cases: passes(cases))

CENTRES = ("causal own", "causal tail", "padded by head", "packed causal own")


@group("centres")
def centres():
    """The centre pass against its definition, in float64."""
    import torch

    from ascender.kernels.gpu.centre_pass import centre_pass, definition

    found = {}
    for words in CENTRES:
        g, has = torch.Generator().manual_seed(0), set(words.split())
        B, H, M = (1 if "packed" in has else 2), 2, 63
        N = 47 if "tail" in has else (35 if "padded" in has and "own" not in has else M)
        y = torch.randn(B, 1, M, 5, generator=g).requires_grad_()
        x = y if "own" in has else torch.randn(B, H, N, 5, generator=g).requires_grad_()
        given = {"x": x, "y": y, "rate": torch.tensor([0.7, 0.2]).requires_grad_()}
        if "padded" in has:
            given["mask"] = torch.rand(B, H if "head" in has else 1, M, generator=g) > 0.3
        if "packed" in has:
            given["cu"] = torch.tensor([0, 35, 35, 36, M], dtype=torch.int32)
        more = {"causal": "causal" in has}
        own = {**more, "own": "own" in has and "mask" not in given, "longest": 35}
        found[words] = both_sides(
            given, lambda t, own=own: centre_pass(**t, **own),
            lambda t, more=more: definition(**t, **more), 2,
        )  # fmt: skip
    return found


PACKED = ("causal grouped", "full bare", "causal low-rank given")


@group("packed")
def packed():
    """asc_attention_varlen by kernels that read cu_seqlens, against the definition in float64."""
    import torch

    from ascender import LowRank, asc_attention_varlen
    from ascender.core.backends import packed
    from ascender.core.rules import Rules
    from ascender.kernels import gpu
    from support.laws import gap

    packed.CHUNK = 4
    lengths, H, found = (7, 0, 1, 12, 5), 4, {}
    total, cu = sum(lengths), torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    for words in PACKED:
        g, has = torch.Generator().manual_seed(0), set(words.split())
        G = 2 if "grouped" in has else H
        widths = {"q": (H, 6), "k": (G, 6), "v": (G, 5), "z": (1, 3), "h": (1, 7)}
        if "bare" in has:
            widths["bare"] = (G, 6)
        if "low-rank" in has:
            widths |= {"left": (H, 2), "right": (1, 2)}
        leaves = {n: torch.randn(total, *w, generator=g) for n, w in widths.items()}
        leaves["omega_sep"] = torch.tensor([0.7, 0.9, 0.5, 1.1])
        near = torch.randint(-1, 5, (total, 3), generator=g) if "given" in has else "semantic"
        weight = torch.randn(total, H, 5, generator=g)
        sides = []
        for on_gpu, dtype in ((True, torch.float32), (False, torch.float64)):
            gpu.on_gpu = lambda t, on_gpu=on_gpu: on_gpu
            x = {n: t.to(dtype).requires_grad_() for n, t in leaves.items()}
            other = LowRank(x["left"], x["right"]) if "low-rank" in has else None
            out = asc_attention_varlen(
                *(x[n] for n in "qkvzh"), cu_seqlens=cu, max_seqlen=12, other=other,
                rules=Rules(k=3, kappa=2.0, omega_sep=x["omega_sep"]), causal="causal" in has,
                bare=x.get("bare"), neighbours=near, backend="fused" if on_gpu else "dense",
            )  # fmt: skip
            sides.append([out, *torch.autograd.grad((out * weight).sum(), list(x.values()))])
        pairs = zip(("out", *leaves), *sides, strict=True)
        found[words] = {name: gap(a, b) for name, a, b in pairs}
    return found | {"a layer": packed_layer(cu)}


def packed_layer(cu):
    """A layer with rotary positions that reads cu_seqlens, against the layer on a padded batch."""
    import torch

    from ascender import AscenderAttention
    from ascender.kernels import gpu
    from support.laws import gap

    torch.manual_seed(0)
    layer = AscenderAttention(24, 4, kv_heads=2, position="rope", d_z=3, d_a=4, k=2)
    x, sides = torch.randn(1, int(cu[-1]), 24), []
    for on_gpu, dtype in ((True, torch.float32), (False, torch.float64)):
        gpu.on_gpu = lambda t, on_gpu=on_gpu: on_gpu
        layer.to(dtype).zero_grad()
        tokens = x.detach().to(dtype, copy=True).requires_grad_()
        y = layer(tokens, causal=True, cu_seqlens=cu, max_seqlen=12)
        y.sin().sum().backward()
        grads = {name: p.grad.clone() for name, p in layer.named_parameters()}
        sides.append({"y": y, "x": tokens.grad, **grads})
    return {name: gap(t, sides[1][name]) for name, t in sides[0].items()}


@group("running sums")
def running_sums():
    """Ragged sequences and columns."""
    import torch

    from ascender.kernels.gpu.running_sums import definition, running_sums
    from support.laws import gap

    g = torch.Generator().manual_seed(0)
    x = torch.randn(3, 9, 111, generator=g).requires_grad_()
    begins = torch.tensor([1, 0, 0, 1, 1, 0, 0, 0, 0], dtype=torch.bool)
    sides = []
    for run in (running_sums, definition):
        out = run(x, begins)
        sides.append((out, *torch.autograd.grad(out.sin().sum(), x)))
    return {"sums": {n: gap(*pair) for n, *pair in zip(("out", "x"), *sides, strict=True)}}


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    print(json.dumps(GROUPS[sys.argv[1]]()))
