"""`ascender bench layer`: a whole layer's training step against a vanilla layer's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ascender.measure.timing import TRAINING, Row, TimingPlan, best
from ascender.nn.module import AscenderAttention

LENGTHS = (64, 256)
PLAN = TimingPlan(repeats=20, at_least=3.0)
BATCH, DIM, HEADS = 32, 64, 4


class VanillaLayer(nn.Module):
    """The same projections around stock attention."""

    def __init__(self, dim: int, heads: int, qk_norm: bool = False) -> None:
        super().__init__()
        self.heads, self.qk_norm = heads, qk_norm
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        if qk_norm:
            self.gain = nn.Parameter(torch.full((heads, 1, 1), (dim // heads) ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            W(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for W in (self.W_Q, self.W_K, self.W_V)
        )
        if self.qk_norm:
            q, k = self.gain * F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        out = F.scaled_dot_product_attention(q, k, v)
        return self.W_O(out.transpose(1, 2).flatten(2))


LAYERS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "vanilla": ("vanilla", lambda: VanillaLayer(DIM, HEADS)),
    "vanilla_norm": ("vanilla, QK-norm", lambda: VanillaLayer(DIM, HEADS, qk_norm=True)),
    "per_head": ("per-head geometry", lambda: AscenderAttention(DIM, HEADS)),
    "per_head_norm": (
        "per-head geometry, QK-norm",
        lambda: AscenderAttention(DIM, HEADS, qk_norm=True),
    ),
    "shared": ("shared geometry", lambda: AscenderAttention(DIM, HEADS, geometry="shared")),
    "shared_norm": (
        "shared geometry, QK-norm",
        lambda: AscenderAttention(DIM, HEADS, geometry="shared", qk_norm=True),
    ),
}


def step(layer: nn.Module, n: int, batch: int) -> Callable[[], object]:
    """Forward and backward, to the input and to every parameter; no optimiser."""
    x = torch.randn(batch, n, DIM, generator=torch.Generator().manual_seed(0)).requires_grad_()
    leaves = [x, *layer.parameters()]
    gradient = torch.ones(batch, n, DIM)
    return lambda: torch.autograd.grad(layer(x), leaves, gradient)


def run(
    lengths: Sequence[int] = LENGTHS,
    plan: TimingPlan = PLAN,
    say: Callable[[str], None] = lambda line: None,
    batch: int = BATCH,
) -> list[Row]:
    rows = []
    for n in lengths:
        say(f"timing a training step, B = {batch}, N = {n}")
        calls = {name: step(make(), n, batch) for name, (_, make) in LAYERS.items()}
        seconds = best(calls, plan)
        rows += [
            Row(name, n, TRAINING, 1e3 * s, s / seconds["vanilla"], None)
            for name, s in seconds.items()
        ]
    return rows
