"""The whole sequence, full or causal, with padding, in O(N) memory: the fold (fold.py) on stock
flash attention, with row variances from moments of the keys."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core.backends import flash_cuda
from ascender.core.backends.base import Backend
from ascender.core.backends.flash import attend
from ascender.core.backends.fold import At, Layout, Score, fold, shared_passes, shares_keys
from ascender.core.combine import RowStats, repeat_kv, slope
from ascender.core.flock import Flock
from ascender.core.visibility import Visibility
from ascender.kernels import gpu

LONG = 1 << 21  # numbers in q from which on heads go one by one
GPU_LONG = 1 << 27  # the same on a GPU, where a head by itself is little work for many launches
CHUNK = 128  # rows whose own chunk of keys is used directly in causal row variances


class FullLayout(Layout):
    """The whole sequence: full or causal, with padding."""

    def __init__(self, vis: Visibility, dtype: torch.dtype) -> None:
        self.vis, self.dtype = vis, dtype
        self.offset = vis.M - vis.N if vis.causal else 0
        self.keys = None if vis.mask is None else vis.mask.squeeze(-2)  # (b, h, M)

    @lazy
    def count(self) -> Float[Tensor, "#B #H N 1"]:
        return self.vis.count.to(self.dtype)

    def _bias(self, keys: slice, dtype: torch.dtype) -> Tensor | None:
        if self.keys is None:
            return None
        hidden = ~self.keys[..., None, keys]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(
            hidden, -torch.inf
        )

    def attend(self, Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        if not self.offset:
            bias = self._bias(slice(None), Q.dtype)
            return attend(Q, K, V, causal=self.vis.causal, bias=bias)
        # Queries are the tail: a part that all see, and a causal square; merged by their lse.
        old, new = slice(0, self.offset), slice(self.offset, None)
        parts = []
        for keys, causal in ((old, False), (new, True)):
            bias = self._bias(keys, Q.dtype)
            out, lse = attend(Q, K[..., keys, :], V[..., keys, :], causal=causal, bias=bias)
            if self.keys is not None:
                real = self.keys[..., keys]
                n = real.cumsum(-1) if causal else real.sum(-1, keepdim=True)
                lse = lse.masked_fill(n == 0, -torch.inf)
            parts.append((out, lse))
        return merge(*parts)

    def weigh(
        self, flock: Flock, scores: list[Score], plain: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, At]:
        """All terms as columns of one product."""
        (B, H, _, d), accum_dtype = flock.q.shape, flock.accum_dtype
        dtype = pass_dtype(flock)
        per_tau = 1 / flock.rules.at("tau_score", flock.q.to(accum_dtype))
        Q, K = [flock.q.to(accum_dtype) * (per_tau * d**-0.5)], [flock.k]
        for score in scores:
            var = self.row_var(score.x, score.y) if flock.rules.standardise else None
            f = slope(per_tau, score.g, var)
            if score.key_scale is not None:
                Q[0] = Q[0] + f * score.key_scale * score.x  # y are the keys: folds into q
            else:
                Q.append(f * score.x)
                K.append(score.y)
        # In front: ALiBi is a difference of large numbers, which meet before anything small.
        large = [(x * per_tau, y) for x, y in plain]
        if dtype != accum_dtype:
            large = [split(x.to(accum_dtype), y.to(accum_dtype), dtype) for x, y in large]
            if flock.rules.active("coh"):  # ‖z‖², the last column of the last score
                (Q[-1], x), (K[-1], y) = (t.split([t.shape[-1] - 1, 1], -1) for t in (Q[-1], K[-1]))
                large.append(split(x, y, dtype))
        Q, K = [x for x, _ in large] + Q, [y for _, y in large] + K
        Qs = torch.cat([t.expand(B, H, -1, -1).to(dtype) for t in Q], -1)
        of_keys = {t.shape[1] for t in K} - {1}  # H, or one a group of them
        G = max(of_keys, default=1) if gpu.on_gpu(Qs) else H
        Ks = torch.cat([repeat_kv(t, G).expand(B, G, -1, -1).to(dtype) for t in K], -1)
        del Q, K
        scores.clear()  # they are columns now
        out, lse = self.attend(Qs, Ks, flock.v.to(dtype))
        return out, lse, lambda lists: lists.dot(Qs.to(accum_dtype), Ks.to(accum_dtype))

    def row_var(self, x: Tensor, y: Tensor) -> Float[Tensor, "B H N 1"]:
        """The population variance over j ∈ V(i) of x_i·y_j, without the row."""
        keys = None if self.keys is None else self.keys[..., None].to(y.dtype)
        if self.vis.causal:
            return causal_row_var(x, y, keys, self.count, self.offset)
        n = self.count.clamp_min(1)
        kept = y if keys is None else y * keys
        centred = y - kept.sum(-2, keepdim=True) / n
        if keys is not None:
            centred = centred * keys
        cov = repeat_kv(centred.transpose(-1, -2) @ centred / n, x.shape[1])
        return ((x @ cov) * x).sum(-1, keepdim=True).clamp_min(0)


def pass_dtype(flock: Flock) -> torch.dtype:
    """The type of the main pass: the inputs' own on a GPU, but where separation corrects the
    output, whose rounding would grow with the mass that is moved; on the CPU float32 instead of
    the half precisions, which most CPUs only emulate and whose rounding a slope of 1/√ε would
    magnify."""
    own = gpu.on_gpu(flock.q) and not flock.rules.active("sep")
    return flock.q.dtype if own else flock.accum_dtype


def split(
    x: Float[Tensor, "#B #H N r"], y: Float[Tensor, "#B #H M r"], dtype: torch.dtype
) -> tuple[Float[Tensor, "#B #H N r6"], Float[Tensor, "#B #H M r6"]]:
    """Columns of a half precision with the products x_i·y_j of float32: positions and ‖z‖² are
    large next to what their differences mean.

    x = x₁ + x₂ + x₃, each the rounding of what is left of it, and of the nine products the six
    that float32 would notice. Both sides are first brought to the same size."""
    sizes = (t.detach().abs().amax(-2, keepdim=True).clamp_min(1e-30) for t in (x, y))
    a, b = (size.log2() for size in sizes)
    if y.shape[1] == 1:  # of all heads, so that they go on sharing y
        a = a.amax(1, keepdim=True)
    scale = ((b - a) / 2).round().exp2()
    (x1, x2, x3), (y1, y2, y3) = (_thirds(t, dtype) for t in (x * scale, y / scale))
    return torch.cat([x1, x1, x2, x2, x1, x3], -1), torch.cat([y1, y2, y1, y2, y3, y1], -1)


def _thirds(t: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """Three numbers of a half precision that sum to t; the first has the gradient."""
    parts = [t.to(dtype)]
    rest = t.detach() - parts[0].detach()
    for _ in range(2):
        parts.append(rest.to(dtype))
        rest = rest - parts[-1]
    return parts


def merge(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention over two disjoint sets of keys from the attention over each."""
    lse = torch.logaddexp(a[1], b[1])
    lse = torch.where(lse == -torch.inf, 0, lse)
    out = sum(part * torch.exp(l - lse).unsqueeze(-1).to(part.dtype) for part, l in (a, b))
    assert isinstance(out, Tensor)
    return out, lse


def causal_row_var(
    x: Float[Tensor, "B #H N w"], y: Float[Tensor, "B G M w"],
    keys: Float[Tensor, "#B #H M 1"] | None, count: Float[Tensor, "#B #H N 1"], offset: int,
) -> Float[Tensor, "B H N 1"]:  # fmt: skip
    """Var over j ≤ p(i) of x_i·y_j = E(x·y)² − (E x·y)², from running moments of y: d×d before
    the chunk of i, the products themselves inside it. y comes measured from a key that every row
    sees, so that what all keys have in common does not cancel."""
    if keys is not None:
        y = y * keys
    N, _w = x.shape[-2], x.shape[-1]
    short = -N % CHUNK
    H = max(x.shape[1], y.shape[1])
    before, own = y[..., :offset, :], F.pad(y[..., offset:, :], (0, 0, 0, short))
    own = own.unflatten(-2, (-1, CHUNK))
    rows = F.pad(x, (0, 0, 0, short)).expand(-1, H, -1, -1).unflatten(-2, (-1, CHUNK))
    first = _running(own.sum(-2, keepdim=True), before.sum(-2, keepdim=True))
    second = _running(own.transpose(-1, -2) @ own, before.transpose(-1, -2) @ before)
    total, square = (t[..., :N, None] for t in chunk_sums(rows, own, first, second, True))
    n = count.clamp_min(1)
    return (square / n - (total / n).square()).clamp_min(0)


def chunk_sums(
    x: Float[Tensor, "B H C T w"], y: Float[Tensor, "B G C T w"],
    first: Float[Tensor, "B G C 1 w"], second: Float[Tensor, "B G C w w"], own: bool,
) -> tuple[Float[Tensor, "B H n"], Float[Tensor, "B H n"]]:  # fmt: skip
    """Σ x_i·y_j and Σ (x_i·y_j)² over other chunks, by their moments, and with `own` over the keys
    up to i in the chunk of i itself. The rows of heads that share y lie one after another."""
    G, T = y.shape[1], x.shape[-2]
    rows = x.unflatten(1, (G, -1)).movedim(2, 3).flatten(3, 4)  # (B, G, C, H/G · T, w)
    total, square = (rows * first).sum(-1), ((rows @ second) * rows).sum(-1)
    if own:
        r = (rows @ y.transpose(-1, -2)).unflatten(-2, (-1, T)).tril().flatten(-3, -2)
        total, square = total + r.sum(-1), square + r.square().sum(-1)

    def by_row(t: Tensor) -> Tensor:
        return t.unflatten(-1, (-1, T)).movedim(3, 2).flatten(1, 2).flatten(-2)

    return by_row(total), by_row(square)


def _running(moment: Float[Tensor, "B #H C r w"], start: Tensor) -> Float[Tensor, "B #H C r w"]:
    """Sums over the chunks before each chunk."""
    sums = F.pad(moment, (0, 0, 0, 0, 1, 0)).cumsum(-3)[..., :-1, :, :]
    return sums + start.unsqueeze(-3)


class Folded(Backend):
    """The whole sequence by the fold; a long one head by head where neither gradients nor `stats`
    are asked for, so that the wide Q, K and V exist for one head at a time."""

    name = "folded"
    gives_stats = True

    def takes_groups(self, flock: Flock) -> bool:
        return shares_keys(flock)

    def refuses(self, flock: Flock) -> str | None:
        if flock.vis.window is not None:
            return f"window = {flock.vis.window}; expected window=None"
        if gpu.on_gpu(flock.q) and flock.q.dtype not in flash_cuda.DTYPES:
            return f"{flock.q.dtype} on {flock.q.device}; expected float32, bfloat16 or float16"
        return super().refuses(flock)

    def run(
        self, flock: Flock, stats: bool = False
    ) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
        (B, H, N, d), e = flock.q.shape, flock.v.shape[-1]
        long = GPU_LONG if gpu.on_gpu(flock.q) else LONG
        together = torch.is_grad_enabled() or stats
        if together or H == 1 or B * H * N * d < long:
            return fold(flock, FullLayout(flock.vis, flock.accum_dtype), stats)
        shared_h = flock.h_k.shape[1] == 1 and not flock.by_scores
        members = flock.members if shared_h and flock.rules.needs_neighbours else None
        passes, derived = None, dict[str, Any]()
        if flock.z_k.shape[1] == 1 and (flock.vis.mask is None or flock.vis.mask.shape[1] == 1):
            passes = shared_passes(flock, FullLayout(flock.vis, flock.accum_dtype))
            derived = {"z": flock.z, "z_lifted": flock.z_lifted}
        out = flock.q.new_empty(B, H, N, e)
        for h in range(H):
            if members is not None:
                derived["members"] = members if members.shape[1] == 1 else members[:, h : h + 1]
            part = flock.of_heads([h], derived)
            layout = FullLayout(part.vis, part.accum_dtype)
            out[:, h : h + 1] = fold(part, layout, passes=passes)[0]
        return out, None
