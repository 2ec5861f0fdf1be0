"""Peak memory of one call, in a process of its own.

    measured = highest resident memory during the call − resident memory just before it
               + the size of the inputs, which were there already

The mark is the kernel's VmHWM, reset just before the call. (getrusage's ru_maxrss would do,
but a child inherits its parent's there; it is used where there is no /proc.) glibc is set to
return freed blocks at once, so that memory left over from making the inputs hides nothing.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

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
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


@runtime_checkable
class Mark(Protocol):
    """A source of peak memory: this process (this module), or a GPU (device.Gpu)."""

    def reset(self) -> None: ...
    def peak(self) -> int: ...


def used(call: Callable[[], object], there: int = 0, of: Mark | None = None) -> dict[str, float]:
    """MB that a call takes at its peak, with the bytes that were there already; and of the whole
    process."""
    start, highest = (reset, peak) if of is None else (of.reset, of.peak)
    start()
    before = highest()
    kept = call()
    after = highest()
    del kept
    return {"call": (after - before + there) / 1e6, "process": after / 1e6}


def peak() -> int:
    """Bytes: the highest resident memory since the last reset."""
    unit = 1 if sys.platform == "darwin" else 1024
    highest = _value(STATUS, "VmHWM:")
    return highest or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def total() -> int:
    """The memory of the machine, in bytes."""
    pages = "SC_PAGE_SIZE", "SC_PHYS_PAGES"
    return _value(MACHINE, "MemTotal:") or os.sysconf(pages[0]) * os.sysconf(pages[1])


def available() -> int:
    """Bytes that a process can still allocate: of the machine, and of its container."""
    free = _value(MACHINE, "MemAvailable:")
    if free is None:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no control group (version 2), or one without a limit
        most, now = (
            int((CONTAINER / name).read_text()) for name in ("memory.max", "memory.current")
        )
        free = min(free, most - now)
    return max(0, free)


def _value(file: Path, key: str) -> int | None:
    """Bytes in a line "key N kB" of a file in /proc."""
    lines = file.read_text().splitlines() if file.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(key)), None)


def reset() -> None:
    """Start the mark again from what is resident now, where the kernel can."""
    if CLEAR.exists():
        CLEAR.write_text("5")
