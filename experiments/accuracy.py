"""RQ1: does ASCender predict better than attention without the rules, all else equal?

Against vanilla, on tasks of several kinds; the paper says up to +8.3%. Two controls stand beside
it: vanilla with as many parameters (matched), and ASCender with neighbours drawn at random
(shuffled). Sizes, steps and rates: recipes.py.

Five seeds; ten on the tasks that leaned to either side after four (|Cliff's δ| ≥ ½, all of them to
ASCender's), where shuffled is run too. The rule, and Holm over all comparisons, stay as they were.
"""

from recipes import GOALS, LEANING, TASKS, tuned

from ascender.lab import Suite
from ascender.lab.verdict import DecisionRule

SUITE = Suite(
    name="accuracy",
    claim="ASCender is more accurate than vanilla attention at equal training.",
    claim_ko="같은 학습량에서 ASCender가 기본 어텐션보다 정확하다.",
    runs=(
        *tuned(TASKS, ["vanilla", "ascender"]),
        *tuned(TASKS, ["matched"]),
        *tuned(LEANING, ["shuffled"]),
        *tuned(LEANING, ["vanilla", "ascender"], seeds=range(5, 10)),
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
    goals=GOALS,
)
