"""Recall with a fifth of the keys: is it learned as well as with all of them, and what must choose
them?

    ascender lab run sparse_recall --out lab/sparse_recall

64 tokens, 2 to 16 pairs of 32 keys, 1,500 steps. A query sees 13 keys at most: 8 chosen ones,
itself and the 4 before it. They are chosen by the index of flock scope (with and without the rules;
trained by the affinity term or by the index loss), at random, by base score (which takes all
products), or they are a window. Beside them the affinity term with all keys visible.

Learning rates: the best of tune_sparse_recall for each attention (the same grid, validation, seed
0). Five new seeds.
"""

from recipes import same_keys

from ascender.lab import Suite, grid
from ascender.lab.suite import seeded
from ascender.lab.verdict import DecisionRule

KEYS = same_keys(far=8, window=4)
CHOSEN = (
    "index", "index, no rules", "index, index loss, no rules", "random, no rules",
    "base scores, no rules", "window",
)  # fmt: skip
VARIANTS = ["vanilla", "affinity+affinity_heads=1", *(KEYS[name] for name in CHOSEN)]
RECALL = {
    "batch": 32, "steps": 1500, "every": 125,
    "options": {"length": 64, "pairs": [2, 4, 8, 16], "keys": 32},
}  # fmt: skip
RATES = dict.fromkeys(VARIANTS, 1e-3)


def cells(rates):
    """A run of each attention at its learning rate."""
    return [
        run
        for name, rate in rates.items()
        for run in grid({"recall": {**RECALL, "rate": rate}}, [name], seeds=1)
    ]


SUITE = Suite(
    name="sparse_recall",
    claim="With a fifth of the keys flock scope recalls as well as attention to all of them.",
    claim_ko="다섯에 하나의 키만 보는 무리 범위가 모든 키를 보는 어텐션만큼 잘 회상한다.",
    runs=seeded(cells(RATES), range(100, 105)),
    rule=DecisionRule(alpha=0.05, smallest=0.005, margin=0.01),
    goals={"recall": 0.9},
)
