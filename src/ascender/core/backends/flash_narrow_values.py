"""Flash attention for values much narrower than queries, in blocks of rows and keys.

    forward    m, l, o ← running maximum, Σ exp(s − m), Σ exp(s − m) V      out = o / l
    backward   p = exp(s − lse)      ∂V = pᵀ g      ∂s = p (g Vᵀ − Δ + ∂lse)      Δ = g·out

Stock kernels want V as wide as Q and multiply the zeros that it is filled up with: alignment with
rotated keys makes Q and K 144 wide where V has 64. A block stays in the cache of a core, and one
is large enough that Python's part is small. Exponents are of 2, which torch takes faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

ROWS, KEYS = 256, 512  # of a block
NARROW, LONG = 0.6, 512  # width of V by that of Q up to which, tokens from which on it pays
LOG2E = math.log2(math.e)


def serves(d: int, e: int, N: int, M: int) -> bool:
    """Whether the zeros of stock are what costs: Q and K of width d, V of width e."""
    return e <= NARROW * d and min(N, M) >= LONG


def blocks(a: int, z: int, M: int, causal: bool) -> Iterator[slice]:
    """The keys of rows a … z − 1; where causal, last those that only some of the rows see."""
    end = a if causal else M
    for start in range(0, end, KEYS):
        yield slice(start, min(start + KEYS, end))
    if causal:
        yield slice(a, z)


def heads(*tensors: Float[Tensor, "B H ..."]) -> Iterator[tuple[Tensor, ...]]:
    B, H = tensors[0].shape[:2]
    return (tuple(t[b, h] for t in tensors) for b in range(B) for h in range(H))


def forward(
    Q: Float[Tensor, "B H N d"], K: Float[Tensor, "B H M d"], V: Float[Tensor, "B H M e"],
    causal: bool,
) -> tuple[Float[Tensor, "B H N e"], Float[Tensor, "B H N"]]:  # fmt: skip
    """(out, lse)."""
    N, M = Q.shape[-2], K.shape[-2]
    out, lse = Q.new_empty(*Q.shape[:3], V.shape[-1]), Q.new_empty(Q.shape[:3])
    later = Q.new_full((ROWS, ROWS), -torch.inf).triu_(1)
    for q, k, v, y, total in heads(Q, K, V, out, lse):
        for a in range(0, N, ROWS):
            z = min(a + ROWS, N)
            x = q[a:z] * LOG2E
            m = x.new_full((z - a, 1), -torch.inf)
            l, o = torch.zeros_like(m), torch.zeros_like(y[a:z])
            for keys in blocks(a, z, M, causal):
                s = x @ k[keys].T
                if causal and keys.start == a:
                    s += later[: z - a, : z - a]
                top = torch.maximum(m, s.amax(-1, keepdim=True))
                p, kept = s.sub_(top).exp2_(), m.sub_(top).exp2_()
                l.mul_(kept).add_(p.sum(-1, keepdim=True))
                o.mul_(kept).addmm_(p, v[keys])
                m = top
            torch.div(o, l, out=y[a:z])
            total[a:z] = (m + l.log2_()).squeeze(-1) / LOG2E
    return out, lse


def backward(
    g: Float[Tensor, "B H N e"] | None, g_lse: Float[Tensor, "B H N"] | None,
    Q: Float[Tensor, "B H N d"], K: Float[Tensor, "B H M d"], V: Float[Tensor, "B H M e"],
    out: Float[Tensor, "B H N e"], lse: Float[Tensor, "B H N"], causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """∂Q, ∂K, ∂V."""
    N, M = Q.shape[-2], K.shape[-2]
    g = torch.zeros_like(out) if g is None else g
    shift = -(g * out).sum(-1) if g_lse is None else g_lse - (g * out).sum(-1)
    dQ, dK, dV = (torch.zeros_like(t) for t in (Q, K, V))
    each = heads(Q, K, V, g, shift, lse, dQ, dK, dV)
    for q, k, v, y, r, total, dq, dk, dv in each:
        for a in range(0, N, ROWS):
            z = min(a + ROWS, N)
            x, low = q[a:z] * LOG2E, total[a:z, None] * -LOG2E
            for keys in blocks(a, z, M, causal):
                p = torch.addmm(low, x, k[keys].T).exp2_()
                if causal and keys.start == a:
                    p.tril_()
                ds = torch.addmm(r[a:z, None], y[a:z], v[keys].T).mul_(p)
                dv[keys].addmm_(p.T, y[a:z])
                dq[a:z].addmm_(ds, k[keys])
                dk[keys].addmm_(ds.T, q[a:z])
    return dQ, dK, dV
