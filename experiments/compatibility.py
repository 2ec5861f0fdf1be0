"""RQ4: do the rules help beside positions, windows and normalisers as they do alone?"""

from recipes import TASKS

from ascender.lab import Suite, grid
from ascender.lab.verdict import Rule

BESIDE = ["none", "rope", "alibi", "t5", "shaw", "learned"]
SUITE = Suite(
    name="compatibility",
    claim="The rules are orthogonal to positions, windows and normalisers.",
    claim_ko="규칙은 위치 표현, 윈도우, 정규화 방법과 독립적이다.",
    runs=grid(
        {name: TASKS[name] for name in ("listops-short", "pylib")},
        variants=[
            "vanilla", *(f"vanilla+{p}" for p in BESIDE), "ascender",
            *(f"ascender+{p}" for p in BESIDE), "vanilla+entmax15", "ascender+entmax15",
            "longformer+window=16", "ascender+window=16",
        ],
        seeds=3,
    ),
    rule=Rule(alpha=0.05, smallest=0.005),
)  # fmt: skip
