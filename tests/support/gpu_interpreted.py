"""Runs Triton kernels in Triton's interpreter, on tensors of the CPU, in a process of its own: the
interpreter is chosen where triton is imported. `python -m support.gpu_interpreted NAME` prints the
relative errors {case: {tensor: gap}} of a group of cases."""

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

GROUPS = {}
SIZE = 5  # tokens; the interpreter takes about 0.1 s a query and head


@lru_cache
def errors(name):
    """What the process of a group printed."""
    root = Path(__file__).parents[1]
    places = [str(root), str(root.parent / "src"), os.environ.get("PYTHONPATH", "")]
    settings = {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-W", "ignore", "-m", "support.gpu_interpreted", name]
    done = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def group(name):
    def keep(run):
        GROUPS[name] = run
        return run

    return keep


LISTS = {
    "lists": (
        ("causal padded left", "shared distance", "float32"),
        ("cross padded", "shared tied local", "float32"),
    ),
    "more lists": (
        ("window globals", "bare far-per-head k-per-head", "float32"),
        ("full", "shared", "bfloat16"),
        ("decode window", "grouped raw", "float32"),
        ("any mask", "given local", "float32"),
        ("causal", "low-rank no-term wide-values", "float32"),
        ("padded by head", "scores one-tau", "float32"),
        ("causal", "tied key-norm", "bfloat16"),
    ),
}


def lists(cases):
    """Flock scope by the Triton kernel against the definition in float64."""
    import torch

    from ascender.kernels import gpu
    from support.flock_cases import flocked
    from support.laws import gap, gradients

    found = {}
    for kind, options, dtype in cases:
        x = flocked(kind, options, SIZE).to(getattr(torch, dtype))
        gpu.on_gpu = lambda t: False
        want = gradients(x.to(torch.float64), "dense")
        gpu.on_gpu = lambda t: True
        got = gradients(x, "flock")
        found[f"{kind}, {options}, {dtype}"] = {name: gap(got[name], want[name]) for name in want}
    return found


for name, cases in LISTS.items():
    group(name)(lambda cases=cases: lists(cases))


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    print(json.dumps(GROUPS[sys.argv[1]]()))
