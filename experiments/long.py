"""RQ2 where a window has something to save: text in blocks of 1,024 tokens.

The suite efficiency measures quality at 32 to 128 tokens and costs at 1,024 to 4,096; here both are
of the same models. As many tokens a step as there, its rule, its smallest and its largest window.
"""

from efficiency import SUITE as EFFICIENCY
from recipes import RATES, TASKS

from ascender.lab import Suite, grid

PYLIB = {
    **TASKS["pylib"], "batch": 2, "rate": RATES["pylib"][0],
    "options": {"length": 1024, "blocks": 50},
}  # fmt: skip
VARIANTS = ["vanilla", *(f"{v}+window={w}" for w in (8, 32) for v in ("longformer", "ascender"))]
SUITE = Suite(
    name="long",
    claim="In a window, on long text, ASCender is as good as full vanilla with 21% fewer FLOPs.",
    claim_ko="긴 글에서 윈도우를 쓴 ASCender는 전체 어텐션보다 21% 적은 연산으로 같은 성능을 낸다.",
    runs=grid({"pylib": PYLIB}, VARIANTS, seeds=5),
    rule=EFFICIENCY.rule,
)
