"""One new token of a layer, from its cache straight to the C kernels.

The same as the backends decode and flock for that token, without the objects between: at one token
these cost more than the arithmetic. None where anything is unusual (a mask, a bias, lists, a
gradient, numbers that are not finite): the backends then run.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core.backends.flock import FlockLists
from ascender.core.backends.native import NUMBERS, number_table, one_width
from ascender.core.neighbours import compiled
from ascender.core.normalizers import Normalizer
from ascender.core.rules import RULES, Rules
from ascender.nn.call import Call
from ascender.nn.positions import Position

LISTED = (*NUMBERS, "omega_aff")


def one_token(layer: Any, call: Call) -> Float[Tensor, "B H 1 e"] | None:
    """out = A v of a call of an AscenderAttention with a cache, or None."""
    cache, q = call.cache, call.q
    if not (
        q.shape[2] == 1 < cache.held == len(cache)
        and cache.every_key_is_usual
        and call.other is None and call.neighbours is None and call.backend != "dense"
        and not torch.is_grad_enabled()
        and compiled(q)
        and _is_usual(layer)
    ):  # fmt: skip
        return None
    rules = cache.cached_rules(layer.version, layer.rules)
    if len(rules.sizes()) > 1:
        return None
    run = _in_flock if layer.flock_only else _in_all
    out = run(layer, call, rules)
    return out if out is not None and math.isfinite(float(out.sum())) else None


def _is_usual(layer: Any) -> bool:
    normalizer = layer.normalizer
    return (
        isinstance(layer.neighbours, str) and layer.neighbours == "semantic"
        and layer.affinity == ("query-key" if layer.flock_only else "tied")
        and normalizer.softmax and normalizer.temperature == 1
        and type(normalizer).sharpen is Normalizer.sharpen
        and type(layer.position).values is Position.values
    )  # fmt: skip


def _key_scale(call: Call, heads: int) -> Tensor:
    """1/‖k_j‖ of every key, or one a head where all keys of a head have one length (QK-norm)."""
    norm = call.more.get("key_norm")
    if norm is None:
        return call.cache.buffers["scale"]
    return (1 / torch.as_tensor(norm, dtype=torch.float32)).flatten().expand(heads).contiguous()


def _in_all(layer: Any, call: Call, rules: Rules) -> Tensor | None:
    """The token sees every key (kernels/token.c)."""
    from ascender.kernels.operators import one_token

    cache, M, H = call.cache, call.cache.held, call.q.shape[1]
    keys = cache.buffers
    z, h = keys["z"], keys["h"]
    if layer.affinity_term or not rules.standardise or rules.local_scope != "visible":
        return None
    if rules.sizes()[0] >= M:
        return None
    return one_token(
        call.q, keys["k"], keys["v"], keys.get("bare"), _key_scale(call, H),
        (z[:, :, M - 1 : M, :-1], z), (h[:, :, M - 1 : M], h),
        number_table(rules, H, call.q, NUMBERS), rules.sizes()[0], rules.on, True,
        z.shape[1] == h.shape[1] == 1 and one_width(rules), M,
    )  # fmt: skip


def _in_flock(layer: Any, call: Call, rules: Rules) -> Tensor | None:
    """The token ranks the keys and attends to its flock (kernels/list_token.c)."""
    from ascender.kernels.list_operators import one_list_token

    cache, M, H = call.cache, call.cache.held, call.q.shape[1]
    keys, h_q = cache.buffers, call.more["h_q"]
    z, h, far = keys["z"], keys["h"], rules.sizes("far")
    all_mates = rules.separation_scope == "all" and rules.active("sep")
    if not FlockLists.compiled or len(far) > 1 or h.shape[1] > 1 or all_mates:
        return None
    if layer.flock_globals >= M or not math.isfinite(float(h_q.sum())):
        return None
    return one_list_token(
        call.q, keys["k"], keys["v"], keys.get("bare"), _key_scale(call, H),
        (z[:, :, M - 1 : M, :-1], z), (h_q, h), number_table(rules, H, call.q, LISTED),
        layer.bias_by_distance(), far[0], rules.sizes()[0],
        (layer.flock_window, layer.flock_globals),
        (bool(layer.affinity_term), rules.standardise, rules.local_scope == "neighbours",
         *map(rules.active, RULES)), M,
    )  # fmt: skip
