"""Sizes of flocks and what they are made of, where a query should see few keys: validation data and
seed 0, test scores are not used.

    ascender lab run tune_sparse --out lab/tune_sparse

recall (128 tokens, up to 16 pairs of 64 keys), distinct and grouping (128 tokens). Without far
keys of its own choice (random, a window) as many keys are seen.
"""

from ascender.lab import Suite, grid

RECALL = {
    "steps": 1000, "batch": 32, "every": 100, "rate": 1e-3,
    "options": {"length": 128, "pairs": [2, 4, 8, 16]},
}  # fmt: skip
CROWD = {"steps": 600, "batch": 32, "every": 100, "options": {"crowd": 128}}
KINDS = ("", "+rules=none", "+affinity=tied", "+affinity_term=False")


def crowds(far):
    """Flocks of the tokens of highest affinity, with and without its parts."""
    return [f"flock+far={far}{kind}" for kind in KINDS]


SUITE = Suite(
    name="tune_sparse",
    claim="None: this suite chooses sizes and settings.",
    claim_ko="없음: 크기와 설정을 고르기 위한 묶음이다.",
    tuning=True,
    runs=(
        *grid(
            {"recall": RECALL},
            ["vanilla", "affinity", "flock+far=8+window=4", "flock+far=8+window=4+rules=none"],
            seeds=1,
        ),
        *grid(
            {"distinct": {**CROWD, "rate": 1e-3}, "grouping": {**CROWD, "rate": 3e-3}},
            ["vanilla", "ascender", "affinity", *crowds(16), "flock+far=32", "flock-random+far=16"],
            seeds=1,
        ),
    ),
)
