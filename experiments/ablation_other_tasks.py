"""The ablation on the nine tasks that the suite ablation leaves out, with random neighbours as a
control: is there a rule that helps and another that cancels it?

Five seeds, as in the suite accuracy. The results of the first three seeds on six of the tasks were
known before the other trials were added.
"""

from ablation import ALONE, BUT_ONE
from ablation import TASKS as ABLATED
from recipes import RULE, TASKS, goals, tuned

from ascender.lab import Suite

LEVEL = [name for name in TASKS if name not in ABLATED]
SUITE = Suite(
    name="ablation_other_tasks",
    claim="Where ASCender ties with vanilla, fewer rules or random neighbours do no better.",
    claim_ko="ASCender가 기본 어텐션과 무승부인 과제에서 규칙을 줄이거나 이웃을 무작위로 뽑아도 "
    "나아지지 않는다.",
    baseline="ascender",
    runs=tuned(LEVEL, ["ascender", "vanilla", *ALONE, *BUT_ONE, "shuffled"]),
    rule=RULE,
    goals=goals(LEVEL),
)
