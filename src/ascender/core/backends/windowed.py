"""A window and leading globals, linear in N.

Queries go in blocks of L, each with the keys of its own stretch and w on either side (none
ahead where causal), and the g globals in front:

    block c:   queries  cL … cL+L−1        keys  0 … g−1 | cL−w … cL+L−1+w

Edges are padded and masked, so N may be anything. The fold is the same as for the whole
sequence (folded.py); only how rows meet keys differs. The g global queries see everything and
are computed as rows of the definition: O(gN).

On a GPU the rows of heads that share keys stand together in a block of r·L rows, so that keys are
read once a group and not once a head.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core import neighbours as nb
from ascender.core.backends.base import Backend
from ascender.core.backends.decode import decode
from ascender.core.backends.dense import dense
from ascender.core.backends.fold import At, Layout, Score, fold, shares_keys
from ascender.core.backends.index_lists import Lists
from ascender.core.backends.tiles import Mask, TileScores
from ascender.core.combine import EPS, RowStats, repeat_kv
from ascender.core.flock import Flock
from ascender.core.neighbours import GPU_CHUNK
from ascender.core.visibility import Visibility
from ascender.kernels import gpu

BLOCK = 32  # rows in a block: with fewer, fewer keys outside the window are read
MAX_SCORES = 1 << 19  # scores in memory at once in the search for neighbours


class Blocks(Layout):
    """How blocks of queries meet their stretch of keys."""

    def __init__(self, vis: Visibility, dtype: torch.dtype) -> None:
        assert vis.window is not None
        self.vis = vis
        self.w, self.g = min(vis.window, vis.M), min(vis.n_global, vis.M)
        self.L = BLOCK
        self.C = -(-vis.N // self.L)
        self.offset = vis.M - vis.N
        self.ahead = 0 if vis.causal else self.w
        self.span = self.w + self.L + self.ahead
        self.dtype = dtype

    def rows(self, x: Shaped[Tensor, "B H N w"], groups: int = 0) -> Shaped[Tensor, "B G C rL w"]:
        """Blocks of queries; with `groups`, the r = H/groups heads of a group in one block."""
        short = self.C * self.L - self.vis.N
        x = F.pad(x, (0, 0, 0, short)) if short else x
        x = x.unflatten(-2, (self.C, self.L))
        if groups in (0, x.shape[1]):
            return x
        return x.unflatten(1, (groups, -1)).transpose(2, 3).flatten(3, 4)

    def unrows(self, x: Shaped[Tensor, "B G C rL w"]) -> Shaped[Tensor, "B H N w"]:
        if x.shape[3] > self.L:
            x = x.unflatten(3, (-1, self.L)).transpose(2, 3).flatten(1, 2)
        return x.flatten(2, 3)[..., : self.vis.N, :]

    def keys(self, y: Shaped[Tensor, "B #H M w"]) -> Shaped[Tensor, "B #H C S w"]:
        """Each block's stretch of keys, overlapping in place; globals in front are copied."""
        before = self.w - self.offset  # may be negative: keys that no query reaches
        last = self.offset + self.C * self.L + self.ahead
        stretch = F.pad(y, (0, 0, before, last - self.vis.M))
        stretch = stretch.unfold(-2, self.span, self.L).mT
        if not self.g:
            return stretch
        front = y[..., None, : self.g, :].expand(-1, -1, self.C, -1, -1)
        return torch.cat([front, stretch], -2)

    @lazy
    def positions(self) -> Int[Tensor, "C S"]:
        """j of each block's keys, −1 where there is none (or it stands in front)."""
        device = self.vis.p.device
        start = self.offset + self.L * torch.arange(self.C, device=device)[:, None]
        j = start - self.w + torch.arange(self.span, device=device)
        j = torch.where((j >= self.g) & (j < self.vis.M), j, -1)
        return torch.cat([torch.arange(self.g, device=device).expand(self.C, -1), j], -1)

    @lazy
    def _ahead(self) -> Int[Tensor, "L span"]:
        """p − j inside the stretch, the same in every block."""
        along = torch.arange(self.span, device=self.vis.p.device)
        return along[: self.L, None] + self.w - along

    @lazy
    def mask(self) -> Mask:
        """Who sees whom: the band, the same in every block, and the keys that there are."""
        return Mask(self._near, self._real, self.dtype)

    @lazy
    def _near(self) -> Bool[Tensor, "L S"]:
        stretch = replace(self.vis, n_global=0)
        near = stretch._structure(self._ahead, torch.zeros_like(self._ahead))
        assert near is not None
        # Rows that may not see all globals are global themselves: computed separately.
        return F.pad(near, (self.g, 0), value=True)

    @lazy
    def _real(self) -> Bool[Tensor, "#B #H C S"]:
        """Which of the blocks' keys are there and no padding."""
        real = (self.positions >= 0)[None, None]
        if self.vis.mask is None:
            return real
        padding = self.keys(self.vis.mask.transpose(-1, -2).to(torch.uint8)).bool()
        return real & padding.squeeze(-1)

    @lazy
    def count(self) -> Float[Tensor, "#B #H N 1"]:
        return self.unrows(self.mask.count)

    def attend(self, Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        out, lse = TileScores.apply(self.rows(Q), self.keys(K), self.keys(V), self.mask, None)
        return self.unrows(out), self.unrows(lse.unsqueeze(-1)).squeeze(-1)

    def weigh(
        self, flock: Flock, scores: list[Score], plain: list[tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor, At]:
        """Each term's scores written out block by block: their variance is right there."""
        (B, H, _, d), accum_dtype = flock.q.shape, flock.accum_dtype
        temperature = flock.rules.at("tau_score", flock.q.to(accum_dtype))
        q, k, v = (
            flock.q.to(accum_dtype) / (d**0.5 * temperature),
            flock.k.to(accum_dtype),
            flock.v.to(accum_dtype),
        )
        of_keys = [k, v, *(y for _, y in plain), *(score.y for score in scores)]
        G = max({t.shape[1] for t in of_keys} - {1}, default=1) if gpu.on_gpu(q) else H
        if plain:
            left, right = (torch.cat(side, -1) for side in zip(*plain, strict=True))
            left = left.expand(B, H, -1, -1).to(accum_dtype)
            right, k = (_heads(t, G).expand(B, -1, -1, -1) for t in (right.to(accum_dtype), k))
            q, k = torch.cat([left / temperature, q], -1), torch.cat([right, k], -1)

        def rows(t: Tensor) -> Tensor:
            if G == H:
                return self.rows(t).expand(B, H, -1, -1, -1)
            return self.rows(t.expand(B, H, -1, -1), G)

        def keys(t: Tensor) -> Tensor:
            t = t if t.shape[1] == 1 else repeat_kv(t, G)
            return self.keys(t).expand(B, G, -1, -1, -1)

        terms = []
        for score in scores:
            terms += [rows(score.g / temperature), rows(score.x), keys(score.y)]
        mask = self.mask if G == H else Mask(self._near.repeat(H // G, 1), self._real, self.dtype)
        eps = EPS if flock.rules.standardise else None
        out, lse, *slopes = TileScores.apply(rows(q), keys(k), keys(v), mask, eps, *terms)
        slopes = [self.unrows(f) for f in slopes]

        def at(lists: Lists) -> Tensor:
            total = lists.dot(q, k)
            for f, score in zip(slopes, scores, strict=True):
                total = total + f * lists.dot(score.x, score.y)
            return total

        return self.unrows(out), self.unrows(lse.unsqueeze(-1)).squeeze(-1), at

    @property
    def leading(self) -> int:
        """How many of the queries are global: they see everything."""
        return min(max(0, self.g - self.offset), self.vis.N)

    def members(self, flock: Flock) -> Int[Tensor, "B #H N K"]:
        """N_k(i), none for the leading rows: those are computed separately."""
        if isinstance(flock.neighbours, Tensor) or flock.rank_bias is not None:
            neighbours = flock.members
        else:
            neighbours = self._top_k(*flock.ranked_by, flock.rules.sizes(), flock.by_cosine)
        if not self.leading:
            return neighbours
        none = torch.full_like(neighbours[..., : self.leading, :], -1)
        return torch.cat([none, neighbours[..., self.leading :, :]], -2)

    def all_members(self, flock: Flock) -> Int[Tensor, "B #H N K"]:
        """N_k(i) of every row."""
        neighbours = self.members(flock)
        if not self.leading:
            return neighbours
        rows = torch.arange(self.leading, device=neighbours.device)
        whole = flock.rows(rows).members
        K = max(whole.shape[-1], neighbours.shape[-1])
        parts = (whole, neighbours[..., self.leading :, :])
        return torch.cat([F.pad(p, (0, K - p.shape[-1]), value=-1) for p in parts], -2)

    @torch.no_grad()
    def _top_k(
        self, x: Float[Tensor, "B x N w"], y: Float[Tensor, "B y M w"], sizes: tuple[int, ...],
        bounded: bool,
    ) -> Int[Tensor, "B #H N K"]:  # fmt: skip
        if nb.compiled(x):  # visits only what a row sees by itself
            return nb.top_k(x, y, self.vis, sizes, bounded)
        j, mask = self.positions, self.mask
        heads = max(x.shape[1], len(sizes), mask.real.shape[1])
        rows, keys = self.rows(x.expand(-1, heads, -1, -1), y.shape[1]), self.keys(y)
        own = F.pad(self._ahead == 0, (self.g, 0), value=False)
        strangers = mask.hide.to(x.dtype).masked_fill(own, -torch.inf)
        B, S = rows.shape[0], keys.shape[-2]
        most = GPU_CHUNK if gpu.on_gpu(x) else MAX_SCORES
        step = max(1, most // (B * heads * self.L * S))
        pieces = []
        for c in range(0, self.C, step):
            some = slice(c, c + step)
            scores = rows[:, :, some] @ keys[:, :, some].contiguous().mT
            scores = scores.unflatten(3, (-1, self.L)).transpose(2, 3).flatten(1, 2)
            if self.vis.causal:
                nb.prefer_recent(scores, self._age(some, scores.dtype), bounded)
            scores.add_(strangers)
            if mask.whole is None or not mask.whole[:, :, some].all():
                scores.add_(mask.missing[:, :, some, None])
            index = nb.best(scores, sizes)
            here = j[some].view(1, 1, -1, 1, S).expand(*index.shape[:-1], -1)
            pieces.append(torch.where(index < 0, -1, here.gather(-1, index.clamp_min(0))))
        return self.unrows(torch.cat(pieces, 2))

    def _age(self, some: slice, dtype: torch.dtype) -> Float[Tensor, "c L S"]:
        """What the ranking takes off older keys, in some blocks."""
        age = nb.penalty(self._ahead, dtype)
        if not self.g:
            return age.unsqueeze(0)
        start = self.offset + self.L * torch.arange(self.C, device=age.device)[some]
        p = start.view(-1, 1, 1) + torch.arange(self.L, device=age.device).view(1, -1, 1)
        front = nb.penalty(p - torch.arange(self.g, device=age.device), dtype)
        return torch.cat([front, age.expand(len(p), -1, -1)], -1)


def _heads(t: Float[Tensor, "B #G n w"], heads: int) -> Float[Tensor, "B G n w"]:
    return t.expand(-1, heads, -1, -1) if t.shape[1] == 1 else repeat_kv(t, heads)


class Windowed(Backend):
    """The window by the fold, the global queries by the definition."""

    name = "windowed"
    gives_stats = True

    def takes_groups(self, flock: Flock) -> bool:
        return shares_keys(flock)

    def refuses(self, flock: Flock) -> str | None:
        if flock.vis.window is None and flock.scope is None:
            return "there is no window; expected window=…"
        return super().refuses(flock)

    def run(
        self, flock: Flock, stats: bool = False
    ) -> tuple[Float[Tensor, "B H N e"], RowStats | None]:
        blocks = Blocks(flock.vis, flock.accum_dtype)
        out, row_stats = fold(flock, blocks, stats)
        if blocks.leading:
            rows = flock.rows(torch.arange(blocks.leading, device=out.device))
            if stats:
                front, _, first = dense(rows.repeat_kv(), stats)
            else:
                front, first = decode(rows), None
            out = torch.cat([front, out[..., blocks.leading :, :]], -2)
            if row_stats is not None and first is not None:
                row_stats = row_stats.with_leading(first, blocks.leading)
        return out, row_stats
