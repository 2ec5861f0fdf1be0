"""Records as the trainer writes them, made up: two tasks, five variants, three seeds."""

import json
import re

import numpy as np

VARIANTS = ("vanilla", "ascender", "only-align", "only-sep", "only-coh")
TASKS = {"fewshot-digits": ("accuracy", True, 0.2), "distinct": ("accuracy", True, 1 / 12)}
GAINS = {"vanilla": 0.0, "ascender": 0.08, "only-align": 0.01, "only-sep": 0.05, "only-coh": -0.04}
FLOPS = {
    "vanilla": 2.1e6, "ascender": 3.4e6, "only-align": 3.1e6, "only-sep": 3.2e6, "only-coh": 2.9e6,
}  # fmt: skip
RULES = ("align", "sep", "coh")
EXAMPLES, LAYERS, HEADS, STEPS = 211, 2, 3, (40, 80, 120)


def record(task, variant, seed, gain=None, options=None, higher=True, **more):
    """One; its test value is the mean of its scores."""
    metric, up, floor = TASKS.get(task, ("accuracy", higher, 0.1))
    letters = sum(map(ord, variant.removeprefix("only-")))  # differences that vary between seeds
    rng = np.random.default_rng([len(task), letters, seed])
    shared = np.random.default_rng([len(task), seed]).normal(0, 0.02)
    gain = GAINS.get(variant, 0.02) if gain is None else gain
    p = np.clip(0.5 + shared + gain, 0.05, 0.95)
    hard = np.random.default_rng([len(task), seed, 1]).random(EXAMPLES)
    scores = (hard + rng.normal(0, 0.02, EXAMPLES) < p).astype(float).tolist()
    value = float(np.mean(scores))
    ruled = variant != "vanilla"
    curve = [
        {
            "step": t, "value": floor + (value - floor) * t / 120 + rng.normal(0, 0.01),
            "loss": 2.0 - t / 120, "levels": {},
            "omega": {
                rule: (0.1 + t / 300 * rng.random((LAYERS, HEADS))).round(6).tolist()
                for rule in ("align", "sep", "coh")
            } if ruled else {},
        }
        for t in STEPS
    ]  # fmt: skip
    measured = insight(rng, ruled)
    length = (options or {}).get("length", (options or {}).get("crowd", 25))
    seconds = 10 + 3 * ruled + float(rng.random())
    return {
        "key": re.sub(r"[\s/\\]", "_", f"{task[:3]}-{variant}-{seed}-{len(options or {})}"
                      f"{sum((options or {}).values())}"),
        "run": {
            "task": task, "variant": variant, "seed": seed, "options": options or {}, "hidden": 32,
            "layers": LAYERS, "heads": HEADS, "steps": 120, "batch": 16, "rate": 1e-3, "every": 40,
            "warmup": 0.05, "decay": 0.01, "clip": 1.0, "dropout": 0.0, "precision": "no",
            "schedule": "default", "patience": 0, "losses": {},
        },
        "metric": metric, "higher": up, "chance": floor,
        "test": {"value": value, "loss": 1.2, "levels": {"few": value + 0.1, "many": value - 0.1},
                 "n": EXAMPLES, "scores": scores},
        "validation": value, "best_step": 120, "steps": 120, "stopped_early": False,
        "curve": curve, "parameters": 12345 + 678 * ruled,
        "attention_flops_an_example": FLOPS.get(variant, 3e6), "seconds": seconds,
        "judging_seconds": 1.0, "tokens": 120 * 16 * length,
        "tokens_a_second": 120 * 16 * length / seconds,
        "data_share": 0.01,
        "peak_memory_mb": 300.0 + 20 * ruled, "processes": 1,
        "versions": {"python": "3.11", "torch": "2.13"},
        "hardware": {"machine": "x86_64", "cores": 2, "threads": 1, "device": "cpu"},
        "insight": measured, **more,
    }  # fmt: skip


def insight(rng, ruled):
    """What insight.measure finds."""
    share = rng.dirichlet(np.ones(5), (LAYERS, HEADS))
    insight = {"rows": 64, "names": ["a", "b"], "share": share.round(4).tolist(), "omega": {},
             "score": {"": 0.5}}  # fmt: skip
    if ruled:
        moved = lambda: (0.3 * rng.random((LAYERS, HEADS, 3))).round(4).tolist()  # noqa: E731
        insight |= {"moved": moved(), "whole": moved()}
        insight["omega"] = {r: rng.random((LAYERS, HEADS)).round(4).tolist() for r in RULES}
        insight["score"] |= {r: round(0.5 - 0.1 * rng.random(), 4) for r in RULES}
    of = [("z", 0), ("z", 1), ("neighbours", 0), ("neighbours", 1)] if ruled else []
    of += [("attention", 0), ("attention", 1), ("states", 0), ("states", 1), ("states", 2)]
    insight["grouping"] = [
        {"of": name, "layer": layer, "n": 32, "nmi": [round(0.5 + 0.2 * rng.random(), 4), 0.4, 0.8],
         "ari": [round(0.4 + 0.2 * rng.random(), 4), 0.3, 0.7], "chance": [0.1, 0.001]}
        for name, layer in of
    ]  # fmt: skip
    return insight


def records(tasks=tuple(TASKS), variants=VARIANTS, seeds=3):
    return [record(t, v, s) for s in range(seeds) for t in tasks for v in variants]


def store(folder, records, failures=None, **sheet):
    """The folder of a suite that has run."""
    for r in records:
        place = folder / "trials" / r["key"]
        place.mkdir(parents=True)
        (place / "record.json").write_text(json.dumps(r))
    for key, errors in (failures or {}).items():
        (folder / "trials" / f"{key}.error.json").write_text(json.dumps(errors))
    said = {
        "name": "made-up", "claim": "Rules help.", "claim_ko": "규칙이 도움이 된다.",
        "key": "0123456789abcdef", "baseline": "vanilla",
        "rule": {"higher": True, "alpha": 0.05, "smallest": 0.005, "margin": 0.0},
        "goals": {"fewshot-digits": 0.45, "distinct": 0.9}, "fixed": "2026-01-02T03:04:05Z",
        "trials": [*(r["key"] for r in records), *(failures or {})], **sheet,
    }  # fmt: skip
    (folder / "suite.json").write_text(json.dumps(said, ensure_ascii=False))
    return folder
