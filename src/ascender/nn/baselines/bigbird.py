"""BigBird: a window, globals and random keys, in blocks, linear in N (arXiv 2007.14062).

Tokens go in blocks of L. Query block c sees

    0 … g−1              the first g blocks, and where not causal the last g
    c−b … c+b            itself and b neighbours on each side (none ahead where causal)
    r more               drawn for each head, none twice, none of those above

and the blocks that are global themselves see everything. Causal means j ≤ p(i) besides.

With b = g = 1 this is what transformers' BigBird does, edge blocks included (there b and g are
fixed). It differs in the draw: transformers takes it from numpy's global state, lets the second
block not draw the second-last one nor the reverse, draws blocks that are seen anyway at lengths
1024, 3072 and 4096, and when evaluating draws nothing: it counts block 0 another r times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from ascender.common.validate import check_int
from ascender.core.backends.tiles import Mask, Piece, TileScores
from ascender.core.combine import Bias
from ascender.core.visibility import Visibility
from ascender.nn.baselines.hashing import hash64
from ascender.nn.baselines.patterned import Patterned, in_one_piece, kernel, see_all, short, sides
from ascender.nn.cache import KVCache
from ascender.nn.slot import Call

MAX_GATHERED = 1 << 21  # numbers of gathered keys and values in flight


@dataclass(frozen=True)
class Plan:
    """Which blocks see which: L = block, and b, g, r = near, n_global, random, all in blocks.

    The draw of a block is a pure function of (seed, head, c, number of blocks), and where causal
    not of the number of blocks: what comes later leaves a row as it was.
    """

    block: int = 64
    near: int = 1
    n_global: int = 1
    random: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("block", 1), ("near", 0), ("n_global", 0), ("random", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"{name} = {value!r}; expected an int ≥ {least}")

    def blocks(self, M: int) -> int:
        """C, the last one possibly cut short."""
        return -(-M // self.block)

    def everything(self, c: Int[Tensor, "c"], blocks: int | None) -> Bool[Tensor, "c"]:
        """Whether block c is global and sees all: never where causal (blocks = None)."""
        if blocks is None:
            return torch.zeros_like(c, dtype=torch.bool)
        return (c < self.n_global) | (c >= blocks - self.n_global)

    def lists(
        self, c: Int[Tensor, "c"], heads: int, blocks: int | None
    ) -> Int[Tensor, "heads c slots"]:
        """The blocks that query blocks c see, −1 = none, no block twice. `blocks`: how many there
        are; None where causal. A global block that sees everything has more than its list."""
        g, causal = self.n_global, blocks is None
        end = c[:, None] + 1 if blocks is None else torch.full_like(c[:, None], blocks)
        inner = end if causal else end - g

        def along(a: int, b: int) -> Int[Tensor, "1 n"]:
            return torch.arange(a, b, device=c.device)[None]

        first = along(0, g).expand(len(c), -1)
        near = c[:, None] + along(-self.near, 1 if causal else self.near + 1)
        last = inner + along(0, 0 if causal else g)
        fixed = [
            torch.where(first < end, first, -1),
            torch.where((near >= g) & (near < inner), near, -1),
            torch.where(last >= g, last, -1),
        ]
        lists = torch.cat(fixed, -1).expand(heads, -1, -1)
        return torch.cat([lists, self.drawn(c, heads, blocks)], -1)

    def drawn(
        self, c: Int[Tensor, "c"], heads: int, blocks: int | None
    ) -> Int[Tensor, "heads c r"]:
        """The random blocks: ranks among those that are neither global nor near, each drawn from
        what the earlier ones left, −1 where nothing is left."""
        b, g, at = self.near, self.n_global, c.cpu().numpy()
        before = np.maximum(at - b - g, 0)  # g … c−b−1
        after = 0 * at if blocks is None else np.maximum(blocks - g - at - b - 1, 0)  # … C−g−1
        head = torch.arange(heads)[:, None]
        taken = np.empty((0, heads, len(at)), dtype=np.int64)
        drawn = np.full((heads, len(at), self.random), -1)
        for t in range(self.random):
            left = before + after - t
            bits = hash64(self.seed, head, c.cpu(), t).numpy().view(np.uint64)
            rank = (bits % np.maximum(left, 1).astype(np.uint64)).astype(np.int64)
            for earlier in taken:  # in ascending order
                rank = rank + (earlier <= rank)
            taken = np.sort(np.concatenate([taken, rank[None]]), axis=0)
            block = np.where(rank < before, g + rank, at + b + 1 + rank - before)
            drawn[..., t] = np.where(left > 0, block, -1)
        return torch.from_numpy(drawn).to(c.device)


def bigbird_visible(
    p: Int[Tensor, "N"], j: Int[Tensor, "M"], plan: Plan, heads: int, causal: bool
) -> Bool[Tensor, "heads N M"]:
    """The pattern as a matrix: whether the query at position p sees the key at position j. Not
    causal, j holds every key, so that the last block is known."""
    c, keys = p // plan.block, j // plan.block
    C = plan.blocks(int(max(p.max(), j.max())) + 1)
    which, rows = torch.unique(c, return_inverse=True)
    lists = plan.lists(which, heads, None if causal else C)
    listed = torch.zeros(heads, len(which), C + 1, dtype=torch.bool, device=p.device)
    listed.scatter_(-1, torch.where(lists < 0, C, lists), True)
    visible = listed[:, rows][..., keys]
    if causal:
        return visible & (j <= p[:, None])
    return visible | plan.everything(c, C)[:, None]


@lru_cache(maxsize=64)
def _square(N: int, M: int, plan: Plan, heads: int, causal: bool) -> Bool[Tensor, "1 heads N M"]:
    """The pattern of the last N of M tokens, which layers and steps ask for again and again."""
    j = torch.arange(M, device="cpu")
    return bigbird_visible(j[M - N :], j, plan, heads, causal)[None]


@kernel
def bigbird_attention(
    q: Float[Tensor, "B H N d"], k: Float[Tensor, "B G M d"], v: Float[Tensor, "B G M e"],
    vis: Visibility, plan: Plan, other: Bias = None, scale: float | None = None,
) -> Float[Tensor, "B H N e"]:  # fmt: skip
    """softmax over V(i) of s·q_i·k_j + β_ij, times v, in O(N L (2g + 2b + 1 + r)), what is short
    in one piece; a row that sees nothing is 0. The queries are the tail of the keys, and `other`
    folds."""
    if vis.window is not None:
        raise ValueError(f"window = {vis.window}; expected None: the plan's blocks are the window")
    Q, K, V = sides(q, k, v, vis, other, scale)
    if short(vis):
        visible = _square(vis.N, vis.M, plan, q.shape[1], vis.causal).to(q.device)
        visible = visible if vis.mask is None else visible & vis.mask
        return in_one_piece(Q, K, V, vis, visible).to(v.dtype)
    L, offset = plan.block, vis.M - vis.N
    a, b = 0, vis.N  # rows a … b−1 go by their lists, the others see everything
    if not vis.causal:
        a = min(max(plan.n_global * L - offset, 0), vis.N)
        b = min(max((plan.blocks(vis.M) - plan.n_global) * L - offset, a), vis.N)
    out = _listed(Q[..., a:b, :], K, V, vis, plan, offset + a) if a < b else Q[..., :0, :]
    if a > 0 or b < vis.N:
        whole = see_all(torch.cat([Q[..., :a, :], Q[..., b:, :]], -2), K, V, vis)
        out = torch.cat([whole[..., :a, :], *([out] if a < b else []), whole[..., a:, :]], -2)
    return out.to(v.dtype)


def _listed(
    Q: Float[Tensor, "B H n w"], K: Float[Tensor, "B H M w"], V: Float[Tensor, "B H M e"],
    vis: Visibility, plan: Plan, start: int,
) -> Float[Tensor, "B H n e"]:  # fmt: skip
    """Rows from position `start` on, each block with the blocks of its list, some at a time."""
    (B, H, n, _), L, C = Q.shape, plan.block, plan.blocks(vis.M)
    front = start % L
    rows = F.pad(Q, (0, 0, front, -(front + n) % L)).unflatten(-2, (-1, L))
    c = start // L + torch.arange(rows.shape[2], device=Q.device)
    lists = plan.lists(c, H, None if vis.causal else C)
    keys, values = (_Blocked(t, L) for t in (K, V))
    step = max(1, MAX_GATHERED // (B * H * L * lists.shape[-1] * (K.shape[-1] + V.shape[-1])))
    if torch.is_grad_enabled() and (K.requires_grad or V.requires_grad):
        step = len(c)  # the gradient of each gather is as large as all the keys
    out = []
    for a in range(0, len(c), step):
        some = slice(a, a + step)
        near = lists[:, some]
        mask = _Listed(_bias(c[some], near, vis, plan, Q.dtype))
        Ks, Vs = keys.at(near), values.at(near)
        out.append(TileScores.apply(rows[:, :, some], Ks, Vs, mask, None)[0])
    return torch.cat(out, 2).flatten(2, 3)[..., front : front + n, :]


def _bias(
    c: Int[Tensor, "c"], lists: Int[Tensor, "H c s"], vis: Visibility, plan: Plan,
    dtype: torch.dtype,
) -> Float[Tensor, "#B H c #L S"]:  # fmt: skip
    """0 where a row sees a key of its list, else −inf; the same for all rows unless causal."""
    L, along = plan.block, torch.arange(plan.block, device=c.device)
    j = L * lists[..., None] + along  # negative where there is no block
    j = j.masked_fill(j >= vis.M, -1).flatten(-2)
    visible = (j >= 0)[None, :, :, None]
    if vis.causal:
        p = L * c[:, None] + along
        visible = visible & (j[:, :, None] <= p[..., None])
    if vis.mask is not None:
        mask = vis.mask.squeeze(-2).expand(-1, len(j), -1)
        real = mask.gather(-1, j.clamp_min(0).flatten(1).expand(len(mask), -1, -1))
        visible = visible & real.view(-1, *j.shape)[:, :, :, None]
    zero = torch.zeros(visible.shape, dtype=dtype, device=c.device)
    return zero.masked_fill_(~visible, -torch.inf)


class _Listed(Mask):
    """What rows see of their lists, written out: every block has its own."""

    def __init__(self, bias: Float[Tensor, "#B H c #L S"]) -> None:
        self.bias = bias

    def add(self, s: Tensor, piece: Piece) -> Tensor:
        return s.add_(self.at(self.bias, piece))


class _Blocked:
    """Keys or values in blocks, to be gathered by lists."""

    def __init__(self, y: Shaped[Tensor, "B H M w"], L: int) -> None:
        blocks = F.pad(y, (0, 0, 0, -y.shape[-2] % L)).unflatten(-2, (-1, L))
        B, H, C = blocks.shape[:3]
        self.flat, self.w = blocks.reshape(B * H * C, -1), y.shape[-1]
        self.row = C * torch.arange(B * H, device=y.device).view(B, H, 1, 1)

    def at(self, lists: Int[Tensor, "H c s"]) -> Shaped[Tensor, "B H c S w"]:
        """The listed blocks, side by side."""
        blocks = F.embedding(self.row + lists.clamp_min(0), self.flat)
        return blocks.view(*blocks.shape[:3], -1, self.w)


def bigbird_count(vis: Visibility, plan: Plan, heads: int) -> Int[Tensor, "#B heads N 1"]:
    """|V(i)| from how many real keys each block has."""
    L, C = plan.block, plan.blocks(vis.M)
    real = torch.ones(1, 1, vis.M, dtype=torch.long, device=vis.p.device)
    if vis.mask is not None:
        real = vis.mask.squeeze(-2).long()
    real = F.pad(real, (0, C * L - vis.M)).unflatten(-1, (C, L)).expand(-1, heads, -1, -1)
    c = vis.p // L
    which, rows = torch.unique(c, return_inverse=True)
    lists = plan.lists(which, heads, None if vis.causal else C)
    size = F.pad(real.sum(-1), (0, 1))  # the last entry is that of no block
    count = size.gather(-1, torch.where(lists < 0, C, lists).flatten(1).expand(len(size), -1, -1))
    count = count.unflatten(-1, lists.shape[1:]).sum(-1)[..., rows]
    if vis.causal:
        ahead = real.sum(-1, keepdim=True) - real.cumsum(-1)
        count = count - ahead.flatten(2)[..., vis.p]
    else:
        count = torch.where(plan.everything(c, C), size.sum(-1, keepdim=True), count)
    return count[..., None]


class BigBird(Patterned):
    """Block-sparse attention: near blocks, global blocks and random ones.

    block      L; everything is rounded up to whole blocks
    window     tokens seen on each side at least; None: one block (transformers: always)
    n_global   leading tokens that are global, and as many trailing ones where not causal; None:
               one block (transformers: always)
    random     blocks drawn for each block and head, by `seed`: give every layer its own
    """

    name = "bigbird"
    windows = True

    def __init__(
        self, dim: int, heads: int, *, block: int = 64, window: int | None = None,
        n_global: int | None = None, random: int = 3, seed: int = 0, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(dim, heads, **options)
        check_int("seed", seed, 0)
        self.plan = Plan(block, random=random, seed=seed)
        for name, tokens, field in (("window", window, "near"), ("n_global", n_global, "n_global")):
            if tokens is not None:
                if not isinstance(tokens, int) or tokens < 0:
                    raise ValueError(f"{name} = {tokens!r}; expected an int ≥ 0, or None")
                self.plan = replace(self.plan, **{field: self.plan.blocks(tokens)})

    def pattern(self, p: Int[Tensor, "N"], j: Int[Tensor, "M"]) -> Bool[Tensor, "heads N M"]:
        return bigbird_visible(p, j, self.plan, self.heads, causal=False)

    def visible(self, vis: Visibility) -> Bool[Tensor, "#B heads n M"]:
        visible = bigbird_visible(vis.p, vis.j, self.plan, self.heads, vis.causal)[None]
        return visible if vis.mask is None else visible & vis.mask

    def count(self, vis: Visibility) -> Int[Tensor, "#B heads N 1"]:
        return bigbird_count(vis, self.plan, self.heads)

    def attend(self, call: Call) -> Float[Tensor, "B H N e"]:
        return bigbird_attention(call.q, call.k, call.v, call.vis, self.plan, call.other)

    def new_cache(self) -> KVCache:
        """Everything: any block may be drawn again."""
        return KVCache()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.plan}"
