"""Peak memory of one call, in a process of its own.

    measured = highest resident memory during the call − resident memory just before it
               + the size of the inputs, which were there already

The mark is the kernel's VmHWM, set back just before the call. (getrusage's ru_maxrss would do,
but a child inherits its parent's there; it is used where there is no /proc.) glibc is told to
return freed blocks at once, so that memory left over from making the inputs hides nothing.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MACHINE, CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")


def fresh(module: str, order: dict[str, object], what: str) -> dict[str, float]:
    """What `python -m module ORDER` prints as JSON, in a process that has done nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", module, json.dumps(order)],
        capture_output=True,
        text=True,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"},
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RuntimeError(f"measuring the memory of {what}: {last[0]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def used(call: Callable[[], object], there: int = 0) -> dict[str, float]:
    """MB that a call takes at its peak, with the bytes that were there already; and of the whole
    process."""
    reset()
    before = peak()
    kept = call()
    after = peak()
    del kept
    return {"call": (after - before + there) / 1e6, "process": after / 1e6}


def peak() -> int:
    """Bytes: the highest resident memory since the last reset."""
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def available() -> int:
    """Bytes that a process here may still take: of the machine, and of its container."""
    found = []
    if MACHINE.exists():
        for line in MACHINE.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    if not found:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if (CONTAINER / "memory.max").exists() and (CONTAINER / "memory.current").exists():
        most = (CONTAINER / "memory.max").read_text().strip()
        if most != "max":
            found.append(int(most) - int((CONTAINER / "memory.current").read_text()))
    return max(0, min(found))


def reset() -> None:
    """Start the mark again from what is resident now, where the kernel can."""
    if CLEAR.exists():
        CLEAR.write_text("5")
