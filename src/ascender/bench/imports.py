"""`ascender bench import`: what importing the attention takes beyond `import torch`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

from ascender.measure.timing import TimingPlan, median

GOAL = 0.1  # seconds
TORCH, ASCENDER = "import torch", "from ascender import AscenderAttention"


def _child(statement: str) -> Callable[[], object]:
    command = [sys.executable, "-c", statement]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def run(repeats: int = 5) -> dict[str, float | bool]:
    """Seconds: medians of whole subprocesses that alternate, so that the interpreter's own start
    cancels in the difference."""
    calls = {"torch": _child(TORCH), "ascender": _child(ASCENDER)}
    for call in calls.values():
        call()  # fills the disk cache and __pycache__
    seconds = median(calls, TimingPlan(repeats, at_least=0.0, at_most=600.0))
    extra = seconds["ascender"] - seconds["torch"]
    return {
        "import_torch_s": seconds["torch"],
        "import_ascender_s": seconds["ascender"],
        "difference_s": extra,
        "goal_s": GOAL,
        "reached": extra <= GOAL,
    }
