"""A bundle made up for tests of the paper: a suite with all kinds of variants, and one that
tunes."""

import json

import numpy as np

from support import lab_cases as cases

CLAIMS = [
    {"text": "It wins.", "text_ko": "이긴다.", "suite": "accuracy", "test": "wins"},
    {"text": "It gains much.", "text_ko": "많이 낫다.", "suite": "accuracy", "test": "gain",
     "given": {"at_least": 0.083}},
    {"text": "It is cheap.", "text_ko": "싸다.", "suite": "absent", "test": "cheaper",
     "given": {"saving": 0.21}},
]  # fmt: skip
VARIANTS = ("vanilla", "ascender", "ascender+k=4", "ascender+window=8", "flock+far=4", "ungated")


def store(root, gain=0.12, claims=CLAIMS):
    """A bundle of a suite with all kinds of variants, one trial that failed and one that is missing
    and of a suite that tunes the rate."""
    records = [
        scored(cases.record(t, v, s), gain * (v != "vanilla"))
        for s in range(3) for t in cases.TASKS for v in VARIANTS
    ]  # fmt: skip
    done = [*(r["key"] for r in records)]
    (root / "accuracy").mkdir(parents=True)
    failed = {"broken": ["Ill: step 3", "Ill: step 4"]}
    cases.store(root / "accuracy", records, failed, name="accuracy", trials=[*done, "broken"])
    tried = []
    for rate, score in ((0.001, 0.3), (0.003, 0.5), (0.01, 0.4)):
        for variant, top in (("vanilla", 0.003), ("ascender", 0.01)):
            one = cases.record("distinct", variant, 0)
            key = f"rate-{variant}-{rate}"
            value = 0.9 if rate == top else score
            run = {**one["run"], "rate": rate}
            tried.append(
                {**one, "key": key, "run": run, "validation": value, "stopped_early": True}
            )
    (root / "tuned").mkdir()
    cases.store(root / "tuned", tried, name="tuned", tuning=True, fixed="2026-02-03T00:00:00Z")
    sheet = {"name": "paper", "claims": [{"fixed": "2026-01-01T00:00:00Z", **c} for c in claims]}
    (root / "claims.json").write_text(json.dumps(sheet, ensure_ascii=False))
    return root


def scored(record, gain):
    """With a score so much better than a half, give or take noise by seed."""
    run = record["run"]
    noise = np.random.default_rng([run["seed"], *map(ord, run["variant"] + run["task"])])
    value = 0.5 + gain + noise.normal(0, 0.002)
    return {**record, "test": {**record["test"], "value": value, "scores": []}}


def finish(root, name="accuracy"):
    """Without the trial that failed: a suite that is finished."""
    sheet = root / name / "suite.json"
    said = json.loads(sheet.read_text())
    said["trials"].remove("broken")
    sheet.write_text(json.dumps(said, ensure_ascii=False))
    (root / name / "trials" / "broken.error.json").unlink()
