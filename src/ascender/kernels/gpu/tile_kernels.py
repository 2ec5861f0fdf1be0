"""What the passes over tiles of queries × keys share in Triton.

Tensors are contiguous (batch, heads, tokens, width). Heads of keys, values or geometry that several
heads of queries share are not copied. Packed sequences: a batch of 1, and CU[s] … CU[s+1]
are the tokens of sequence s, which is the batch index of a program then. Widths are filled up with
zeros to a power of two, in registers.

Products are tl.dot: float32 as three of TF32 each ("tf32x3"), about as exact as float32 itself;
half precisions as they are, summed in float32. The interpreter multiplies the bit patterns of
bfloat16: `UP` makes them float32 there.
"""

from __future__ import annotations

import triton.language as tl

from ascender.kernels.gpu.launch import jit

LOG2E, LN2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@jit
def extent(CU, b, N, M, PACKED: tl.constexpr):
    """(batch, its first row, rows, first key, keys) of a sequence of the batch."""
    if PACKED:
        first = tl.load(CU + b).to(tl.int64)
        n = (tl.load(CU + b + 1).to(tl.int64) - first).to(tl.int32)
        return b * 0, first, n, first, n
    else:
        return b, b * 0, N, b * 0, M


@jit
def raised(x, UP: tl.constexpr):
    return x.to(tl.float32) if UP else x


@jit
def rows(X, first, m, n, w: tl.constexpr, W: tl.constexpr, UP: tl.constexpr):
    """Rows m of X (…, w) from row `first` on, as (·, W); 0 beyond n and w."""
    c = tl.arange(0, W)
    mask = (m < n)[:, None]
    if w < W:
        mask = mask & (c < w)[None, :]
    x = tl.load(X + first * w + (m * w)[:, None] + c[None, :], mask=mask, other=0.0)
    return raised(x, UP)


@jit
def store_rows(X, first, m, n, x, w: tl.constexpr, W: tl.constexpr):
    c = tl.arange(0, W)
    mask = (m < n)[:, None]
    if w < W:
        mask = mask & (c < w)[None, :]
    at = X + first * w + (m * w)[:, None] + c[None, :]
    tl.store(at, x.to(X.dtype.element_ty), mask=mask)


@jit
def visible(
    m, t, n, keys, MASK, at, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr
):  # fmt: skip
    """Which of the keys t the rows m see: the queries are the tail of the keys where causal."""
    ok = (m < n)[:, None] & (t < keys)[None, :]
    if CAUSAL:
        ok = ok & (t[None, :] <= m[:, None] + (keys - n))
    if HAS_MASK:
        ok = ok & (tl.load(MASK + at + t, mask=t < keys, other=0) != 0)[None, :]
    return ok


@jit
def matmul(a, b, acc):
    return tl.dot(a, b, acc, input_precision="tf32x3")


@jit
def weighted(p, v, acc, X, SPLIT: tl.constexpr, UP: tl.constexpr):
    """acc + p v, with p of float32 in the type of X. SPLIT: in two numbers of that type, so that
    p is rounded at 2⁻¹⁶ and not at 2⁻⁸."""
    high = p.to(X.dtype.element_ty)
    acc = matmul(raised(high, UP), v, acc)
    if SPLIT:
        low = (p - high.to(tl.float32)).to(X.dtype.element_ty)
        acc = matmul(raised(low, UP), v, acc)
    return acc


@jit
def weighted_transposed(p, v, acc, X, SPLIT: tl.constexpr, UP: tl.constexpr):
    """accᵀ + (p v)ᵀ. Where v is narrow p v would want p in registers in a layout of its own, and
    spill."""
    high = p.to(X.dtype.element_ty)
    acc = matmul(tl.trans(v), tl.trans(raised(high, UP)), acc)
    if SPLIT:
        low = (p - high.to(tl.float32)).to(X.dtype.element_ty)
        acc = matmul(tl.trans(v), tl.trans(raised(low, UP)), acc)
    return acc


@jit
def scores(
    q, k, a, u, c, z, X, Y, x_row, y_row, m, n, t, keys, scale,
    R: tl.constexpr, ALIGN: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """scale q·k + a·u + c·z + Σ_r x_r y_r of rows m and keys t. Called with the two sides changed
    it is the transpose."""
    s = tl.dot(q, tl.trans(k), input_precision="tf32x3") * scale
    if ALIGN:
        s = matmul(a, tl.trans(u), s)
    if NARROW:
        s = matmul(c, tl.trans(z), s)
    for r in tl.static_range(R):
        x = tl.load(X + x_row * R + m * R + r, mask=m < n, other=0.0)
        y = tl.load(Y + y_row * R + t * R + r, mask=t < keys, other=0.0)
        s += x[:, None] * y[None, :]
    return s
