"""Performer: softmax attention by positive orthogonal random features (FAVOR+).

    exp(q·k/√d) = E_ω [ φ(q)·φ(k) ],   φ_r(x) = exp(ω_r·x̂ − ‖x̂‖²/2) / √m,   x̂ = x / d^¼

ω_1 … ω_m ~ N(0, I_d), orthogonal in blocks of d (Choromanski et al. 2021, arXiv 2009.14794).
The error falls like 1/√m and grows with ‖q̂ + k̂‖.

What keeps exp in range must not depend on other tokens: a maximum over all keys, as the published
code has, carries the future and the padding into every row. Here a query's features are divided by
their own largest, which cancels in its row; keys need nothing, since
ω·k̂ − ‖k̂‖²/2 = ‖ω‖²/2 − ‖k̂ − ω‖²/2 ≤ ‖ω‖²/2, which is about d/2.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.common.validate import check_int
from ascender.core.backends.autograd_utils import backward
from ascender.core.geometry import accum_dtype
from ascender.core.shapes import Keys, Queries
from ascender.nn.baselines.linear import FeatureAttention, Features

CAP = 60.0  # of the exponent: reached only by keys almost on an ω with ‖ω‖² > 120
BLOCK = 256  # rows at a time


def orthogonal_gaussian(m: int, d: int, seed: int) -> Float[Tensor, "m d"]:
    """ω: each row N(0, I_d); rows of one block of d are orthogonal. The same for the same seed."""
    if m < 1 or d < 1:
        raise ValueError(f"features = {m} in width {d}; expected at least 1 of each")
    random = torch.Generator().manual_seed(seed)

    def normal(rows: int) -> Tensor:
        return torch.randn(rows, d, generator=random, dtype=torch.float64, device="cpu")

    blocks = []
    for _ in range(-(-m // d)):
        Q, R = torch.linalg.qr(normal(d))
        blocks.append((Q * R.diagonal().sign()).mT)  # with these signs Q is uniform
    norms = normal(m).norm(dim=-1, keepdim=True)
    return (norms * torch.cat(blocks)[:m]).float()


def key_features(k: Keys, omega: Float[Tensor, "m d"]) -> Float[Tensor, "B G M m"]:
    """φ(k). E[φ(q)·φ(k)] = exp(q·k/√d); one key's features depend on that key alone.

    In float32 they vanish from about ‖k̂‖ = 14 on (k of size 5 an entry at d = 64), where the
    estimate has long lost its meaning; where those of all keys do, the output is 0.
    """
    return _features(k, omega, True)


def query_features(q: Queries, omega: Float[Tensor, "m d"]) -> Float[Tensor, "B H N m"]:
    """φ(q_i) / max_r φ_r(q_i): a factor of the row, which attention divides out."""
    return _features(q, omega, False)


def _features(x: Tensor, omega: Tensor, key: bool) -> Tensor:
    x = x.to(accum_dtype(x.dtype))
    W = omega.to(x.dtype) * x.shape[-1] ** -0.25  # ω·x̂ = W·x
    return _Exp.apply(x.flatten(0, 2), W, key).unflatten(0, x.shape[:3])


class _Exp(torch.autograd.Function):
    """exp(W·x − ‖x̂‖²/2 − ½ log m) of keys; exp(W·x − its maximum) of queries, for which nothing
    that belongs to the row matters. Block by block, so that a block's steps find it in the cache.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, W: Tensor, key: bool) -> Tensor:
        (m, d), f = W.shape, x.new_empty(len(x), len(W))
        for x_c, f_c in zip(x.split(BLOCK), f.split(BLOCK), strict=True):
            torch.mm(x_c, W.mT, out=f_c)
            if key:
                row = x_c.square().sum(-1, keepdim=True) * (0.5 * d**-0.5) + 0.5 * math.log(m)
                f_c.sub_(row).clamp_(max=CAP).exp_()
            else:
                f_c.sub_(f_c.amax(-1, keepdim=True)).exp_()
        ctx.save_for_backward(x, W, f)
        ctx.key = key
        return f

    @staticmethod
    @backward
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        x, W, f = ctx.saved_tensors
        dx = torch.empty_like(x)
        for x_c, f_c, g_c, dx_c in zip(*(t.split(BLOCK) for t in (x, f, g, dx)), strict=True):
            g_c = g_c * f_c
            torch.mm(g_c, W, out=dx_c)
            if ctx.key:
                dx_c.addcmul_(x_c, g_c.sum(-1, keepdim=True), value=-(W.shape[1] ** -0.5))
        return dx, None, None


class Performer(FeatureAttention):
    """FAVOR+ with m = `features` random directions, drawn from `seed` and saved with the weights;
    all heads share them. Give every layer a seed of its own, or they err alike.

    A temperature, ssmax and length scale q, so they act as they do on the softmax.
    """

    name = "performer"
    omega: Tensor

    def __init__(
        self, dim: int, heads: int, *, features: int = 256, seed: int = 0, **options: Any
    ) -> None:
        super().__init__(dim, heads, **options)
        check_int("features", features, 1)
        check_int("seed", seed, 0)
        self.seed = seed
        self.register_buffer("omega", orthogonal_gaussian(features, self.head_dim, seed))

    def reset_parameters(self) -> None:
        self.redraw(self.seed)

    def features(self, q: Queries, k: Keys) -> Features:
        return query_features(q, self.omega), key_features(k, self.omega)

    def redraw(self, seed: int) -> None:
        """Other random directions, for training that is not to lean on some."""
        m, d = self.omega.shape
        self.omega.copy_(orthogonal_gaussian(m, d, seed))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, features={self.omega.shape[0]}"
