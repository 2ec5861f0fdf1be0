"""Part of `ascender bench choose`: which stock attention kernel each pass of `folded` takes on a
GPU, and why not the others. A choice by rules (core/backends/stock_kernels.py), not a measurement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from ascender.core.backends.stock_kernels import KERNELS, Pass, capability, installed
from ascender.kernels.gpu import has_triton
from ascender.report.table import Table

HALF = torch.bfloat16
PASSES = {  # widths at d = 64, d_z = 15, filled up to multiples of 16
    "all rules off": Pass(HALF, 64, 64),
    "main pass, no separation": Pass(HALF, 160, 64),
    "the same with QK-norm": Pass(HALF, 96, 64),
    "the same, padded": Pass(HALF, 160, 64, biased=True),
    "main pass with separation": Pass(torch.float32, 144, 64),
    "centre and density": Pass(torch.float32, 16, 16),
}
GPUS = {"A100": (8, 0), "H100": (9, 0), "B200": (10, 0)}
NOTE = (
    "By rules, not by measurement{where}: bfloat16, d = 64, d_z = 15. With Triton, auto takes the "
    "backend fused, whose kernels are its own; these are those of folded, which auto takes where "
    "all rules are off and for what fused refuses. Triton is {triton}installed here, "
    "FlashAttention-4 is {there}installed; ASCENDER_GPU_KERNEL takes a kernel by name."
)


def gpus() -> dict[str, tuple[int, int]]:
    """GPUs by name, with their compute capability; the GPU of this machine first, if it has one."""
    if torch.cuda.is_available():
        here = capability(torch.device("cuda", torch.cuda.current_device()))
        if here is not None:
            return {f"here ({torch.cuda.get_device_name()})": here, **GPUS}
    return GPUS


def choices() -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """(pass, GPU, the kernel that auto takes, why each of the others is not taken)."""
    for name, need in PASSES.items():
        for gpu, at in gpus().items():
            asked = replace(need, capability=at)
            reasons = {n: kernel.refuses(asked) for n, kernel in KERNELS.items()}
            able = [n for n, reason in reasons.items() if reason is None]
            later = {n: f"{able[0]} comes first" for n in able[1:]}
            yield name, gpu, able[0], later | {n: r for n, r in reasons.items() if r is not None}


def table() -> Table:
    """The kernel by pass and GPU; below it, once each, why others are not taken."""
    by_pass: dict[str, list[str]] = {}
    why: dict[str, None] = {}
    for name, _, kernel, others in choices():
        by_pass.setdefault(name, []).append(kernel)
        for other, reason in others.items():
            why[f"{other}: {reason}"] = None
    columns = ("pass", *(f"{gpu} ({a}.{b})" for gpu, (a, b) in gpus().items()))
    rows = [(name, *kernels) for name, kernels in by_pass.items()]
    note = NOTE.format(
        where="" if torch.cuda.is_available() else ", not run (there is no GPU)",
        there="" if installed() else "not ",
        triton="" if has_triton() else "not ",
    )
    title = "Stock attention kernels on a GPU: what folded takes"
    notes = (note, *(f"{reason}." for reason in why))
    return Table.of_text("kernels", columns, rows, (title, title), notes)
