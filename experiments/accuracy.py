"""RQ1: does ASCender predict better than attention without the rules, all else equal?

Against vanilla, and vanilla with as many parameters, on tasks of several kinds; the paper says up
to +8.3%. Sizes and steps are those of the tasks' recipes where nothing is said.
"""

from ascender.lab import Suite, grid
from ascender.lab.verdict import Rule

SUITE = Suite(
    name="accuracy",
    claim="ASCender is more accurate than vanilla attention at equal training.",
    claim_ko="같은 학습량에서 ASCender가 기본 어텐션보다 정확하다.",
    runs=grid(
        {
            "fewshot-digits": {"steps": 4000, "batch": 32, "every": 250},
            "distinct": {"steps": 600, "every": 100},
            "grouping": {"steps": 1000, "every": 100},
            "recall": {"steps": 2000, "every": 200, "options": {"length": 64, "pairs": [4, 8]}},
            "listops-short": {"steps": 2000, "every": 200},
            "digits": {"steps": 1000, "every": 100},
            "pylib": {"steps": 1000, "batch": 16, "every": 200},
        },
        variants=[
            "vanilla", "matched", "ascender", "align", "sep", "coh", "no-align", "no-sep",
            "no-coh", "shuffled",
        ],
        seeds=5,
    ),
    rule=Rule(alpha=0.05, smallest=0.005),
    goals={"fewshot-digits": 0.9, "distinct": 0.45, "grouping": 0.8, "digits": 0.9},
)  # fmt: skip
