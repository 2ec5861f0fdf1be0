"""Recall with a fifth of the keys: is it learned as well as with all of them, and what must choose
them?

    ascender lab run sparse_recall --out lab/sparse_recall

64 tokens, 2 to 16 pairs of 32 keys, 1,500 steps. A query sees 13 keys at most: 8 chosen ones,
itself and the 4 before it. They are chosen by the index of flock scope (with and without the rules;
trained by the affinity term or by the index loss), at random, or by base score, which takes all
products. Beside them the affinity term with all keys visible.

Flock scope begins after half of the steps: after 30%, the default, recall is not learned yet, and
then it never is (docs/log.md). Learning rates: the best of tune_sparse_recall for each attention
(the same grid, validation, seed 0). Five new seeds.
"""

from recipes import same_keys

from ascender.lab import Suite
from ascender.lab.suite import seeded
from ascender.lab.verdict import DecisionRule
from ascender.train import Run

KEYS = same_keys(far=8, window=4)
CHOSEN = (
    "index", "index, no rules", "index, index loss, no rules", "random, no rules",
    "base scores, no rules",
)  # fmt: skip
VARIANTS = ["vanilla", "affinity+affinity_heads=1", *(KEYS[name] for name in CHOSEN)]
RECALL = {
    "batch": 32, "steps": 1500, "every": 125,
    "options": {"length": 64, "pairs": [2, 4, 8, 16], "keys": 32},
}  # fmt: skip
LATE = {"visible_share": 0.5}
RATES = dict.fromkeys(VARIANTS, 1e-3)


def cells(rates):
    """A run of each attention at its learning rate."""
    return [
        Run.of("recall", variant=name, rate=rate, **RECALL, **(LATE if "flock" in name else {}))
        for name, rate in rates.items()
    ]


SUITE = Suite(
    name="sparse_recall",
    claim="With a fifth of the keys flock scope recalls as well as attention to all of them.",
    claim_ko="다섯에 하나의 키만 보는 무리 범위가 모든 키를 보는 어텐션만큼 잘 회상한다.",
    runs=seeded(cells(RATES), range(100, 105)),
    rule=DecisionRule(alpha=0.05, smallest=0.005, margin=0.01),
    goals={"recall": 0.9},
)
