"""The machine, for records, benchmarks and `ascender doctor`: processor, memory, GPUs."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import torch

from ascender.measure import memory

CPUINFO = Path("/proc/cpuinfo")
# Fields of `nvidia-smi --help-query-gpu`: what a GPU's times depend on.
STATE = (
    "pstate", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw",
    "power.limit", "temperature.gpu", "persistence_mode", "driver_version",
)  # fmt: skip


def facts() -> dict[str, str | float]:
    """The machine that numbers were measured on, without host names; for a GPU see gpu()."""
    return {
        "torch": torch.__version__, "python": platform.python_version(),
        "threads": torch.get_num_threads(), "processor": processor(), "ram_gb": ram_gb(),
    }  # fmt: skip


def processor() -> str:
    """The model of the CPU."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()


def cores() -> int | None:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def ram_gb() -> float:
    return round(memory.total() / 1e9, 1)


def gpus() -> list[str]:
    """The GPUs that torch sees."""
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def gpu(device: torch.device) -> dict[str, Any]:
    """A GPU: model, memory, compute capability and multiprocessors."""
    of = torch.cuda.get_device_properties(device)
    return {
        "gpu": of.name, "gpu_memory_gb": round(of.total_memory / 1e9, 1),
        "capability": f"{of.major}.{of.minor}", "multiprocessors": of.multi_processor_count,
        "cuda": torch.version.cuda,
    }  # fmt: skip


def gpu_state(device: torch.device) -> dict[str, str]:
    """Clocks (MHz), power (W) and temperature (°C) of a GPU now, as nvidia-smi says; empty where
    there is none, or where it fails."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return {}
    uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    which = f"GPU-{uuid}" if uuid is not None else str(device.index or 0)
    query = [f"--query-gpu={','.join(STATE)}", "--format=csv,noheader,nounits", f"--id={which}"]
    try:
        said = subprocess.run([command, *query], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [value.strip() for value in said.stdout.strip().split(",")]
    return dict(zip(STATE, values, strict=True)) if len(values) == len(STATE) else {}


def gpus_found() -> str:
    """The GPUs that torch and nvidia-smi see, in words, for errors."""
    if torch.cuda.is_available():
        return f"torch sees {', '.join(f'cuda:{i} ({name})' for i, name in enumerate(gpus()))}"
    kind = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    driver = "nvidia-smi is there" if shutil.which("nvidia-smi") else "there is no nvidia-smi"
    return f"torch {torch.__version__} is {kind} and sees no GPU; {driver}"
