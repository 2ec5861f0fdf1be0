"""RQ4 on every other task: the rules beside ALiBi, rotary positions and a window, five seeds.

The pairs that compatibility (pylib, grouping) and efficiency (windows on pylib and recall) leave.
Beside a window each task keeps its own positions: rotary on text and lists, learned ones on
images, none on sets. Of a set the order means nothing, so there positions and a window are noise
that both sides of a pair have alike. The verdict on RQ4 is that of the suite compatibility.
"""

from recipes import TASKS, tuned

from ascender.lab import Suite
from ascender.lab.verdict import DecisionRule

ALONE = ["vanilla", "ascender"]
ALIBI, ROPE = {"ascender+alibi": "vanilla+alibi"}, {"ascender+rope": "vanilla+rope"}
WINDOW = {"ascender+window=16": "longformer+window=16"}
NOT_ROTARY = ("fewshot-digits", "distinct", "digits", "fashion-mnist")  # their own positions


def beside(name: str) -> dict[str, str]:
    """What is new on a task."""
    return (
        ({} if name in ("pylib", "grouping") else ALIBI)
        | (ROPE if name in NOT_ROTARY else {})
        | ({} if name in ("pylib", "recall") else WINDOW)
    )


def both(pairs: dict[str, str]) -> list[str]:
    return [*pairs.values(), *pairs]


NEW = [name for name in TASKS if beside(name)]
SUITE = Suite(
    name="partners",
    claim="The rules do the same beside other positions and a window as they do alone.",
    claim_ko="다른 위치 표현이나 윈도우와 함께 써도 규칙의 효과는 단독일 때와 같다.",
    runs=tuple(
        sorted(
            (run for name in NEW for run in tuned([name], [*ALONE, *both(beside(name))])),
            key=lambda run: run.seed,
        )
    ),
    against=ALIBI | ROPE | WINDOW,
    rule=DecisionRule(alpha=0.05, smallest=0.005),
)
