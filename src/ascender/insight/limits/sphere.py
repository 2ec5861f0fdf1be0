"""Values on a sphere: how many selected keys can be expected to stay separable (distance.py).

Theorem 2 of arXiv 2508.17821 bounds N_s for value vectors that are independent and uniform on a
sphere. The statement here is derived for the radius rule of distance.py, and is exact. Let the x
have length ρ in R^d, the weights α not depend on them, s = Σ_{j∈I_N} α_j x_j, and for j ∈ I_N

    R_j = ‖s − α_j x_j‖ = ‖Σ_{l∈I_N, l≠j} α_l x_l‖
    c_ij = (‖s‖² + α_i² ρ² − R_j²) / (2 α_i ρ ‖s‖)
    F(c) = P(t ≤ c),  t the cosine of a uniform direction with a fixed one:
           density ∝ (1 − t²)^((d−3)/2),  1 − F(c) = ½ I_{1−c²}((d−1)/2, ½) for c ≥ 0

    (1)  E[N_s | the selected x] = Σ_{j∈I_N} Π_{i∉I_N} F(c_ij)
    (2)  Σ_j (1 − Σ_i (1 − F(c_ij)))  ≤  E[N_s | the selected x]  ≤  Σ_j min_i F(c_ij)
    (3)  Σ_j (1 − m_j/r²)  ≤  E #{j ∈ I_N : R_j < r}  ≤  Σ_j v_j / (v_j + (m_j − r²)²)
         m_j = ρ² Σ_{l≠j} α_l² = E R_j²,  v_j = (2/d) (m_j² − ρ⁴ Σ_{l≠j} α_l⁴) = Var R_j²;
         the upper bound where r² < m_j, else 1

Proof. (1) j is separable where ‖s − α_i x_i‖² = ‖s‖² + α_i² ρ² − 2 α_i ρ ‖s‖ t_i > R_j² for every
unselected i. Given the selected vectors, s and R_j are fixed, and the t_i are independent: cosines
of uniform directions with s. (2) A product of numbers in [0, 1] is at most its smallest and at
least 1 minus the sum of what they lack. (3) R_j² = m_j + 2 Σ_{l<k} α_l α_k x_l·x_k over l, k ≠ j;
the x_l·x_k have mean 0, variance ρ⁴/d and are uncorrelated. Markov below, Cantelli above.

So every unselected key is one more chance to be nearer: N_s/N falls with L − N, and rises with d,
as cosines of more than 1/√d become rare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.common.validate import check_int, check_positive
from ascender.insight.limits.distance import selection

GRID = 1 << 14  # steps of the integral F
TINY = torch.finfo(torch.float64).tiny


def cosine_cdf(c: Float[Tensor, "..."], d: int) -> Float[Tensor, "..."]:
    """F(c): how likely a uniform direction in R^d has a cosine of at most c with a fixed one.

    >>> cosine_cdf(torch.tensor([-1.0, 0.0, 0.5, 2.0]), 3).round(decimals=6).tolist()
    [0.0, 0.5, 0.75, 1.0]
    """
    check_int("d", d, 2)
    angle = torch.linspace(0, math.pi, GRID + 1, dtype=torch.float64)
    density = angle.sin().clamp_min(0) ** (d - 2)
    mass = torch.cumulative_trapezoid(density, angle)
    mass = torch.cat([mass.new_zeros(1), mass]) / mass[-1]
    at = torch.arccos(c.double().clamp(-1, 1)) / math.pi * GRID  # P(angle ≥ arccos c)
    low = at.floor().long().clamp(max=GRID - 1)
    below = torch.lerp(mass[low], mass[low + 1], at - low)
    return (1 - below).clamp(0, 1)


def expected_separable(
    a: Float[Tensor, "L"], x: Float[Tensor, "*draws N d"]
) -> tuple[Float[Tensor, "*draws"], Float[Tensor, "*draws"], Float[Tensor, "*draws"]]:
    """(lower bound, expectation, upper bound) of N_s/N by (1) and (2), from all weights in falling
    order and the N selected vectors, all of one length."""
    a, x = a.double(), x.double()
    N, d = x.shape[-2:]
    rho = torch.linalg.vector_norm(x[..., :1, :], dim=-1, keepdim=True)
    parts = a[:N, None] * x
    s = parts.sum(-2, keepdim=True)
    length = torch.linalg.vector_norm(s, dim=-1, keepdim=True).clamp_min(TINY)
    R2 = (s - parts).square().sum(-1).unsqueeze(-1)  # (*draws, N, 1)
    rest = a[N:].clamp_min(TINY) * rho  # α_i ρ, (*draws, 1, L − N)
    c = (length.square() + rest.square() - R2) / (2 * rest * length)
    F = cosine_cdf(c, d)
    lower = (1 - (1 - F).sum(-1)).clamp_min(0).mean(-1)
    return lower, F.prod(-1).mean(-1), F.amin(-1).mean(-1)


def ball_bounds(a: Float[Tensor, "N"], r: float, d: int, rho: float = 1.0) -> tuple[float, float]:
    """(lower, upper) bound of E #{j : R_j < r}/N by (3), from the selected weights."""
    check_positive("r", r)
    w = (a.double() * rho).square()
    m = w.sum() - w
    v = 2 / d * (m.square() - (w.square().sum() - w.square()))
    upper = torch.where(r**2 < m, v / (v + (m - r**2).square()).clamp_min(TINY), 1.0)
    lower = (1 - m / r**2).clamp_min(0)
    return float(lower.mean()), float(upper.mean())


@dataclass(frozen=True)
class Sphere:
    """The experiment at one size: N_s/N counted, and what the theorem says of it."""

    L: int
    N: int
    d: int
    measured: float
    error: float  # standard error of `measured`
    expected: float
    lower: float
    upper: float


def sphere(L: int, N: int, d: int, spread: float = 1.0, draws: int = 200, seed: int = 0) -> Sphere:
    """Uniform values on the unit sphere of R^d, weights softmax of normal logits of standard
    deviation `spread`: N_s/N over draws of the values.

    >>> one = sphere(64, 4, 16)
    >>> one.lower <= one.expected <= one.upper and abs(one.measured - one.expected) < 0.1
    True
    """
    check_int("L", L, 2)
    if not 1 <= N < L:
        raise ValueError(f"N = {N}; expected a number in 1 … {L - 1}")
    check_int("draws", draws, 2)
    g = torch.Generator().manual_seed(seed)
    a = torch.softmax(spread * torch.randn(L, generator=g, dtype=torch.float64), 0)
    a = a.sort(descending=True).values
    x = torch.randn(draws, L, d, generator=g, dtype=torch.float64)
    x = torch.nn.functional.normalize(x, dim=-1)
    counted = _counted(a, x, N)
    lower, expected, upper = (float(t.mean()) for t in expected_separable(a, x[:, :N]))
    error = float(counted.std()) / math.sqrt(draws)
    return Sphere(L, N, d, float(counted.mean()), error, expected, lower, upper)


def _counted(a: Tensor, x: Tensor, N: int) -> Float[Tensor, "draws"]:
    """N_s/N of each draw, by the rule of distance.py."""
    seen = torch.ones(1, len(a), dtype=torch.bool)
    size = torch.tensor([N])
    rows = [selection(a[None], row[None], seen).at("separable", size) for row in x]
    return torch.cat(rows)
