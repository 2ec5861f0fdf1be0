"""Absolute positions, added to the tokens: learned, or the sinusoids of Vaswani et al. 2017
(https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

import torch
from torch import nn

from ascender.common.validate import check_int, check_positive
from ascender.core.shapes import TokenPositions, Tokens
from ascender.nn.positions.base import INIT, Position, exact


class Learned(Position):
    """Learned absolute: acts on the tokens, one learned vector a position.

        x_i ← x_i + table[p(i)]

    Laws: a table of zeros is vanilla; there is no position from `length` on.
    """

    name = "learned"

    def __init__(self, dim: int, length: int = 512) -> None:
        super().__init__()
        check_int("length", length, 1)
        self.dim, self.length = dim, length
        self.table = nn.Parameter(torch.empty(length, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=INIT)

    def embed(self, x: Tokens, p: TokenPositions) -> Tokens:
        # Compiled and on a GPU, where the host would wait, the lookup itself stops.
        if not torch.compiler.is_compiling() and p.device.type == "cpu" and p.numel():
            low, high = (int(end) for end in p.aminmax())
            if low < 0 or high >= self.length:
                raise ValueError(
                    f"position {low if low < 0 else high}; expected one in the table, "
                    f"0 … {self.length - 1} (length={self.length})"
                )
        return x + nn.functional.embedding(p, self.table).to(x.dtype)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, length={self.length}"


class Sinusoidal(Position):
    """Sinusoids: acts on the tokens, nothing to learn, any length.

        x_i ← x_i + e_p(i)      e_p[2m] = sin(p / base^(2m/dim)),   e_p[2m+1] = cos(the same)

    Laws: e_p · e_{p+n} knows only n (dim even); ‖e_p‖² = dim/2.
    """

    name = "sinusoidal"

    def __init__(self, dim: int, base: float = 10000.0) -> None:
        super().__init__()
        check_int("dim", dim, 1)
        check_positive("base", base)
        self.dim, self.base = dim, base

    def embed(self, x: Tokens, p: TokenPositions) -> Tokens:
        dtype = exact(x.device)
        m = torch.arange((self.dim + 1) // 2, dtype=dtype, device=x.device)
        angle = p[..., None].to(dtype) * self.base ** (-2 * m / self.dim)
        e = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)[..., : self.dim]
        return x + e.to(x.dtype)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, base={self.base:g}"
