"""How many steps does recall take, and at which learning rate, for which attention? Validation data
and seed 0; test scores are not used.

    ascender lab run tune_recall --out lab/tune_recall

64 tokens, up to 16 pairs of 32 keys. In flock scope a query attends to 13 keys: 8 far keys, itself
and the 4 before it.
"""

from ascender.lab import Suite, grid

RECALL = {
    "batch": 32, "every": 250,
    "options": {"length": 64, "pairs": [2, 4, 8, 16], "keys": 32},
}  # fmt: skip
VARIANTS = ["vanilla", "flock+far=8+window=4+rules=none", "affinity+affinity_heads=1", "ascender"]
SUITE = Suite(
    name="tune_recall",
    claim="None: this suite chooses learning rates and the number of steps.",
    claim_ko="없음: 학습률과 스텝 수를 고르기 위한 묶음이다.",
    tuning=True,
    runs=tuple(
        run
        for rate in (1e-3, 3e-3)
        for run in grid({"recall": {**RECALL, "rate": rate, "steps": 3000}}, VARIANTS, seeds=1)
    ),
)
