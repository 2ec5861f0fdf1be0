"""Peak memory of one candidate of a benchmark, in a process of its own.

The process calls once at a small size first, so that libraries are loaded and threads started.
"""

from __future__ import annotations

import json
import sys

import torch

from ascender.bench.studies import STUDIES
from ascender.measure.flops import Problem
from ascender.measure.memory import fresh, used

SMALL = 256  # tokens of the first, unmeasured call


def measure(
    study: str, candidate: str, problem: Problem, work: str, threads: int
) -> dict[str, float]:
    """{"call": MB as above, "process": MB of the whole process at its peak}, by a subprocess."""
    order: dict[str, object] = {"study": study, "candidate": candidate, "work": work}
    order |= {"n": problem.n, "causal": problem.causal, "threads": threads}
    return fresh("ascender.bench.memory", order, f"{candidate} at N = {problem.n}")


def child(
    study: str, candidate: str, n: int, causal: bool, work: str, threads: int
) -> dict[str, float]:
    """What the subprocess does."""
    torch.set_num_threads(threads)
    make = STUDIES[study][candidate].make
    make(Problem(min(n, SMALL), causal)).run(work)()
    job = make(Problem(n, causal))
    return used(job.run(work), job.nbytes())


if __name__ == "__main__":
    print(json.dumps(child(**json.loads(sys.argv[1]))))
