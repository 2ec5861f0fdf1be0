"""Selected and unselected: how far apart, and how many stay apart.

I_N is the N keys of largest weight (of equal ones the earliest), x_j the value vectors:

    s  = Σ_{j∈I_N} α_j x_j           ᾱ = Σ_{j∈I_N} α_j           L = |V(i)|
    d̃  = Σ_{i∉I_N} ‖s − α_i x_i‖  ≤  (1 − ᾱ) d₁ + max_j ‖x_j‖ · [ᾱ (L − N) − (1 − ᾱ)]
    d₁ = max_{i∉I_N} ‖s/ᾱ − x_i‖

The bound is that of arXiv 2508.17821, for this d₁. Proof: s − α_i x_i = α_i (μ − x_i) + (ᾱ − α_i) μ
with μ = s/ᾱ, a mean of selected vectors, so ‖μ‖ ≤ max ‖x_j‖; ᾱ ≥ α_i because i is not among the
largest; sum over i ∉ I_N, where Σ α_i = 1 − ᾱ. It needs nothing of the weights but that: any
normaliser whose rows are ≥ 0 and sum to 1. Therefore

- it also holds for d₁ = the largest distance between a selected and an unselected x (≥ ours);
- it fails for d₁ = max ‖s − x_i‖ or max ‖s − α_i x_i‖ (s shrinks with ᾱ, μ does not), for the mean
  or smallest distance between pairs, and for N keys that are not the largest;
- it is reached where all x are equal.

Radius rule: a selected j is separable where its α_j x_j lies in the open ball around s whose radius
is the distance to the nearest unselected one, r = min_{i∉I_N} ‖s − α_i x_i‖. N_s counts them.

Critical N: where d̃ is largest (the smallest such N). Up to there a further key takes s away from
the rest; from there on selecting more brings the two sides together, down to 0 at N = L.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

GUIDE = 0.06  # N < 0.06 L: the guideline of arXiv 2508.17821
LINE = (0.70, 0.85)  # of N_s/N: between them heads saturate, as the paper reports


@dataclass(frozen=True)
class Selection:
    """For every row and every N = 1 … M−1 (the last axis, from N = 1); NaN where N ≥ L.

    mass ᾱ · distance d̃ · bound · separable N_s/N · radius r
    """

    L: Int[Tensor, "*rows"]
    mass: Float[Tensor, "*rows n"]
    distance: Float[Tensor, "*rows n"]
    bound: Float[Tensor, "*rows n"]
    separable: Float[Tensor, "*rows n"]
    radius: Float[Tensor, "*rows n"]

    def at(self, what: str, N: Int[Tensor, "*rows"]) -> Float[Tensor, "*rows"]:
        """One of the five at an N of each row."""
        return getattr(self, what).gather(-1, (N - 1).clamp_min(0).unsqueeze(-1)).squeeze(-1)

    def share(self, share: float) -> Int[Tensor, "*rows"]:
        """N ∝ L: the whole number nearest to share · L, from 1 to L − 1."""
        N = (share * self.L).round().long()
        return N.clamp_min(1).minimum((self.L - 1).clamp_min(1))

    @property
    def critical(self) -> Int[Tensor, "*rows"]:
        """The critical N; 0 where nothing can be left unselected."""
        best = self.distance.nan_to_num(-1).argmax(-1) + 1
        return best.masked_fill(self.L < 2, 0)


def selection(
    A: Float[Tensor, "*rows M"], x: Float[Tensor, "*rows M e"], visible: Bool[Tensor, "*rows M"]
) -> Selection:
    """Everything for all N at once, in float64: sorted by weight, s_N is a running sum."""
    L = visible.sum(-1)
    a = A.double().masked_fill(~visible, -1)
    order = a.argsort(dim=-1, descending=True, stable=True)
    a = a.gather(-1, order).clamp_min(0)
    x = x.double().gather(-2, order.unsqueeze(-1).expand_as(x))
    M = a.shape[-1]
    N = torch.arange(1, max(M, 2), device=A.device)
    place = torch.arange(M, device=A.device)
    left = (place >= N[:, None]) & (place < L[..., None, None])  # i ∉ I_N: (rows, N, M)
    far, off, mass = _far(a, x, len(N))
    nearest = far.masked_fill(~left, torch.inf).amin(-1)
    d1 = off.masked_fill(~left, 0).amax(-1)
    longest = torch.linalg.vector_norm(x, dim=-1).masked_fill(place >= L[..., None], 0).amax(-1)
    rest = mass * (L[..., None] - N) - (1 - mass)
    inside = (far < nearest.unsqueeze(-1)) & (place < N[:, None])
    valid = L[..., None] > N

    def known(t: Tensor) -> Tensor:
        return t.masked_fill(~valid, torch.nan)

    return Selection(
        L, known(mass), known(far.masked_fill(~left, 0).sum(-1)),
        known((1 - mass) * d1 + longest.unsqueeze(-1) * rest), known(inside.sum(-1) / N),
        known(nearest),
    )  # fmt: skip


def _far(a: Tensor, x: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """(‖s_N − α_i x_i‖, ‖s_N/ᾱ_N − x_i‖, ᾱ_N) for N = 1 … n, vectors sorted by weight."""
    mass = a.cumsum(-1)[..., :n]
    y = a.unsqueeze(-1) * x
    s = y.cumsum(-2)[..., :n, :]
    mu = s / mass.clamp_min(torch.finfo(a.dtype).tiny).unsqueeze(-1)
    return _between(s, y), _between(mu, x), mass


def _between(u: Tensor, v: Tensor) -> Tensor:
    """‖u_N − v_i‖ of all pairs."""
    return torch.cdist(u, v, compute_mode="use_mm_for_euclid_dist")
