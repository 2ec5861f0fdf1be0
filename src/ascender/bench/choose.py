"""`ascender bench choose`: which backend is fastest here, and which one `auto` takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import exp, log

import torch

from ascender.bench.candidates import NATIVE_LONGEST, Job, arguments, ours
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, choose_backend
from ascender.measure.flops import CallOptions, Problem
from ascender.measure.memory import fresh, used
from ascender.measure.timing import CLOCKS, FORWARD, TRAINING, Row, TimingPlan, best, elapsed

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
    lengths: Sequence[int], plan: TimingPlan, *, clock: str = "cpu", memory: bool = True,
    say: Callable[[str], None] = lambda line: None,
) -> list[ChooseRow]:  # fmt: skip
    rows = []
    for kind, work, n in product(KINDS, (FORWARD, TRAINING), lengths):
        say(f"timing {kind}, {work}, N = {n}")
        rows += _compare(kind, work, n, plan, clock, memory)
    return rows


def _job(kind: str, n: int, backend: str) -> Job:
    p, options = _problem(kind, n)
    return ours(p, CallOptions(backend, **options))


def _problem(kind: str, n: int) -> tuple[Problem, dict[str, bool]]:
    options = dict(KINDS[kind])
    return Problem(n, causal=options.pop("causal", False)), options


def _compare(
    kind: str, work: str, n: int, plan: TimingPlan, clock: str, memory: bool
) -> list[ChooseRow]:
    p, options = _problem(kind, n)
    flock = build_flock(**arguments(p, CallOptions("auto", **options)))
    auto = choose_backend(flock)
    reasons = {name: b.refuses(flock) or _too_long(name, n) for name, b in BACKENDS.items()}
    able = [name for name, reason in reasons.items() if reason is None]
    calls = {name: _job(kind, n, name).run(work) for name in able}
    seconds = best(calls, plan, lambda call: elapsed(call, CLOCKS[clock]))
    del calls
    MB: dict[str, float] = {}
    if memory:
        order: dict[str, object] = {"kind": kind, "work": work, "n": n, "backends": able}
        order["threads"] = torch.get_num_threads()
        MB = fresh("ascender.bench.choose", order, f"{kind}, {work}, N = {n}")
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


def child(kind: str, work: str, n: int, backends: Sequence[str], threads: int) -> dict[str, float]:
    """MB that each backend's call takes at its peak, one after another in this process."""
    torch.set_num_threads(threads)
    memory = {}
    for name in backends:
        _job(kind, min(n, SMALL), name).run(work)()
        job = _job(kind, n, name)
        memory[name] = used(job.run(work), job.nbytes())["call"]
    return memory


if __name__ == "__main__":
    print(json.dumps(child(**json.loads(sys.argv[1]))))
