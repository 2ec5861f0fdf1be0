"""How many keys a row of weights really uses, and how few it may.

    H_i   = −Σ_j α_ij log α_ij                 exp(H_i): as many equal weights would be as spread
    Δ_i   = ‖q_i‖ max_j ‖k_j‖ / √d + ½ (max_j b_ij − min_j b_ij)
    (1/L) e^{−2Δ/T} ≤ α_ij ≤ (1/L) e^{+2Δ/T}   softmax at temperature T, L = |V(i)|

b is everything in the score beside q·k/√d (rules, positions): without it Δ is that of arXiv
2508.17821, Corollary 1, with the score's own 1/√d. As a softmax looks at differences alone, any
number with max S − min S ≤ 2Δ serves: the smallest is half the range of the scores.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

FACTOR = 2.0  # a weight is at an edge of the envelope where it is within this factor of it
LEAST = 2.0**-149  # the least number of float32


def entropy(A: Float[Tensor, "*rows M"]) -> Float[Tensor, "*rows"]:
    """H = −Σ α log α in nats, 0 log 0 = 0. Laws: 0 ≤ H ≤ log L; softmax: H ≥ log L − 2Δ/T."""
    return torch.special.entr(A).sum(-1)


def effective_support(A: Float[Tensor, "*rows M"]) -> Float[Tensor, "*rows"]:
    """exp(H), between 1 (one key has all) and L (all have the same).

    >>> effective_support(torch.tensor([0.5, 0.5, 0.0, 0.0]))
    tensor(2.)
    """
    return entropy(A).exp()


def delta(
    q: Float[Tensor, "B H N d"], k: Float[Tensor, "B H M d"], b: Float[Tensor, "B H N M"],
    visible: Bool[Tensor, "B H N M"],
) -> Float[Tensor, "B H N"]:  # fmt: skip
    """Δ_i = ‖q_i‖ max_{j∈V(i)} ‖k_j‖ / √d + ½ range of b_i: Cauchy and Schwarz, and the biases."""
    longest = _most(torch.linalg.vector_norm(k, dim=-1).unsqueeze(-2).expand_as(visible), visible)
    length = torch.linalg.vector_norm(q, dim=-1)
    return length * longest / math.sqrt(q.shape[-1]) + half_range(b, visible)


def half_range(
    S: Float[Tensor, "*rows M"], visible: Bool[Tensor, "*rows M"]
) -> Float[Tensor, "*rows"]:
    """½ (max_j S_ij − min_j S_ij) over V(i): the smallest Δ of a row."""
    return (_most(S, visible) + _most(-S, visible)) / 2


def envelope(
    L: Int[Tensor, "*rows"], delta: Float[Tensor, "*rows"], T: float = 1.0
) -> tuple[Float[Tensor, "*rows"], Float[Tensor, "*rows"]]:
    """(log of (1/L) e^{−2Δ/T}, log of (1/L) e^{+2Δ/T}): e^{2Δ} itself may be too large a number.

    The proof: Σ_l e^{S_l/T} lies between L e^{min S/T} and L e^{max S/T}.
    """
    middle = -L.clamp_min(1).to(delta.dtype).log()
    return middle - 2 * delta / T, middle + 2 * delta / T


def outside(
    A: Float[Tensor, "*rows M"], edges: tuple[Float[Tensor, "*rows"], Float[Tensor, "*rows"]],
    visible: Bool[Tensor, "*rows M"], slack: float = 1e-6,
) -> Float[Tensor, "*rows"]:  # fmt: skip
    """Share of a row's visible weights that the envelope does not hold. Softmax: 0. Sparse
    normalisers leave it by their zeros. A weight of 0 counts as the least number of float32: that
    is what a softmax of scores far apart rounds to."""
    low, high = (edge.unsqueeze(-1) for edge in edges)
    a = A.clamp_min(LEAST).log()
    return _share((a < low - slack) | (a > high + slack), visible)


def tight(
    A: Float[Tensor, "*rows M"], edges: tuple[Float[Tensor, "*rows"], Float[Tensor, "*rows"]],
    visible: Bool[Tensor, "*rows M"], factor: float = FACTOR,
) -> Float[Tensor, "*rows"]:  # fmt: skip
    """Share of a row's visible weights that lie in the envelope, within a factor of an edge."""
    low, high = (edge.unsqueeze(-1) for edge in edges)
    a, near, slack = A.clamp_min(LEAST).log(), math.log(factor), 1e-6
    inside = (a >= low - slack) & (a <= high + slack)
    return _share(inside & ((a <= low + near) | (a >= high - near)), visible)


def _share(which: Tensor, visible: Tensor) -> Tensor:
    n = visible.sum(-1).clamp_min(1)
    return (which & visible).sum(-1) / n.to(torch.get_default_dtype())


def _most(t: Tensor, visible: Tensor) -> Tensor:
    """The largest over V(i); 0 where it is empty."""
    most = t.masked_fill(~visible, -torch.inf).amax(-1)
    return most.masked_fill(~visible.any(-1), 0)
