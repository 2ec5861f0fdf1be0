"""Learning rates of the suite structure, tuned on validation data with seed 0: every attention has
the same grid. Test scores are not used.

    ascender lab run tune_structure --out lab/tune_structure --data-dir data

Dropout, decay and batch are those of the task's recipe. Flock scope goes by lists that are given,
so no steps attend to everything first (visible_share 0).
"""

from ascender.lab import Suite, grid

RATES = (1e-2, 3e-3, 3e-2, 1e-3, 1e-1)
CITESEER = {"steps": 100, "every": 10, "visible_share": 0.0}
VARIANTS = [
    "flock", "flock-no-rules", "flock+affinity_term=False",
    "flock-no-rules+affinity_term=False", "graph", "vanilla", "ascender", "matched",
]  # fmt: skip
SUITE = Suite(
    name="tune_structure",
    claim="None: this suite chooses learning rates.",
    claim_ko="없음: 학습률을 고르기 위한 묶음이다.",
    tuning=True,
    runs=tuple(
        run
        for rate in RATES
        for run in grid({"citeseer": {**CITESEER, "rate": rate}}, VARIANTS, seeds=1)
    ),
)
