"""The candidates of `ascender bench attention`: name, inputs, and what each is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ascender import Rules, asc_attention
from ascender.core.attention import attend
from ascender.core.backends.native import unavailable
from ascender.core.geometry import unit
from ascender.core.neighbours import top_k
from ascender.core.scope import FlockScope
from ascender.core.visibility import Visibility
from ascender.kernels.gpu import has_triton
from ascender.measure import flops
from ascender.measure.flops import CallOptions, Problem
from ascender.measure.timing import FORWARD, TRAINING
from ascender.nn.cache import Cache

LARGEST = 4e9  # bytes of N×N matrices: more is skipped
LONGEST = 2048  # of the definition
NOT_ON_GPUS = "the C kernels are for the CPU"
NEEDS_TRITON = "needs a GPU with Triton"
NATIVE_LONGEST = 16384  # of the C kernel: "auto" leaves it there or before
AFFINITY: dict[str, Any] = {"affinity": "query-key", "affinity_term": True}  # of flock scope


@dataclass(frozen=True)
class Job:
    """A call, and the tensors that it is about: inputs, all of which get gradients in training."""

    call: Callable[[], Tensor]
    inputs: tuple[Tensor, ...]

    def nbytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.inputs)

    def run(self, work: str) -> Callable[[], object]:
        """Forward alone (nothing kept for a gradient), or forward and backward."""
        if work == FORWARD:
            return torch.no_grad()(self.call)
        leaves = [t.requires_grad_() for t in self.inputs if t.is_floating_point()]

        def step() -> object:
            out = self.call()
            return torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)

        return step


@dataclass(frozen=True)
class Candidate:
    """make(problem) gives a job, and its run(work) what is timed. works: what it can do. flops:
    by formula or counted; None: not asked for. refuses(problem, work): why it is skipped there."""

    label: str
    make: Callable[[Problem], Any]
    flops: Callable[[Problem, bool], float] | None
    baseline: str = "stock"
    works: tuple[str, ...] = (FORWARD, TRAINING)
    refuses: Callable[[Problem, str], str | None] = lambda problem, work: None
    formula: bool = True  # whether flops takes no time


def _normal(p: Problem, heads: int, width: int, seed: int) -> Tensor:
    noise = torch.Generator().manual_seed(seed)
    return p.place(torch.randn(1, heads, p.n, width, generator=noise))


def _qkv(p: Problem) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (_normal(p, p.H, p.d, seed) for seed in range(3))
    return q, k, v


def _stock(p: Problem) -> Job:
    q, k, v = _qkv(p)
    return Job(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=p.causal), (q, k, v))


def _bias(p: Problem) -> Job:
    """What one would do today: all terms added into one learned (H, N, N) bias. Making the bias
    is not even counted."""
    q, k, v = _qkv(p)
    noise = torch.Generator().manual_seed(3)
    added = p.place(torch.randn(1, p.H, p.n, p.n, generator=noise))
    if p.causal:
        hidden = torch.ones(p.n, p.n, dtype=torch.bool, device=p.device).triu_(1)
        added.masked_fill_(hidden, -torch.inf)
    return Job(lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=added), (q, k, v, added))


def _too_large(p: Problem, work: str) -> str | None:
    copies = 5 if work == TRAINING else 1  # scores, weights, both gradients
    need = copies * 4 * p.H * p.n**2
    return f"needs {need / 1e9:.0f} GB" if need > LARGEST else None


def numbers(p: Problem, v: CallOptions) -> dict[str, Any]:
    """The rules' numbers as a trained layer has them: tensors, one value a head (τ: a space)."""
    tau = torch.full((flops.spaces(p, v),), 1.0, device=p.device)
    starts = {f.name: f.default for f in fields(Rules) if isinstance(f.default, float)}
    learned = {n: x for n, x in starts.items() if not n.startswith("lam_")}
    by_head = {n: torch.full((p.H,), x, device=p.device) for n, x in learned.items()}
    return {**by_head, "tau_coh": tau, "tau_sep": 1.1 * tau if v.two_tau else tau}


def tokens(p: Problem, v: CallOptions) -> dict[str, Tensor]:
    """q, k, v, z, h; of flock scope one h_q and one h_k for all heads. Tokens lie about √2 apart,
    as at the start of training."""
    q, k, value = _qkv(p)
    if v.shared:  # QK-norm: keys of length 1, base score √d · cos
        q, k = unit(q) * p.d, unit(k)
    z = _normal(p, flops.spaces(p, v), p.d_z, 4) / p.d_z**0.5
    h = {"h_q": _normal(p, 1 if v.flock else flops.spaces(p, v), p.d_a, 5)}
    if v.flock:
        h["h_k"] = _normal(p, 1, p.d_a, 6)
    return {"q": q, "k": k, "v": value, "z_q": z, **h}


def arguments(p: Problem, v: CallOptions) -> dict[str, Any]:
    """Of asc_attention, but for the backend."""
    args: dict[str, Any] = {**tokens(p, v), "causal": p.causal}
    scope = "neighbours" if v.local else "visible"
    args["rules"] = Rules(**numbers(p, v), k=p.k, far=p.far, local_scope=scope)
    if v.shared:
        args["key_norm"] = 1.0
    if v.windowed:
        args["window"] = p.window
    if v.flock:
        args |= {"scope": "flock", "window": p.flock_window, **AFFINITY}
    if v.reuse:
        h = unit(args["h_q"])
        vis = Visibility.of(p.n, p.n, causal=p.causal, device=h.device)
        args["neighbours"] = top_k(h, h, vis, (p.k,))
    return args


def ours(p: Problem, v: CallOptions) -> Job:
    args = arguments(p, v)
    involved = [*args.values(), *vars(args["rules"]).values()]
    distinct = {id(t): t for t in involved if isinstance(t, Tensor)}
    return Job(lambda: asc_attention(**args, backend=v.backend), tuple(distinct.values()))


def _decode_stock(p: Problem) -> Job:
    q, k, v = _qkv(p)
    last = q[:, :, -1:].contiguous()
    return Job(lambda: F.scaled_dot_product_attention(last, k, v), (last, k, v))


def _decode(p: Problem, v: CallOptions) -> Job:
    """The newest token against a cache that holds it and all before; filled beforehand."""
    args = tokens(p, v)
    rules = Rules(**numbers(p, v), k=p.k)
    cached = tuple(args[name] for name in ("k", "v", "z_q", "h_q"))
    cache = Cache()
    cache.append(*cached)
    q = args["q"][:, :, -1:].contiguous()

    def call() -> Tensor:
        out: Tensor = attend(cache.newest(q, rules=rules, vis=cache.visibility(1)), "decode")
        return out

    return Job(call, (q, *cached))


def _decode_flock(p: Problem, v: CallOptions) -> Job:
    """The same in flock scope: the token ranks the keys of the cache, then attends to a few."""
    args = tokens(p, v)
    rules = Rules(**numbers(p, v), k=p.k, far=p.far)
    cached = tuple(args[name] for name in ("k", "v", "z_q", "h_k"))
    cache = Cache(unit_h=False)
    cache.append(*cached)
    q, h = (args[name][:, :, -1:].contiguous() for name in ("q", "h_q"))

    def call() -> Tensor:
        vis = cache.visibility(1)
        scope = FlockScope(vis, p.flock_window)
        out: Tensor = attend(
            cache.newest(q, rules=rules, vis=vis, h_q=h, scope=scope, **AFFINITY), v.backend
        )
        return out

    return Job(call, (q, h, *cached))


def no_native(p: Problem, work: str) -> str | None:
    """Why the C kernel is not measured."""
    if p.device != "cpu":
        return NOT_ON_GPUS
    return unavailable() or (f"above N = {NATIVE_LONGEST}" if p.n > NATIVE_LONGEST else None)


def on_cpus(p: Problem, work: str) -> str | None:
    """Why what turns the C kernels off is not measured on a GPU, where there are none."""
    return None if p.device == "cpu" else NOT_ON_GPUS


def on_gpus(p: Problem, work: str) -> str | None:
    """Why the Triton kernels are not measured."""
    if p.device == "cpu" or not has_triton():
        return NEEDS_TRITON
    return None


def _variant(label: str, backend: str = "folded", **kinds: Any) -> Candidate:
    v = CallOptions(backend, **kinds)
    count = {
        "folded": flops.folded, "fused": flops.folded, "windowed": flops.windowed,
        "native": flops.native, "flock": flops.flock,
    }[backend]  # fmt: skip
    candidate = Candidate(label, partial(ours, v=v), partial(count, v=v))
    refuses = {"native": no_native, "fused": on_gpus}.get(backend, candidate.refuses)
    return replace(candidate, refuses=refuses)


CANDIDATES: dict[str, Candidate] = {
    "stock": Candidate("stock SDPA", _stock, flops.stock),
    "bias": Candidate("SDPA with an N×N bias", _bias, flops.bias, refuses=_too_large),
    "dense": Candidate(
        "dense: the definition", partial(ours, v=CallOptions("dense")), flops.dense,
        refuses=lambda p, work: f"above N = {LONGEST}" if p.n > LONGEST else None,
    ),
    "native": _variant("native, per head, two τ", "native"),
    "native_shared": _variant("native, shared, QK-norm", "native", shared=True),
    "folded": _variant("folded, per head, two τ"),
    "folded_one_tau": _variant("folded, per head, one τ", two_tau=False),
    "folded_shared": _variant("folded, shared, QK-norm", shared=True),
    "folded_reuse": _variant("… neighbours reused", shared=True, reuse=True),
    "folded_local": _variant("… and local scope", shared=True, reuse=True, local=True),
    "fused": _variant("fused, per head, two τ", "fused"),
    "fused_shared": _variant("fused, shared, QK-norm", "fused", shared=True),
    "native_windowed": _variant("native, w = 128, per head", "native", windowed=True),
    "windowed": _variant("windowed (w = 128), per head", backend="windowed", windowed=True),
    "windowed_shared": _variant(
        "windowed (w = 128), shared, QK-norm", backend="windowed", windowed=True, shared=True
    ),
    "flock": _variant("flock (32 far keys, w = 16), per head", "flock", flock=True),
    "flock_shared": _variant(
        "flock (32 far keys, w = 16), shared, QK-norm", "flock", flock=True, shared=True
    ),
    "decode_stock": Candidate(
        "stock SDPA, one query", _decode_stock, flops.decode_stock, "decode_stock", (FORWARD,)
    ),
    "decode": Candidate(
        "decode, one query", partial(_decode, v=CallOptions("decode")),
        partial(flops.decode, v=CallOptions("decode")), "decode_stock", (FORWARD,),
    ),
    "flock_decode": Candidate(
        "flock (32 far keys, w = 16), one query",
        partial(_decode_flock, v=CallOptions("flock", flock=True)), flops.flock_decode,
        "decode_stock", (FORWARD,),
    ),
}  # fmt: skip
