"""What each rule does to the scores and to the attention of a head.

With S = Σ_t t over the terms of a score, all moments over V(i) of one row:

    share_t   = Σ_i Cov_i(t, S) / Σ_i Var_i(S)         shares of a head sum to 1
    moved_r   = mean_i ½ Σ_j |A_ij − A^{−r}_ij|        in [0, 1]: the mass that would lie elsewhere

A^{−r} is the attention with rule r muted: in that layer alone, given what it read (`moved`), or in
the whole model (`whole`). A share below 0 is a term that works against the rest. A head whose
scores are flat has no variance to share: all its shares are 0. Rows of padding do not count.
The affinity term is one of the terms and rules in models that have it, else it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ascender.core.combine import Parts
from ascender.core.normalizers import Normalizer
from ascender.core.rules import RULES
from ascender.core.softmax import masked_softmax
from ascender.insight.capture import MUTABLE, Layer, capture, has_rules, muted, rules_of

TERMS = ("base", *MUTABLE, "other")
WITHOUT = tuple(term for term in TERMS if term != "aff")


def terms_in(measured: Mapping[str, Any]) -> tuple[str, ...]:
    """What the columns of a record's "share" are."""
    return TERMS if np.shape(measured["share"])[-1] == len(TERMS) else WITHOUT


def rules_in(measured: Mapping[str, Any]) -> tuple[str, ...]:
    """What the columns of a record's "moved" are."""
    return MUTABLE[: np.shape(measured["moved"])[-1]]


@dataclass(frozen=True)
class Contribution:
    """By layer and head: shares of the t terms, attention moved by the r rules (0 where there are
    none), `whole` also where that was asked; from how many rows. t = 6 and r = 4 with the affinity
    term, else 5 and 3."""

    names: tuple[str, ...]
    share: Float[np.ndarray, "L H t"]
    moved: Float[np.ndarray, "L H r"]
    whole: Float[np.ndarray, "L H r"] | None
    rows: int


def contributions(
    model: nn.Module, batches: Iterable[Mapping[str, Any]], whole: bool = False
) -> Contribution:
    """Of a model, over what its forward takes, batch by batch."""
    tally = Tally()
    for inputs in batches:
        _, layers = capture(model, **inputs)
        tally.add(model, layers)
        if whole and has_rules(model):
            tally.add_whole(layers, {rule: _under(model, rule, inputs) for rule in rules_of(model)})
    return tally.result()


def _under(model: nn.Module, rule: str, inputs: Mapping[str, Any]) -> list[Layer]:
    with muted(model, rule):
        return capture(model, **inputs)[1]


class Tally:
    """Sums over rows of as many passes as one likes."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.rows = 0
        self.sums: dict[str, Any] = {"cov": 0.0, "moved": 0.0, "whole": 0.0, "rows": 0.0}
        self.asked = self.affinity = False

    def add(self, model: nn.Module, layers: Sequence[Layer]) -> None:
        """One pass."""
        self.names = tuple(layer.name for layer in layers)
        self.affinity |= "aff" in rules_of(model)
        rows = rows_of(layers)
        cov = [covariances(a.parts, a.visible, r) for a, r in zip(layers, rows, strict=True)]
        moved = [_moved(model, a, r) for a, r in zip(layers, rows, strict=True)]
        self._sum("cov", cov)
        self._sum("moved", moved)
        self._sum("rows", [r.sum((0, 2)).double() for r in rows])
        self.rows += int(rows[0][:, 0].sum())

    def add_whole(self, layers: Sequence[Layer], under: Mapping[str, Sequence[Layer]]) -> None:
        """The same pass with each rule muted everywhere."""
        self.asked = True
        self._sum("whole", [
            torch.stack([
                _summed(total_variation(a.parts.weights, under[rule][i].parts.weights), rows)
                for rule in under
            ], -1)
            for i, (a, rows) in enumerate(zip(layers, rows_of(layers), strict=True))
        ])  # fmt: skip

    def _sum(self, name: str, of: Sequence[Tensor]) -> None:
        heads = {len(t) for t in of}
        if len(heads) > 1:
            raise ValueError(f"layers of {sorted(heads)} heads; expected as many in every layer")
        self.sums[name] = self.sums[name] + torch.stack(list(of)).cpu().numpy()

    def result(self) -> Contribution:
        if not self.names:
            raise ValueError("no attention was captured; expected at least one batch")
        kept = [self.affinity or term in WITHOUT for term in TERMS]
        cov, rows = self.sums["cov"][..., kept], np.maximum(self.sums["rows"], 1)[..., None]
        var = cov.sum(-1, keepdims=True)
        share = np.divide(cov, var, out=np.zeros_like(cov), where=var > 0)
        whole = self.sums["whole"] / rows if self.asked else None
        return Contribution(self.names, share, self.sums["moved"] / rows, whole, self.rows)


def rows_of(layers: Sequence[Layer]) -> list[Bool[Tensor, "B H N"]]:
    """Of every layer the rows that see something and are no padding: in self-attention someone
    sees their own key; in cross-attention they are those of the self-attention before it."""
    rows: list[Tensor] = []
    own: Tensor | None = None
    for layer in layers:
        V = layer.visible
        if "cross" not in layer.name:
            own = V.any((1, 2))[:, V.shape[-1] - V.shape[-2] :]
        real = V.any(-1)
        rows.append(real if own is None or own.shape[1] != V.shape[2] else real & own[:, None])
    return rows


def covariances(
    parts: Parts, visible: Bool[Tensor, "B H N M"], rows: Bool[Tensor, "B H N"]
) -> Float[Tensor, "H 6"]:
    """Σ_i Cov_i(t, S) of each term. Their sum over terms is Σ_i Var_i(S)."""
    n = visible.sum(-1, keepdim=True).clamp_min(1)

    def centred(t: Tensor) -> Tensor:
        t = t.double().masked_fill(~visible, 0)
        return (t - t.sum(-1, keepdim=True) / n).masked_fill(~visible, 0)

    terms = [centred(t) for t in parts.terms().values()]
    S = sum(terms, torch.zeros_like(terms[0]))
    cov = torch.stack([((t * S).sum(-1) / n[..., 0]) for t in terms], -1)
    return cov.masked_fill(~rows[..., None], 0).sum((0, 2))


def without(
    layer: Layer, rule: str, normalizer: Normalizer | None = None
) -> Float[Tensor, "B H N M"]:
    """A^{−r}: the attention of a layer with a rule muted in it, given the same inputs."""
    p = layer.parts
    total = p.total.double() - getattr(p, rule).double() / p.tau_score
    if normalizer is None:
        return masked_softmax(total, layer.visible)
    return normalizer.weights(total, layer.visible)


def total_variation(
    a: Float[Tensor, "B H N M"], b: Float[Tensor, "B H N M"]
) -> Float[Tensor, "B H N"]:
    """½ Σ_j |a_ij − b_ij|."""
    return (a.double() - b.double()).abs().sum(-1) / 2


def _moved(model: nn.Module, layer: Layer, rows: Tensor) -> Tensor:
    """Σ_i of the total variation, a column for each rule."""
    p, rules = layer.parts, rules_of(model) or RULES
    if not any(bool(getattr(p, rule).any()) for rule in rules):
        return torch.zeros(p.weights.shape[1], len(rules), dtype=torch.double)
    how = getattr(model.get_submodule(layer.name), "normalizer", None)
    if how is None or how.softmax:
        how = None
    apart = [total_variation(p.weights, without(layer, rule, how)) for rule in rules]
    return torch.stack([_summed(a, rows) for a in apart], -1)


def _summed(apart: Float[Tensor, "B H N"], rows: Bool[Tensor, "B H N"]) -> Tensor:
    return apart.masked_fill(~rows, 0).sum((0, 2))
