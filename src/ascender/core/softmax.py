"""The softmax of attention: from scores S_i to weights A_i over V(i). The other normalisers are in
normalizers.py; the fast backends have the softmax inside a flash kernel (backends/flash.py).

A_ij = exp(S_ij) / Σ_{l ∈ V(i)} exp(S_il)    for j ∈ V(i), else 0    V(i) empty: A_i = 0
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_softmax(
    s: Float[Tensor, "B #H N M"], visible: Bool[Tensor, "#B #H N M"]
) -> Float[Tensor, "B h N M"]:
    """softmax over V(i); a row that sees nothing is 0, not NaN."""
    weights = torch.softmax(s.masked_fill(~visible, -torch.inf), -1)
    return weights.masked_fill(~visible, 0)
