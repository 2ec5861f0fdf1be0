"""Is it the rules, or what comes with them? ASCender against itself with the rules muted from the
first step: the same parameters, drawn the same, the same rate and batches, vanilla's scores.

Written after a look at elsewhere: on pylib every variant of ASCender has the lead over vanilla, one
rule or three. A seed draws the same batches for vanilla and ASCender, but other weights, since they
have not the same parameters; here it draws the same weights too, so that pairs differ by less and
smaller effects show. Where ASCender leans away from vanilla as many seeds as accuracy has, ten (the
first five were looked at before the others were run), elsewhere three.
"""

from elsewhere import LEVEL
from recipes import LEANING, tuned

from ascender.lab import Suite
from ascender.lab.verdict import DecisionRule

VARIANTS = ["mute", "ascender", "vanilla"]
SUITE = Suite(
    name="muted",
    claim="The rules do it: ASCender is better than the same model with its rules muted.",
    claim_ko="규칙의 효과다: ASCender는 규칙을 끈 같은 모델보다 낫다.",
    baseline="mute",
    runs=(
        *tuned(LEANING, VARIANTS, seeds=10),
        *tuned([name for name in LEVEL if name not in LEANING], VARIANTS, seeds=3),
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
)
