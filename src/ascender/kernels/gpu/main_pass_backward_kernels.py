"""The main pass of the fold in Triton, backward: flash attention's, with a gradient for every part
of the score (main_pass_kernels.py).

    p_ij = exp(s_ij − lse_i)     ∂s_ij = p_ij (g_i·v_j − Δ_i)     Δ_i = g_i·out_i

`keys` has a block of keys and walks over the queries of all heads that share them, `queries` has a
block of queries and walks over the keys; nothing is added atomically. Where separation moved mass,
lse and Δ are those of the corrected rows, p may exceed 1 and moved_mass_kernels.py adds the rest.
"""

from __future__ import annotations

import triton.language as tl

from ascender.kernels.gpu.launch import jit
from ascender.kernels.gpu.main_pass_kernels import BY_TYPE, tuned
from ascender.kernels.gpu.tile_kernels import (
    LOG2E,
    extent,
    rows,
    scores,
    store_rows,
    visible,
    weighted,
    weighted_transposed,
)

# Queries, keys, warps, stages of a program: the first for float32, the others for half precision.
KEY_TILES = ((16, 32, 8, 2), (32, 64, 8, 2), (32, 64, 4, 2), (32, 32, 8, 2))
QUERY_TILES = ((32, 16, 8, 2), (64, 32, 8, 2), (128, 32, 8, 2))


@jit
def _keys(
    Q, A, C, X, K, U, Z, Y, V, SCALE, MASK, CU, GRAD, LSE, DELTA, DK, DU, DZ_, DY, DV, N, M,
    H: tl.constexpr, G: tl.constexpr, ZH: tl.constexpr, YH: tl.constexpr, MH: tl.constexpr,
    D: tl.constexpr, DZ: tl.constexpr, E: tl.constexpr, R: tl.constexpr,
    BD: tl.constexpr, BZ: tl.constexpr, BE: tl.constexpr, BR: tl.constexpr, CAUSAL: tl.constexpr,
    ALIGN: tl.constexpr, NARROW: tl.constexpr, HAS_MASK: tl.constexpr, PACKED: tl.constexpr,
    SPLIT: tl.constexpr, UP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """DK, DU (B, G, M, D), DV (B, G, M, E); DZ_ (B, H, M, DZ) and DY (B, H, M, R) have a part for
    every head of the queries. Matrices are (keys, queries)."""
    j = tl.program_id(0)
    bg = tl.program_id(1).to(tl.int64)
    g = bg % G
    b, first, n, first_key, keys = extent(CU, bg // G, N, M, PACKED)
    t = j * BN + tl.arange(0, BN)
    kv = (b * G + g) * M + first_key
    k, v = rows(K, kv, t, keys, D, BD, UP), rows(V, kv, t, keys, E, BE, UP)
    u = k
    dk = tl.zeros([BN, BD], tl.float32)
    du = tl.zeros([BN, BD], tl.float32)
    dv = tl.zeros([BN, BE], tl.float32)
    if ALIGN:
        u = rows(U, kv, t, keys, D, BD, UP)
    start = 0
    if CAUSAL:
        start = tl.maximum(j * BN - (keys - n), 0) // BM * BM
    start = tl.where(j * BN < keys, start, n)
    column = tl.arange(0, BR)
    for r in range(H // G):
        h = g * (H // G) + r
        row, own = (b * H + h) * N + first, (b * H + h) * M + first_key
        at_z = (b * ZH + h // (H // ZH)) * M + first_key
        at_y = (b * YH + h // (H // YH)) * M + first_key
        at_mask = (b * MH + h // (H // MH)) * M + first_key
        scale = tl.load(SCALE + h)
        z = rows(Z, at_z, t, keys, DZ, BZ, UP)
        dz = tl.zeros([BZ, BN], tl.float32)
        dy = tl.zeros([BN, BR], tl.float32)
        for i in range(start, n, BM):
            m = i + tl.arange(0, BM)
            q, go = rows(Q, row, m, n, D, BD, UP), rows(GRAD, row, m, n, E, BE, UP)
            a = q
            c = q
            if ALIGN:
                a = rows(A, row, m, n, D, BD, UP)
            if NARROW:
                c = rows(C, row, m, n, DZ, BZ, UP)
            s = scores(k, q, u, a, z, c, Y, X, at_y, row, t, keys, m, n, scale, R, ALIGN, NARROW)
            lse = tl.load(LSE + row + m, mask=m < n, other=0.0)
            delta = tl.load(DELTA + row + m, mask=m < n, other=0.0)
            ok = tl.trans(visible(m, t, n, keys, MASK, at_mask, CAUSAL, HAS_MASK))
            p = tl.where(ok, tl.exp2((s - lse[None, :]) * LOG2E), 0.0)
            dv = weighted(p, go, dv, GRAD, SPLIT, UP)
            ds = p * (tl.dot(v, tl.trans(go), input_precision="tf32x3") - delta[None, :])
            dk = weighted(ds * scale, q, dk, Q, SPLIT, UP)
            if ALIGN:
                du = weighted(ds, a, du, Q, SPLIT, UP)
            if NARROW:
                dz = weighted_transposed(ds, c, dz, Q, SPLIT, UP)
            for w in tl.static_range(R):
                x = tl.load(X + row * R + m * R + w, mask=m < n, other=0.0)
                part = tl.sum(ds * x[None, :], 1)
                dy += tl.where(column == w, 1.0, 0.0)[None, :] * part[:, None]
        if NARROW:
            store_rows(DZ_, own, t, keys, tl.trans(dz), DZ, BZ)
        if R > 0:
            store_rows(DY, own, t, keys, dy, R, BR)
    store_rows(DK, kv, t, keys, dk, D, BD)
    store_rows(DV, kv, t, keys, dv, E, BE)
    if ALIGN:
        store_rows(DU, kv, t, keys, du, D, BD)


@jit
def _queries(
    Q, A, C, X, K, U, Z, Y, V, SCALE, MASK, CU, GRAD, LSE, DELTA, DQ, DA, DC, DX, N, M,
    H: tl.constexpr, G: tl.constexpr, ZH: tl.constexpr, YH: tl.constexpr, MH: tl.constexpr,
    D: tl.constexpr, DZ: tl.constexpr, E: tl.constexpr, R: tl.constexpr,
    BD: tl.constexpr, BZ: tl.constexpr, BE: tl.constexpr, BR: tl.constexpr, CAUSAL: tl.constexpr,
    ALIGN: tl.constexpr, NARROW: tl.constexpr, HAS_MASK: tl.constexpr, PACKED: tl.constexpr,
    SPLIT: tl.constexpr, UP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """DQ is that of σ q: times σ it is q's, and its product with q is that of σ."""
    i = tl.num_programs(0) - 1 - tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    h = bh % H
    b, first, n, first_key, keys = extent(CU, bh // H, N, M, PACKED)
    row, kv = (b * H + h) * N + first, (b * G + h // (H // G)) * M + first_key
    at_z = (b * ZH + h // (H // ZH)) * M + first_key
    at_y = (b * YH + h // (H // YH)) * M + first_key
    at_mask = (b * MH + h // (H // MH)) * M + first_key
    m = i * BM + tl.arange(0, BM)
    scale = tl.load(SCALE + h)
    q, go = rows(Q, row, m, n, D, BD, UP), rows(GRAD, row, m, n, E, BE, UP)
    lse = tl.load(LSE + row + m, mask=m < n, other=0.0)
    delta = tl.load(DELTA + row + m, mask=m < n, other=0.0)
    a = q
    c = q
    if ALIGN:
        a = rows(A, row, m, n, D, BD, UP)
    if NARROW:
        c = rows(C, row, m, n, DZ, BZ, UP)
    dq = tl.zeros([BM, BD], tl.float32)
    da = tl.zeros([BM, BD], tl.float32)
    dc = tl.zeros([BZ, BM], tl.float32)
    dx = tl.zeros([BM, BR], tl.float32)
    column = tl.arange(0, BR)
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, (i + 1) * BM + keys - n)
    end = tl.where(i * BM < n, end, 0)
    for j in range(0, end, BN):
        t = j + tl.arange(0, BN)
        k, v = rows(K, kv, t, keys, D, BD, UP), rows(V, kv, t, keys, E, BE, UP)
        u = k
        z = k
        if ALIGN:
            u = rows(U, kv, t, keys, D, BD, UP)
        if NARROW:
            z = rows(Z, at_z, t, keys, DZ, BZ, UP)
        s = scores(q, k, a, u, c, z, X, Y, row, at_y, m, n, t, keys, scale, R, ALIGN, NARROW)
        ok = visible(m, t, n, keys, MASK, at_mask, CAUSAL, HAS_MASK)
        p = tl.where(ok, tl.exp2((s - lse[:, None]) * LOG2E), 0.0)
        ds = p * (tl.dot(go, tl.trans(v), input_precision="tf32x3") - delta[:, None])
        dq = weighted(ds, k, dq, K, SPLIT, UP)
        if ALIGN:
            da = weighted(ds, u, da, K, SPLIT, UP)
        if NARROW:
            dc = weighted_transposed(ds, z, dc, K, SPLIT, UP)
        for w in tl.static_range(R):
            y = tl.load(Y + at_y * R + t * R + w, mask=t < keys, other=0.0)
            part = tl.sum(ds * y[None, :], 1)
            dx += tl.where(column == w, 1.0, 0.0)[None, :] * part[:, None]
    store_rows(DQ, row, m, n, dq, D, BD)
    if ALIGN:
        store_rows(DA, row, m, n, da, D, BD)
    if NARROW:
        store_rows(DC, row, m, n, tl.trans(dc), DZ, BZ)
    if R > 0:
        store_rows(DX, row, m, n, dx, R, BR)


keys, queries = tuned(_keys, KEY_TILES, **BY_TYPE), tuned(_queries, QUERY_TILES, **BY_TYPE)
