"""Which defaults? What a look at the first results suggests, tried on validation data with seeds
that no final run has. What helps across tasks becomes the default; docs/log.md says what came out.

    ascender lab run choices --out lab/choices
"""

from dataclasses import replace

from recipes import tuned

from ascender.lab import Suite
from ascender.lab.verdict import Rule

TASKS = ["distinct", "grouping", "recall", "pylib"]
WIDER = [*TASKS, "sst2", "digits"]
LOUDER = ["ascender", "ascender+omega=0.5", "ascender+omega=1"]  # 0.1 moves 1–5% of the attention
OTHERS = ["ascender+k=[4,8,16,32]", "shared", "raw", "ascender+k=4"]
SEEDS = (10, 11)

once = [
    *(run for v in [*LOUDER, "vanilla"] for run in tuned(WIDER, [v], seeds=1)),
    *(replace(run, schedule="constant") for run in tuned(TASKS, ["ascender"], seeds=1)),
    *(run for v in OTHERS for run in tuned(TASKS, [v], seeds=1)),
]
SUITE = Suite(
    name="choices",
    claim="None: this suite chooses defaults.",
    tuning=True,
    claim_ko="없음: 기본값을 고르기 위한 묶음이다.",
    baseline="ascender",
    runs=tuple(replace(run, seed=seed) for seed in SEEDS for run in once),
    rule=Rule(alpha=0.05, smallest=0.005),
)
