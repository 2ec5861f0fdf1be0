"""Recall where vanilla attention begins to fail: which rate for which attention? Validation
data and tuning seeds only (0 and 1).

128 tokens, up to 16 pairs of 64 keys. In flock scope a query attends to 13 keys: 8 far keys, itself
and the 4 before it.
"""

from ascender.lab import Suite, grid

RATES = (3e-4, 1e-3, 3e-3, 1e-2)
RECALL = {
    "steps": 1000, "batch": 32, "every": 100,
    "options": {"length": 128, "pairs": [2, 4, 8, 16]},
}  # fmt: skip
FLOCK = "flock+far=8+window=4"
SUITE = Suite(
    name="tune_recall",
    claim="None: this suite chooses learning rates.",
    claim_ko="없음: 학습률을 고르기 위한 묶음이다.",
    tuning=True,
    runs=tuple(
        run
        for rate in RATES
        for run in grid(
            {"recall": {**RECALL, "rate": rate}},
            ["vanilla", "affinity", f"flock-no-rules{FLOCK[5:]}", FLOCK],
            seeds=2,
        )
    ),
)
