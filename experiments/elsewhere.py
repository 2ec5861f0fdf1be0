"""Why the ties? Each rule alone, all but one, and random neighbours, on tasks where ASCender is
level with vanilla: is there a rule that works and another that undoes it?

Three seeds. The tasks that ablation leaves, but for three: recall is solved by all, MRPC by none
(a little above its floor), and a trial of LRA text takes as long as three others.
"""

from ablation import ALONE, BUT_ONE
from ablation import TASKS as TAKEN_APART
from recipes import GOALS, TASKS, tuned

from ascender.lab import Suite
from ascender.lab.verdict import Rule

LEFT_OUT = (*TAKEN_APART, "recall", "mrpc", "lra-text")
LEVEL = [name for name in TASKS if name not in LEFT_OUT]
SUITE = Suite(
    name="elsewhere",
    claim="Where ASCender ties with vanilla, fewer rules or random neighbours do no better.",
    claim_ko="ASCender가 기본 어텐션과 무승부인 과제에서 규칙을 줄이거나 이웃을 무작위로 뽑아도 "
    "나아지지 않는다.",
    baseline="ascender",
    runs=tuned(LEVEL, ["ascender", "vanilla", *ALONE, *BUT_ONE, "shuffled"], seeds=3),
    rule=Rule(alpha=0.05, smallest=0.005),
    goals={name: goal for name, goal in GOALS.items() if name in LEVEL},
)
