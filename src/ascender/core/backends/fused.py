"""The whole sequence on a GPU with Triton: the fold (fold.py) with its products apart, and heads of
keys, values and geometry read where they lie.

    S_ij = σ q_i·k_j + a_i·k̃_j + c_i·z_j + Σ_r x_ir y_jr        σ = 1/(√d τ_score)
    a_i = f^a_i u_i        c_i = 2 f^c_i c_i/τ_coh               f: the slope of a standardised row

The columns r are of float32: ‖z_j‖², positions, biases by key. The main pass and the centre pass
are kernels/gpu/main_pass.py and centre_pass.py; row variances, headings and the search are those of
the fold. Separation moves mass inside the main pass, whose backward takes the corrected rows.
"""

from __future__ import annotations

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
    few_rows,
    penalties,
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
        self, flock: Flock, scores: list[Score], lists: Tensor | None, bias: Tensor | None
    ) -> tuple[Float[Tensor, "B H N e"], Float[Tensor, "B H N"] | None]:
        """(out, the mass that separation leaves) under all terms of the score."""
        from ascender.kernels.gpu.main_pass import Pass, main_pass

        (B, H, N, d), dtype, r = flock.q.shape, flock.q.dtype, flock.rules
        per_tau = 1 / r.at("tau_score", flock.q.float())
        sigma = per_tau * d**-0.5
        q, parts = flock.q, dict[str, Any]()
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
        if lists is not None and bias is not None:
            parts |= {"lists": lists.expand(B, -1, -1, -1).int()}
            parts |= {"bias": bias.float().expand(B, H, -1, -1)}
        return main_pass(Pass(
            q.to(dtype), flock.k, flock.v, _by_head(sigma, H, flock.z[1]), **parts,
            mask=self._mask(B), causal=self.vis.causal, cu=self.vis.cu, longest=self.vis.longest,
        ))  # fmt: skip


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


def fused(flock: Flock, layout: FusedLayout) -> Float[Tensor, "B H N e"]:
    """out = A v."""
    r, M, dtype = flock.rules, flock.vis.M, flock.v.dtype
    near = of_keys = None
    if r.needs_neighbours:
        members, (H, G) = flock.members, (flock.q.shape[1], flock.k.shape[1])
        shared = r.local_scope == "visible" and members.shape[1] == 1
        geometry = shared and flock.z_k.shape[1] == flock.h_k.shape[1] == 1
        near = Lists(members, 1 if geometry else H, M)
        of_keys = Lists(members, G if members.shape[1] == 1 else H, M)
    crowd = Crowd(flock, layout, near, KernelPasses())
    scores = rule_scores(flock, crowd, of_keys)
    if not r.active("sep") or near is None:
        return layout.main_pass(flock, scores, None, None)[0]
    _, b = penalties(flock, layout, crowd)
    out, left = layout.main_pass(flock, scores, near.index, b)
    assert left is not None
    left = left.unsqueeze(-1)
    few, which = few_rows(left, left < LITTLE)
    again = rows_again(flock, few.squeeze(-1), which, False)
    return torch.where(few, again[..., :-1], out).to(dtype)


class Fused(Backend):
    """The whole sequence by Triton kernels."""

    name = "fused"

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
        return fused(flock, FusedLayout(flock.vis, flock.accum_dtype)), None
