"""Standardise, then gate, then add.

r̃_ij = (r_ij − mean_i) / √(var_i + 1e-5)          over V(i), as LayerNorm does
S_ij = ( q_i·k_j/√d + Σ_rules λ ω gate_i r̃_ij + β_ij ) / τ_score
A_i  = softmax of S_i over V(i)                    V(i) empty: A_i = 0
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ascender.rules import Number

EPS = 1e-5


@dataclass(frozen=True)
class Parts:
    """A score taken apart: terms as they enter the sum, before the division by τ_score;
    `total` is after it. All are 0 outside V(i)."""

    base: Float[Tensor, "B H N M"]
    align: Float[Tensor, "B H N M"]
    sep: Float[Tensor, "B H N M"]
    coh: Float[Tensor, "B H N M"]
    other: Float[Tensor, "B H N M"]
    total: Float[Tensor, "B H N M"]
    weights: Float[Tensor, "B H N M"]

    def terms(self) -> dict[str, Tensor]:
        """The five named terms of the sum, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)[:5]}


@dataclass(frozen=True)
class LowRank:
    """A bias that folds: β_ij = left_i · right_j. ALiBi's causal form is one
    (slope · j, up to a constant of the row). A plain (…, 1, M) tensor folds too."""

    left: Float[Tensor, "... N r"]
    right: Float[Tensor, "... M r"]

    def dense(self) -> Float[Tensor, "... N M"]:
        return self.left @ self.right.transpose(-1, -2)


def row_moments(
    r: Float[Tensor, "B H N M"], visible: Bool[Tensor, "#B #H N M"]
) -> tuple[Float[Tensor, "B H N 1"], Float[Tensor, "B H N 1"]]:
    """Mean and population variance of each row over V(i)."""
    n = visible.sum(-1, keepdim=True).clamp_min(1)
    mean = r.masked_fill(~visible, 0).sum(-1, keepdim=True) / n
    var = (r - mean).masked_fill(~visible, 0).square().sum(-1, keepdim=True) / n
    return mean, var


def standardise(
    r: Float[Tensor, "B H N M"], visible: Bool[Tensor, "#B #H N M"]
) -> Float[Tensor, "B H N M"]:
    """r̃, 0 outside V(i)."""
    mean, var = row_moments(r, visible)
    return ((r - mean) * torch.rsqrt(var + EPS)).masked_fill(~visible, 0)


def slope(
    strength: Number, gate: Float[Tensor, "..."], var: Float[Tensor, "..."] | None
) -> Float[Tensor, "..."]:
    """f_i = λ ω gate_i / √(var_i + ε): all that is left of standardising once what is
    constant along a row is dropped. var = None: not standardised."""
    f = strength * gate
    return f if var is None else f * torch.rsqrt(var + EPS)


def masked_softmax(
    s: Float[Tensor, "B H N M"], visible: Bool[Tensor, "#B #H N M"]
) -> Float[Tensor, "B H N M"]:
    """softmax over V(i); a row that sees nothing is 0, not NaN."""
    weights = torch.softmax(s.masked_fill(~visible, -torch.inf), -1)
    return weights.masked_fill(~visible, 0)
