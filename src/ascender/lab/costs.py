"""What a variant costs at lengths that are too long to train at here, measured.

One attention layer (projections included) of each variant on random tokens, batch 1:

    flops     of a forward pass, counted on the torch operators (measure.flops), also where a
              native kernel runs: so the number does not depend on the machine
    forward   milliseconds of it without gradients; training: forward and backward
    memory    MB at the peak of a training pass: of the CPU in a process of its own, of a GPU
              what torch allocates there

Variants take turns within a length, and the best turn of each counts, so that ratios to the
baseline hold on a machine that others use too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ascender.common.files import checked, made_of, read_json, write
from ascender.core.backends.native import without_native
from ascender.hf import AscenderConfig
from ascender.measure.device import CPU, Device
from ascender.measure.flops import count
from ascender.measure.machine import facts
from ascender.measure.memory import fresh, used
from ascender.measure.timing import FORWARD, TRAINING, TimingPlan, best, elapsed
from ascender.train.variants import variant

FILE = "costs.json"
SMALL = 256  # tokens of the first, unmeasured call
PLAN = TimingPlan(repeats=5, at_least=0.5, at_most=240.0)


@dataclass(frozen=True)
class Costs:
    """What a suite wants measured: these variants at these lengths, the baseline first."""

    variants: tuple[str, ...]
    lengths: tuple[int, ...] = (1024, 2048, 4096)
    hidden: int = 256
    heads: int = 4
    causal: bool = False

    def __post_init__(self) -> None:
        if not self.variants or not self.lengths:
            raise ValueError(
                f"costs of {list(self.variants)} at {list(self.lengths)}; expected at least one "
                "variant and one length"
            )
        for name in self.variants:
            variant(name)


@dataclass(frozen=True)
class Cost:
    """One variant at one length; MB are None where nobody measured them."""

    variant: str
    n: int
    flops: int
    forward_ms: float
    training_ms: float
    memory_mb: float | None


def layer(name: str, hidden: int, heads: int) -> nn.Module:
    """The attention of a variant, with the same weights every time."""
    torch.manual_seed(0)
    config = AscenderConfig(
        hidden_size=hidden, num_hidden_layers=1, num_attention_heads=heads,
        **variant(name).fields("none", 1, heads),
    )  # fmt: skip
    return config.make_attention(config.make_position(), layer=0)


def passes(name: str, n: int, order: Costs, device: str = "cpu") -> dict[str, Callable[[], Any]]:
    """A forward and a training pass over n random tokens."""
    attention = layer(name, order.hidden, order.heads).to(device)
    x = torch.randn(1, n, order.hidden, generator=torch.Generator().manual_seed(n)).to(device)

    @torch.no_grad()
    def forward() -> Any:
        return attention.eval()(x, causal=order.causal)

    def training() -> None:
        attention.train().zero_grad()
        attention(x, causal=order.causal).square().mean().backward()

    return {FORWARD: forward, TRAINING: training}


def measure(
    order: Costs, say: Callable[[str], None] = lambda line: None, plan: TimingPlan = PLAN,
    memory: bool = True, on: Device = CPU,
) -> list[Cost]:  # fmt: skip
    """Every variant at every length, one thread. RuntimeError where a variant fails there."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [row for n in order.lengths for row in _at(n, order, say, plan, memory, on)]
    finally:
        torch.set_num_threads(threads)


def _at(
    n: int, order: Costs, say: Callable[[str], None], plan: TimingPlan, memory: bool, on: Device
) -> Iterator[Cost]:
    calls = {name: passes(name, n, order, on.name) for name in order.variants}
    now = on.now("wall" if on is CPU else None)
    ms: dict[str, dict[str, float]] = {}
    for work in (FORWARD, TRAINING):
        say(f"costs: {work} at {n} tokens")
        for of in calls.values():
            of[work]()
        turns = {name: of[work] for name, of in calls.items()}
        for name, why in on.warm(turns).items():
            raise RuntimeError(f"costs of {name}, {work} at {n} tokens on {on.name}: {why}")
        seconds = best(turns, plan, lambda call: elapsed(call, now))
        ms[work] = {name: round(1e3 * s, 3) for name, s in seconds.items()}
    for name, of in calls.items():
        MB = _memory(name, n, order, say, on) if memory else None
        counted = of if on is CPU else passes(name, n, order)
        with without_native():
            flops = count(counted[FORWARD])
        yield Cost(name, n, flops, ms[FORWARD][name], ms[TRAINING][name], MB)


def _memory(name: str, n: int, order: Costs, say: Callable[[str], None], on: Device) -> float:
    say(f"costs: memory of {name} at {n} tokens")
    if not on.own_process:
        return round(_used(name, n, order, on)["call"], 3)
    what = {"name": name, "n": n, "order": asdict(order)}
    return round(fresh("ascender.lab.costs", what, f"{name} at {n} tokens")["call"], 3)


def child(name: str, n: int, order: dict[str, Any]) -> dict[str, float]:
    """Run in the subprocess."""
    torch.set_num_threads(1)
    return _used(name, n, Costs(**order), CPU)


def _used(name: str, n: int, costs: Costs, on: Device) -> dict[str, float]:
    passes(name, min(n, SMALL), costs, on.name)[TRAINING]()
    return used(passes(name, n, costs, on.name)[TRAINING], of=on)


def keep(folder: Path, order: Costs, rows: Sequence[Cost], on: Device = CPU) -> Path:
    """Write the costs beside the trials."""
    sheet = {
        "order": asdict(order), "device": on.name, "machine": {**facts(), **on.facts()},
        "rows": [asdict(row) for row in rows],
    }  # fmt: skip
    return write(folder / FILE, json.dumps(sheet, indent=1) + "\n")


def read(folder: Path) -> tuple[list[Cost], dict[str, Any]]:
    """(rows, the sheet they are from); nothing where nothing was measured."""
    path = folder / FILE
    if not path.exists():
        return [], {}
    expected = "costs that ascender lab run wrote"
    sheet = read_json(path, expected, rows=list)
    return [made_of(Cost, checked(r, path, expected), path, expected) for r in sheet["rows"]], sheet


def wanted(folder: Path, order: Costs | None, on: Device | None = None) -> bool:
    """Whether costs are still to be measured on this device; `on` None: on any device."""
    if order is None:
        return False
    sheet = read(folder)[1]
    elsewhere = on is not None and sheet.get("device", "cpu") != on.name
    return elsewhere or sheet.get("order") != json.loads(json.dumps(asdict(order)))


if __name__ == "__main__":
    print(json.dumps(child(**json.loads(sys.argv[1]))))
