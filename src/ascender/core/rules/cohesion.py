"""Cohesion: more attention to tokens near the centre of the latent neighbourhood.

    c_i = Σ_{l ∈ V(i)} w^{τ_coh}_il z_l / Σ w^{τ_coh}_il      the centre (i itself included)
    Var_i = the w-weighted mean of ‖z_l − c_i‖²               γ_i = σ(−α_coh · Var_i)
    r_ij = −‖z_j − c_i‖² / τ_coh

Var is computed as E‖z‖² − ‖c‖²; z is measured from an anchor, so little cancels.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core.rules import Number


def gate(
    c: Float[Tensor, "... z"], mean_square: Float[Tensor, "... 1"], alpha: Number
) -> Float[Tensor, "... 1"]:
    """γ = σ(−α (E‖z‖² − ‖c‖²))."""
    variance = (mean_square - c.square().sum(-1, keepdim=True)).clamp_min(0)
    return torch.sigmoid(-alpha * variance)
