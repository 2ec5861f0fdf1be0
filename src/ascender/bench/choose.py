"""`ascender bench choose`: which backend is fastest here, and which one `auto` takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from ascender.bench.candidates import arguments, ours
from ascender.core.checks import build_flock
from ascender.core.choose_backend import BACKENDS, choose_backend
from ascender.measure.flops import CallOptions, Problem
from ascender.measure.timing import FORWARD, TRAINING, Row, TimingPlan, best

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
PLAN = TimingPlan(repeats=3, at_least=0.3, at_most=4.0)
KINDS = {"full": {}, "causal": {"causal": True}, "window": {"windowed": True}}
LINEAR = ("folded", "windowed")  # the others hold N×N matrices, and are skipped above these:
DENSE_LARGEST, MATRIX_LARGEST = 1024, 2048


@dataclass(frozen=True)
class ChooseRow(Row):
    """ratio is to the fastest backend of the same kind, n and work."""

    kind: str = ""
    fastest: bool = False
    auto: bool = False


def run(
    lengths: Sequence[int], plan: TimingPlan, say: Callable[[str], None] = lambda line: None
) -> list[ChooseRow]:
    rows = []
    for kind, work, n in product(KINDS, (FORWARD, TRAINING), lengths):
        say(f"timing {kind}, {work}, N = {n}")
        rows += _compare(kind, work, n, plan)
    return rows


def _compare(kind: str, work: str, n: int, plan: TimingPlan) -> list[ChooseRow]:
    options = dict(KINDS[kind])
    p = Problem(n, causal=options.pop("causal", False))
    flock = build_flock(**arguments(p, CallOptions("auto", **options)))
    auto = choose_backend(flock)
    reasons = {name: b.refuses(flock) or _too_long(name, n) for name, b in BACKENDS.items()}
    calls = {
        name: ours(p, CallOptions(name, **options)).run(work)
        for name, reason in reasons.items()
        if reason is None
    }
    seconds = best(calls, plan)
    fastest = min(seconds, key=lambda name: seconds[name])
    rows = []
    for name, reason in reasons.items():
        s = seconds.get(name)
        ms, ratio = (None, None) if s is None else (1e3 * s, s / seconds[fastest])
        rows.append(ChooseRow(
            name, n, work, ms, ratio, reason, kind=kind, fastest=name == fastest, auto=name == auto
        ))  # fmt: skip
    return rows


def _too_long(name: str, n: int) -> str | None:
    if name in LINEAR:
        return None
    largest = DENSE_LARGEST if name == "dense" else MATRIX_LARGEST
    return f"N×N matrices above N = {largest}" if n > largest else None
