"""RQ1: is ASCender more accurate than attention without the rules, all else equal?

Compared with vanilla on tasks of several kinds; the paper says up to +8.3%. There are two controls:
vanilla with as many parameters (matched) and ASCender with random neighbours (shuffled). Sizes,
steps and learning rates are in recipes.py.

Five seeds, and ten on the tasks where |Cliff's δ| was at least ½ after four seeds (all in favour of
ASCender); shuffled is run on those tasks too. The decision rule and Holm's correction over all
comparisons were not changed.
"""

from recipes import GOALS, LEANING, RULE, TASKS, tuned

from ascender.lab import Suite

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
    rule=RULE,
    goals=GOALS,
)
