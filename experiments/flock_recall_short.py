"""Recall where vanilla learns it: what do flocks, the affinity term and shared lists change?

    ascender lab run flock_recall_short --out lab/flock_recall_short

The recall of the other suites (32 tokens, up to 8 pairs, 1,000 steps) and their learning rates. In
flock scope a query attends to 7 keys: 4 far keys, itself and the 2 before it. share=2: the second
layer takes over the far keys of the first.
"""

from recipes import RATES, TASKS

from ascender.lab import Suite, grid
from ascender.lab.verdict import DecisionRule

FLOCK = "flock+far=4+window=2"
SUITE = Suite(
    name="flock_recall_short",
    claim="In flock scope recall is as good as with full attention, also with shared lists.",
    claim_ko="무리 범위에서도, 목록을 나눠 써도, 전체 어텐션만큼 잘 회상한다.",
    runs=grid(
        {"recall": {**TASKS["recall"], "rate": RATES["recall"][0]}},
        variants=["vanilla", FLOCK, f"{FLOCK}+share=2", "affinity", "longformer+window=2"],
        seeds=5,
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005, margin=0.01),
)
