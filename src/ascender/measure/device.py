"""The device to measure on, by its name: its clocks and its memory.

cpu    CPU time or the wall clock; resident memory, in a process of its own
cuda   events in the stream of the GPU, or the wall clock while it is idle before and after;
       memory that torch has allocated there; calls are warmed up first
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ascender.common.validate import lookup
from ascender.measure import machine, memory
from ascender.measure.timing import CLOCKS, Now

WARM_UP = 3  # calls: kernels are compiled by the first and tuned by the next
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Cpu:
    """Resident memory is measured in a process of its own; nothing is warmed up, since the best
    turn counts."""

    name: str = "cpu"
    heads: int = 4  # of the attentions that benchmarks time
    own_process: bool = True
    clocks: ClassVar[tuple[str, ...]] = tuple(CLOCKS)

    def now(self, clock: str | None = None) -> Now:
        return lookup("clock", self.clock(clock), CLOCKS)

    def clock(self, name: str | None) -> str:
        """The name of a clock; None: the usual one."""
        return self.clocks[0] if name is None else name

    def warm(self, calls: Mapping[str, Callable[[], object]]) -> dict[str, str]:
        """No warm-up: nothing can fail."""
        return {}

    def reset(self) -> None:
        memory.reset()

    def peak(self) -> int:
        return memory.peak()

    def facts(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True)
class Moment:
    """An event in the stream of a GPU. later − earlier: the seconds between, by the GPU's clock."""

    event: Any

    def __sub__(self, earlier: Moment) -> float:
        self.event.synchronize()
        return float(earlier.event.elapsed_time(self.event)) / 1e3


@dataclass(frozen=True)
class Gpu:
    """A GPU. `cuda` has the functions of torch.cuda; tests pass stand-ins."""

    name: str = "cuda"
    heads: int = 16
    own_process: bool = False
    cuda: Any = torch.cuda
    clocks: ClassVar[tuple[str, ...]] = ("events", "wall")

    def now(self, clock: str | None = None) -> Now:
        of: tuple[Callable[[], Any], ...] = (self._moment, self._idle)
        clocks = dict(zip(self.clocks, of, strict=True))
        return lookup("clock of a GPU", self.clock(clock), clocks)

    def clock(self, name: str | None) -> str:
        return self.clocks[0] if name is None else name

    def _moment(self) -> Moment:
        event = self.cuda.Event(enable_timing=True)
        event.record()
        return Moment(event)

    def _idle(self) -> float:
        """The wall clock, after synchronising the GPU."""
        self.cuda.synchronize(self.name)
        return time.perf_counter()

    def warm(self, calls: Mapping[str, Callable[[], object]]) -> dict[str, str]:
        """Warm up every call; return those that fail (out of memory, say), and why."""
        failed = {}
        for who, call in calls.items():
            try:
                for _ in range(WARM_UP):
                    call()
                self.cuda.synchronize(self.name)
            except (RuntimeError, ValueError) as error:
                failed[who] = str(error).strip().splitlines()[0]
        return failed

    def reset(self) -> None:
        self.cuda.synchronize(self.name)
        self.cuda.reset_peak_memory_stats(self.name)

    def peak(self) -> int:
        self.cuda.synchronize(self.name)
        return int(self.cuda.max_memory_allocated(self.name))

    def facts(self) -> dict[str, Any]:
        return machine.gpu(torch.device(self.name))

    def state(self) -> dict[str, str]:
        return machine.gpu_state(torch.device(self.name))


Device = Cpu | Gpu
CPU = Cpu()


def check(name: str) -> torch.device:
    """A device that torch can use here; ValueError names what it found instead."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        cuda = name.partition(":")[0] == "cuda"
        why = machine.gpus_found() if cuda else str(error).splitlines()[0]
        raise ValueError(f"device = {name!r}; expected cpu, cuda, cuda:1, … ({why})") from None
    return device


def find(name: str) -> Device:
    """The device to measure on."""
    if name == "cpu":
        return CPU
    device = check(name)
    if device.type != "cuda":
        raise ValueError(f"device = {name!r}; expected cpu, cuda, cuda:1, …")
    torch.cuda.set_device(device)
    return Gpu(name)
