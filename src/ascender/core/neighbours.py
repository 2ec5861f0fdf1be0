"""N_k(i), the neighbours of i: k members of P(i).

    "semantic"   the largest a_ij = cos(h_i, h_j)
    "scores"     the largest base score q_i·k_j/√d: no extra geometry, and no extra product where
                 a backend has written the scores out (top_k_of)
    a list       given indices (grid, graph, another layer's), −1 = none

An index list is (B, h, N, K) with h = 1 where the heads share it. Entries outside P(i) are −1.
The choice has no gradient, so all of this runs without one, in chunks of rows, never the whole
N×M.

Equal tokens have equal scores, which rounding would rank by the length of the sequence. So in
causal attention keys are ranked by  s_ij − 1e-6 · max(1, |s_ij|) · min(p(i) − j, 4096):  among
equals the most recent are chosen. Elsewhere ties are free.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.core.affinity import at_distance
from ascender.core.combine import repeat_kv
from ascender.core.visibility import Visibility
from ascender.kernels import gpu
from ascender.kernels.build import kernels

CHUNK = 1 << 19  # scores in memory at once, per batch and head
GPU_CHUNK = 1 << 26  # the same on a GPU, of all batches and heads: 256 MiB of float32
SHORT = 1024  # rows up to this length are cut by a threshold
SPLIT = 1 << 16  # scores from which on that is worth a second thread
TIE, OLD = 1e-6, 4096  # what a step back in time costs in the ranking, and after how many no more


@torch.no_grad()
def top_k(
    x: Float[Tensor, "B x N d"],
    y: Float[Tensor, "B G M d"],
    vis: Visibility,
    sizes: tuple[int, ...],
    bounded: bool = False,
    bias: Float[Tensor, "r"] | None = None,
) -> Int[Tensor, "B #H N K"]:
    """The sizes[h] members of P(i) with the largest x_i·y_j. h is 1 where the heads share x, y,
    the size and the mask; y may have one head for each group of them. `bounded`: no product is
    above 1 (cosines). `bias`: added by distance (affinity.by_distance)."""
    if max(sizes) == 0:
        return torch.full((x.shape[0], 1, vis.N, 0), -1, device=x.device)
    heads = max(x.shape[1], len(sizes), 1 if vis.mask is None else vis.mask.shape[1])
    on_gpu = gpu.on_gpu(x) and gpu.has_triton() and x.dtype == torch.float32
    if (compiled(x) or (on_gpu and max(sizes) <= gpu.MOST)) and vis.p.ndim == vis.j.ndim == 1:
        if on_gpu:
            from ascender.kernels.gpu.top_k import top_lists
        else:
            from ascender.kernels.operators import top_lists

            y = y if y.shape[1] == 1 else repeat_kv(y, heads)
        window = -1 if vis.window is None else vis.window
        return top_lists(
            x, y, vis.p.int(), vis.j.int(), vis.mask, sizes if len(sizes) > 1 else sizes * heads,
            bounded, vis.causal, window, vis.n_global, vis.cross,
            -1 if vis.beyond is None else vis.beyond, bias,
        )  # fmt: skip
    x, y = (t.expand(-1, heads, -1, -1) for t in (x, repeat_kv(y, heads)))
    N, M = vis.N, vis.M
    chunk = max(1, GPU_CHUNK // (x.shape[0] * heads * M) if gpu.on_gpu(x) else CHUNK // M)
    parts = []
    for a in range(0, N, chunk):
        b = min(N, a + chunk)
        rows, keys = vis.rows(slice(a, b)), y
        if vis.causal and not vis.cross and b < N:  # later keys are hidden from all these rows
            end = b + M - N
            mask = None if rows.mask is None else rows.mask[..., :end]
            rows, keys = replace(rows, j=rows.j[:end], mask=mask), y[:, :, :end]
        scores = x[:, :, a:b] @ keys.transpose(-1, -2)
        if bias is not None:
            scores += at_distance(bias, rows.p[:, None] - rows.j)
        parts.append(pick(scores, rows, sizes, bounded))
    K = max(p.shape[-1] for p in parts)
    return torch.cat([F.pad(p, (0, K - p.shape[-1]), value=-1) for p in parts], -2)


@torch.no_grad()
def top_k_of(
    scores: Float[Tensor, "B H N M"], vis: Visibility, sizes: tuple[int, ...]
) -> Int[Tensor, "B H N K"]:
    """top_k by scores that are already a matrix."""
    if max(sizes) == 0:
        return torch.full((scores.shape[0], 1, vis.N, 0), -1, device=scores.device)
    return pick(scores.clone(), vis, sizes)


def pick(
    scores: Float[Tensor, "B #H n m"],
    vis: Visibility,
    sizes: tuple[int, ...],
    bounded: bool = False,
) -> Int[Tensor, "B #H n K"]:
    """Top k of each row over P(i), filled up with −1. Uses up the scores."""
    if vis.causal:
        age = penalty(vis.p[:, None] - vis.j, scores.dtype)
        if bounded and vis.mask is None:  # one pass instead of two
            return best(scores.sub_(age.masked_fill_(~vis.flockmates[0, 0], torch.inf)), sizes)
        scores = prefer_recent(scores, age, bounded)
    if vis.causal or vis.window is not None or vis.mask is not None or vis.beyond is not None:
        scores = scores.masked_fill_(~vis.flockmates, -torch.inf)
    elif not vis.cross:
        scores[..., torch.arange(vis.N, device=scores.device), vis.own] = -torch.inf
    return best(scores, sizes)


def penalty(distance: Int[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """1e-6 · min(p(i) − j, 4096), from p(i) − j; keys still to come are hidden anyway."""
    return distance.clamp(0, OLD).to(dtype).mul_(TIE)


def prefer_recent(
    scores: Float[Tensor, "..."], age: Float[Tensor, "..."], bounded: bool = False
) -> Float[Tensor, "..."]:
    """s − max(1, |s|) · age, in place: what ranks the keys of causal attention."""
    if bounded:
        return scores.sub_(age)
    return scores.addcmul_(scores.abs().clamp_min_(1), age, value=-1)


def best(
    scores: Float[Tensor, "B H ... m"], sizes: tuple[int, ...], *, full: bool = False
) -> Int[Tensor, "B H ... K"]:
    """The places of the sizes[h] largest scores of each row, −1 instead of a −inf. `full`: none
    of them is −inf."""
    K = min(max(sizes), scores.shape[-1])
    ranked = len(set(sizes)) > 1
    if not ranked and K < scores.shape[-1] <= SHORT and _plain(scores):
        index = _by_threshold(scores, K)
        if index is not None:
            return index
    top = scores.topk(K, dim=-1, sorted=ranked)
    index = top.indices if full else top.indices.masked_fill(top.values == -torch.inf, -1)
    if ranked:
        rank = torch.arange(K, device=index.device)
        limit = gpu.filled(sizes, rank).view(-1, *(1,) * (scores.ndim - 2))
        index = index.masked_fill(rank >= limit, -1)
    return index


def _by_threshold(scores: Float[Tensor, "... m"], K: int) -> Int[Tensor, "... K"] | None:
    """Top K of short rows: numpy's partition finds the K-th value with vector instructions,
    faster than a heap. None where a row has ties at it, a NaN, or fewer than K finite scores."""
    m = scores.shape[-1]
    flat = scores.reshape(-1, m)
    rows = flat.numpy()
    if rows.size < SPLIT:
        threshold = _kth(rows, m - K)
    else:  # numpy lets go of the interpreter while it partitions
        halves = np.array_split(rows, max(1, torch.get_num_threads()))
        threshold = np.concatenate(list(_pool().map(lambda part: _kth(part, m - K), halves)))
    places = np.flatnonzero(rows >= threshold)
    if places.size != rows.shape[0] * K or bool(np.isneginf(threshold).any()):
        return None
    index = places.reshape(-1, K) - m * np.arange(rows.shape[0])[:, None]
    if (index[:, 0] < 0).any() or (index[:, -1] >= m).any():  # NaN: too few here, ties elsewhere
        return None
    return torch.from_numpy(index).view(*scores.shape[:-1], K)


def _kth(rows: np.ndarray, place: int) -> np.ndarray:
    return np.ascontiguousarray(np.partition(rows, place, axis=-1)[:, place : place + 1])


@lru_cache(1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="ascender-neighbours")


def compiled(t: Tensor) -> bool:
    """Whether the C kernels can read t."""
    return t.dtype == torch.float32 and _plain(t) and kernels().library is not None


def _plain(t: Tensor) -> bool:
    """Whether t is memory that numpy can read: not traced, not inside a torch.func transform or a
    mode that watches operators."""
    return (
        t.device.type == "cpu"
        and t.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and not inside_transform()
        and not torch._C._len_torch_dispatch_stack()
    )


def inside_transform() -> bool:
    """Whether torch.func is transforming the code that runs."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def given(index: Int[Tensor, "B #H N K"], vis: Visibility) -> Int[Tensor, "B #H N K"]:
    """A list as a set of flockmates: entries outside P(i), and repetitions, become −1."""
    index = index.sort(-1, descending=True).values
    again = F.pad(index[..., 1:] == index[..., :-1], (1, 0), value=False)
    return index.masked_fill(again | ~vis.allows(index), -1)


def union(a: Int[Tensor, "B #H N K"], b: Int[Tensor, "B #H N L"]) -> Int[Tensor, "B h N KL"]:
    """The members of both lists, those of both twice (`given` drops them)."""
    heads = max(a.shape[1], b.shape[1])
    return torch.cat([a.expand(-1, heads, -1, -1), b.expand(-1, heads, -1, -1)], -1)


def as_mask(index: Int[Tensor, "B #H N K"], M: int) -> Bool[Tensor, "B h N M"]:
    """The same sets as a matrix."""
    hit = torch.zeros(*index.shape[:-1], M + 1, dtype=torch.bool, device=index.device)
    return hit.scatter(-1, index.masked_fill(index < 0, M), True)[..., :M]


def grid(height: int, width: int, radius: int = 1) -> Int[Tensor, "N K"]:
    """Neighbours of each cell of an image read row by row: the square of `radius` around it.

    >>> grid(2, 3)[0].tolist()              # the corner (0, 0) of a 2×3 image
    [-1, -1, -1, -1, 1, -1, 3, 4]
    """
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    steps = torch.arange(-radius, radius + 1)
    dy, dx = (t.flatten() for t in torch.meshgrid(steps, steps, indexing="ij"))
    elsewhere = (dy != 0) | (dx != 0)
    yy = y.reshape(-1, 1) + dy[elsewhere]
    xx = x.reshape(-1, 1) + dx[elsewhere]
    inside = (yy >= 0) & (yy < height) & (xx >= 0) & (xx < width)
    return torch.where(inside, yy * width + xx, -1)


def graph(edges: Int[Tensor, "2 E"], nodes: int, *, directed: bool = False) -> Int[Tensor, "N K"]:
    """Neighbours of each node from an edge list (source, target): the targets of its edges, and
    the sources too unless directed.

    >>> graph(torch.tensor([[0, 0], [1, 2]]), nodes=3).tolist()
    [[1, 2], [0, -1], [0, -1]]
    """
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"edges has shape {tuple(edges.shape)}; expected (2, number of edges)")
    if edges.numel() and not (int(edges.min()) >= 0 and int(edges.max()) < nodes):
        raise ValueError(
            f"edges name nodes {int(edges.min())} … {int(edges.max())}; expected 0 … {nodes - 1}"
        )
    pairs = edges if directed else torch.cat([edges, edges.flip(0)], 1)
    pairs = torch.unique(pairs[:, pairs[0] != pairs[1]], dim=1)  # sorted by source, then target
    degree = torch.bincount(pairs[0], minlength=nodes)
    out = torch.full((nodes, max(1, int(degree.max()) if nodes else 1)), -1)
    slot = torch.arange(pairs.shape[1]) - (degree.cumsum(0) - degree)[pairs[0]]
    out[pairs[0], slot] = pairs[1]
    return out


def tree(parents: Int[Tensor, "N"]) -> Int[Tensor, "N K"]:
    """Neighbours of each token of a syntax tree, its parent and its children, from the place of
    each token's parent (−1 or itself: the root).

    >>> tree(torch.tensor([1, -1, 1])).tolist()              # the cat sleeps: 'cat' is the root
    [[1, -1], [0, 2], [1, -1]]
    """
    nodes = parents.shape[0]
    inside = (parents >= -1) & (parents < nodes)
    if parents.ndim != 1 or not bool(inside.all()):
        raise ValueError(
            f"parents = {parents.tolist()}; expected one place in −1 … {nodes - 1} a token"
        )
    here = torch.arange(nodes)
    edges = torch.stack([here, parents])[:, parents >= 0]
    return graph(edges, nodes)
