"""Softmax attention under a fixed pattern of visibility, linear in N: the base of Longformer and
BigBird.

    out_i = Σ_j A_ij v_j        A_i = softmax over V(i) of s·q_i·k_j + β_ij        s = 1/√d

A bias β_ij = x_i·y_j is a few more columns of q and k, so no N×M is ever made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.backends import flash
from ascender.core.backends.decode import key_products, weighted_sum
from ascender.core.backends.folded import FullLayout
from ascender.core.combine import Bias, LowRank, columns, folds
from ascender.core.geometry import accum_dtype
from ascender.core.softmax import masked_softmax
from ascender.core.visibility import Visibility
from ascender.nn.baselines.vanilla import prepend_columns, repeat_kv
from ascender.nn.positions import POSITIONS
from ascender.nn.slot import Attention, Call, Unsupported

FEW = 8  # rows that are written out against all keys
# Up to this many scores a head, the whole square under a mask is cheaper than blocks: 256 tokens.
SHORT = 1 << 16
Sides = tuple[Float[Tensor, "B H N w"], Float[Tensor, "B H M w"], Float[Tensor, "B H M e"]]


def kernel(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that runs without autocast and is not traced by a compiler: it writes into its own
    scratch memory."""

    @wraps(run)
    def alone(q: Tensor, *args: Any, **options: Any) -> Tensor:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(alone)(q, *args, **options)
        if not torch.is_autocast_enabled(q.device.type):
            return run(q, *args, **options)
        with torch.autocast(q.device.type, enabled=False):
            return run(q, *args, **options)

    return alone


def sides(
    q: Float[Tensor, "B H N d"], k: Float[Tensor, "B G M d"], v: Float[Tensor, "B G M e"],
    vis: Visibility, other: Bias = None, scale: float | None = None,
) -> Sides:  # fmt: skip
    """(Q, K, V), all of one head count, with Q_i·K_j the whole score. Keys that are padding are
    0: their content, NaN included, reaches no row."""
    refuse(vis, other)
    acc, H = accum_dtype(q.dtype), q.shape[1]
    Q = q.to(acc) * (q.shape[-1] ** -0.5 if scale is None else scale)
    K, V = repeat_kv(k.to(acc), H), repeat_kv(v.to(acc), H)
    if other is not None:
        left, right = columns(other, vis.N, vis.M)
        Q, K = prepend_columns(Q, left), prepend_columns(K, right)
    if vis.mask is not None:
        K, V = (t.masked_fill(~vis.mask.mT, 0) for t in (K, V))
    return Q, K, V


def refuse(vis: Visibility, other: Bias) -> None:
    """Raise for calls that need a matrix of scores, or positions that there are none of."""
    if vis.cross:
        raise Unsupported(
            "a pattern of positions in cross-attention, where queries have none among the keys; "
            "expected self-attention (no context)"
        )
    if not vis.by_key_only:
        assert vis.mask is not None
        raise Unsupported(
            f"mask of shape {tuple(vis.mask.shape)} differs by query; expected a padding mask "
            "(B, M), with causal=True where it is meant"
        )
    if not folds(other):
        assert isinstance(other, Tensor)
        raise Unsupported(
            f"other of shape {tuple(other.shape)} is a matrix of scores, which attention linear in "
            "N never computes; expected LowRank or one number per key, (…, 1, M)"
        )


def short(vis: Visibility) -> bool:
    """Whether one N×M pass is faster than blocks."""
    return vis.N * vis.M <= SHORT


def in_one_piece(
    Q: Float[Tensor, "B H N w"], K: Float[Tensor, "B H M w"], V: Float[Tensor, "B H M e"],
    vis: Visibility, visible: Bool[Tensor, "#B #H N M"],
) -> Float[Tensor, "B H N e"]:  # fmt: skip
    """All rows under the pattern as a matrix, by the flash kernel; the causal half of it where
    that is all there is."""
    bias = torch.zeros_like(visible, dtype=Q.dtype).masked_fill_(~visible, -torch.inf)
    return flash.attend(Q, K, V, causal=vis.causal and vis.N == vis.M, bias=bias)[0]


def see_all(
    Q: Float[Tensor, "B H n w"], K: Float[Tensor, "B H M w"], V: Float[Tensor, "B H M e"],
    vis: Visibility,
) -> Float[Tensor, "B H n e"]:  # fmt: skip
    """Leading global rows: every key that is not padding (causal: up to their own), by the flash
    kernel."""
    n = Q.shape[-2]
    end = vis.M - vis.N + n if vis.causal else vis.M
    mask = None if vis.mask is None else vis.mask[..., :end]
    p = torch.arange(end - n, end, device=Q.device)
    rows = replace(vis, p=p, first=None, j=vis.j[:end], mask=mask, window=None, n_global=0)
    layout = FullLayout(rows, Q.dtype)
    out = layout.attend(Q, K[..., :end, :], V[..., :end, :])[0]
    return out.masked_fill(layout.count == 0, 0)


def attend_rows(
    q: Float[Tensor, "B H n d"], k: Float[Tensor, "B G M d"], v: Float[Tensor, "B G M e"],
    visible: Bool[Tensor, "#B #H n M"], other: Bias = None, scale: float | None = None,
) -> Float[Tensor, "B H n e"]:  # fmt: skip
    """A few rows, written out against all keys: decoding. Grouped keys are never copied."""
    total = key_products(q * (q.shape[-1] ** -0.5 if scale is None else scale), k).to(
        accum_dtype(q.dtype)
    )
    if other is not None:
        total = total + (other.dense() if isinstance(other, LowRank) else other).to(total.dtype)
    return weighted_sum(masked_softmax(total, visible).to(v.dtype), v)


class Patterned(Attention):
    """An attention whose pattern makes it linear in N. It has the scores of a row only in pieces,
    so it takes normalisers that are a softmax, biases that fold, and no dropout on the weights."""

    serves = ("embed", "rotate", "bias")
    softmax_only = True
    crosses = False

    @abstractmethod
    def visible(self, vis: Visibility) -> Bool[Tensor, "#B #H n M"]:
        """V as a matrix, for a few rows."""

    @abstractmethod
    def count(self, vis: Visibility) -> Int[Tensor, "#B #H N 1"]:
        """|V(i)|, without the matrix."""

    @abstractmethod
    def attend(self, call: Call) -> Float[Tensor, "B H N e"]:
        """All rows; q and the bias come as the normaliser wants them."""

    def attend_heads(self, call: Call) -> Float[Tensor, "B H N e"]:
        refuse(call.vis, call.other)
        q = self.scale_query(call.q, lambda: self.count(call.vis))
        call = replace(call, q=q, other=_divided(call.other, self.normalizer.temperature))
        if call.vis.N <= FEW < call.vis.M:
            return attend_rows(q, call.k, call.v, self.visible(call.vis), call.other)
        return self.attend(call)

    def check_fit(self) -> None:
        self._check_folds("columns" in (self.position.needs, self.position.causal_needs))
        super().check_fit()
        if self.dropout:
            raise Unsupported(
                f"dropout = {self.dropout} acts on the weights, which {self.name} attention never "
                "has; expected dropout=0"
            )

    def bias(self, call: Call, other: Bias) -> Bias:
        """Refuses before a matrix is begun."""
        self._check_folds(call.vis.causal or self.position.needs == "columns")
        return super().bias(call, other)

    def _check_folds(self, fits: bool) -> None:
        if not fits:
            fit = [n for n, P in POSITIONS.items() if P.needs == "columns"]
            more = [n for n, P in POSITIONS.items() if P.causal_needs == "columns"]
            raise Unsupported(
                f"position {self.position.name!r} needs the matrix of scores, which {self.name} "
                f"attention never computes; expected one of {', '.join(fit)}, or with causal=True "
                f"also {', '.join(more)}"
            )


def _divided(other: Bias, temperature: float) -> Bias:
    if other is None or temperature == 1:
        return other
    if isinstance(other, LowRank):
        return LowRank(other.left / temperature, other.right)
    return other / temperature
