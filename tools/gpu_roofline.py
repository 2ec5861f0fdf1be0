"""The roofline table of docs/gpu.md: arithmetic from data sheets, nothing measured.

    python tools/gpu_roofline.py          prints the table; tests/gpu/test_roofline.py compares

Causal attention in visible scope with k = 16, d_z = 16, 16 heads, half precision, separation on, by
the backend fused; in units of FlashAttention (2 on A100, 3 on H100). The time of each pass is the
longest of what its units need, over a guess at how well they are used. Where separation moves mass,
weights have two numbers of half precision, hence two products; the backward of keys and that of
queries each compute the scores again; products of the centre pass are three of TF32 each.
"""

from __future__ import annotations

from dataclasses import dataclass

K, DZ, BLOCK, HEADS = 16, 16, 16, 16
LENGTHS = (2048, 8192, 32768)


@dataclass(frozen=True)
class Gpu:
    """10¹² operations a second of tensor cores in half precision and TF32, exponentials, other
    float32 operations; 10¹² bytes a second of the L2 cache, memory and atomic additions; what
    FlashAttention reaches, forward and backward; the share of it that a wider kernel would."""

    half: float
    tf32: float
    exp: float
    alu: float
    l2: float
    memory: float
    atomic: float
    forward: float
    backward: float
    shares: tuple[float, float]


GPUS = {
    "A100": Gpu(312, 156, 2.44, 9.75, 4.5, 2.0, 2.2, 190, 165, (0.92, 0.85)),
    "H100": Gpu(989, 495, 3.7, 29.6, 6.0, 3.35, 3.0, 430, 400, (0.75, 0.62)),
}


def ratios(
    gpu: Gpu, N: int, d: int, *, rotary: bool, shared: bool, group: int
) -> tuple[float, ...]:
    """(forward, backward) over FlashAttention; times are in 10⁻¹² s a row and head. `rotary`:
    alignment has columns of its own. `shared`: one z and h a layer. `group`: query heads a key."""
    pairs, A, one = N / 2, d if rotary else 0, 1 / HEADS if shared else 1
    main = (6 * d + 2 * DZ + 2 * A) / gpu.forward / gpu.shares[0] + 0.5 / gpu.alu
    main_back = (20 * d + 12 * DZ + 12 * A) / gpu.backward / gpu.shares[1] + 2 / gpu.alu
    centre = max(1 / gpu.exp, 3 * 4 * DZ / gpu.tf32, 2.5 / gpu.alu) / 0.7
    centre_back = max(2 / gpu.exp, 3 * 14 * DZ / gpu.tf32, 12 / gpu.alu) / 0.6
    search = max(2 * DZ / gpu.half, 1.5 / (gpu.alu / (1 if gpu.alu < 10 else 2))) / 0.7
    pick = K * BLOCK * DZ * 2 / gpu.l2 / 0.7 + N / 2 / BLOCK * 4 * 5 / gpu.memory
    gather = (K * (4 * d + 2 * DZ) + K * 2 * d * (2 if rotary else 1)) / group / gpu.l2 / 0.7
    scatter = 1.3 * gather + K * 4 * (2 * d + DZ + A) / group / gpu.atomic
    moments = 2 * d * (64 + d) * 2 / gpu.half / 0.4 / group
    rest, rest_back = (moments * f + c * d * 2 / gpu.memory for f, c in ((1, 14), (2.5, 24)))
    ours = (main + one * (centre + search)) * pairs + one * pick + gather + rest
    back = (main_back + one * centre_back) * pairs + scatter + rest_back
    return ours / (4 * d / gpu.forward * pairs), back / (10 * d / gpu.backward * pairs)


ROWS = {
    "one geometry a layer, QK-norm, four query heads a key": dict(
        rotary=False, shared=True, group=4
    ),
    "one geometry a layer, rotary": dict(rotary=True, shared=True, group=1),
    "a geometry for each head, rotary": dict(rotary=True, shared=False, group=1),
}


def table() -> str:
    lines = ["| GPU, d = 64 | forward at 2k / 8k / 32k | backward |", "|---|---|---|"]
    for name, gpu in GPUS.items():
        for what, options in ROWS.items():
            found = [ratios(gpu, N, 64, **options) for N in LENGTHS]
            cells = (" / ".join(f"{pair[side]:.1f}" for pair in found) for side in (0, 1))
            lines.append(f"| {name}: {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
