"""`ascender bench choose`: which backend is fastest here, and which one `auto` takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from math import exp, log
from typing import Any

import torch

from ascender.bench.candidates import NATIVE_LONGEST, arguments, ours
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, choose_backend
from ascender.measure.device import CPU, Device, find
from ascender.measure.flops import CallOptions, Problem
from ascender.measure.memory import fresh, used
from ascender.measure.timing import FORWARD, TRAINING, Row, TimingPlan, best, elapsed

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
PLAN = TimingPlan(repeats=3, at_least=0.3, at_most=4.0)
KINDS = {"full": {}, "causal": {"causal": True}, "window": {"windowed": True}}
LONGEST = {"dense": 1024, "compact": 2048, "decode": 2048, "native": NATIVE_LONGEST}
SMALL = 64  # tokens of the first, unmeasured call


@dataclass(frozen=True)
class ChooseRow(Row):
    """ratio is to the fastest backend of the same kind, n and work."""

    kind: str = ""
    fastest: bool = False
    auto: bool = False


def run(
    lengths: Sequence[int], plan: TimingPlan, *, clock: str | None = None, memory: bool = True,
    on: Device = CPU, dtype: str = "float32", say: Callable[[str], None] = lambda line: None,
) -> list[ChooseRow]:  # fmt: skip
    rows = []
    for kind, work, n in product(KINDS, (FORWARD, TRAINING), lengths):
        say(f"timing {kind}, {work}, N = {n}")
        p, options = _problem(kind, n, on, dtype)
        rows += _compare(kind, work, p, options, plan, on, clock, memory)
    return rows


def _problem(kind: str, n: int, on: Device, dtype: str) -> tuple[Problem, dict[str, bool]]:
    options = dict(KINDS[kind])
    causal = options.pop("causal", False)
    return Problem(n, causal, on.heads, device=on.name, dtype=dtype), options


def _compare(
    kind: str, work: str, p: Problem, options: dict[str, bool], plan: TimingPlan, on: Device,
    clock: str | None, memory: bool,
) -> list[ChooseRow]:  # fmt: skip
    n = p.n
    flock = build_flock(**arguments(p, CallOptions("auto", **options)))
    auto = choose_backend(flock)
    reasons = {name: b.refuses(flock) or _too_long(name, n) for name, b in BACKENDS.items()}
    able = [name for name, reason in reasons.items() if reason is None]
    calls = {name: ours(p, CallOptions(name, **options)).run(work) for name in able}
    reasons |= on.warm(calls)
    able = [name for name in able if reasons[name] is None]
    now = on.now(clock)
    seconds = best({name: calls[name] for name in able}, plan, lambda call: elapsed(call, now))
    del calls
    MB: dict[str, float] = {}
    if memory and on.own_process:
        order: dict[str, object] = {"problem": asdict(p), "options": options, "work": work}
        order |= {"backends": able, "threads": torch.get_num_threads()}
        MB = fresh("ascender.bench.choose", order, f"{kind}, {work}, N = {n}")
    elif memory:
        MB = _used(p, options, work, able, on)
    fastest = min(seconds, key=lambda name: seconds[name])
    rows = []
    for name, reason in reasons.items():
        s = seconds.get(name)
        ms, ratio = (None, None) if s is None else (1e3 * s, s / seconds[fastest])
        rows.append(ChooseRow(
            name, n, work, ms, ratio, reason, memory_mb=MB.get(name), kind=kind,
            fastest=name == fastest, auto=name == auto,
        ))  # fmt: skip
    return rows


def _too_long(name: str, n: int) -> str | None:
    longest = LONGEST.get(name)
    return f"above N = {longest}" if longest is not None and n > longest else None


def crossover(rows: Iterable[ChooseRow]) -> tuple[str, str]:
    """Of rows of one kind and work: which backend is fastest and from which N on another; and
    which one auto takes."""
    rows = list(rows)
    ms = {(row.candidate, row.n): row.ms for row in rows}
    fastest = {row.n: row.candidate for row in rows if row.fastest}
    auto = {row.n: row.candidate for row in rows if row.auto}
    first, choice = fastest[min(fastest)], auto[min(auto)]
    for n, m in pairwise(sorted(fastest)):
        a, b = fastest[n], fastest[m]
        if a != b:
            first += f", {b} from N {_meet(n, m, [ms[x, y] for y in (n, m) for x in (a, b)])}"
        if auto[n] != auto[m]:
            choice += f", {auto[m]} from N = {m}"
    return first, choice


def _meet(n: int, m: int, times: Sequence[float | None]) -> str:
    """Where the times of two backends meet between n and m, on logarithmic scales; m where not
    both were measured. times: of a and b at n, of a and b at m."""
    known = [log(t) for t in times if t is not None]
    if len(known) < 4:
        return f"= {m}"
    before, after = known[0] - known[1], known[2] - known[3]
    return f"≈ {exp(log(n) + log(m / n) * before / (before - after)):.0f}"


def child(
    problem: dict[str, Any], options: dict[str, bool], work: str, backends: Sequence[str],
    threads: int,
) -> dict[str, float]:  # fmt: skip
    """Run the measurement in the subprocess."""
    torch.set_num_threads(threads)
    return _used(Problem(**problem), options, work, backends, find(problem["device"]))


def _used(
    p: Problem, options: dict[str, bool], work: str, backends: Sequence[str], on: Device
) -> dict[str, float]:
    """MB that each backend's call takes at its peak, one after another in this process."""
    memory = {}
    for name in backends:
        how = CallOptions(name, **options)
        ours(replace(p, n=min(p.n, SMALL)), how).run(work)()
        job = ours(p, how)
        memory[name] = used(job.run(work), job.nbytes(), on)["call"]
    return memory


if __name__ == "__main__":
    print(json.dumps(child(**json.loads(sys.argv[1]))))
