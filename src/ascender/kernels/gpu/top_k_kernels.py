"""The k best keys of each query in Triton, exactly, without N×M in memory.

The k largest scores of a row lie in the k blocks of keys with the largest maxima: each of them is
at most its block's maximum, and at most k blocks reach the k-th. So

    1  block_max: the maximum of every block of W keys       (N, M/W), one narrow product
    2  torch.topk of the maxima                              k blocks a row
    3  pick: the k·W candidates again, sorted by (score, key) packed into 64 bits

Products of step 1 are three of TF32 each, as exact as float32; scores that float32 cannot tell
apart may change places. Keys rank as in core/neighbours.py: older ones a little lower where causal.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ascender.kernels.gpu.launch import first_or_all, jit

TIE, OLD = tl.constexpr(1e-6), tl.constexpr(4096)  # core/neighbours.py
MAX_DISTANCE = tl.constexpr(1024)  # core/affinity.py
TILES = ((64, 64, 4), (128, 64, 8), (32, 128, 4))  # queries, keys, warps of a program
NONE = tl.constexpr(-0x7FFFFFFFFFFFFFFF)


@jit
def allowed(
    p, j, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, GLOBALS: tl.constexpr, CROSS: tl.constexpr,
    BEYOND: tl.constexpr,
):  # fmt: skip
    """Whether j is in P(i), but for the mask."""
    away = tl.abs(p - j)
    seen = away >= 0
    if not CROSS:
        seen = away > 0
        if BEYOND >= 0:
            seen = seen & (away > BEYOND) & (j >= GLOBALS)
    if CAUSAL:
        seen = seen & (j <= p)
    if WINDOW >= 0:
        near = away <= WINDOW
        if GLOBALS > 0:
            near = near | (j < GLOBALS) | (p < GLOBALS)
        seen = seen & near
    return seen


@jit
def ranked(s, p, j, BIAS, HAS_BIAS: tl.constexpr, CAUSAL: tl.constexpr, BOUNDED: tl.constexpr):
    """The score by which a key ranks."""
    if HAS_BIAS:
        far = tl.minimum(tl.maximum(p - j, -MAX_DISTANCE), MAX_DISTANCE)
        s += tl.load(BIAS + far + MAX_DISTANCE)
    if CAUSAL:
        age = tl.minimum(tl.maximum(p - j, 0), OLD).to(tl.float32) * TIE
        if BOUNDED:
            s -= age
        else:
            s -= age * tl.maximum(1.0, tl.abs(s))
    return s


@jit
def _block_max(
    X, Y, P, J, MASK, BIAS, OUT, first, N, rows, M, room, mask_b, mask_h, mask_n, blocks,
    H: tl.constexpr, XH: tl.constexpr, YH: tl.constexpr, D: tl.constexpr, BD: tl.constexpr,
    W: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, HAS_MASK: tl.constexpr,
    HAS_BIAS: tl.constexpr, BOUNDED: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    GLOBALS: tl.constexpr, CROSS: tl.constexpr, BEYOND: tl.constexpr,
):  # fmt: skip
    """X (B, XH, N, D), Y (B, YH, room, D); OUT (B, H, rows, blocks) of queries from `first` on."""
    bh = tl.program_id(2).to(tl.int64)
    b, h = bh // H, bh % H
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    n, d = tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BD)
    m = first + r
    w = tl.program_id(1) * (BN // W) + tl.arange(0, BN // W)
    out = OUT + bh * rows * blocks + (r.to(tl.int64) * blocks)[:, None] + w[None, :]
    here = (r < rows)[:, None] & (w < blocks)[None, :]
    p = tl.load(P + m, mask=r < rows, other=-1)
    j = tl.load(J + n, mask=n < M, other=0)
    maxima = tl.full([BM, BN // W], float("-inf"), tl.float32)
    later = False
    if CAUSAL and not CROSS:  # positions ascend
        later = tl.load(J + tl.program_id(1) * BN) > tl.max(p, 0)
    if not later:
        x = tl.load(
            X + (b * XH + h // (H // XH)) * N * D + (m * D)[:, None] + d[None, :],
            mask=(r < rows)[:, None] & (d < D)[None, :], other=0.0,
        )  # fmt: skip
        y = tl.load(
            Y + (b * YH + h // (H // YH)) * room * D + (n * D)[None, :] + d[:, None],
            mask=(n < M)[None, :] & (d < D)[:, None], other=0.0,
        )  # fmt: skip
        s = tl.dot(x, y, input_precision="tf32x3")
        s = ranked(s, p[:, None], j[None, :], BIAS, HAS_BIAS, CAUSAL, BOUNDED)
        seen = allowed(p[:, None], j[None, :], CAUSAL, WINDOW, GLOBALS, CROSS, BEYOND)
        seen = seen & (r < rows)[:, None] & (n < M)[None, :]
        if HAS_MASK:
            at = MASK + b * mask_b + h * mask_h + (m * mask_n)[:, None] + n[None, :]
            seen = seen & (tl.load(at, mask=seen, other=0) != 0)
        s = tl.where(seen, s, float("-inf"))
        maxima = tl.max(tl.reshape(s, [BM, BN // W, W]), 2)
    tl.store(out, maxima, mask=here)


@jit
def _pick(
    X, Y, P, J, MASK, BIAS, BLOCK, OUT, first, N, rows, M, room, mask_b, mask_h, mask_n,
    H: tl.constexpr, XH: tl.constexpr, YH: tl.constexpr, D: tl.constexpr, W: tl.constexpr,
    K: tl.constexpr, BM: tl.constexpr, HAS_MASK: tl.constexpr, HAS_BIAS: tl.constexpr,
    BOUNDED: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, GLOBALS: tl.constexpr,
    CROSS: tl.constexpr, BEYOND: tl.constexpr,
):  # fmt: skip
    """BLOCK, OUT (B, H, rows, K): the blocks of each query, −1 = none; its best keys in order."""
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    r, c = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, K * W)
    m, here = first + r, r < rows
    row = (bh * rows + r) * K
    block = tl.load(BLOCK + row[:, None] + (c // W)[None, :], mask=here[:, None], other=-1)
    key = block * W + (c % W)[None, :]
    seen = (block >= 0) & (key < M) & here[:, None]
    key = tl.where(seen, key, 0)
    p = tl.load(P + m, mask=here, other=-1)
    j = tl.load(J + key)
    seen = seen & allowed(p[:, None], j, CAUSAL, WINDOW, GLOBALS, CROSS, BEYOND)
    if HAS_MASK:
        at = MASK + b * mask_b + h * mask_h + (m * mask_n)[:, None] + key
        seen = seen & (tl.load(at, mask=seen, other=0) != 0)
    s = tl.zeros([BM, K * W], tl.float32)
    x, y = X + ((b * XH + h // (H // XH)) * N + m) * D, Y + (b * YH + h // (H // YH)) * room * D
    for d in range(D):
        one = tl.load(x + d, mask=here, other=0.0)
        s += one[:, None] * tl.load(y + key * D + d, mask=seen, other=0.0)
    s = ranked(s, p[:, None], j, BIAS, HAS_BIAS, CAUSAL, BOUNDED)
    bits = s.to(tl.int32, bitcast=True)
    order = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)  # sorts as the numbers do
    packed = tl.where(seen, (order << 32) | (0x7FFFFFFF - key).to(tl.int64), NONE)
    best = tl.topk(packed, K, dim=1)
    index = 0x7FFFFFFF - (best & 0x7FFFFFFF).to(tl.int32)
    k = tl.arange(0, K)
    tl.store(OUT + row[:, None] + k[None, :], tl.where(best == NONE, -1, index), mask=here[:, None])


block_max = triton.autotune(
    configs=first_or_all(
        [triton.Config({"BM": m, "BN": n}, num_warps=w, num_stages=1) for m, n, w in TILES]
    ),
    key=["D"],
)(_block_max)
pick = triton.autotune(
    configs=first_or_all([triton.Config({}, num_warps=w, num_stages=1) for w in (4, 8)]),
    key=["K", "D"],
)(_pick)
