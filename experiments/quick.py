"""A first look in six minutes: do the rules help where tokens are members of crowds?

fewshot-digits and distinct, vanilla against ascender and each rule alone, three seeds. The
smallest runs that show anything; docs/results.md has the long ones.
"""

from ascender.lab import Suite, grid
from ascender.lab.verdict import Rule

SIZE = {"hidden": 32, "layers": 2, "heads": 2}
SUITE = Suite(
    name="quick",
    claim="With the three rules a small model learns crowds of vectors faster than without.",
    claim_ko="세 규칙이 있으면 작은 모델이 벡터 무리를 더 빨리 배운다.",
    runs=grid(
        {
            "fewshot-digits": {**SIZE, "steps": 120, "batch": 16, "every": 40},
            "distinct": {**SIZE, "steps": 120, "batch": 32, "every": 40},
        },
        variants=["vanilla", "ascender", "align", "sep", "coh"],
        seeds=3,
    ),
    rule=Rule(alpha=0.05, smallest=0.005),
    goals={"fewshot-digits": 0.5, "distinct": 0.2},
)
