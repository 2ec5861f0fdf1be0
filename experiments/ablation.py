"""Which rule carries the effect? Each rule alone, all but one, and none, on the three tasks where
ASCender differs most from vanilla relative to the spread over seeds.
"""

from recipes import RULE, goals, tuned

from ascender.core.rules import RULES
from ascender.lab import Suite

ALONE, BUT_ONE = [f"only-{rule}" for rule in RULES], [f"no-{rule}" for rule in RULES]
TASKS = ["fewshot-digits", "distinct", "grouping"]
SUITE = Suite(
    name="ablation",
    claim="All three rules contribute: without any one of them ASCender is worse.",
    claim_ko="세 규칙이 모두 기여한다. 어느 하나라도 빼면 ASCender가 나빠진다.",
    baseline="ascender",
    runs=tuned(TASKS, ["ascender", "vanilla", *ALONE, *BUT_ONE]),
    rule=RULE,
    goals=goals(TASKS),
)
