"""Read a transformers mask matrix as causal, window and padding, so that backends that never write
a matrix can compute it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ascender.core.visibility import Visibility


def understood(mask: Tensor | None, N: int, M: int, causal: bool) -> dict[str, Any]:
    """A mask (B, 1 or H, N, M), bool (True = may attend) or added to scores, as what asc_attention
    takes: causal, window, mask, other. No mask: all, or all before where the model is causal."""
    if mask is None:
        return {"causal": causal}
    known = getattr(mask, "_understood", None)  # a mask goes through many layers
    if known is None:
        known = _read(mask, N, M)
        mask._understood = known  # type: ignore[attr-defined]
    return {"mask": mask[..., :M], **known}


def _read(mask: Tensor, N: int, M: int) -> dict[str, Any]:
    """What it is; without "mask" where it is nothing simpler than itself."""
    mask = mask[..., :M]
    kinds: dict[str, Any] = {}
    if mask.dtype != torch.bool:
        mask, other = _as_bool(mask)
        kinds = {"mask": mask, "other": other}
    if N == 1:  # the newest token: nothing comes after it
        return {**kinds, "causal": True}
    if mask.shape[-2] == 1:
        return kinds
    plain = mask.expand(-1, -1, N, -1)
    vis = Visibility.of(N, M, device=mask.device)
    ahead = vis.j - vis.p[:, None]
    causal = not bool((plain & (ahead > 0)).any())
    far = int((plain * ahead.abs()).max())
    keys = plain.any(-2, keepdim=True)  # a key that nobody sees is padding
    padding = None if bool(keys.all()) else keys
    for window in (None, far):
        same = Visibility(vis.p, vis.j, causal=causal, window=window, mask=padding).visible
        if torch.equal(same.expand_as(plain), plain):
            return {**kinds, "causal": causal, "window": window, "mask": padding}
    return {**kinds, "causal": causal}


def _as_bool(mask: Tensor) -> tuple[Tensor, Tensor | None]:
    """(which keys are visible, what is added to their scores)."""
    visible = mask > torch.finfo(mask.dtype).min / 2
    other = mask.masked_fill(~visible, 0)
    return visible, other if bool(other.any()) else None
