"""Rotary positions (Su et al. 2021, https://arxiv.org/abs/2104.09864), in the layout of Llama:
a pair is one number of the first half of the head and one of the second.

    θ_m = base^(−2m/d)                          m = 0 … d/2 − 1
    (a_m, b_m) ← (a_m cos pθ_m − b_m sin pθ_m,  b_m cos pθ_m + a_m sin pθ_m)

Scaling stretches the wavelengths 2π/θ by up to `factor` f, for texts longer than those learned on:

    linear   θ_m / f                            (https://arxiv.org/abs/2306.15595)
    ntk      θ_m · f^(−m / (d/2 − 1))           the fastest pair as it is, the slowest / f
    llama3   s θ_m + (1 − s) θ_m / f            s = (Lθ_m/2π − low) / (high − low) within [0, 1]:
                                                untouched if it turns `high` times within L tokens,
                                                / f if fewer than `low` times

Partial rotary (GPT-NeoX, https://arxiv.org/abs/2204.06745): only `fraction` of the pairs turn, with
the θ of a head of that width; the others compare content alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.common.validate import check_int, check_positive, lookup
from ascender.core.geometry import accum_dtype
from ascender.core.shapes import Queries, TokenPositions
from ascender.nn.positions.base import Position, exact

SCALINGS = ("linear", "ntk", "llama3")
Halves = Float[Tensor, "*b N half"]


class Rope(Position):
    """Rotary: acts on queries and keys, so that their dot product knows only j − p(i).

        rotate(q, p)·rotate(k, j) = q · R(j − p) k          R orthogonal, R(0) = 1

    Laws: lengths stay; adding one number to all positions changes no score; position 0 changes
    nothing; factor = 1 is no scaling.

    fraction                           of the pairs that turn; 1: all
    base                               θ_m = base^(−2m/d)
    scaling, factor                    None, "linear", "ntk" or "llama3", and how far
    low_freq_factor, high_freq_factor  llama3's low and high
    original_length                    llama3's L: the length learned on
    """

    name = "rope"
    theta: Tensor

    def __init__(
        self, head_dim: int, base: float = 10000.0, scaling: str | None = None,
        factor: float = 1.0, low_freq_factor: float = 1.0, high_freq_factor: float = 4.0,
        original_length: int = 8192, fraction: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"head_dim = {head_dim}; expected an even number (rope turns pairs)")
        for name, value in (
            ("base", base), ("factor", factor), ("low_freq_factor", low_freq_factor),
            ("high_freq_factor", high_freq_factor),
        ):  # fmt: skip
            check_positive(name, value)
        if scaling is not None:
            lookup("scaling", scaling, dict.fromkeys(SCALINGS))
        if not factor >= 1 or (scaling is None and factor != 1):
            expected = "1 without a scaling" if scaling is None else "at least 1"
            raise ValueError(f"factor = {factor}; expected {expected}")
        if not 0 < low_freq_factor < high_freq_factor:
            raise ValueError(
                f"low_freq_factor = {low_freq_factor}, high_freq_factor = {high_freq_factor}; "
                "expected 0 < low < high"
            )
        check_int("original_length", original_length, 1)
        check_positive("fraction", fraction)
        self.pairs = round(fraction * head_dim / 2) if fraction <= 1 else 0
        if not self.pairs:
            least = f"a share in [{2 / head_dim:g}, 1] (head_dim = {head_dim})"
            raise ValueError(f"fraction = {fraction}; expected {least}")
        self.head_dim, self.base, self.scaling, self.factor = head_dim, base, scaling, factor
        self.low_freq_factor, self.high_freq_factor = low_freq_factor, high_freq_factor
        self.original_length, self.fraction = original_length, fraction
        self._theta = self.frequencies()
        self._last: tuple[Tensor, int, tuple[Tensor, Tensor]] | None = None
        self.register_buffer("theta", torch.empty(head_dim // 2), persistent=False)
        self.reset_parameters()

    def frequencies(self) -> tuple[float, ...]:
        """θ_m, scaled; 0 of a pair that does not turn."""
        half, f = self.pairs, self.factor
        theta = [self.base ** (-m / half) for m in range(half)]
        if self.scaling == "linear":
            theta = [t / f for t in theta]
        elif self.scaling == "ntk":
            theta = [t * f ** (-m / max(half - 1, 1)) for m, t in enumerate(theta)]
        elif self.scaling == "llama3":
            low, high, L = self.low_freq_factor, self.high_freq_factor, self.original_length
            s = [(L * t / (2 * math.pi) - low) / (high - low) for t in theta]
            s = [min(max(x, 0.0), 1.0) for x in s]
            theta = [x * t + (1 - x) * t / f for x, t in zip(s, theta, strict=True)]
        return (*theta, *[0.0] * (self.head_dim // 2 - half))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Rope:
        """θ is computed again where the module is moved or cast: bfloat16 would round it."""
        self.theta = self.theta.float()  # not every device holds float64
        super()._apply(fn, recurse)
        self.reset_parameters()
        return self

    def reset_parameters(self) -> None:
        device = self.theta.device
        self.theta = torch.tensor(self._theta, dtype=exact(device), device=device)

    def turns(self, p: TokenPositions, dtype: torch.dtype) -> tuple[Halves, Halves]:
        """cos pθ and sin pθ: from a table that all layers share on the CPU, else computed. Those
        of the last p are kept: keys and queries ask for the same."""
        if p.device.type != "cpu" or torch.compiler.is_compiling() or not p.numel():
            return cos_sin(p, self.theta, dtype)
        if torch.is_inference_mode_enabled() or p.is_inference():  # made for that mode only
            return self._looked_up(p, dtype)
        if self._last is not None:
            last, version, kept = self._last
            if last is p and version == p._version and kept[0].dtype == dtype:
                return kept
        turns = self._looked_up(p, dtype)
        self._last = p, p._version, turns
        return turns

    def _looked_up(self, p: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        low, high = (int(x) for x in p.aminmax())
        if low < 0 or high >= LONGEST:
            return cos_sin(p, self.theta, dtype)
        cos, sin = table(self._theta, 1 << max(high, 63).bit_length(), dtype)
        return cos[p], sin[p]

    def rotate(self, t: Queries, p: TokenPositions) -> Queries:
        return turn(t, *self.turns(p, accum_dtype(t.dtype)))

    def extra_repr(self) -> str:
        text = f"head_dim={self.head_dim}, base={self.base:g}"
        text += "" if self.fraction == 1 else f", fraction={self.fraction:g}"
        scaled = f", scaling={self.scaling!r}, factor={self.factor}"
        return text if self.scaling is None else text + scaled


def turn(t: Queries, cos: Halves, sin: Halves) -> Queries:
    """Every pair (a_m, b_m) of t turned by its angle."""
    if t.shape[-1] != 2 * cos.shape[-1]:
        raise ValueError(f"t has width {t.shape[-1]}; expected head_dim = {2 * cos.shape[-1]}")
    cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)  # the same for all heads
    a, b = t.to(cos.dtype).chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(t.dtype)


def cos_sin(
    p: TokenPositions, theta: Float[Tensor, "half"], dtype: torch.dtype
) -> tuple[Halves, Halves]:
    angle = p[..., None].to(theta.dtype) * theta
    return angle.cos().to(dtype), angle.sin().to(dtype)


LONGEST = 1 << 16  # where a table grows too large to keep: 16 MB at head_dim = 64


@lru_cache(maxsize=4)
def table(theta: tuple[float, ...], length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos pθ and sin pθ for p = 0 … length − 1."""
    with torch.inference_mode(False), torch.no_grad():  # it may outlive the mode it is made in
        return cos_sin(
            torch.arange(length, device="cpu"),
            torch.tensor(theta, dtype=torch.float64, device="cpu"),
            dtype,
        )
