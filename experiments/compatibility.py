"""RQ4: do the rules help beside other positions, a window and another normaliser as they do alone?

On text, where order matters and the rules leaned to helping, and on grouping, where they win. As
many seeds of everything on a task, so that alone and beside have the same chance to show it: five,
and ten on grouping, as the suite accuracy has there (five of them left everything open).
"""

from recipes import tuned

from ascender.lab import Suite
from ascender.lab.verdict import DecisionRule

ALONE = ["vanilla", "ascender"]
TEXT = {  # whose own positions are rotary
    "ascender+none": "vanilla+none",
    "ascender+alibi": "vanilla+alibi",
    "ascender+window=16": "longformer+window=16",
}
GROUPS = {  # a set: its own positions are none, and a window has no meaning
    "ascender+rope": "vanilla+rope",
    "ascender+alibi": "vanilla+alibi",
    "ascender+entmax15": "vanilla+entmax15",
}
SUITE = Suite(
    name="compatibility",
    claim="The rules help beside positions, a window and a normaliser as they do alone.",
    claim_ko="규칙은 위치 표현, 윈도우, 다른 정규화와 함께 써도 단독일 때만큼 도움이 된다.",
    runs=(
        *tuned(["pylib"], [*ALONE, *TEXT.values(), *TEXT]),
        *tuned(["grouping"], [*ALONE, *GROUPS.values(), *GROUPS], seeds=10),
    ),
    against=TEXT | GROUPS,
    rule=DecisionRule(alpha=0.05, smallest=0.005),
)
