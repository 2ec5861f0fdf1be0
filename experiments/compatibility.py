"""RQ4: do the rules help beside other positions and a window as they do alone? On
text, where order matters and the rules leaned to helping."""

from recipes import tuned

from ascender.lab import Suite
from ascender.lab.verdict import Rule

BESIDE = ["none", "alibi"]  # the tasks' own is rope
SUITE = Suite(
    name="compatibility",
    claim="The rules help beside other positions and a window as they do alone.",
    claim_ko="규칙은 다른 위치 표현, 윈도우와 함께 써도 단독일 때만큼 도움이 된다.",
    runs=tuned(
        ["pylib"],
        [
            "vanilla", "ascender", *(f"{v}+{p}" for p in BESIDE for v in ("vanilla", "ascender")),
            "longformer+window=16", "ascender+window=16",
        ],
    ),
    against={
        **{f"ascender+{p}": f"vanilla+{p}" for p in BESIDE},
        "ascender+window=16": "longformer+window=16",
    },
    rule=Rule(alpha=0.05, smallest=0.005),
)  # fmt: skip
