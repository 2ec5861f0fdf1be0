"""Latent coordinates z, semantic directions h, keys k: lengths, angles and distances.

unit(x)  = x / max(‖x‖, 1e-12)
a_ij     = unit(h_i) · unit(h_j)
w^τ_ij   = exp(−‖z_i − z_j‖² / τ²)
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

FLOOR = 1e-12


def unit(x: Float[Tensor, "... d"], length: Tensor | None = None) -> Float[Tensor, "... d"]:
    """x / max(‖x‖, 1e-12), times `length`. Scaling x by a positive number changes nothing."""
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp_min(FLOOR)
    return x / norm if length is None else x * (length / norm)


def accum_dtype(dtype: torch.dtype) -> torch.dtype:
    """Where statistics are computed: float32 for the half precisions, else the type itself."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def bounded(z: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """z, with coordinates beyond max^(1/5) (5e7 in float32) read as that: ‖z‖⁴ is finite then.
    A hidden token may be that large, and 0 · ∞ is NaN. Infinities stay."""
    limit = torch.finfo(z.dtype).max ** 0.2
    return torch.where(z.isinf(), z, z.clamp(-limit, limit))


def anchor(
    z_k: Float[Tensor, "B Z M z"], keys: Bool[Tensor, "#B #H M"] | None
) -> Float[Tensor, "B Z 1 z"]:
    """A point to measure z from: the first key that is not padding; 0 where all keys are.

    Distances do not depend on it; their rounding does, since ‖z − z'‖² is computed as
    ‖z‖² + ‖z'‖² − 2 z·z'. A causal row that sees anything sees this key, so nothing leaks.
    """
    if keys is None:
        return z_k[..., :1, :]
    kept = _by_space(keys, z_k)
    first = kept.to(torch.uint8).argmax(-1).expand(z_k.shape[0], z_k.shape[1])
    index = first[..., None, None].expand(-1, -1, 1, z_k.shape[-1])
    return z_k.gather(-2, index).masked_fill(~kept.any(-1)[..., None, None], 0)


def middle(
    z_k: Float[Tensor, "B Z M z"], keys: Bool[Tensor, "#B #H M"] | None
) -> Float[Tensor, "B Z 1 z"]:
    """The mean of the keys that are not padding: a better anchor where all rows see them."""
    if keys is None:
        return z_k.mean(-2, keepdim=True)
    kept = _by_space(keys, z_k)[..., None]
    return z_k.masked_fill(~kept, 0).sum(-2, keepdim=True) / kept.sum(-2, keepdim=True).clamp_min(1)


def _by_space(
    keys: Bool[Tensor, "#B #H M"], z_k: Float[Tensor, "B Z M z"]
) -> Bool[Tensor, "#B #Z M"]:
    """Which keys are not padding for any of the heads that share a z."""
    return keys if keys.shape[1] in (1, z_k.shape[1]) else keys.all(1, keepdim=True)


def squared_distance(
    x: Float[Tensor, "... N z"], y: Float[Tensor, "... M z"]
) -> Float[Tensor, "... N M"]:
    """‖x_i − y_j‖², never negative."""
    xx, yy = x.square().sum(-1)[..., :, None], y.square().sum(-1)[..., None, :]
    return (xx + yy - 2 * x @ y.transpose(-1, -2)).clamp_min(0)


def kernel(d2: Float[Tensor, "..."], tau: float | Tensor) -> Float[Tensor, "..."]:
    """w = exp(−d²/τ²)."""
    return torch.exp(-d2 / tau**2)


def lift(z: Float[Tensor, "... z"]) -> Float[Tensor, "... z1"]:
    """(z, ‖z‖²): in these coordinates −‖z − c‖² is linear, up to a constant of the row."""
    return torch.cat([z, z.square().sum(-1, keepdim=True)], -1)


def probe(c: Float[Tensor, "... z"]) -> Float[Tensor, "... z1"]:
    """(2c, −1): probe(c) · lift(z) = −‖z − c‖² + ‖c‖²."""
    return torch.cat([c + c, torch.full_like(c[..., :1], -1)], -1)
