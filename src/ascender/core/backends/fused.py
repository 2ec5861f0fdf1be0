"""The whole sequence on a GPU with Triton: the fold (fold.py) with separate products, reading
shared heads of keys, values and geometry without a copy.

    S_ij = σ q_i·k_j + a_i·k̃_j + c_i·z_j + Σ_r x_ir y_jr        σ = 1/(√d τ_score)
    a_i = f^a_i u_i        c_i = 2 f^c_i c_i/τ_coh               f: the slope of a standardised row

The columns r are of float32: ‖z_j‖², positions, biases by key. The main pass and the centre pass
are kernels/gpu/main_pass.py and centre_pass.py; row variances, headings and the search are those of
the fold. Separation moves mass inside the main pass, whose backward takes the corrected rows.

Losses want Σ_j A_ij lift(z_j), which are more columns of the values, and the weights of listed
keys, exp(s_il + b_il − lse'_i); both in float32.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core.backends.base import Backend
from ascender.core.backends.flash_cuda import DTYPES
from ascender.core.backends.fold import (
    LITTLE,
    Crowd,
    KernelPasses,
    Score,
    at_most,
    few_rows,
    penalties,
    row_stats,
    rows_again,
    rule_scores,
)
from ascender.core.backends.folded import FullLayout
from ascender.core.backends.index_lists import Lists
from ascender.core.backends.packed import Chunks, packed_row_var
from ascender.core.combine import LowRank, RowStats, columns, repeat_kv, slope
from ascender.core.flock import Flock
from ascender.core.rules import Number
from ascender.kernels import gpu

WIDEST = 128  # numbers of a query, key or value that the kernels hold
RANKS = 8  # columns of float32


class FusedLayout(FullLayout):
    """How rows meet keys in the Triton passes."""

    def surroundings(self, flock: Flock, tau: Number) -> tuple[Tensor, Tensor]:
        """(mean of lift(z), log Σ w) under the kernel of width τ over V(i)."""
        from ascender.kernels.gpu.centre_pass import centre_pass

        z_q, z_k = flock.z
        heads = max(z_k.shape[1], tau.numel() if isinstance(tau, Tensor) else 1)
        mask = self._mask(z_k.shape[0])
        if mask is not None:
            heads = max(heads, mask.shape[1])
        own = z_q is z_k and mask is None and not self.vis.cross
        return centre_pass(
            z_q,
            z_k,
            _by_head(tau, heads, z_q) ** -2,
            mask,
            self.vis.cu,
            causal=self.vis.causal,
            longest=self.vis.longest,
            own=own,
        )

    @lazy
    def chunks(self) -> Chunks:
        return Chunks(self.vis)

    def row_var(self, x: Tensor, y: Tensor) -> Float[Tensor, "B H N 1"]:
        """The population variance over j ∈ V(i) of x_i·y_j, without the row."""
        if self.vis.cu is None:
            return super().row_var(x, y)
        return packed_row_var(self.chunks, x, y, self.vis.causal, self.count)

    def _mask(self, batch: int) -> Tensor | None:
        return None if self.keys is None else self.keys.expand(batch, -1, -1)

    def main_pass(
        self, flock: Flock, scores: list[Score], lists: Tensor | None, bias: Tensor | None,
        stats: bool,
    ) -> MainPass:  # fmt: skip
        """Attention under all terms of the score, for losses in float32."""
        from ascender.kernels.gpu.main_pass import Pass, main_pass

        (B, H, N, d), r = flock.q.shape, flock.rules
        dtype = flock.accum_dtype if stats else flock.q.dtype
        per_tau = 1 / r.at("tau_score", flock.q.float())
        sigma = per_tau * d**-0.5
        q, k, parts = flock.q, flock.k.to(dtype), dict[str, Any]()
        ranks = []
        if flock.other is not None:
            left, right = columns(flock.other, N, flock.vis.M)
            ranks.append((left.float() * per_tau, right.float()))
        for score in scores:
            var = self.row_var(score.x, score.y) if r.standardise else None
            f = slope(per_tau, score.g, var)
            if score.key_scale is not None:  # y are the keys: folds into q
                q = q + f * score.key_scale / sigma * score.x
            elif score.lifted:
                z = score.y[..., :-1].to(dtype)
                c, x = (f * score.x).split([z.shape[-1], 1], -1)
                ranks.append((x, z.float().square().sum(-1, keepdim=True)))
                parts |= {"c": c.expand(B, H, -1, -1).to(dtype), "z": z}
            else:
                parts |= {"a": (f * score.x).to(dtype), "u": score.y.to(dtype)}
        if ranks:
            parts |= _together(ranks, B, H)
        q = q.to(dtype)
        pairs = [(q * sigma, k), *((parts[x], parts[y]) for x, y in PAIRS if x in parts)] * stats
        if lists is not None and bias is not None:
            parts |= {"lists": lists.expand(B, -1, -1, -1).int()}
            parts |= {"bias": bias.float().expand(B, H, -1, -1)}
        of = Pass(
            q, k, flock.v.to(dtype), _by_head(sigma, H, flock.z[1]), **parts,
            mask=self._mask(B), causal=self.vis.causal, cu=self.vis.cu, longest=self.vis.longest,
        )  # fmt: skip
        if (G := of.v.shape[1]) > k.shape[1]:  # values with columns of a geometry by head
            of = replace(of, k=repeat_kv(k, G), u=None if of.u is None else repeat_kv(of.u, G))
        out, lse, mass = main_pass(replace(of, v=of.v[..., :WIDEST]))
        if of.v.shape[-1] > WIDEST:
            out = torch.cat([out, main_pass(replace(of, v=of.v[..., WIDEST:]))[0]], -1)
        return MainPass(out, lse, mass, pairs)


PAIRS = (("a", "u"), ("c", "z"), ("x", "y"))


@dataclass(frozen=True)
class MainPass:
    """Results of the main pass. `pairs`: x, y whose products x_i·y_j sum to the scores."""

    out: Float[Tensor, "B H N e"]
    lse: Float[Tensor, "B H N"]
    left: Float[Tensor, "B H N"] | None  # the mass that separation leaves
    pairs: list[tuple[Tensor, Tensor]]

    def weights(self, lists: Lists, bias: Tensor) -> Float[Tensor, "B H N K"]:
        """Of the listed keys, after separation."""
        s = sum((lists.dot(x.float(), y.float()) for x, y in self.pairs), bias)
        s = lists.masked(s - self.lse.masked_fill(self.lse == -torch.inf, 0).unsqueeze(-1))
        return lists.masked(at_most(s, 0).exp())


def _by_head(number: Number, heads: int, like: Tensor) -> Float[Tensor, "H"]:
    """A number as float32, one a head."""
    if isinstance(number, Tensor):
        return number.float().flatten().expand(heads)
    return gpu.filled([number] * heads, like, torch.float32)


def _together(ranks: list[tuple[Tensor, Tensor]], B: int, H: int) -> dict[str, Tensor]:
    """Columns x (B, H, N, R) and y (B, 1 or H, M, R)."""
    heads = 1 if all(y.shape[1] == 1 for _, y in ranks) else H
    x = torch.cat([x.expand(B, H, -1, -1) for x, _ in ranks], -1)
    y = torch.cat([repeat_kv(y, heads).expand(B, -1, -1, -1) for _, y in ranks], -1)
    return {"x": x, "y": y}


def fused(
    flock: Flock, layout: FusedLayout, stats: bool = False
) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
    """(A v, what the losses need where `stats` asks for it)."""
    r, M, (e, dtype) = flock.rules, flock.vis.M, (flock.v.shape[-1], flock.v.dtype)
    near = of_keys = every = None
    if r.needs_neighbours:
        members, (H, G) = flock.members, (flock.q.shape[1], flock.k.shape[1])
        shared = r.local_scope == "visible" and members.shape[1] == 1
        geometry = shared and flock.z_k.shape[1] == flock.h_k.shape[1] == 1
        near = Lists(members, 1 if geometry else H, M)
        of_keys = Lists(members, G if members.shape[1] == 1 else H, M)
        every = Lists(members, H, M) if stats else None
    crowd = Crowd(flock, layout, near, KernelPasses())
    scores = rule_scores(flock, crowd, of_keys)
    u = scores[0].x if stats and r.active("align") else None
    c = crowd.centre[0] if stats and r.active("coh") else None
    if c is not None:
        flock = flock.with_lifted_values()
    phi = b = sep = None
    if r.active("sep") and near is not None:
        phi, b = penalties(flock, layout, crowd)
    whole = layout.main_pass(
        flock, scores, None if b is None or near is None else near.index, b,
        stats,
    )  # fmt: skip
    out = whole.out
    if phi is not None and b is not None and every is not None:
        sep = (whole.weights(every, b) * phi).sum(-1, keepdim=True)
    if whole.left is not None:
        left = whole.left.unsqueeze(-1)
        few, which = few_rows(left, left < LITTLE)
        again = rows_again(flock, few.squeeze(-1), which, stats)
        out = torch.where(few, again[..., :-1], out)
        sep = None if sep is None else torch.where(few, again[..., -1:], sep)
    found = row_stats(layout, every, u, sep, c, out[..., e:]) if stats else None
    return out[..., :e].to(dtype), found


class Fused(Backend):
    """The whole sequence by Triton kernels."""

    name = "fused"
    gives_stats = True

    def takes_groups(self, flock: Flock) -> bool:
        """Where masks by head do not tell the heads of a group apart."""
        return flock.vis.mask is None or flock.vis.mask.shape[1] == 1

    def refuses(self, flock: Flock) -> str | None:
        if not gpu.on_gpu(flock.q) or not gpu.has_triton():
            return f"{flock.q.device} without Triton; expected a GPU with Triton"
        if flock.vis.window is not None:
            return f"window = {flock.vis.window}; expected window=None"
        if flock.q.dtype not in DTYPES:
            return f"{flock.q.dtype}; expected float32, bfloat16 or float16"
        widths = {"q": flock.q, "v": flock.v, "z": flock.z_k}
        for name, t in widths.items():
            if t.shape[-1] > WIDEST:
                return f"{name} of width {t.shape[-1]}; expected at most {WIDEST}"
        if isinstance(flock.other, LowRank) and flock.other.left.shape[-1] >= RANKS:
            rank = flock.other.left.shape[-1]
            return f"other of rank {rank}; expected LowRank of at most {RANKS - 1}"
        return super().refuses(flock)

    def run(
        self, flock: Flock, stats: bool = False
    ) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
        return fused(flock, FusedLayout(flock.vis, flock.accum_dtype), stats)
