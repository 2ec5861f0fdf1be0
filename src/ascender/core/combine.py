"""Standardise, then gate, then add.

r̃_ij = (r_ij − mean_i) / √(var_i + 1e-5)          over V(i), as LayerNorm does
S_ij = ( q_i·k_j/√d + Σ_rules λ ω gate_i r̃_ij + ω_aff g_ij + β_ij ) / τ_score
A_i  = softmax of S_i over V(i)                    V(i) empty: A_i = 0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.rules import Number

EPS = 1e-5


@dataclass(frozen=True)
class Parts:
    """The scores by term: total = (base + align + sep + coh + aff + other) / tau_score, and the
    weights. All are 0 outside V(i), in flock scope outside F(i). tau_score is a number, or
    (H, 1, 1)."""

    base: Float[Tensor, "B H N M"]
    align: Float[Tensor, "B H N M"]
    sep: Float[Tensor, "B H N M"]
    coh: Float[Tensor, "B H N M"]
    aff: Float[Tensor, "B H N M"]
    other: Float[Tensor, "B H N M"]
    total: Float[Tensor, "B H N M"]
    weights: Float[Tensor, "B H N M"]
    tau_score: Number = 1.0

    def terms(self) -> dict[str, Tensor]:
        """The six terms of the sum by name, in order."""
        return {f.name: getattr(self, f.name) for f in fields(self)[:6]}


@dataclass(frozen=True)
class RowStats:
    """Row-wise quantities of the auxiliary losses, with gradients; None where no active rule has
    them. The last five come from the dense backend only."""

    nonempty: Bool[Tensor, "#B #H #N 1"]  # whether V(i) has members
    count: Int[Tensor, "#B #H N 1"] | None = None  # |N_k(i)|
    neighbour_sum: Callable[[Tensor], Tensor] | None = None  # Σ_{l ∈ N_k(i)} y_l of (B, H, M, ·)
    u: Float[Tensor, "B H N d"] | None = None  # the heading
    sep: Float[Tensor, "B H N 1"] | None = None  # Σ_j A_ij φ_ij
    coh: Float[Tensor, "B H N 1"] | None = None  # Σ_j A_ij ‖z_j − c_i‖²
    nonfinite: Bool[Tensor, "B H N 1"] | None = None  # whether i sees a token that is not finite
    gate_align: Float[Tensor, "B H N 1"] | None = None  # γ
    gate_sep: Float[Tensor, "B #H N 1"] | None = None  # η
    gate_coh: Float[Tensor, "B #H N 1"] | None = None  # γ
    rho: Float[Tensor, "B #H N 1"] | None = None  # the crowd
    c: Float[Tensor, "B #H N z"] | None = None  # the centre, from the origin of flock.z

    def with_leading(self, first: RowStats, rows: int) -> RowStats:
        """These statistics with the leading rows replaced by those of `first`."""

        def joined(name: str) -> Tensor | None:
            a, b = getattr(first, name), getattr(self, name)
            if a is None or b is None:
                return None
            B, H = (max(a.shape[axis], b.shape[axis]) for axis in (0, 1))
            return torch.cat([t.expand(B, H, -1, -1) for t in (a, b[..., rows:, :])], -2)

        fields: dict[str, Any] = {n: joined(n) for n in ("nonempty", "count", "u", "sep", "coh")}
        before, after = first.neighbour_sum, self.neighbour_sum
        if before is not None and after is not None:
            fields["neighbour_sum"] = lambda y: torch.cat([before(y), after(y)[..., rows:, :]], -2)
        return RowStats(**fields)


@dataclass(frozen=True)
class LowRank:
    """A bias that folds: β_ij = left_i · right_j. ALiBi's causal form is one
    (slope · j, up to a constant of the row). A plain (…, 1, M) tensor folds too."""

    left: Float[Tensor, "... N r"]
    right: Float[Tensor, "... M r"]

    def dense(self) -> Float[Tensor, "... N M"]:
        return self.left @ self.right.transpose(-1, -2)


Bias = Tensor | LowRank | None


def to_4d(t: Tensor) -> Tensor:
    """With leading axes of 1 up to four."""
    return t.reshape((1,) * (4 - t.ndim) + t.shape)


def repeat_kv(t: Float[Tensor, "B G M w"], heads: int) -> Float[Tensor, "B H M w"]:
    """Grouped keys or values, one for each query head."""
    return t if t.shape[1] == heads else t.repeat_interleave(heads // t.shape[1], 1)


def folds(other: Bias) -> bool:
    """Whether a bias is a few columns of q and k: LowRank, or the same for every row."""
    return not isinstance(other, Tensor) or to_4d(other).shape[-2] == 1


def columns(other: Tensor | LowRank, N: int, M: int) -> tuple[Tensor, Tensor]:
    """A bias that folds, as what it adds to q (…, N, r) and to k (…, M, r)."""
    if isinstance(other, LowRank):
        return to_4d(other.left), to_4d(other.right)
    right = to_4d(other).expand(-1, -1, -1, M).mT
    return torch.ones_like(right[:, :, :1]).expand(-1, -1, N, -1), right


def add_bias(a: Bias, b: Bias) -> Bias:
    """a + b, folding as long as both do."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, LowRank) or isinstance(b, LowRank):
        if not (folds(a) and folds(b)):
            x, y = (t.dense() if isinstance(t, LowRank) else t for t in (a, b))
            return x + y
        low = a if isinstance(a, LowRank) else b
        assert isinstance(low, LowRank)
        N, M = low.left.shape[-2], low.right.shape[-2]
        left, right = zip(*(columns(t, N, M) for t in (a, b)), strict=True)
        return LowRank(_concat_columns(*left), _concat_columns(*right))
    return a + b


def _concat_columns(x: Tensor, y: Tensor) -> Tensor:
    """Columns side by side, leading axes broadcast."""
    lead = torch.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    return torch.cat([t.expand(*lead, -1) for t in (x, y)], -1)


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
