"""A first impression in two minutes: may a query see few keys, if a learned index chooses them?

    ascender lab run quick --out lab/quick

Recall of up to four (key, value) pairs among 32 tokens. A query sees all keys before it (vanilla),
or five: itself, the one before and three that an index chooses (flock scope, with the rules and
without), three at random, or itself and the four before it (a window). Three seeds.

The smallest runs that show something. Sizes, learning rate and steps were chosen with seeds 0 and 1
(docs/log.md), the suite has seeds of its own. Larger ones: sparse_recall.
"""

from ascender.lab import Suite
from ascender.lab.suite import seeded
from ascender.lab.verdict import DecisionRule
from ascender.train import Run

FIVE = "far=3+window=1"
RANDOM = f"flock-random+{FIVE}+rules=none"
VARIANTS = ["vanilla", f"flock+{FIVE}", f"flock+{FIVE}+rules=none", RANDOM, "longformer+window=4"]
RECALL = {
    "hidden": 32, "layers": 2, "heads": 2, "batch": 32, "rate": 3e-3, "steps": 400, "every": 50,
    "options": {"length": 32, "pairs": [1, 2, 4], "keys": 8},
}  # fmt: skip
LATE = {"visible_share": 0.5}  # flock scope begins when recall is learned

SUITE = Suite(
    name="quick",
    claim="Five keys that a learned index chooses are worth more than five at random.",
    claim_ko="학습된 색인이 고른 키 다섯 개가 무작위로 고른 다섯 개보다 낫다.",
    baseline=RANDOM,
    runs=seeded(
        [
            Run.of("recall", variant=name, **RECALL, **(LATE if "flock" in name else {}))
            for name in VARIANTS
        ],
        range(100, 103),
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
    goals={"recall": 0.9},
)
