"""Separation: less attention to near duplicates where tokens are crowded.

ρ_i = Σ_{l ∈ P(i)} w^{τ_sep}_il     η_i = min(1, ρ_i / κ)             the crowd and its gate
φ_ij = w^{τ_sep}_ij · max(0, a_ij − δ)  for j ∈ N_k(i), else 0        the penalty
r_ij = −φ_ij
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ascender.core.rules import Number


def crowding(rho: Float[Tensor, "..."], kappa: Number) -> Float[Tensor, "..."]:
    """η = min(1, ρ/κ)."""
    return (rho / kappa).clamp_max(1)


def penalty(
    w: Float[Tensor, "..."], a: Float[Tensor, "..."], delta: Number
) -> Float[Tensor, "..."]:
    """φ = w · max(0, a − δ)."""
    return w * (a - delta).clamp_min(0)
