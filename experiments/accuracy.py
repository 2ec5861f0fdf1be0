"""RQ1: does ASCender predict better than attention without the rules, all else equal?

Against vanilla, and vanilla with as many parameters, on tasks of several kinds; the paper says up
to +8.3%. Sizes and steps: recipes.py.
"""

from recipes import TASKS

from ascender.lab import Suite, grid
from ascender.lab.verdict import Rule

SUITE = Suite(
    name="accuracy",
    claim="ASCender is more accurate than vanilla attention at equal training.",
    claim_ko="같은 학습량에서 ASCender가 기본 어텐션보다 정확하다.",
    runs=grid(
        TASKS,
        variants=[
            "vanilla", "matched", "ascender", "align", "sep", "coh", "no-align", "no-sep",
            "no-coh", "shuffled",
        ],
        seeds=5,
    ),
    rule=Rule(alpha=0.05, smallest=0.005),
    goals={"fewshot-digits": 0.9, "distinct": 0.45, "grouping": 0.8, "digits": 0.9},
)  # fmt: skip
