"""FLOPs: counted on the operators that run, and by formula for what is too long to run again.

A multiply and an add are two. Counted are products: of matrices, inside flash kernels, and over
index lists. Exponentials, comparisons (top-k) and element by element arithmetic are not.

    stock     2 products a pair of tokens:  q·k and p·v             4 · pairs · d · H
    backward  of a flash pass 5 products for its 2 (scores made again), of a stored one 4
    native    the matrix products of kernels/attention.c; sums over a row's neighbours are not
              counted, nor are the zeros that fill rows and widths up to a vector
    flock     the torch operators, also where kernels/lists.c runs: that one lets heads share what
              is the same for all, and its backward makes the scores again

Law: formula(problem) = count(call), to the last product (tests/measure/test_flops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ascender.core import neighbours
from ascender.core.backends import flash_narrow_values
from ascender.core.backends.folded import CHUNK, LONG
from ascender.core.backends.windowed import Blocks
from ascender.core.visibility import Visibility
from ascender.kernels import operators

FLASH, STORED = 3.5, 3.0  # forward + backward, × forward
ROWS = 16  # of a block of the native kernel, with the widest vectors
Shape = Sequence[int]
T = TypeVar("T", bound=Tensor | torch.nn.Module)


def count(call: Callable[[], object]) -> int:
    """FLOPs of call(), counted on the operators that it runs, backward too if it runs one.
    Torch's own counter takes the CPU's flash kernel, index lists, products that are added in
    place and products with vectors for 0; this one does not.

    >>> q = torch.zeros(1, 2, 3, 5)
    >>> count(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q))
    360
    """
    with FlopCounterMode(display=False, custom_mapping=_OPERATORS) as counter:
        call()
    return int(counter.get_total_flops())


def _pairs(q: Shape, k: Shape, causal: bool) -> int:
    pairs = sum(min(i + 1, k[-2]) for i in range(q[-2])) if causal else q[-2] * k[-2]
    return q[0] * q[1] * pairs


def _flash(q: Shape, k: Shape, v: Shape, dropout: float = 0, causal: bool = False, **_: Any) -> int:
    return 2 * _pairs(q, k, causal) * (q[-1] + v[-1])


def _flash_backward(
    grad: Shape, q: Shape, k: Shape, v: Shape, out: Shape, lse: Shape, dropout: float,
    causal: bool, **_: Any,
) -> int:  # fmt: skip
    return 2 * _pairs(q, k, causal) * (3 * q[-1] + 2 * v[-1])


def _added(c: Shape, a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    """c + a b; b may be a vector."""
    return 2 * prod(a) * (b[-1] if len(b) > 1 else 1)


def _vector(a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    """A matrix or a vector times a vector."""
    return 2 * prod(a)


def _bag(y: Shape, index: Shape, *_: Any, **__: Any) -> int:
    return 2 * index[0] * y[-1]


def _sampled(pattern: Tensor, x: Tensor, *_: Any, **__: Any) -> int:
    return 2 * pattern.values().numel() * x.shape[-1]


def _native(*inputs: Any, backward: bool = False, **more: Any) -> int:
    """Of an ascender::attention call, or of its backward."""
    q, _, v, _, _, z, _, h, *_, p, j, sizes, search, rules, causal, window, n_global = inputs[:20]
    B, H, _, d = q.shape
    products = native_products(H, len(sizes), d, v.shape[-1], z.shape[-1], rules, backward)
    total = block_pairs(p, j, causal, -1 if n_global else window) * products
    if operators.SEARCH[search] == "semantic" and not backward:  # "scores": q·k, which is there
        total += block_pairs(p, j, causal, window, n_global) * len(sizes) * h.shape[-1]
    return 2 * B * total


def _native_backward(
    grad: Tensor, out: Tensor, saved: Tensor, bias: bool, *inputs: Any, **_: Any
) -> int:
    return _native(*inputs, backward=True)


def native_products(
    H: int, groups: int, d: int, e: int, d_z: int, rules: Sequence[str], backward: bool
) -> int:
    """Multiplications of a pair of tokens in kernels/attention.c, but for the search. A group is
    the heads that share z, h and the neighbours.

    forward    a head: q·k, p·v, u·k̃;  a group: z·z, and for the centre c = Σ w z, c·z
    backward   a head: q·k, g·v, three for their gradients, u·k̃ and two for its gradient;
               a group: z·z and two for its gradient, c·z and four for its gradient
    """
    align, near, coh = "align" in rules, "sep" in rules or "coh" in rules, "coh" in rules
    if backward:
        return H * ((3 + 3 * align) * d + 2 * e) + groups * (3 * near + 5 * coh) * d_z
    return H * ((1 + align) * d + e) + groups * (near + 2 * coh) * d_z


def block_pairs(p: Tensor, j: Tensor, causal: bool, window: int = -1, n_global: int = 0) -> int:
    """Pairs that kernels/attention.c looks at: ROWS rows at a time, with a multiple of ROWS keys;
    of causal rows none after the last one's position. With a window: the keys in reach, and the
    first n_global (in the search; the rest of the kernel then visits all)."""
    total = 0
    for rows in p.split(ROWS):
        first, last = int(rows[0]), int(rows[-1])
        a, b = 0, _keys(j, last) if causal else len(j)
        if window >= 0 and first >= n_global:
            a, b = _keys(j, first - window - 1) // ROWS * ROWS, min(b, _keys(j, last + window))
        few = _keys(j, n_global - 1) if window >= 0 and n_global else 0
        if few > a:
            a = few = 0
        total += len(rows) * sum(-(-x // ROWS) * ROWS for x in (few, max(0, b - a)))
    return total


def _keys(j: Tensor, position: int) -> int:
    """How many keys are at positions up to this one."""
    return int(torch.searchsorted(j, position, right=True))


for _raw in (
    _sampled,
    _native,
    _native_backward,
):  # called with the tensors themselves, not their shapes
    setattr(_raw, "_get_raw", True)  # noqa: B010
_aten = torch.ops.aten
_OPERATORS: dict[Any, Callable[..., int]] = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _flash,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _flash_backward,
    _aten._embedding_bag: _bag,
    _aten._embedding_bag_forward_only: _bag,
    _aten.sparse_sampled_addmm: _sampled,
    torch.ops.ascender.attention: _native,
    torch.ops.ascender.attention_backward: _native_backward,
    **dict.fromkeys((_aten.addmm_, _aten.baddbmm_, _aten.addbmm, _aten.addbmm_), _added),
    **dict.fromkeys((_aten.addmv, _aten.addmv_), _added),
    **dict.fromkeys((_aten.mv, _aten.dot), _vector),
}


@dataclass(frozen=True)
class Problem:
    """The sizes of one attention call."""

    n: int
    causal: bool = False
    H: int = 4
    d: int = 64
    d_z: int = 15
    d_a: int = 16
    k: int = 16
    window: int = 128
    far: int = 32  # of flock scope, as are the next ones
    flock_window: int = 16
    device: str = "cpu"  # where it is computed, and in which precision: FLOPs are the same
    dtype: str = "float32"

    def place(self, t: T) -> T:
        """A tensor or a module, moved there."""
        return cast(T, cast(Any, t).to(self.device, getattr(torch, self.dtype)))

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

    def listed(self, causal: bool) -> int:
        """Keys in the list of a query in flock scope, empty places included."""
        return min(self.n, (1 if causal else 2) * self.flock_window + 1 + self.far)

    @property
    def searched_pairs(self) -> int:
        """Pairs that top-k looks at: chunks of rows, causal ones without the keys after them."""
        step, total = max(1, neighbours.CHUNK // self.n), 0
        for a in range(0, self.n, step):
            b = min(self.n, a + step)
            total += (b - a) * (b if self.causal else self.n)
        return total


@dataclass(frozen=True)
class CallOptions:
    """One way to call asc_attention. shared: one geometry for all heads, and QK-norm. flock: flock
    scope, with one list for all heads."""

    backend: str = "folded"
    windowed: bool = False
    shared: bool = False
    two_tau: bool = True
    reuse: bool = False
    local: bool = False
    flock: bool = False


def stock(p: Problem, training: bool) -> float:
    return 4 * p.pairs * p.d * p.H * (FLASH if training else 1)


def bias(p: Problem, training: bool) -> float:
    """A mask that needs a gradient sends SDPA down the path that stores the whole matrix."""
    return 4 * p.n * p.n * p.d * p.H * (STORED if training else 1)


def dense(p: Problem, training: bool) -> float:
    """Per pair: base, out, s = Σ k̃, k̃·u (d each); cos for N_k and for φ (d_a each); distances
    to z, centre and distances to it (d_z each) and the mean square (1)."""
    search = 2 * p.H * p.searched_pairs * p.d_a
    forward = search + 2 * p.H * p.n**2 * (4 * p.d + p.d_a + 3 * p.d_z + 1)
    constant = 2 * search + 2 * p.H * p.n**2 * p.d  # no gradient: top-k, and its 0/1 matrix
    return forward if not training else STORED * forward - constant


def width(p: Problem, folds: bool) -> int:
    """Columns of the folded queries: q, u (none where the keys have one length), z and ‖z‖²."""
    return p.d + (0 if folds else p.d) + p.d_z + 1


def lists(p: Problem, v: CallOptions, training: bool) -> float:
    """Over the k members of each row: heading, distances, cosines, scores, values (and centre).
    The heading is a plain sum: no weights, no gradient by them."""
    columns = p.d + (p.d_z + 2) + p.d_a + width(p, v.shared and not v.windowed) + p.d
    columns += p.d_z + 1 if v.local else 0
    return 2 * p.n * p.k * p.H * (STORED * columns - p.d if training else columns)


def passes(v: CallOptions) -> int:
    """Kernel passes for centre and density."""
    return 0 if v.local else 2 if v.two_tau else 1


def search(p: Problem, v: CallOptions, pairs: int) -> float:
    """The products of semantic top-k."""
    return 0 if v.reuse else 2 * pairs * p.d_a * spaces(p, v)


def spaces(p: Problem, v: CallOptions) -> int:
    """Heads that have a geometry of their own."""
    return 1 if v.shared else p.H


def variances(p: Problem, v: CallOptions, training: bool) -> float:
    """Of rows, from covariances of the keys; causal: running ones and the row's own chunk. Long
    sequences go head by head, and each head makes those of z again."""
    n = -(-p.n // CHUNK) * CHUNK if p.causal else p.n
    own = CHUNK if p.causal else 0
    alone = not training and p.H * p.n * p.d >= LONG
    keys = p.H if alone else spaces(p, v)
    terms = ((p.d, p.H, p.H), (p.d_z + 1, p.H if v.local else keys, keys))
    return sum(2 * n * (rows * (w + own) + keys * w) * w for w, rows, keys in terms)


def folded(p: Problem, training: bool, v: CallOptions) -> float:
    """Main pass, centre passes, row variances, lists, search."""
    crowd = 4 * p.pairs * passes(v) * (p.d_z + 1) * spaces(p, v)
    few, near = variances(p, v, training), lists(p, v, training)
    grown = FLASH * crowd + STORED * few if training else crowd + few
    return main(p, v, training) + grown + near + search(p, v, p.searched_pairs)


def main(p: Problem, v: CallOptions, training: bool) -> float:
    """The pass at the folded width. Stock fills values up to it and looks at pairs that see each
    other; flash_narrow_values.py has whole blocks on the diagonal. Backward: scores made again,
    two products for them, two with the values."""
    w, e, pairs = width(p, v.shared), p.d, p.pairs
    if not flash_narrow_values.serves(w, e, p.n, p.n):
        e = w
    elif p.causal:
        ends = [
            min(a + flash_narrow_values.ROWS, p.n) for a in range(0, p.n, flash_narrow_values.ROWS)
        ]
        pairs = sum((z - a) * z for a, z in zip([0, *ends], ends, strict=False))
    return 2 * pairs * p.H * (4 * w + 3 * e if training else w + e)


def windowed(p: Problem, training: bool, v: CallOptions) -> float:
    """On blocks, where each term's scores are written out: q·k, k̃·u and the distances, and one
    product with the values; the centre passes; lists; search; once for all heads how many keys a
    row sees. Backward: scores made again, two products for each; two for the values."""
    crowd = passes(v) * (p.d_z + 1) * spaces(p, v)
    scores, values = width(p, folds=False) * p.H + crowd, p.d * p.H + crowd
    products = 4 * scores + 3 * values if training else scores + values
    P = p.window_pairs
    return 2 * P * (products + 1) + lists(p, v, training) + search(p, v, P)


def native(p: Problem, training: bool, v: CallOptions) -> float:
    """Blocks of the C kernel: the search, then native_products; backward makes scores again."""
    at = torch.arange(p.n)
    window = p.window if v.windowed else -1
    pairs, groups = block_pairs(at, at, p.causal, window), spaces(p, v)
    sizes = (p.H, groups, p.d, p.d, p.d_z, operators.RULES)
    products = groups * p.d_a + native_products(*sizes, backward=False)
    return 2 * pairs * (products + (native_products(*sizes, backward=True) if training else 0))


def flock(p: Problem, training: bool, v: CallOptions) -> float:
    """One search for all heads, then the lists. Backward: two products for each, but one for the
    heading, whose 0/1 weights have no gradient."""
    columns = flock_columns(p)
    near = 2 * p.n * p.listed(p.causal) * p.H * (STORED * columns - p.d if training else columns)
    return near + 2 * p.searched_pairs * p.d_a


def flock_columns(p: Problem) -> int:
    """Multiplications of a query, a listed key and a head: q·k, heading, k̃·u, p·v; ‖z_i − z_j‖²,
    centre, distance to it; affinity, cosine."""
    return 4 * p.d + 3 * (p.d_z + 1) + 2 * p.d_a


def flock_decode(p: Problem, training: bool) -> float:
    """One row: the search among all keys, then the list."""
    return 2 * p.listed(causal=True) * p.H * flock_columns(p) + 2 * p.n * p.d_a


def decode_stock(p: Problem, training: bool) -> float:
    return 4 * p.n * p.d * p.H


def decode(p: Problem, training: bool, v: CallOptions) -> float:
    """One row: q·k, u·k̃, p·v (d each); distances to z, centre, distances to it (d_z + 1 each);
    search. Its list is gathered, element by element."""
    return 2 * p.n * p.H * 3 * (p.d + p.d_z + 1) + search(p, v, p.n)
