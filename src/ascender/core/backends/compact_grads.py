"""The operations of compact.py, each with its hand-written backward."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ascender.core.combine import EPS
from ascender.core.rules import Number


@dataclass(frozen=True)
class Masks:
    """0/1 matrices and their likes, (b, h, N, M); None where nothing is hidden."""

    on: tuple[str, ...]  # rules that are not switched off
    near: Tensor | None  # N_k(i) as 0/1; None where no rule uses it
    hidden: Tensor | None  # not in V(i)
    keys: Tensor | None  # padding as 0/1, (b, h, M, 1), where V(i) is the same for every row
    by_row: bool  # V(i) differs by row
    count: Tensor | float  # |V(i)|
    crowd: Tensor | None  # over whom the density sums, as 0/1
    away: Tensor | None  # not in the surroundings that the centre averages over
    nonempty: Tensor | None  # rows where those surroundings are not empty
    standardise: bool
    scale: float | None = None  # k̃ = scale · k where all keys of a head have one length
    base: Tensor | None = None  # q·k/√d where neighbours were ranked by it

    def piece(self, some: slice) -> Masks:
        """The part that belongs to some of the batch."""
        cut: dict[str, Any] = {
            name: value[some]
            for name, value in vars(self).items()
            if isinstance(value, Tensor) and value.shape[0] > 1
        }
        return replace(self, **cut)


def weighted_sum(A: Tensor, y: Tensor) -> Tensor:
    """A @ y where either may have one head that all share; (B, H, N, w)."""
    B, H, M, w = y.shape
    if A.shape[1] == H or H == 1:
        return A @ y
    flat = y.transpose(1, 2).reshape(B, M, H * w)
    return (A[:, 0] @ flat).view(B, -1, H, w).transpose(1, 2)


def softmax_(s: Tensor, hidden: Tensor | None) -> Tensor:
    """In place: a fresh matrix costs more than the arithmetic."""
    if hidden is None:
        return torch.softmax(s, -1, out=s)
    s = (
        s.masked_fill_(hidden, -torch.inf)
        if s.shape[1] >= hidden.shape[1]
        else torch.where(hidden, -torch.inf, s)
    )
    return torch.softmax(s, -1, out=s).masked_fill_(hidden, 0)


def softmax_back(dp: Tensor, p: Tensor) -> Tensor:
    return torch._softmax_backward_data(dp, p, -1, p.dtype)


def summed(grad: Tensor, like: Any) -> Tensor | None:
    """grad summed to the shape of what was broadcast; None where that was a plain number."""
    return grad.sum_to_size(like.shape) if isinstance(like, Tensor) else None


class Spread:
    """Row variances of x_i·y_j over V(i): from the covariance of y, or from the rows."""

    def __init__(self, x: Tensor, y: Tensor, m: Masks) -> None:
        self.x, self.n = x, m.count
        self.r: Tensor | None = None
        if m.by_row:
            assert m.hidden is not None
            r = weighted_sum(x, y.mT) if x.shape[1] == y.shape[1] else x @ y.mT
            r = r.masked_fill_(m.hidden, 0)
            r = (r - r.sum(-1, keepdim=True) / m.count).masked_fill_(m.hidden, 0)
            self.y, self.r = y, r
            self.var = r.square().sum(-1, keepdim=True) / m.count
            return
        kept = y if m.keys is None else y * m.keys
        self.c = y - kept.sum(-2, keepdim=True) / m.count
        if m.keys is not None:
            self.c = self.c * m.keys
        self.cov = self.c.mT @ self.c
        self.cov /= m.count
        self.xc = x @ self.cov
        self.var = (self.xc * x).sum(-1, keepdim=True)

    def back(self, dvar: Tensor) -> tuple[Tensor, Tensor]:
        """(dx, dy)."""
        if self.r is not None:
            dr = self.r * (2 * dvar / self.n)
            return dr @ self.y, dr.mT @ self.x
        dx = self.xc * (2 * dvar)
        dcov = (self.x * dvar).mT @ self.x
        if dcov.shape[1] != self.c.shape[1]:
            dcov = dcov.sum(1, keepdim=True)
        return dx, self.c @ (dcov * (2 / self.n))


class Sparse:
    """Row variances of φ, which is 0 but for a few keys."""

    def __init__(self, phi: Tensor, n: Tensor | float) -> None:
        self.phi, self.n = phi, n
        self.mean = phi.sum(-1, keepdim=True) / n
        square = torch.linalg.vector_norm(phi, dim=-1, keepdim=True).square()
        self.var = (square / n - self.mean.square()).clamp_min_(0)

    def back(self, dphi: Tensor, dvar: Tensor) -> Tensor:
        """dphi with the share of the variance added, in place."""
        scale = 2 * dvar * (self.var > 0) / self.n
        return dphi.addcmul_(self.phi, scale).sub_(self.mean * scale)


class Slope:
    """One score's slope f = g·gate/√(var + ε), and its way back."""

    def __init__(self, g: Number, gate: Tensor, spread: Spread | Sparse | None) -> None:
        self.g, self.gate = g, gate
        self.rs = torch.ones_like(gate) if spread is None else torch.rsqrt(spread.var + EPS)
        self.f = g * gate * self.rs

    def back(self, df: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """(dg, dgate, dvar)."""
        dg = summed(df * self.gate * self.rs, self.g)
        dvar = df * self.f * self.rs.square() * -0.5
        return dg, df * self.g * self.rs, dvar


def differs(number: Number) -> bool:
    """Whether a number differs by head."""
    return isinstance(number, Tensor) and number.shape[0] > 1


def over_heads(grad: Tensor, number: Number | None, like: Tensor) -> Tensor:
    """Sum over heads where `like` has one that all share (and the number does not differ)."""
    if like.shape[1] == 1 and grad.shape[1] != 1 and not (number is not None and differs(number)):
        return grad.sum(1, keepdim=True)
    return grad
