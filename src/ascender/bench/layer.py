"""The candidates of `ascender bench layer`: whole layers, in a training step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ascender.bench.candidates import Candidate, Job, on_cpus
from ascender.core.backends.native import without_native
from ascender.measure.flops import Problem
from ascender.measure.timing import TRAINING
from ascender.nn.module import AscenderAttention

BATCH, DIM, HEADS = 32, 64, 4
WIDE_BATCH, WIDE_DIM = 8, 256


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


def _layer(
    label: str, kind: type[nn.Module] = AscenderAttention, *, wide: bool = False,
    native: bool = True, **options: Any,
) -> Candidate:  # fmt: skip
    """Gradients reach the input and every parameter; there is no optimiser. `native`: whether the
    C kernels may run."""

    def make(p: Problem) -> Job:
        batch, dim = (WIDE_BATCH, WIDE_DIM) if wide else (BATCH, DIM)
        layer = p.place(kind(dim, HEADS, **options))
        x = p.place(torch.randn(batch, p.n, dim, generator=torch.Generator().manual_seed(0)))

        def call() -> Tensor:
            out: Tensor = layer(x)
            return out

        return Job(call if native else without_native()(call), (x, *layer.parameters()))

    baseline = "vanilla_256" if wide else "vanilla"
    candidate = Candidate(label, make, None, baseline=baseline, works=(TRAINING,))
    return candidate if native else replace(candidate, refuses=on_cpus)


LAYERS: dict[str, Candidate] = {
    "vanilla": _layer("vanilla", VanillaLayer),
    "vanilla_norm": _layer("vanilla, QK-norm", VanillaLayer, qk_norm=True),
    "per_head": _layer("per-head geometry"),
    "per_head_torch": _layer("… without native kernels", native=False),
    "per_head_norm": _layer("per-head geometry, QK-norm", qk_norm=True),
    "shared": _layer("shared geometry", geometry="shared"),
    "shared_torch": _layer("… without native kernels", native=False, geometry="shared"),
    "shared_norm": _layer("shared geometry, QK-norm", geometry="shared", qk_norm=True),
    "vanilla_256": _layer("vanilla, 256 wide", VanillaLayer, wide=True),
    "per_head_256": _layer("per-head geometry, 256 wide", wide=True),
    "shared_256": _layer("shared geometry, 256 wide", wide=True, geometry="shared"),
}
