"""Times a training step of an attention layer on a GPU, for whoever has one (docs/gpu.md).

python tools/gpu_benchmark.py --json gpu.json
python tools/gpu_benchmark.py --device cpu --lengths 64        that it runs at all
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

from ascender import AscenderAttention
from ascender.nn.baselines import attention

LAYERS = {
    "vanilla": lambda dim, heads: attention("vanilla", dim, heads),
    "ascender": AscenderAttention,
    "ascender, window 256": lambda dim, heads: AscenderAttention(dim, heads, window=256),
    "ascender, flock": lambda dim, heads: AscenderAttention(dim, heads, scope="flock"),
}


def measure(name: str, dtype: torch.dtype, length: int, options: argparse.Namespace) -> dict:
    """Seconds of forward and backward (the median, after a warm-up), and the peak of memory."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device(options.device):
        layer = LAYERS[name](options.dim, options.heads)
        x = torch.randn(options.batch, length, options.dim, requires_grad=True)
    torch.set_default_dtype(default)
    row: dict[str, Any] = {"layer": name, "dtype": str(dtype)[6:], "length": length}

    def step() -> None:
        layer(x, causal=True).float().square().sum().backward()

    try:
        step()
        if options.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        taken = Timer("step()", globals={"step": step}).blocked_autorange(min_run_time=1.0)
    except (RuntimeError, torch.OutOfMemoryError) as error:
        return {**row, "error": str(error).splitlines()[0]}
    if options.device == "cuda":
        row["peak"] = torch.cuda.max_memory_allocated()
    return {**row, "seconds": taken.median, "spread": taken.iqr, "steps": len(taken.times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--lengths", default="512,2048,8192,32768")
    for name, value in (("--dim", 1024), ("--heads", 16), ("--batch", 1)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    cuda = options.device == "cuda"
    machine = {
        "device": torch.cuda.get_device_name() if cuda else platform.processor(),
        "torch": torch.__version__, "dim": options.dim, "heads": options.heads,
        "batch": options.batch,
    }  # fmt: skip
    rows = []
    for dtype in (torch.bfloat16, torch.float32):
        for length in map(int, options.lengths.split(",")):
            for name in LAYERS:
                rows.append(measure(name, dtype, length, options))
                print(rows[-1], flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
