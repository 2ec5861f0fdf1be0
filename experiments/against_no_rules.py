"""Is it the rules, or something that comes with them? ASCender against itself with all rules off
from the first step: the same parameters and initial weights, the same learning rate and batches,
vanilla's scores.

Added after the suite ablation_other_tasks: on pylib every variant of ASCender leads over vanilla,
with one rule or three. A seed draws the same batches for vanilla and ASCender but different
weights, because they have different parameters. Here it draws the same weights too, so that pairs
differ less and smaller effects become visible. Ten seeds on the tasks where ASCender is ahead of
vanilla, as in the suite accuracy (the results of the first five were known before the others were
run), three on the other tasks.
"""

from ablation_other_tasks import LEVEL
from recipes import LEANING, RULE, tuned

from ascender.lab import Suite

VARIANTS = ["no-rules", "ascender", "vanilla"]
SUITE = Suite(
    name="against_no_rules",
    claim="The rules do it: ASCender is better than the same model with its rules muted.",
    claim_ko="규칙의 효과다: ASCender는 규칙을 끈 같은 모델보다 낫다.",
    baseline="no-rules",
    runs=(
        *tuned(LEANING, VARIANTS, seeds=10),
        *tuned([name for name in LEVEL if name not in LEANING], VARIANTS, seeds=3),
    ),
    rule=RULE,
)
