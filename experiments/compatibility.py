"""RQ4: do the rules help with other positions, a window and another normaliser as much as alone?

On text, where order matters and ASCender was ahead of vanilla, and on grouping, where it wins. All
variants of a task have the same number of seeds, so that each comparison has the same power: five,
and ten on grouping as in the suite accuracy (five seeds were not enough to decide).
"""

from recipes import RULE, tuned

from ascender.lab import Suite

ALONE = ["vanilla", "ascender"]
TEXT = {  # its default positions are rotary
    "ascender+none": "vanilla+none",
    "ascender+alibi": "vanilla+alibi",
    "ascender+window=16": "longformer+window=16",
}
GROUPS = {  # a set: no positions by default, and a window has no meaning
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
    rule=RULE,
)
