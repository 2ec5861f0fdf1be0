"""Why the ties? Each rule alone, all but one, and random neighbours, on tasks where ASCender is
level with vanilla: is there a rule that works and another that undoes it?

Three seeds. The tasks that ablation leaves, but for LRA text, of which a trial takes as long as
three others. recall (solved by all) and MRPC (a little above its floor) come last, when the others
are done.
"""

from ablation import ALONE, BUT_ONE
from ablation import TASKS as TAKEN_APART
from recipes import GOALS, TASKS, tuned

from ascender.lab import Suite
from ascender.lab.verdict import Rule

LAST = ["recall", "mrpc"]
LEVEL = [name for name in TASKS if name not in (*TAKEN_APART, *LAST, "lra-text")]
VARIANTS = ["ascender", "vanilla", *ALONE, *BUT_ONE, "shuffled"]
SUITE = Suite(
    name="elsewhere",
    claim="Where ASCender ties with vanilla, fewer rules or random neighbours do no better.",
    claim_ko="ASCender가 기본 어텐션과 무승부인 과제에서 규칙을 줄이거나 이웃을 무작위로 뽑아도 "
    "나아지지 않는다.",
    baseline="ascender",
    runs=(*tuned(LEVEL, VARIANTS, seeds=3), *tuned(LAST, VARIANTS, seeds=3)),
    rule=Rule(alpha=0.05, smallest=0.005),
    goals={name: goal for name, goal in GOALS.items() if name in (*LEVEL, *LAST)},
)
