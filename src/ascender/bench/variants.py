"""The candidates of `ascender bench variants`: every attention of the slot.

Heads in, heads out: `bias` and `mix` are measured, the projections around them are the same for
all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ascender.bench.candidates import CANDIDATES, Candidate, Job
from ascender.core.neighbours import graph
from ascender.core.schedule import set_lam
from ascender.measure.flops import Problem, count
from ascender.measure.timing import FORWARD, TRAINING
from ascender.nn.baselines import attention
from ascender.train.variants import variant

WINDOW = Problem(1).window
GRAPH_LARGEST = 2048  # distances in a graph: N×N matrices, and N³ products


def job(p: Problem, kind: str, options: dict[str, Any], mute: Sequence[str] = ()) -> Job:
    """A call of bias and mix, and all that they take: what `project` made, and the numbers that
    the attention learns. `mute`: rules that are off."""
    neighbours = None
    if kind == "graph":
        line = torch.arange(p.n)
        neighbours = graph(torch.stack([line[:-1], line[1:]]), p.n).to(p.device)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        module = p.place(attention(kind, p.H * p.d, p.H, **options).eval())
        set_lam(module, dict.fromkeys(mute, 0.0))
        x = p.place(torch.randn(1, p.n, p.H * p.d))
        call = module.call(x, causal=p.causal, neighbours=neighbours)
    known: dict[int, Tensor] = {}

    def whole(t: Any) -> Any:
        """By head and contiguous; what was one tensor stays one."""
        if isinstance(t, Tensor) and t.is_floating_point():
            return known.setdefault(id(t), t.contiguous())
        return tuple(map(whole, t)) if isinstance(t, tuple) else t

    more = {name: whole(t) for name, t in call.more.items()}
    own = {name: whole(getattr(call, name)) for name in ("q", "k", "v", "bare")}
    given = replace(call, **own, other=None, more=more)
    inputs = (*known.values(), *_learned(module))
    return Job(lambda: module.attend_heads(replace(given, other=module.bias(given, None))), inputs)


def _learned(module: nn.Module) -> list[nn.Parameter]:
    """Parameters outside the projections."""
    linear = (m for m in module.modules() if isinstance(m, nn.Linear))
    projections = {id(p) for m in linear for p in m.parameters()}
    return [p for p in module.parameters() if id(p) not in projections]


def _variant(
    label: str, kind: str, largest: int | None = None, mute: Sequence[str] = (), **options: Any
) -> Candidate:
    def make(p: Problem) -> Job:
        return job(p, kind, options, mute)

    def flops(p: Problem, training: bool) -> float:
        return count(make(p).run(TRAINING if training else FORWARD))

    def refuses(p: Problem, work: str) -> str | None:
        return f"N×N above N = {largest}" if largest is not None and p.n > largest else None

    return Candidate(label, make, flops, refuses=refuses, formula=False)


def _named(label: str, name: str) -> Candidate:
    """A variant of `ascender train`."""
    v = variant(name)
    return _variant(label, v.attention, mute=v.mute, **v.options)


VARIANTS: dict[str, Candidate] = {
    "stock": CANDIDATES["stock"],
    "vanilla": _variant("vanilla", "vanilla"),
    "matched": _variant("matched: as many parameters", "matched"),
    "ascender": _variant("ascender, per head", "ascender"),
    "ascender_shared": _variant(
        "ascender, shared, QK-norm", "ascender", geometry="shared", qk_norm=True
    ),
    "ascender_window": _variant(f"ascender, w = {WINDOW}", "ascender", window=WINDOW),
    "ascender_window_shared": _variant(
        f"ascender, w = {WINDOW}, shared, QK-norm", "ascender", window=WINDOW, geometry="shared",
        qk_norm=True,
    ),
    "variant_flock": _named("flock, 32 far keys, w = 16", "flock+far=32+window=16"),
    "affinity": _named("affinity term alone", "affinity"),
    "shuffled": _variant("shuffled: random neighbours", "shuffled"),
    "longformer": _variant(f"longformer, w = {WINDOW}", "longformer", window=WINDOW),
    "bigbird": _variant("bigbird", "bigbird"),
    "performer": _variant("performer", "performer"),
    "linear": _variant("linear", "linear"),
    "graph": _variant("graph distances", "graph", largest=GRAPH_LARGEST),
}  # fmt: skip
