"""Running sums over chunks in Triton, restarting at every sequence; a program has some of the
columns and walks over the chunks.

    out_c = Σ x_b over the chunks b < c of the same sequence          REVERSE: b > c, its gradient
"""

from __future__ import annotations

import triton
import triton.language as tl

from ascender.kernels.gpu.launch import first_or_all, jit

COLUMNS = ((256, 4), (64, 2))  # columns and warps of a program


@jit
def _running(X, BEGINS, OUT, chunks, width, REVERSE: tl.constexpr, BW: tl.constexpr):
    """X, OUT (rows, chunks, width), BEGINS (chunks,) of uint8."""
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    at = tl.program_id(1).to(tl.int64) * chunks * width
    step = at * 0 + width
    if REVERSE:
        at += (step * 0 + chunks - 1) * width
        step = -step
    sums = tl.zeros([BW], tl.float32)
    for c in range(chunks):
        edge = tl.load(BEGINS + c)
        if REVERSE:  # whether the chunk after this one begins a sequence
            edge = tl.load(BEGINS + chunks - c, mask=c > 0, other=1)
        sums = tl.where(edge != 0, 0.0, sums)
        tl.store(OUT + at + w, sums, mask=w < width)
        sums += tl.load(X + at + w, mask=w < width, other=0.0)
        at += step


running = triton.autotune(
    configs=first_or_all(
        [triton.Config({"BW": n}, num_warps=warps, num_stages=2) for n, warps in COLUMNS]
    ),
    key=["width"],
)(_running)
