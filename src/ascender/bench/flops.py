"""Counted FLOPs: what the matrix products of each candidate take, by formula.

A multiply and an add are two. Exponentials, comparisons (top-k) and additions outside products
are not counted. Counters that watch a run cannot be used: they count the CPU's flash kernel as 0.

    stock     2 products a pair of tokens:  q·k and p·v             4 · pairs · d · H
    backward  of a flash pass 5 products for its 2 (scores made again), of a stored one 4
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ascender.backends.folded import CHUNK
from ascender.backends.windowed import Blocks
from ascender.visibility import Visibility

FLASH, STORED = 3.5, 3.0  # forward + backward, × forward


@dataclass(frozen=True)
class Problem:
    """The sizes of the issue's table."""

    n: int
    causal: bool = False
    H: int = 4
    d: int = 64
    d_z: int = 15
    d_a: int = 16
    k: int = 16
    window: int = 128

    @property
    def pairs(self) -> int:
        """Pairs (i, j ∈ V(i)) without a window."""
        return self.n * (self.n + 1) // 2 if self.causal else self.n * self.n

    @property
    def window_pairs(self) -> int:
        """Pairs that the blocks of the windowed backend look at, edges and padding included."""
        vis = Visibility.of(self.n, self.n, causal=self.causal, window=self.window)
        blocks = Blocks(vis, torch.float32)
        return blocks.C * blocks.L * blocks.span


@dataclass(frozen=True)
class Variant:
    """One way to call asc_attention. shared: one geometry for all heads, and QK-norm."""

    backend: str = "folded"
    windowed: bool = False
    shared: bool = False
    two_tau: bool = True
    reuse: bool = False
    local: bool = False


def stock(p: Problem, training: bool) -> float:
    return 4 * p.pairs * p.d * p.H * (FLASH if training else 1)


def bias(p: Problem, training: bool) -> float:
    """A mask that needs a gradient sends SDPA down the path that stores the whole matrix."""
    return 4 * p.n * p.n * p.d * p.H * (STORED if training else 1)


def dense(p: Problem, training: bool) -> float:
    """Per pair: base, out, s = Σ k̃, k̃·u (d each); cos for N_k and for φ (d_a each); distances
    to z, centre and distances to it (d_z each) and the mean square (1)."""
    forward = 2 * p.n**2 * p.H * (4 * p.d + 2 * p.d_a + 3 * p.d_z + 1)
    constant = 2 * p.n**2 * p.H * (2 * p.d_a + p.d)  # no gradient: top-k, and its 0/1 matrix
    return forward if not training else STORED * forward - constant


def width(p: Problem, v: Variant) -> int:
    """Columns of the folded queries: q, u (none with QK-norm), z and ‖z‖²."""
    return p.d + (0 if v.shared else p.d) + p.d_z + 1


def lists(p: Problem, v: Variant) -> float:
    """Over the k members of each row: heading, distances, cosines, scores, values (and centre)."""
    columns = p.d + (p.d_z + 2) + p.d_a + width(p, v) + p.d + (p.d_z + 1 if v.local else 0)
    return 2 * p.n * p.k * p.H * columns


def passes(v: Variant) -> int:
    """Kernel passes for centre and density."""
    return 0 if v.local else 2 if v.two_tau else 1


def search(p: Problem, v: Variant, pairs: int) -> float:
    """The products of semantic top-k."""
    return 0 if v.reuse else 2 * pairs * p.d_a * spaces(p, v)


def spaces(p: Problem, v: Variant) -> int:
    """Heads that have a geometry of their own."""
    return 1 if v.shared else p.H


def folded(p: Problem, training: bool, v: Variant) -> float:
    """Main pass at the folded width (values are padded to it), centre passes, row variances by
    covariances (causal: running ones and the row's own chunk), lists, search."""
    flash: float = 4 * p.pairs * (width(p, v) * p.H + passes(v) * (p.d_z + 1) * spaces(p, v))
    centres = p.H if v.local else spaces(p, v)
    own = CHUNK if p.causal else 0
    variances = sum(
        2 * p.n * heads * (2 * w * w + own * w) for w, heads in ((p.d, p.H), (p.d_z + 1, centres))
    )
    few: float = variances + lists(p, v)
    if training:
        flash, few = FLASH * flash, STORED * few
    return flash + few + search(p, v, p.pairs)


def windowed(p: Problem, training: bool, v: Variant) -> float:
    """The same on blocks; scores of a block are written out, and variances taken from them."""
    P, W, z = p.window_pairs, width(p, v), p.d_z + 1
    scores = W * p.H + passes(v) * z * spaces(p, v)
    values = p.d * p.H + passes(v) * z * spaces(p, v)
    variances = p.d * p.H + z * spaces(p, v)
    if not training:
        return 2 * P * (scores + values + variances) + lists(p, v) + search(p, v, P)
    tiles = 2 * P * (4 * scores + 3 * values + 4 * variances)
    return tiles + STORED * lists(p, v) + search(p, v, P)


def decode_stock(p: Problem, training: bool) -> float:
    return 4 * p.n * p.d * p.H


def decode(p: Problem, training: bool, v: Variant) -> float:
    """One row: q·k, u·k̃, p·v (d each); kernel twice, centre, distances to it (d_z + 1 each);
    search; its list."""
    row = 2 * p.n * p.H * (3 * p.d + 4 * (p.d_z + 1)) + search(p, v, p.n)
    near = 2 * p.k * p.H * (p.d + 2 * p.d_z + p.d_a)
    return row + near
