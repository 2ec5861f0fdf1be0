"""Separation in Triton: moves attention weight of each query's listed keys, after the main pass.

    p_il = exp(s_il − lse_i) expm1(b_il)        m_i = 1 + Σ_l p_il
    out'_i = (out_i + Σ_l p_il v_l) / m_i       lse'_i = lse_i + log m_i

The main pass's backward takes (out', lse'). What it misses is in the lists: with Δ' = g·out',

    e_il = exp(s_il − lse'_i) expm1(b_il)
    ∂s_il += e_il (g_i·v_l − Δ'_i)              ∂v_l += e_il g_i
    ∂b_il = exp(s_il − lse'_i + b_il) (g_i·v_l − Δ'_i)

A program has a block of queries of one head and gathers their keys one by one, in float32 without
tl.dot. Gradients of keys are added atomically: their last digits depend on the order.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ascender.kernels.gpu.launch import first_or_all, jit
from ascender.kernels.gpu.tile_kernels import rows, store_rows

ATOMIC = ["DQ", "DA", "DC", "DX", "DK", "DU", "DZ_", "DY", "DV"]  # are read and written
TILES = ((16, 4), (32, 8))  # queries and warps of a program


@jit
def gathered(X, key, ok, w: tl.constexpr, W: tl.constexpr):
    """Rows of X (…, w) by their number, of int64, in float32."""
    c = tl.arange(0, W)
    mask = ok[:, None]
    if w < W:
        mask = mask & (c < w)[None, :]
    return tl.load(X + (key * w)[:, None] + c[None, :], mask=mask, other=0.0).to(tl.float32)


@jit
def add_rows(X, key, ok, x, w: tl.constexpr, W: tl.constexpr):
    c = tl.arange(0, W)
    mask = ok[:, None]
    if w < W:
        mask = mask & (c < w)[None, :]
    tl.atomic_add(X + (key * w)[:, None] + c[None, :], x, mask=mask, sem="relaxed")


@jit
def score(
    q, a, c, X, K, U, Z, Y, row, m, n, kv, at_z, at_y, ok, scale,
    D: tl.constexpr, DZ: tl.constexpr, R: tl.constexpr, BD: tl.constexpr, BZ: tl.constexpr,
    ALIGN: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """s_il of one key a query, and the rows of K, U and Z it is made of."""
    k = gathered(K, kv, ok, D, BD)
    u = k
    z = k
    s = tl.sum(q * k, 1) * scale
    if ALIGN:
        u = gathered(U, kv, ok, D, BD)
        s += tl.sum(a * u, 1)
    if NARROW:
        z = gathered(Z, at_z, ok, DZ, BZ)
        s += tl.sum(c * z, 1)
    for r in tl.static_range(R):
        x = tl.load(X + row * R + m * R + r, mask=m < n, other=0.0)
        s += x * tl.load(Y + at_y * R + r, mask=ok, other=0.0)
    return s, k, u, z


@jit
def _move(
    Q, A, C, X, K, U, Z, Y, V, SCALE, LIST, BIAS, OUT, LSE, LEFT, N, M, length, least,
    H: tl.constexpr, G: tl.constexpr, ZH: tl.constexpr, YH: tl.constexpr, LH: tl.constexpr,
    D: tl.constexpr, DZ: tl.constexpr, E: tl.constexpr, R: tl.constexpr,
    BD: tl.constexpr, BZ: tl.constexpr, BE: tl.constexpr, ALIGN: tl.constexpr,
    NARROW: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """LIST (B, LH, N, length), −1 = none, BIAS (B, H, N, length); OUT and LSE are changed in place,
    LEFT is m, divided by as `least` where it is less."""
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    here, row, at_list = m < N, bh * N, (b * LH + h // (H // LH)) * N
    kv, at_z = (b * G + h // (H // G)) * M, (b * ZH + h // (H // ZH)) * M
    at_y = (b * YH + h // (H // YH)) * M
    scale = tl.load(SCALE + h)
    q = rows(Q, row, m, N, D, BD, True)
    a = q
    c = q
    if ALIGN:
        a = rows(A, row, m, N, D, BD, True)
    if NARROW:
        c = rows(C, row, m, N, DZ, BZ, True)
    out = rows(OUT, row, m, N, E, BE, True)
    lse = tl.load(LSE + row + m, mask=here, other=0.0)
    left = tl.full([BM], 1.0, tl.float32)
    for l in range(length):
        key = tl.load(LIST + at_list * length + m * length + l, mask=here, other=-1).to(tl.int64)
        bias = tl.load(BIAS + row * length + m * length + l, mask=here, other=0.0)
        ok = key >= 0
        s, _, _, _ = score(
            q, a, c, X, K, U, Z, Y, row, m, N, kv + key, at_z + key, at_y + key, ok, scale,
            D, DZ, R, BD, BZ, ALIGN, NARROW,
        )  # fmt: skip
        p = tl.where(ok, tl.exp(tl.minimum(s - lse, 0.0)) * (tl.exp(bias) - 1.0), 0.0)
        left += p
        out += p[:, None] * gathered(V, kv + key, ok, E, BE)
    tl.store(LEFT + row + m, left, mask=here)
    left = tl.maximum(left, least)
    store_rows(OUT, row, m, N, out / left[:, None], E, BE)
    tl.store(LSE + row + m, lse + tl.log(left), mask=here)


@jit
def _move_back(
    Q, A, C, X, K, U, Z, Y, V, SCALE, LIST, BIAS, GRAD, LSE, DELTA,
    DQ, DA, DC, DX, DK, DU, DZ_, DY, DV, DBIAS, N, M, length,
    H: tl.constexpr, G: tl.constexpr, ZH: tl.constexpr, YH: tl.constexpr, LH: tl.constexpr,
    D: tl.constexpr, DZ: tl.constexpr, E: tl.constexpr, R: tl.constexpr,
    BD: tl.constexpr, BZ: tl.constexpr, BE: tl.constexpr, BR: tl.constexpr, ALIGN: tl.constexpr,
    NARROW: tl.constexpr, BM: tl.constexpr,
):  # fmt: skip
    """Added to what the main pass's backward wrote, in its shapes and in float32."""
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    here, row, at_list, own = m < N, bh * N, (b * LH + h // (H // LH)) * N, bh * M
    kv, at_z = (b * G + h // (H // G)) * M, (b * ZH + h // (H // ZH)) * M
    at_y = (b * YH + h // (H // YH)) * M
    scale = tl.load(SCALE + h)
    q, go = rows(Q, row, m, N, D, BD, True), rows(GRAD, row, m, N, E, BE, True)
    a = q
    c = q
    dq = rows(DQ, row, m, N, D, BD, True)
    da = dq
    dc = dq
    if ALIGN:
        a = rows(A, row, m, N, D, BD, True)
        da = rows(DA, row, m, N, D, BD, True)
    if NARROW:
        c = rows(C, row, m, N, DZ, BZ, True)
        dc = rows(DC, row, m, N, DZ, BZ, True)
    column = tl.arange(0, BR)
    dx = tl.zeros([BM, BR], tl.float32)
    lse = tl.load(LSE + row + m, mask=here, other=0.0)
    delta = tl.load(DELTA + row + m, mask=here, other=0.0)
    for l in range(length):
        key = tl.load(LIST + at_list * length + m * length + l, mask=here, other=-1).to(tl.int64)
        bias = tl.load(BIAS + row * length + m * length + l, mask=here, other=0.0)
        ok = key >= 0
        s, k, u, z = score(
            q, a, c, X, K, U, Z, Y, row, m, N, kv + key, at_z + key, at_y + key, ok, scale,
            D, DZ, R, BD, BZ, ALIGN, NARROW,
        )  # fmt: skip
        p = tl.where(ok, tl.exp(s - lse), 0.0)
        along = tl.sum(go * gathered(V, kv + key, ok, E, BE), 1) - delta
        factor = tl.exp(bias)
        e = p * (factor - 1.0)
        ds = e * along
        tl.store(DBIAS + row * length + m * length + l, p * factor * along, mask=here)
        add_rows(DV, kv + key, ok, e[:, None] * go, E, BE)
        dq += ds[:, None] * k
        add_rows(DK, kv + key, ok, (ds * scale)[:, None] * q, D, BD)
        if ALIGN:
            da += ds[:, None] * u
            add_rows(DU, kv + key, ok, ds[:, None] * a, D, BD)
        if NARROW:
            dc += ds[:, None] * z
            add_rows(DZ_, own + key, ok, ds[:, None] * c, DZ, BZ)
        for r in tl.static_range(R):
            x = tl.load(X + row * R + m * R + r, mask=here, other=0.0)
            y = tl.load(Y + (at_y + key) * R + r, mask=ok, other=0.0)
            dx += tl.where(column == r, 1.0, 0.0)[None, :] * (ds * y)[:, None]
            tl.atomic_add(DY + (own + key) * R + r, ds * x, mask=ok, sem="relaxed")
    store_rows(DQ, row, m, N, dq, D, BD)
    if ALIGN:
        store_rows(DA, row, m, N, da, D, BD)
    if NARROW:
        store_rows(DC, row, m, N, dc, DZ, BZ)
    if R > 0:
        store_rows(DX, row, m, N, dx + rows(DX, row, m, N, R, BR, True), R, BR)


def _tuned(kernel, changed):
    configs = [triton.Config({"BM": m}, num_warps=warps, num_stages=1) for m, warps in TILES]
    key = ["D", "E", "DZ", "R", "ALIGN", "NARROW"]
    return triton.autotune(configs=first_or_all(configs), key=key, restore_value=changed)(kernel)


move, move_back = _tuned(_move, ["OUT", "LSE"]), _tuned(_move_back, ATOMIC)
