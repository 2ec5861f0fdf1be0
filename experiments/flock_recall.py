"""Recall in flock scope: does an index trained by the task find the answers among 256 tokens?

    ascender lab run flock_recall --out lab/flock_recall

Up to 16 pairs among 256 tokens, rotary positions, 1,000 steps. In flock scope a query attends to
13 keys: 8 far keys, itself and the 4 before it; the first 30% of the steps attend to everything.
The learning rate is that of the first trials (docs/log.md), the same for both; nothing was tuned.
"""

from ascender.lab import Suite, grid
from ascender.lab.verdict import DecisionRule

OPTIONS = {"length": 256, "pairs": [2, 4, 8, 16], "keys": 32}
SUITE = Suite(
    name="flock_recall",
    claim="With 8 far keys and a window of 4, recall is at least as good as with full attention.",
    claim_ko="먼 키 8개와 윈도우 4만으로 전체 어텐션만큼 잘 회상한다.",
    runs=grid(
        {"recall": {"steps": 1000, "batch": 32, "every": 200, "rate": 1e-3, "options": OPTIONS}},
        variants=["vanilla", "flock+far=8+window=4"],
        seeds=5,
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
)
