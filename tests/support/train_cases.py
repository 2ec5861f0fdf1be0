"""A short training run, and what it leaves in its folder."""

import json

from ascender.train import Run

SMALL = {"hidden": 24, "layers": 2, "heads": 3, "steps": 8, "batch": 6, "every": 3}
CROWD = {"crowd": 11, "most": 5, "dim": 7}


def run(**given):
    return Run.of("distinct", **{"options": CROWD, **SMALL, **given})


def rows(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def curve(out):
    return [(r["step"], r["loss"], r["rate"], r["lam"], r.get("validation")) for r in rows(out)]


def stop_after(n):
    """stopping(): after n steps."""
    calls = []
    return lambda: calls.append(1) or len(calls) >= n
