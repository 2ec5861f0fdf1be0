"""Vanilla attention: stock SDPA wherever possible.

A_i = normalise over V(i) of ( q_i·k_j/√d + β_ij ) / T        out = A v + Σ_j A_ij a^V_ij
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ascender.common.validate import check_choice, check_int
from ascender.core.backends.folded import FullLayout
from ascender.core.backends.topk_sparse import top_attention
from ascender.core.choose_backend import SMALL
from ascender.core.combine import LowRank, Parts, columns, folds, repeat_kv, to_4d
from ascender.core.geometry import accum_dtype
from ascender.core.neighbours import inside_transform
from ascender.core.normalizers import TopK
from ascender.nn.rule_parameters import PER_HEAD, RuleOptions
from ascender.nn.slot import Attention, Call, ways


class Vanilla(Attention):
    """softmax(q·k/√d) v, with any position and normaliser."""

    name = "vanilla"

    def attend_heads(self, call: Call) -> Float[Tensor, "B H N e"]:
        pairs = "values" in ways(type(call.position))
        rule, T = self.normalizer, self.normalizer.temperature
        if isinstance(rule, TopK) and isinstance(rule.size, int) and not pairs and listed(call):
            return top_attention(call.q, call.k, call.v, call.vis, rule.size, call.other, T)
        if not rule.softmax or pairs:
            return self.parts(call)[0]
        return stock(self.scale_query(call.q, lambda: call.vis.count), call, T)

    def parts(self, call: Call) -> tuple[Float[Tensor, "B H N e"], Parts]:
        """The definition, with whole matrices."""
        k, v = repeat_kv(call.k, self.heads), repeat_kv(call.v, self.heads)
        V, dtype = call.vis.visible, accum_dtype(call.q.dtype)
        q = self.normalizer.sharpen(call.q, call.vis.count)
        base = (q @ k.mT).to(dtype).masked_fill(~V, 0) / q.shape[-1] ** 0.5
        none = torch.zeros_like(base)
        other = none
        if call.other is not None:
            bias = call.other.dense() if isinstance(call.other, LowRank) else call.other
            other = bias.to(dtype).expand_as(base).masked_fill(~V, 0)
        total = (base + other) / self.normalizer.temperature
        weights = self.normalizer.weights(total, V)
        dropped = F.dropout(weights, call.dropout) if call.dropout else weights
        out = dropped.to(v.dtype) @ v
        if (more := call.pair_values(dropped)) is not None:
            out = out + more.to(out.dtype)
        total = total.masked_fill(~V, 0)
        tau = self.normalizer.temperature
        return out, Parts(base, none, none, none, none, other, total, weights, tau)


def listed(call: Call) -> bool:
    """Whether top-k is better had over index lists: O(N · size), faster from about 180 tokens."""
    long = call.vis.N * call.vis.M > SMALL
    return long and folds(call.other) and not call.dropout and not inside_transform()


def stock(
    q: Float[Tensor, "B H N d"], call: Call, temperature: float = 1.0
) -> Float[Tensor, "B H N e"]:
    """PyTorch's own attention under the call's masks and bias, which is divided by the
    temperature; q comes divided. Nothing N×M is made where masks are causal or by key and the
    bias folds."""
    vis, other, H = call.vis, call.other, q.shape[1]
    square = vis.causal and vis.N == vis.M
    plain = vis.mask is None and vis.window is None and other is None
    if plain and (square or not vis.causal or vis.N == 1):
        return F.scaled_dot_product_attention(
            q, call.k, call.v, dropout_p=call.dropout, is_causal=square and vis.N > 1,
            enable_gqa=call.k.shape[1] != H,
        )  # fmt: skip
    k, v = repeat_kv(call.k, H), repeat_kv(call.v, H)
    if vis.window is None and vis.by_key_only and folds(other) and not call.dropout:
        Q, K = q / q.shape[-1] ** 0.5, k
        if other is not None:  # in float32 at least: half precision would round distances
            left, right = columns(other, vis.N, vis.M)
            Q, K, v = (t.to(accum_dtype(q.dtype)) for t in (Q, K, v))
            Q, K = prepend_columns(Q, left / temperature), prepend_columns(K, right)
        layout = FullLayout(vis, accum_dtype(q.dtype))
        out = layout.attend(Q, K, v)[0].to(q.dtype)
        return out.masked_fill(layout.count == 0, 0)
    bias = None
    if other is not None:
        bias = to_4d(other.dense() if isinstance(other, LowRank) else other)
        bias = (bias if temperature == 1 else bias / temperature).to(q.dtype)
    if vis.mask is None and vis.window is None and not vis.causal:  # all see all
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=call.dropout)
    V = vis.visible
    bias = V if bias is None else bias.masked_fill(~V, -torch.inf)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=call.dropout)
    return out.masked_fill(~V.any(-1, keepdim=True), 0)


def prepend_columns(t: Float[Tensor, "B H N d"], more: Tensor) -> Float[Tensor, "B H N w"]:
    """t with further columns, in front: ALiBi's large numbers cancel before anything small."""
    return torch.cat([more.expand(*t.shape[:-1], -1).to(t.dtype), t], -1)


class Matched(Vanilla):
    """Vanilla with as many parameters as ASCender: the spaces · dim · (d_z + d_a) of U and P are
    given to the width of its heads."""

    name = "matched"

    def __init__(
        self, dim: int, heads: int, *, d_z: int = RuleOptions.d_z, d_a: int = RuleOptions.d_a,
        geometry: str = RuleOptions.geometry, head_dim: int | None = None,
        kv_heads: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        for name, size in (("d_z", d_z), ("d_a", d_a), ("head_dim", head_dim),
                           ("kv_heads", kv_heads)):  # fmt: skip
            if size is not None:
                check_int(name, size, 1)
        check_choice("geometry", geometry, PER_HEAD)
        own = dim // heads if head_dim is None else head_dim
        spaces = 1 if geometry == "shared" else heads
        columns = 2 * (heads + (kv_heads or heads))  # of width head_dim, in W_Q, W_K, W_V, W_O
        wider = own + round(spaces * (d_z + d_a) / columns)
        super().__init__(dim, heads, head_dim=wider, kv_heads=kv_heads, **options)
