"""Sums and products over index lists in Triton, a block of rows a program, in float32 throughout.

dot:             out_il = x_i · y_l
bag:             out_i  = Σ_l p_il y_l
bag_transposed:  out_j  = Σ_{(i,l) = j} p_il x_i         of entries that are sorted by key
"""

from __future__ import annotations

import triton
import triton.language as tl

from ascender.kernels.gpu.launch import first_or_all, jit

ROWS = (8, 2, 32)  # of a program; entries of a key that are read at once


@jit
def _dot(X, Y, FLAT, OUT, R, K, w, BR: tl.constexpr, BW: tl.constexpr):
    m, c = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR), tl.arange(0, BW)
    here, mask = m < R, (m < R)[:, None] & (c < w)[None, :]
    x = tl.load(X + (m * w)[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)
    for l in range(K):
        key = tl.load(FLAT + m * K + l, mask=here, other=0)
        y = tl.load(Y + (key * w)[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)
        tl.store(OUT + m * K + l, tl.sum(x * y, 1), mask=here)


@jit
def _bag(P, Y, FLAT, OUT, R, K, w, HAS_P: tl.constexpr, BR: tl.constexpr, BW: tl.constexpr):
    m, c = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR), tl.arange(0, BW)
    here, mask = m < R, (m < R)[:, None] & (c < w)[None, :]
    out = tl.zeros([BR, BW], tl.float32)
    for l in range(K):
        key = tl.load(FLAT + m * K + l, mask=here, other=0)
        y = tl.load(Y + (key * w)[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)
        if HAS_P:
            y = y * tl.load(P + m * K + l, mask=here, other=0.0).to(tl.float32)[:, None]
        out += y
    tl.store(OUT + (m * w)[:, None] + c[None, :], out, mask=mask)


@jit
def _bag_transposed(
    P, X, ORDER, ROW, FIRST, OUT, S, total, w, HAS_P: tl.constexpr, BR: tl.constexpr,
    BW: tl.constexpr,
):  # fmt: skip
    s, c, n = tl.program_id(0).to(tl.int64), tl.arange(0, BW), tl.arange(0, BR)
    start = tl.load(FIRST + s)
    end = tl.load(FIRST + s + 1, mask=s + 1 < S, other=total)
    out = tl.zeros([BW], tl.float32)
    for at in range(start, end, BR):
        here = at + n < end
        row = tl.load(ROW + at + n, mask=here, other=0)
        mask = here[:, None] & (c < w)[None, :]
        x = tl.load(X + (row * w)[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)
        if HAS_P:
            entry = tl.load(ORDER + at + n, mask=here, other=0)
            x = x * tl.load(P + entry, mask=here, other=0.0).to(tl.float32)[:, None]
        out += tl.sum(x, 0)
    tl.store(OUT + s * w + c, out, mask=c < w)


def _tuned(kernel):
    configs = [triton.Config({"BR": rows}, num_warps=4, num_stages=1) for rows in ROWS]
    return triton.autotune(configs=first_or_all(configs), key=["K", "BW"])(kernel)


dot, bag = _tuned(_dot), _tuned(_bag)
bag_transposed = triton.autotune(
    configs=first_or_all([triton.Config({"BR": n}, num_warps=4, num_stages=1) for n in ROWS]),
    key=["BW"],
)(_bag_transposed)
