"""RQ4 on all other tasks: the rules with ALiBi, rotary positions and a window, five seeds.

These are the pairs that the suites compatibility (pylib, grouping) and efficiency (windows on pylib
and recall) leave out. With a window each task keeps its default positions: rotary on text and
lists, learned on images, none on sets. The order of a set has no meaning, so on sets positions and
a window are noise that both sides of a pair share. The verdict on RQ4 is that of the suite
compatibility.
"""

from recipes import RULE, TASKS, tuned

from ascender.lab import Suite

ALONE = ["vanilla", "ascender"]
ALIBI, ROPE = {"ascender+alibi": "vanilla+alibi"}, {"ascender+rope": "vanilla+rope"}
WINDOW = {"ascender+window=16": "longformer+window=16"}
NOT_ROTARY = ("fewshot-digits", "distinct", "digits", "fashion-mnist")  # by default


def new_pairs(name: str) -> dict[str, str]:
    """The pairs that are new on a task: variant → its baseline."""
    return (
        ({} if name in ("pylib", "grouping") else ALIBI)
        | (ROPE if name in NOT_ROTARY else {})
        | ({} if name in ("pylib", "recall") else WINDOW)
    )


def both(pairs: dict[str, str]) -> list[str]:
    return [*pairs.values(), *pairs]


NEW = [name for name in TASKS if new_pairs(name)]
SUITE = Suite(
    name="compatibility_other_tasks",
    claim="The rules do the same beside other positions and a window as they do alone.",
    claim_ko="다른 위치 표현이나 윈도우와 함께 써도 규칙의 효과는 단독일 때와 같다.",
    runs=tuple(
        sorted(
            (run for name in NEW for run in tuned([name], [*ALONE, *both(new_pairs(name))])),
            key=lambda run: run.seed,
        )
    ),
    against=ALIBI | ROPE | WINDOW,
    rule=RULE,
)
