"""The main pass of the fold in Triton, forward: flash attention (Dao 2023,
https://arxiv.org/abs/2307.08691) whose scores are a sum of products that stay apart.

    s_ij = σ q_i·k_j + a_i·u_j + c_i·z_j + Σ_r x_ir y_jr       a: alignment, c: cohesion, narrow,
    out_i = Σ_j exp(s_ij − lse_i) v_j                          x y: of float32 (‖z‖², positions)

One program has a block of queries of one head and walks over the keys. The definition in torch
operators is in main_pass.py.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ascender.kernels.gpu.launch import first_or_all, jit
from ascender.kernels.gpu.tile_kernels import (
    LN2,
    LOG2E,
    extent,
    rows,
    scores,
    store_rows,
    visible,
    weighted,
)

KEY = ["D", "E", "DZ", "R", "ALIGN", "NARROW", "SPLIT", "CAUSAL"]
# Queries, keys, warps, stages of a program: the first for float32, the others for half precision.
TILES = ((32, 32, 8, 1), (64, 64, 4, 2), (128, 64, 8, 2))


@jit
def _forward(
    Q, A, C, X, K, U, Z, Y, V, SCALE, MASK, CU, OUT, LSE, N, M,
    H: tl.constexpr, G: tl.constexpr, ZH: tl.constexpr, YH: tl.constexpr, MH: tl.constexpr,
    D: tl.constexpr, DZ: tl.constexpr, E: tl.constexpr, R: tl.constexpr,
    BD: tl.constexpr, BZ: tl.constexpr, BE: tl.constexpr, CAUSAL: tl.constexpr,
    ALIGN: tl.constexpr, NARROW: tl.constexpr, HAS_MASK: tl.constexpr, PACKED: tl.constexpr,
    SPLIT: tl.constexpr, UP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Q, A (B, H, N, D), C (B, H, N, DZ), X (B, H, N, R), K, U (B, G, M, D), Z (B, ZH, M, DZ),
    Y (B, YH, M, R), V (B, G, M, E), MASK (B, MH, M), OUT (B, H, N, E), LSE (B, H, N). What a call
    does not have is never read."""
    i = tl.num_programs(0) - 1 - tl.program_id(0)  # where causal, the longest first
    bh = tl.program_id(1).to(tl.int64)
    h = bh % H
    b, first, n, first_key, keys = extent(CU, bh // H, N, M, PACKED)
    row, kv = (b * H + h) * N + first, (b * G + h // (H // G)) * M + first_key
    at_z = (b * ZH + h // (H // ZH)) * M + first_key
    at_y = (b * YH + h // (H // YH)) * M + first_key
    at_mask = (b * MH + h // (H // MH)) * M + first_key
    m = i * BM + tl.arange(0, BM)
    scale = tl.load(SCALE + h)
    q = rows(Q, row, m, n, D, BD, UP)
    a = q
    c = q
    if ALIGN:
        a = rows(A, row, m, n, D, BD, UP)
    if NARROW:
        c = rows(C, row, m, n, DZ, BZ, UP)
    acc = tl.zeros([BM, BE], tl.float32)
    top = tl.full([BM], float("-inf"), tl.float32)
    mass = tl.zeros([BM], tl.float32)
    end = keys
    if CAUSAL:
        end = tl.minimum(keys, (i + 1) * BM + keys - n)
    end = tl.where(i * BM < n, end, 0)
    for j in range(0, end, BN):
        t = j + tl.arange(0, BN)
        k = rows(K, kv, t, keys, D, BD, UP)
        u = k
        z = k
        if ALIGN:
            u = rows(U, kv, t, keys, D, BD, UP)
        if NARROW:
            z = rows(Z, at_z, t, keys, DZ, BZ, UP)
        s = scores(q, k, a, u, c, z, X, Y, row, at_y, m, n, t, keys, scale, R, ALIGN, NARROW)
        ok = visible(m, t, n, keys, MASK, at_mask, CAUSAL, HAS_MASK)
        s = tl.where(ok, s * LOG2E, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        base = tl.where(new == float("-inf"), 0.0, new)
        p = tl.exp2(s - base[:, None])
        keep = tl.exp2(top - base)
        mass = mass * keep + tl.sum(p, 1)
        v = rows(V, kv, t, keys, E, BE, UP)
        acc = weighted(p, v, acc * keep[:, None], V, SPLIT, UP)
        top = new
    some = mass > 0.0
    out = acc / tl.where(some, mass, 1.0)[:, None]
    lse = tl.where(some, top * LN2 + tl.log(tl.where(some, mass, 1.0)), float("-inf"))
    store_rows(OUT, row, m, n, out, E, BE)
    tl.store(LSE + row + m, lse, mask=m < n)


def by_type(configs, named_args, **given):
    """Three products of TF32 each need small tiles: the first is for float32."""
    if len(configs) == 1:
        return configs
    q = (named_args | given)["Q"]
    return configs[1:] if q.element_size() == 2 else configs[:1]


def tuned(kernel, tiles, key, **options):
    """The kernel with these tiles to choose from."""
    configs = [
        triton.Config({"BM": m, "BN": n}, num_warps=warps, num_stages=stages)
        for m, n, warps, stages in tiles
    ]
    return triton.autotune(configs=first_or_all(configs), key=key, **options)(kernel)


BY_TYPE = {"key": KEY, "prune_configs_by": {"early_config_prune": by_type}}
forward = tuned(_forward, TILES, **BY_TYPE)
