"""A transformers mask matrix as causal, window and padding, so that backends that never write a
matrix can compute it: from the function that made the matrix (`described`), else by reading the
matrix, for which the host waits on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from inspect import getclosurevars
from typing import Any

import torch
from torch import Tensor
from transformers import masking_utils
from transformers.masking_utils import prepare_padding_mask, sdpa_mask

from ascender.core.visibility import Visibility
from ascender.kernels import gpu

ONE_SIDED = "sliding_window_overlay"  # j > i − size
KNOWN = (
    "causal_mask_function", "bidirectional_mask_function", ONE_SIDED,
    "sliding_window_bidirectional_overlay",
)  # fmt: skip


def understood(mask: Tensor | None, N: int, M: int, causal: bool) -> dict[str, Any]:
    """A mask (B, 1 or H, N, M), bool (True = may attend) or added to scores, as what asc_attention
    takes: causal, window, mask, other. No mask: all, or all before where the model is causal."""
    if mask is None:
        return {"causal": causal}
    known = getattr(mask, "_understood", None)  # a mask goes through many layers
    if known is None or mask.shape[-2:] != (N, M):
        known = _read(mask, N, M)
        mask._understood = known  # type: ignore[attr-defined]
    return {"mask": mask[..., :M], **known}


def described(
    q_length: int, kv_length: int, mask_function: Callable[..., Any], q_offset: Any = 0,
    kv_offset: int = 0, attention_mask: Tensor | None = None, **more: Any,
) -> Tensor | None:  # fmt: skip
    """sdpa_mask, True = may attend, written out also where it restricts nothing but what comes
    later: without it causality would silently be lost. Where its function is one of transformers'
    own, with what `understood` says about it."""
    more = {**more, "kv_offset": kv_offset, "attention_mask": attention_mask}
    more |= {"mask_function": mask_function, "allow_is_causal_skip": False}
    if attention_mask is not None and gpu.on_gpu(attention_mask):  # it would look at all of it
        more["allow_is_bidirectional_skip"] = False
    matrix = sdpa_mask(q_length=q_length, kv_length=kv_length, q_offset=q_offset, **more)
    kinds = _kinds(mask_function)
    at_the_tail = isinstance(q_offset, int) and q_offset + q_length == kv_offset + kv_length
    if matrix is None or kinds is None or q_length == 1 or not at_the_tail:
        return matrix
    window = kinds["window"]
    if window is not None and window >= kv_length - 1:
        kinds["window"] = None
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if padding is not None:
        padding = padding[:, kv_offset : kv_offset + kv_length].bool()
        if gpu.on_gpu(padding) or not bool(padding.all()):
            kinds["mask"] = padding[:, None, None]
    matrix._understood = kinds
    return matrix


def _kinds(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Causal and window of a mask function of transformers; None: it is another one."""
    causal, windows = False, []
    for part in _parts(function):
        name = part.__qualname__.split(".")[0]
        if part.__module__ != masking_utils.__name__ or name not in KNOWN:
            return None
        causal = causal or name == "causal_mask_function"
        if "sliding_window" in name:
            windows.append((name, getclosurevars(part).nonlocals["sliding_window"]))
    if not causal and any(name == ONE_SIDED for name, _ in windows):
        return None
    sizes = [size - (name == ONE_SIDED) for name, size in windows]
    return {"causal": causal, "window": min(sizes, default=None), "mask": None}


def _parts(function: Callable[..., Any]) -> list[Any]:
    """The functions all of which must allow a key."""
    if getattr(function, "__qualname__", "").split(".")[0] != "and_masks":
        return [function]
    return [p for f in getclosurevars(function).nonlocals["mask_functions"] for p in _parts(f)]


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
