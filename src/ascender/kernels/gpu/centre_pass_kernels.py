"""The centre pass in Triton: kernel means of the tokens around each token, and their number.

    w_ij = exp(−‖z_i − z_j‖²/τ²)                lse_i = log Σ_j w_ij
    mean_i = Σ_j w_ij (z_j, ‖z_j‖²) / Σ_j w_ij

In self-attention the own weight is 1, so that the sum cannot vanish and no running maximum is
needed (OWN); elsewhere it is flash attention's. Distances are ‖z_i‖² + ‖z_j‖² − 2 z_i·z_j of
float32. The definition in torch operators is in centre_pass.py.
"""

from __future__ import annotations

import triton.language as tl

from ascender.kernels.gpu.launch import jit
from ascender.kernels.gpu.main_pass_kernels import tuned
from ascender.kernels.gpu.tile_kernels import LN2, LOG2E, extent, matmul, rows, store_rows, visible

KEY = ["D", "CAUSAL"]
QUERY_TILES = ((32, 32, 4, 2), (64, 32, 4, 2))  # queries, keys, warps, stages of a program
KEY_TILES = ((32, 32, 4, 2), (32, 64, 4, 2))


@jit
def distances(x, y):
    """‖x_i − y_j‖², never negative."""
    xx, yy = tl.sum(x * x, 1), tl.sum(y * y, 1)
    xy = tl.dot(x, tl.trans(y), input_precision="tf32x3")
    return tl.maximum(xx[:, None] + yy[None, :] - 2.0 * xy, 0.0)


@jit
def _forward(
    X, Y, RATE, MASK, CU, OUT, LSE, N, M,
    H: tl.constexpr, XH: tl.constexpr, YH: tl.constexpr, MH: tl.constexpr, D: tl.constexpr,
    BD: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr, PACKED: tl.constexpr,
    OWN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """X (B, XH, N, D), Y (B, YH, M, D), RATE (H,) = 1/τ², MASK (B, MH, M), OUT (B, H, N, D + 1),
    LSE (B, H, N)."""
    i = tl.num_programs(0) - 1 - tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    h = bh % H
    b, first, n, first_key, keys = extent(CU, bh // H, N, M, PACKED)
    row, at_x = (b * H + h) * N + first, (b * XH + h // (H // XH)) * N + first
    at_y = (b * YH + h // (H // YH)) * M + first_key
    at_mask = (b * MH + h // (H // MH)) * M + first_key
    m = i * BM + tl.arange(0, BM)
    x = rows(X, at_x, m, n, D, BD, False)
    rate = tl.load(RATE + h) * LOG2E
    acc = tl.zeros([BM, BD], tl.float32)
    square = tl.zeros([BM], tl.float32)
    mass = tl.zeros([BM], tl.float32)
    top = tl.zeros([BM], tl.float32)
    if not OWN:
        top = top + float("-inf")
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, (i + 1) * BM + keys - n)
    end = tl.where(i * BM < n, end, 0)
    for j in range(0, end, BN):
        t = j + tl.arange(0, BN)
        y = rows(Y, at_y, t, keys, D, BD, False)
        ok = visible(m, t, n, keys, MASK, at_mask, CAUSAL, HAS_MASK)
        s = tl.where(ok, -rate * distances(x, y), float("-inf"))
        if not OWN:
            new = tl.maximum(top, tl.max(s, 1))
            base = tl.where(new == float("-inf"), 0.0, new)
            keep = tl.exp2(top - base)
            s = s - base[:, None]
            mass = mass * keep
            square = square * keep
            acc = acc * keep[:, None]
            top = new
        w = tl.exp2(s)
        mass += tl.sum(w, 1)
        square += tl.sum(w * tl.sum(y * y, 1)[None, :], 1)
        acc = matmul(w, y, acc)
    some = mass > 0.0
    mass = tl.where(some, mass, 1.0)
    lse = tl.where(some, top * LN2 + tl.log(mass), float("-inf"))
    c = tl.arange(0, BD)
    at = OUT + row * (D + 1) + (m * (D + 1))[:, None] + c[None, :]
    tl.store(at, acc / mass[:, None], mask=(m < n)[:, None] & (c < D)[None, :])
    tl.store(OUT + row * (D + 1) + m * (D + 1) + D, square / mass, mask=m < n)
    tl.store(LSE + row + m, lse, mask=m < n)


@jit
def weights(x, y, rate, lse, ok):
    """(w_ij / Σ_j w_ij, ‖x_i − y_j‖²)."""
    d2 = distances(x, y)
    return tl.where(ok, tl.exp2((-rate * d2 - lse) * LOG2E), 0.0), d2


@jit
def _keys(
    X, Y, RATE, MASK, CU, GRAD, LSE, DELTA, DY, N, M,
    H: tl.constexpr, XH: tl.constexpr, YH: tl.constexpr, MH: tl.constexpr, D: tl.constexpr,
    BD: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr, PACKED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """∂ of the keys, DY (B, H, M, D): a block of keys, all queries that see it. GRAD is (…, D + 1);
    DELTA = g·out − ∂lse. Matrices are (keys, queries)."""
    j = tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    h = bh % H
    b, first, n, first_key, keys = extent(CU, bh // H, N, M, PACKED)
    row, at_x = (b * H + h) * N + first, (b * XH + h // (H // XH)) * N + first
    at_y = (b * YH + h // (H // YH)) * M + first_key
    at_mask = (b * MH + h // (H // MH)) * M + first_key
    t = j * BN + tl.arange(0, BN)
    y = rows(Y, at_y, t, keys, D, BD, False)
    yy = tl.sum(y * y, 1)
    rate = tl.load(RATE + h)
    dy = tl.zeros([BN, BD], tl.float32)
    own = tl.zeros([BN], tl.float32)  # what multiplies y itself
    start = 0
    if CAUSAL:
        start = tl.maximum(j * BN - (keys - n), 0) // BM * BM
    start = tl.where(j * BN < keys, start, n)
    c = tl.arange(0, BD)
    for i in range(start, n, BM):
        m = i + tl.arange(0, BM)
        x = rows(X, at_x, m, n, D, BD, False)
        at = GRAD + row * (D + 1) + m * (D + 1)
        go = tl.load(at[:, None] + c[None, :], mask=(m < n)[:, None] & (c < D)[None, :], other=0.0)
        g2 = tl.load(at + D, mask=m < n, other=0.0)
        lse = tl.load(LSE + row + m, mask=m < n, other=0.0)
        delta = tl.load(DELTA + row + m, mask=m < n, other=0.0)
        ok = tl.trans(visible(m, t, n, keys, MASK, at_mask, CAUSAL, HAS_MASK))
        w, _ = weights(y, x, rate, lse[None, :], ok)
        dot = tl.dot(y, tl.trans(go), input_precision="tf32x3")
        ds = w * (dot + yy[:, None] * g2[None, :] - delta[None, :]) * (2.0 * rate)
        dy = matmul(w, go, dy)
        dy = matmul(ds, x, dy)
        own += tl.sum(2.0 * w * g2[None, :] - ds, 1)
    store_rows(DY, (b * H + h) * M + first_key, t, keys, dy + own[:, None] * y, D, BD)


@jit
def _queries(
    X, Y, RATE, MASK, CU, GRAD, LSE, DELTA, DX, DRATE, N, M,
    H: tl.constexpr, XH: tl.constexpr, YH: tl.constexpr, MH: tl.constexpr, D: tl.constexpr,
    BD: tl.constexpr, CAUSAL: tl.constexpr, HAS_MASK: tl.constexpr, PACKED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """∂ of the queries, DX (B, H, N, D), and each row's part of ∂(1/τ²), DRATE (B, H, N)."""
    i = tl.num_programs(0) - 1 - tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    h = bh % H
    b, first, n, first_key, keys = extent(CU, bh // H, N, M, PACKED)
    row, at_x = (b * H + h) * N + first, (b * XH + h // (H // XH)) * N + first
    at_y = (b * YH + h // (H // YH)) * M + first_key
    at_mask = (b * MH + h // (H // MH)) * M + first_key
    m, c = i * BM + tl.arange(0, BM), tl.arange(0, BD)
    x = rows(X, at_x, m, n, D, BD, False)
    at = GRAD + row * (D + 1) + m * (D + 1)
    go = tl.load(at[:, None] + c[None, :], mask=(m < n)[:, None] & (c < D)[None, :], other=0.0)
    g2 = tl.load(at + D, mask=m < n, other=0.0)
    lse = tl.load(LSE + row + m, mask=m < n, other=0.0)
    delta = tl.load(DELTA + row + m, mask=m < n, other=0.0)
    rate = tl.load(RATE + h)
    dx = tl.zeros([BM, BD], tl.float32)
    total = tl.zeros([BM], tl.float32)
    drate = tl.zeros([BM], tl.float32)
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, (i + 1) * BM + keys - n)
    end = tl.where(i * BM < n, end, 0)
    for j in range(0, end, BN):
        t = j + tl.arange(0, BN)
        y = rows(Y, at_y, t, keys, D, BD, False)
        ok = visible(m, t, n, keys, MASK, at_mask, CAUSAL, HAS_MASK)
        w, d2 = weights(x, y, rate, lse[:, None], ok)
        dot = tl.dot(go, tl.trans(y), input_precision="tf32x3")
        ds = w * (dot + g2[:, None] * tl.sum(y * y, 1)[None, :] - delta[:, None])
        drate -= tl.sum(ds * d2, 1)
        dx = matmul(ds, y, dx)
        total += tl.sum(ds, 1)
    store_rows(DX, row, m, n, (dx - total[:, None] * x) * (2.0 * rate), D, BD)
    tl.store(DRATE + row + m, drate, mask=m < n)


forward, queries = (tuned(kernel, QUERY_TILES, KEY) for kernel in (_forward, _queries))
keys = tuned(_keys, KEY_TILES, KEY)
