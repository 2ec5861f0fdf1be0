"""Alignment: more attention to keys that point where the semantic neighbours point.

    s_i = Σ_{l ∈ N_k(i)} k̃_l        u_i = s_i / ‖s_i‖            the heading
    Var_i = 1 − ‖s_i / |N_k(i)|‖²    γ_i = σ(−α_align · Var_i)    the gate
    r_ij = k̃_j · u_i

Var is 1 − R², R the mean resultant length of directional statistics: 0 where the neighbours
point one way, near 1 where they scatter. N_k(i) empty: u_i = 0, so r_ij = 0.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core.geometry import FLOOR
from ascender.core.rules import Number


def heading(
    s: Float[Tensor, "B H N d"], count: Float[Tensor, "#B #H N 1"] | float, alpha: Number
) -> tuple[Float[Tensor, "B H N d"], Float[Tensor, "B H N 1"]]:
    """(u, γ) from the sum s over the neighbours and their number."""
    length = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    variance = 1 - (length / (count.clamp_min(1) if isinstance(count, Tensor) else count)).square()
    return s / length.clamp_min(FLOOR), torch.sigmoid(-alpha * variance)
