"""Compiles Triton kernels for GPUs that are not there, and reads what they would need."""

import re
import subprocess
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

PTXAS = Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
ARCHITECTURE = {80: "sm_80", 90: "sm_90a"}
SHARED = {80: 163 << 10, 90: 227 << 10}  # bytes of shared memory a program may have


def needs(kernel, capability, tensors, folder, *, warps, stages=1, **constants):
    """{shared, registers, spilled} of a kernel in bytes and registers a thread; `tensors`: the type
    of each argument that is not a constant ("*fp32", "i32" …)."""
    kernel = getattr(kernel, "fn", kernel)  # an autotuned kernel
    types = {n: tensors.get(n, "constexpr") for n in kernel.arg_names}
    constants = {n: constants[n] for n in kernel.arg_names if n not in tensors}
    aligned = {
        (place,): [["tt.divisibility", 16]]
        for place, name in enumerate(kernel.arg_names) if types[name].startswith("*")
    }  # fmt: skip
    found = triton.compile(
        ASTSource(kernel, types, constants, aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": warps, "num_stages": stages},
    )
    source = folder / "kernel.ptx"
    source.write_text(found.asm["ptx"])
    command = [PTXAS, "-v", f"--gpu-name={ARCHITECTURE[capability]}", source, "-o", "/dev/null"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {
        "shared": found.metadata.shared,
        "registers": int(re.search(r"Used (\d+) registers", said)[1]),
        "spilled": int(re.search(r"(\d+) bytes spill stores", said)[1]),
    }
