"""How much the weights move with the logits.

    J = c/T · (diag(p) − p pᵀ / Σp)          p_j = α_j^{2−a} where α_j > 0, else 0

    a = 1    softmax, ssmax, length, topk    p = α, the well-known diag(α) − α αᵀ
    a = 3/2  entmax15                        p = √α
    a = 2    sparsemax                       p = 1 on the support

c is what the normaliser multiplies the logits by: s·log n (ssmax), log n / log n₀ (length), else 1.

For a = 1 and c = 1:  ‖J‖₂ ≤ 1/(2T)  and  max |J_jl| ≤ 1/(4T), both reached by two equal weights.
The often-quoted 1/(4T) bounds entries, not the spectral norm: at α = (½, ½) that is 1/(2T).
Proof: the absolute values of row j of diag(α) − α αᵀ sum to 2 α_j (1 − α_j) ≤ ½ (Gershgorin), and
the largest of them is α_j (1 − α_j) ≤ ¼. For every a: ‖J‖₂ ≤ c/T, as p ≤ 1.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ascender.common.validate import lookup
from ascender.core.normalizers import NORMALIZERS, normalizer

EXPONENT = {"sparsemax": 2.0, "entmax15": 1.5}  # a; 1 for those not named
HALVINGS = 60
TEMPERATURES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


def slopes(A: Float[Tensor, "*rows M"], a: float = 1.0) -> Float[Tensor, "*rows M"]:
    """p_j = α_j^{2−a} on the support, else 0."""
    return torch.where(A > 0, A.double().clamp_min(1e-300) ** (2 - a), 0)


def jacobian(A: Float[Tensor, "*rows M"], a: float = 1.0) -> Float[Tensor, "*rows M M"]:
    """diag(p) − p pᵀ/Σp: J for c = T = 1. Symmetric, rows sum to 0."""
    p = slopes(A, a)
    whole = p.sum(-1, keepdim=True).clamp_min(1e-300).unsqueeze(-1)
    return torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2) / whole


def spectral(A: Float[Tensor, "*rows M"], a: float = 1.0) -> Float[Tensor, "*rows"]:
    """‖J‖₂ for c = T = 1, without making J: its largest eigenvalue is the root of
    Σ_j p_j²/(p_j − λ) = Σ_j p_j between the two largest p (where they are equal, that number)."""
    p = slopes(A, a)
    top = p.topk(min(2, p.shape[-1]), -1).values
    high, low = top[..., 0], top[..., 1] if top.shape[-1] > 1 else torch.zeros_like(top[..., 0])
    whole = p.sum(-1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        gap = p - middle.unsqueeze(-1)
        f = whole - (p.square() / torch.where(gap == 0, 1e-300, gap)).sum(-1)
        low, high = torch.where(f > 0, middle, low), torch.where(f > 0, high, middle)
    return (low + high) / 2


def largest_entry(A: Float[Tensor, "*rows M"], a: float = 1.0) -> Float[Tensor, "*rows"]:
    """max |J_jl| for c = T = 1: on the diagonal, as the others of a row sum to minus that one."""
    p = slopes(A, a)
    whole = p.sum(-1, keepdim=True).clamp_min(1e-300)
    return (p - p.square() / whole).amax(-1)


def reweighted(
    name: str, total: Float[Tensor, "B H N M"], base: Float[Tensor, "B H N M"],
    visible: Bool[Tensor, "B H N M"], T: float = 1.0,
) -> tuple[Float[Tensor, "B H N M"], Float[Tensor, "B H N 1"]]:  # fmt: skip
    """(weights, c) of a normaliser of the slot for scores S that were made under another one:
    weights(S/T), where those that sharpen multiply the base part of S by c first. `base` comes as
    it is in S (divided by τ_score). s and n₀ are as the normaliser starts."""
    lookup("normalizer", name, NORMALIZERS)
    module = normalizer(name, heads=total.shape[1]).to(total.device)
    ones = total.new_ones(*total.shape[:3], 1)
    with torch.no_grad():
        c = module.sharpen(ones, visible.sum(-1, keepdim=True))
        return module.weights((total + (c - 1) * base) / T, visible), c
