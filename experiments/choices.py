"""Which defaults? What a look at the first results suggests, tried on validation data with a seed
that no final run has. What helps across tasks becomes the default; docs/log.md says what came out.

    ascender lab run choices --out lab/choices
"""

from dataclasses import replace

from recipes import tuned

from ascender.lab import Suite
from ascender.lab.suite import seeded
from ascender.lab.verdict import DecisionRule

TASKS = ["distinct", "grouping", "pylib"]
WIDER = [*TASKS, "recall", "sst2", "digits"]
LOUDER = ["ascender", "ascender+omega=0.5"]  # 0.1 moves 1–5% of the attention
SEARCH = ["ascender+k=4", "ascender+k=[4,8,16,32]"]  # narrower, and a width for each head
SHAPE = ["shared", "raw", "lower", "upper"]  # geometry, standardising, where in the stack
OPEN = ["ungated"]  # γ hardly differs between tokens, and η all but shuts separation on short text

once = [
    *tuned(WIDER, LOUDER, seeds=1),
    *tuned(TASKS[:2], ["ascender+omega=1"], seeds=1),
    *(replace(run, schedule="constant") for run in tuned(TASKS, ["ascender"], seeds=1)),
    *tuned(TASKS, [*SEARCH, *SHAPE], seeds=1),
    *tuned(WIDER, OPEN, seeds=1),
]
SUITE = Suite(
    name="choices",
    claim="None: this suite chooses defaults.",
    tuning=True,
    claim_ko="없음: 기본값을 고르기 위한 묶음이다.",
    baseline="ascender",
    runs=seeded(once, range(10, 11)),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
)
