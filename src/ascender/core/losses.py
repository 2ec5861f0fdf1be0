"""The auxiliary losses (docs/definition.md, section 6), from any backend and all layers.

    L_align = mean_i (1 − u_i · ū_i)         ū_i the mean of u_l over N_k(i)
    L_sep   = mean_i Σ_j A_ij φ_ij
    L_coh   = mean_i Σ_j A_ij ‖z_j − c_i‖²
    L_index = mean_i KL( Ā_i ‖ softmax g_i )    of layers in flock scope (index_loss.py)

A mean is over the batch, the heads and the valid rows. A row is valid where V(i) is not empty and
i is no padding: a mask of keys (…, 1, M) in self-attention says so of the queries too. L_coh
needs a centre, L_align a heading and a ū_i; rows that have none are left out, and so are, in ū_i,
neighbours without a heading of their own (N_k(l) empty, or a key that is no query here: the past
in decoding, everything in cross-attention). No such row, or a rule that is switched off (λ or ω a
plain 0): that loss is 0.

    weights = LossWeights(sep=0.1, coh=0.01)               # nothing before 15% of the steps
    with collect(model, weights.at(step, total)) as losses:
        loss = task(model(x))
    loss = loss + losses.total()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ascender.core.combine import RowStats
from ascender.core.flock import Flock
from ascender.core.schedule import LossWeights
from ascender.core.visibility import Visibility


@dataclass(frozen=True)
class Losses:
    """Scalars with gradients. `index`: None where there is no index, or it was not asked for."""

    align: Float[Tensor, ""]
    sep: Float[Tensor, ""]
    coh: Float[Tensor, ""]
    index: Float[Tensor, ""] | None = None

    def total(self, weights: LossWeights) -> Float[Tensor, ""]:
        """α_1 L_align + α_2 L_sep + α_3 L_coh + α_4 L_index."""
        total = weights.align * self.align + weights.sep * self.sep + weights.coh * self.coh
        return total if self.index is None else total + weights.index * self.index

    @staticmethod
    def of_index(index: Float[Tensor, ""]) -> Losses:
        """The index loss alone."""
        zero = torch.zeros_like(index)
        return Losses(zero, zero, zero, index)


def losses(flock: Flock, stats: RowStats) -> Losses:
    """Of a pass, from the row statistics that its backend returned."""
    rules = flock.rules
    align = sep = coh = flock.q.new_zeros((), dtype=flock.accum_dtype)
    rows = valid(flock.vis, stats)
    if rules.active("align") and not flock.vis.cross:
        away, headed = _misalignment(stats, flock.vis.M - flock.vis.N)
        align = _mean(away, rows & headed, stats.nonfinite)
    if rules.active("sep"):
        assert stats.sep is not None
        sep = _mean(stats.sep, rows, stats.nonfinite)
    if rules.active("coh"):
        assert stats.coh is not None
        if rules.local_scope == "neighbours":  # no neighbours, no centre
            assert stats.count is not None
            rows = rows & ((stats.count > 0) | flock.vis.self_visible[..., None])
        coh = _mean(stats.coh, rows, stats.nonfinite)
    return Losses(align, sep, coh)


def valid(vis: Visibility, stats: RowStats) -> Bool[Tensor, "#B #H #N 1"]:
    """V(i) is not empty, and i is not padding."""
    if vis.cross or not vis.by_key_only:
        return stats.nonempty
    return stats.nonempty & vis.self_visible[..., None]


def _misalignment(
    stats: RowStats, before: int
) -> tuple[Float[Tensor, "B H N 1"], Bool[Tensor, "B H N 1"]]:
    """(1 − u_i·ū_i, whether both exist). `before`: the number of keys before the first query."""
    u, count, neighbour_sum = stats.u, stats.count, stats.neighbour_sum
    assert u is not None
    assert count is not None
    assert neighbour_sum is not None
    headed = (count > 0).expand(*u.shape[:3], 1)
    as_keys = F.pad(torch.cat([u, headed.to(u.dtype)], -1), (0, 0, before, 0))
    sums, n = neighbour_sum(as_keys).split([u.shape[-1], 1], -1)
    away = 1 - (u * sums).sum(-1, keepdim=True) / n.clamp_min(1)
    return away, headed & (n > 0)


def _mean(
    x: Float[Tensor, "B H N 1"], rows: Bool[Tensor, "..."],
    nonfinite: Bool[Tensor, "B H N 1"] | None,
) -> Float[Tensor, ""]:  # fmt: skip
    """Over the rows; NaN where one of them sees a token that is not finite."""
    rows = rows.expand_as(x)
    if nonfinite is not None:
        x = x.masked_fill(nonfinite, torch.nan)
    return torch.where(rows, x, 0).sum() / rows.sum().clamp_min(1)


class Collector:
    """The losses that layers gave, in the order of their calls."""

    def __init__(self, weights: LossWeights | None = None) -> None:
        self.weights = weights
        self.grad = torch.is_grad_enabled()  # whether gradients are wanted of what is collected
        self.given: list[Losses] = []

    def mean(self) -> Losses:
        """Over the calls, so that a weight means the same in a deep model as in a shallow one."""
        if not self.given:
            raise RuntimeError(
                "no layer gave losses; expected one with losses (AscenderAttention) to run inside "
                "collect(model), without a cache"
            )
        each = zip(*((x.align, x.sep, x.coh) for x in self.given), strict=True)
        align, sep, coh = (torch.stack(one).mean() for one in each)
        index = [x.index for x in self.given if x.index is not None]
        return Losses(align, sep, coh, torch.stack(index).mean() if index else None)

    def wanted(self, layer: Source) -> tuple[str, ...]:
        """What a layer is to compute: the losses of the "rules", the "index" loss."""
        weights = self.weights
        rules = weights is None or weights.align or weights.sep or weights.coh
        index = layer.has_index and (weights is None or weights.index)
        return ("rules",) * bool(rules) + ("index",) * bool(index)

    def total(self, weights: LossWeights | None = None) -> Float[Tensor, ""]:
        """α_1 L_align + α_2 L_sep + α_3 L_coh + α_4 L_index, to be added to the task's loss."""
        weights = self.weights if weights is None else weights
        if weights is None:
            raise ValueError("no weights; expected collect(model, weights) or total(weights)")
        return self.mean().total(weights) if weights else torch.zeros(())


@contextmanager
def collect(model: nn.Module, weights: LossWeights | None = None) -> Iterator[Collector]:
    """Collect the losses of every layer of the model that runs inside. Without weights for looking
    at them, or for total(weights); where all weights are 0 nothing is computed."""
    collector = Collector(weights)
    wanted = weights is None or bool(weights)
    layers = [m for m in model.modules() if isinstance(m, Source)] if wanted else []
    if weights is not None and weights.index and not any(layer.has_index for layer in layers):
        raise ValueError(
            f"index = {weights.index:g} in LossWeights, and no layer has an index; expected one "
            "with scope='flock', affinity='query-key' and neighbours='semantic'"
        )
    before = [layer.collector for layer in layers]
    for layer in layers:
        layer.collector = collector
    try:
        yield collector
    finally:
        for layer, outer in zip(layers, before, strict=True):
            layer.collector = outer


class Source:
    """A layer that computes losses inside `collect`.

    Gradient checkpointing runs a forward again inside backward: it must compute what it computed
    the first time, even outside `collect`, and give nothing twice.
    """

    training: bool
    collector: Collector | None = None
    has_index = False  # whether a learned affinity chooses keys
    _wanted: tuple[str, ...] = ()

    def asked(self) -> bool:
        """Whether this call is to compute losses."""
        return bool(self.wanted())

    def wanted(self) -> tuple[str, ...]:
        """Which losses this call is to compute (Collector.wanted)."""
        if self.collector is None and not self._wanted:
            return ()
        if not _again():
            self._wanted = () if self.collector is None else self.collector.wanted(self)
        return self._wanted

    def give(self, losses: Losses) -> None:
        if self.collector is None or _again():
            return
        if self.training and self.collector.grad and not torch.is_grad_enabled():
            raise RuntimeError(
                "auxiliary losses without a gradient, inside a call that has one: reentrant "
                "gradient checkpointing loses them; expected gradient_checkpointing_enable("
                "gradient_checkpointing_kwargs={'use_reentrant': False})"
            )
        self.collector.given.append(losses)


def _again() -> bool:
    """Whether this is a forward inside a backward."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
