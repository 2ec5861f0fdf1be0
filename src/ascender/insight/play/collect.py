"""The attention inputs of a user's model, from which the page computes attention again.

Of every head: q, k, v, z, h and k before rotation, what is visible, the numbers of its rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor, nn

from ascender.core.flock import Flock
from ascender.core.rules import NUMBERS, Rules
from ascender.insight.capture import Layer, capture
from ascender.insight.page.data import numbers, packed_mask
from ascender.insight.page.inputs import Input, to
from ascender.insight.page.pack import NONE, Blobs

MOST = 256  # tokens that a page moves at 30 frames a second
ROOM = 8_000_000  # numbers of a page
STREAMS = {"q": "q", "k": "k", "bare": "bare", "v": "v", "hq": "h_q", "hk": "h_k"}


def collect_heads(
    name: str, model: nn.Module, what: Input, blobs: Blobs, layer: int | None = None
) -> dict[str, Any]:
    """The layers with rules (or one of them), their heads, and what the tokens are called."""
    N = len(what.tokens)
    if N > MOST:
        raise ValueError(f"{N} tokens; expected at most {MOST}, such as a shorter example")
    inputs = to(next(model.parameters()).device, what.inputs)
    layers = [one for one in capture(model, **inputs)[1] if _fits(one, N)]
    if not layers:
        raise ValueError(
            f"{name} has no self-attention with the rules over the {N} tokens; expected an "
            "ASCender model, a retrofitted one or --adapter"
        )
    if layer is not None and not 0 <= layer < len(layers):
        raise ValueError(f"layer = {layer}; expected a layer with rules, 0 … {len(layers) - 1}")
    chosen = layers if layer is None else layers[layer : layer + 1]
    size = sum(_size(one) for one in chosen)
    if size > ROOM:
        raise ValueError(
            f"{len(chosen)} layers make a page of {size / 1e6:.0f} million numbers; expected at "
            f"most {ROOM / 1e6:.0f}: choose a layer (--layer 0 … {len(layers) - 1})"
        )
    return {
        "name": name, "tokens": what.tokens, "remarks": what.remarks,
        "faces": _faces(what, N, blobs),
        "layers": [
            {"name": one.name, "heads": [_head(one, h, blobs) for h in range(one.q.shape[1])]}
            for one in chosen
        ],
    }  # fmt: skip


def _fits(layer: Layer, N: int) -> bool:
    return layer.flock is not None and tuple(layer.parts.weights.shape[2:]) == (N, N)


def _size(layer: Layer) -> int:
    assert layer.flock is not None
    tensors = (layer.flock.q, layer.flock.k, layer.flock.v, layer.flock.z_k, layer.flock.h_k)
    return sum(t[0].numel() for t in tensors) * 4 // 3


def _head(layer: Layer, h: int, blobs: Blobs) -> dict[str, Any]:
    flock = layer.flock
    assert flock is not None
    if flock.normalise is not None or flock.pair_values is not None:
        raise ValueError(
            f"{layer.name} has another normaliser than the softmax, or values by position; "
            "expected softmax, and a position without values of its own"
        )

    def put(t: Tensor | None) -> int | None:
        return None if t is None else blobs.put(numbers(_of(t[0], h)), "f4")

    vis, other = flock.vis, flock.other_dense
    spec: dict[str, Any] = {name: put(getattr(flock, field)) for name, field in STREAMS.items()}
    table = flock.affinity_by_distance
    far = flock.far_keys
    return spec | {
        "z": put(flock.z[1]), "N": vis.N, "d": flock.q.shape[-1], "e": flock.v.shape[-1],
        "dz": flock.z_k.shape[-1], "da": flock.h_k.shape[-1],
        "V": packed_mask(_of(vis.visible[0], h).cpu().numpy(), blobs), "causal": vis.causal,
        "affinity": flock.affinity, "neighbours": _lists(flock.neighbours, h, blobs),
        "farKeys": None if far is None else _lists(far, h, blobs),
        "distance": None if table is None else blobs.put(numbers(table), "f4"),
        "other": None if other is None else put(other.expand_as(layer.parts.base)),
        "rules": _rules(flock, h),
    }  # fmt: skip


def _lists(lists: str | Tensor, h: int, blobs: Blobs) -> str | int:
    if isinstance(lists, str):
        return lists
    index = _of(lists[0], h).cpu().numpy()
    return blobs.put(np.where(index < 0, NONE, index), "u2")


def _of(t: Tensor, h: int) -> Tensor:
    """Of a head, where heads may share."""
    return t[min(h, len(t) - 1)]


def _rules(flock: Flock, h: int) -> dict[str, Any]:
    """The numbers of a head by the names of Rules, with its scope."""
    rules: Rules = flock.rules
    values: dict[str, Any] = {}
    for name in NUMBERS:
        value = getattr(rules, name)
        values[name] = float(value.detach().flatten()[min(h, value.numel() - 1)]) if isinstance(
            value, Tensor
        ) else float(value)  # fmt: skip
    for name in ("k", "far"):
        sizes = rules.sizes(name)
        values[name] = sizes[min(h, len(sizes) - 1)]
    for name in ("standardise", "separation_scope", "local_scope"):
        values[name] = getattr(rules, name)
    if not flock.affinity_term:
        values["omega_aff"] = 0.0
    if flock.scope is not None:
        values |= {"scope": "flock", "window": flock.scope.window, "globals": flock.scope.n_global}
    return values


def _faces(what: Input, N: int, blobs: Blobs) -> dict[str, Any] | None:
    """Grey pictures of the tokens, where a task has them."""
    images = what.display.images
    if images is None or len(images) != N or images.ndim != 3:
        return None
    shades = np.rint(255 * np.clip(images, 0, 1)).astype(np.uint8)
    return {"at": blobs.put(shades.reshape(N, -1), "u1"), "size": list(images.shape[1:])}
