"""Longformer: a window and leading global tokens, linear in N (arXiv 2004.05150).

    V(i) = { j : |p(i) − j| ≤ w, or j < g, or p(i) < g }        causal: j ≤ p(i) as well

Our window w counts the tokens on each side. transformers' `attention_window` counts both sides
together and must be even:

    window=w  here   is   attention_window=2w  there       (2w + 1 keys, the token itself included)

Global tokens attend to everything through projections of their own (q_g, k_g, v_g); the others see
them through the ordinary keys and values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ascender.common.validate import check_flag
from ascender.core.backends.windowed import Blocks
from ascender.core.combine import Bias, LowRank
from ascender.core.visibility import Visibility
from ascender.nn.baselines.patterned import Patterned, in_one_piece, kernel, see_all, short, sides
from ascender.nn.slot import Call


@kernel
def window_attention(
    q: Float[Tensor, "B H N d"], k: Float[Tensor, "B G M d"], v: Float[Tensor, "B G M e"],
    vis: Visibility, other: Bias = None, scale: float | None = None,
    overview: tuple[Tensor, Tensor, Tensor] | None = None,
) -> Float[Tensor, "B H N e"]:  # fmt: skip
    """softmax over V(i) of s·q_i·k_j + β_ij, times v, in O(N (w + g)), what is short in one piece;
    a row that sees nothing is 0. The queries are the tail of the keys, and `other` folds.

    overview   (q_g, k_g, v_g): queries of the leading global rows, keys and values of all tokens,
               where these rows have projections of their own
    """
    if vis.window is None:
        raise ValueError("no window; expected Visibility(window=…)")
    Q, K, V = sides(q, k, v, vis, other, scale)
    if short(vis):
        out = in_one_piece(Q, K, V, vis, vis.visible)
    else:
        out = Blocks(vis, Q.dtype).attend(Q, K, V)[0]
    n = leading(vis)
    if n:
        if overview is None:
            whole = Q[..., :n, :], K, V
        else:
            if isinstance(other, LowRank):
                other = LowRank(other.left[..., :n, :], other.right)
            whole = sides(*overview, vis.rows(slice(n)), other, scale)
        out = torch.cat([see_all(*whole, vis), out[..., n:, :]], -2)
    return out.to(v.dtype)


def leading(vis: Visibility) -> int:
    """How many of the queries are global: they are computed separately from the blocks."""
    return min(max(0, vis.n_global - (vis.M - vis.N)), vis.N)


class Longformer(Patterned):
    """Each token sees `window` tokens on either side (half of transformers' attention_window) and
    the `n_global` leading ones, which see everything.

    global_projections   the leading rows have W_QG, W_KG, W_VG, which start as copies of W_Q, W_K,
                         W_V. Causal rows have no overview and never use them.
    """

    name = "longformer"
    windows = True

    def __init__(
        self, dim: int, heads: int, *, window: int | None = 256, n_global: int = 0,
        global_projections: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        if not isinstance(window, int) or window < 0:
            raise ValueError(f"window = {window!r}; expected an int ≥ 0: tokens on each side")
        check_flag("global_projections", global_projections)
        super().__init__(dim, heads, window=window, n_global=n_global, **options)
        self.W_QG = self.W_KG = self.W_VG = None
        if global_projections and n_global:
            self.W_QG, self.W_KG, self.W_VG = (_copy(W) for W in (self.W_Q, self.W_K, self.W_V))

    def call(self, x: Tensor, context: Tensor | None = None, **inputs: Any) -> Call:
        call = super().call(x, context, **inputs)
        n = 0 if call.vis.causal else leading(call.vis)
        if n and self.W_QG is not None:
            call = replace(call, more={"overview": self._overview(x, n, inputs.get("positions"))})
        return call

    def _overview(
        self, x: Float[Tensor, "B N dim"], n: int, positions: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(q_g of the n leading rows, k_g, v_g of all)."""
        assert self.W_QG is not None
        assert self.W_KG is not None
        assert self.W_VG is not None
        p = torch.arange(x.shape[1], device=x.device) if positions is None else positions
        x = self.position.embed(x, p)
        q, k = self._split(self.W_QG(x[:, :n])), self._split(self.W_KG(x))
        q, k = self.position.rotate(q, p[..., :n]), self.position.rotate(k, p)
        return q, k, self._split(self.W_VG(x))

    def visible(self, vis: Visibility) -> Bool[Tensor, "#B #H n M"]:
        return vis.visible

    def count(self, vis: Visibility) -> Int[Tensor, "#B #H N 1"]:
        return vis.count

    def attend(self, call: Call) -> Float[Tensor, "B H N e"]:
        # A bounded cache has a gap behind the globals. Only globals are further off than the gap,
        # so places among the keys serve as well as positions.
        overview = call.more.get("overview")
        if overview is not None:
            q, n = overview[0], overview[0].shape[2]
            q = self.scale_query(q, lambda: self.count(call.vis)[..., :n, :])
            overview = (q, *overview[1:])
        return window_attention(call.q, call.k, call.v, call.vis, call.other, overview=overview)


def _copy(W: nn.Linear) -> nn.Linear:
    new = nn.Linear(W.in_features, W.out_features, bias=W.bias is not None)
    new.load_state_dict(W.state_dict())
    return new
