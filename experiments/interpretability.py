"""RQ3: can one see what ASCender does, and is what one sees meaningful?

    ascender lab run interpretability --out lab/interpretability

Every model is measured after training (ascender.insight): what each rule does in each head, which
roles heads take and whether seeds agree on them, and whether latent coordinates z, neighbourhoods,
attention and states recover the true groups of tokens: clusters (grouping), digits
(fewshot-digits), classes of Python tokens (pylib). Recipes are those of the other suites; about
25 minutes on two cores.

The claim holds on a task if, in the table "Interpretability and grouping", z or the neighbours of
some layer win against the states that the same layer of vanilla reads, and attention loses against
vanilla's in no layer. The states of the first layer are the inputs themselves, so what they reveal
is no merit of a model. Heads take roles if p of "Do seeds agree" is below 0.05 in some layer, with
Holm's correction over all layers, on most tasks; the row "all" only says that layers differ. (Both
are tests of experiments/paper.py. Results of other recipes on these tasks were known before,
docs/insight.md.)
"""

from recipes import goals, tuned

from ascender.lab import Suite
from ascender.lab.verdict import DecisionRule

SUITE = Suite(
    name="interpretability",
    claim="ASCender's coordinates and neighbourhoods find true groups of tokens better than "
    "vanilla's states do, and its heads take roles on which seeds agree.",
    claim_ko="ASCender의 좌표와 이웃은 기본 모델의 상태보다 토큰의 실제 무리를 더 잘 찾고, 헤드의 "
    "역할은 시드 사이에 일치한다.",
    runs=tuned(["grouping", "fewshot-digits", "pylib"], ["vanilla", "ascender"]),
    rule=DecisionRule(alpha=0.05, smallest=0.01),
    goals=goals(["grouping", "fewshot-digits"]),
    insight=True,
)
