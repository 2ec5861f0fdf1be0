"""A first impression in two minutes: do the rules help where tokens are members of groups?

    ascender lab run quick --out lab/quick

fewshot-digits (three classes, one labelled and two unlabelled images each, then a query) and
distinct; vanilla, ascender and each rule alone, three seeds. These are the smallest runs that show
anything. Size, learning rate and steps were chosen with seed 0 of vanilla and ascender
(docs/log.md), so this suite is a demonstration and not evidence.
"""

from ascender.lab import Suite, grid
from ascender.lab.verdict import DecisionRule

SIZE = {"hidden": 32, "layers": 2, "heads": 2, "batch": 32, "rate": 3e-3}
FEW = {"ways": 3, "unlabelled": 2}
SUITE = Suite(
    name="quick",
    claim="With the three rules a small model learns crowds of vectors better than without.",
    claim_ko="세 규칙이 있으면 작은 모델이 벡터 무리를 더 잘 배운다.",
    runs=grid(
        {
            "fewshot-digits": {**SIZE, "steps": 600, "every": 100, "options": FEW},
            "distinct": {**SIZE, "steps": 200, "every": 50},
        },
        variants=["vanilla", "ascender", "only-align", "only-sep", "only-coh"],
        seeds=3,
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
    goals={"fewshot-digits": 0.6, "distinct": 0.25},
)
