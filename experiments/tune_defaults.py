"""Which defaults? Settings suggested by the first results, compared on validation data with a seed
that no final run uses. A setting that helps across tasks becomes the default (docs/log.md).

    ascender lab run tune_defaults --out lab/tune_defaults
"""

from dataclasses import replace

from recipes import RULE, tuned

from ascender.lab import Suite
from ascender.lab.suite import seeded

TASKS = ["distinct", "grouping", "pylib"]
WIDER = [*TASKS, "recall", "sst2", "digits"]
STRENGTH = ["ascender", "ascender+omega=0.5"]  # the default 0.1 moves 1–5% of the attention
NEIGHBOURS = ["ascender+k=4", "ascender+k=[4,8,16,32]"]  # fewer; a number per head
SHAPE = ["shared", "unstandardised", "rules-lower", "rules-upper"]
OPEN = ["ungated"]  # γ hardly differs between tokens; η almost closes separation on short text

once = [
    *tuned(WIDER, STRENGTH, seeds=1),
    *tuned(TASKS[:2], ["ascender+omega=1"], seeds=1),
    *(replace(run, schedule="constant") for run in tuned(TASKS, ["ascender"], seeds=1)),
    *tuned(TASKS, [*NEIGHBOURS, *SHAPE], seeds=1),
    *tuned(WIDER, OPEN, seeds=1),
]
SUITE = Suite(
    name="tune_defaults",
    claim="None: this suite chooses defaults.",
    tuning=True,
    claim_ko="없음: 기본값을 고르기 위한 묶음이다.",
    baseline="ascender",
    runs=seeded(once, range(10, 11)),
    rule=RULE,
)
