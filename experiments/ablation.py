"""What carries the effect? Each rule alone, all but one, none; on the three tasks where the rules
are furthest from vanilla by the spread of the seeds, so that there is something to explain."""

from recipes import GOALS, tuned

from ascender.lab import Suite
from ascender.lab.verdict import DecisionRule

ALONE, BUT_ONE = ["align", "sep", "coh"], ["no-align", "no-sep", "no-coh"]
TASKS = ["fewshot-digits", "distinct", "grouping"]
SUITE = Suite(
    name="ablation",
    claim="All three rules contribute: without any one of them ASCender is worse.",
    claim_ko="세 규칙이 모두 기여한다. 어느 하나라도 빼면 ASCender가 나빠진다.",
    baseline="ascender",
    runs=tuned(TASKS, ["ascender", "vanilla", *ALONE, *BUT_ONE]),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
    goals={name: goal for name, goal in GOALS.items() if name in TASKS},
)
