"""RQ2 where a window has something to save: text in blocks of 1,024 tokens.

The suite efficiency measures quality at 32 to 128 tokens and costs at 1,024 to 4,096; here both are
of the same models. As many tokens a step as there, and its rule.
"""

from efficiency import SUITE as EFFICIENCY
from recipes import RATES, TASKS

from ascender.lab import Suite, grid

PYLIB = {
    **TASKS["pylib"], "batch": 2, "rate": RATES["pylib"][0],
    "options": {"length": 1024, "blocks": 50},
}  # fmt: skip
SUITE = Suite(
    name="long",
    claim="In a window, on long text, ASCender is as good as full vanilla with 21% fewer FLOPs.",
    claim_ko="긴 글에서 윈도우를 쓴 ASCender는 전체 어텐션보다 21% 적은 연산으로 같은 성능을 낸다.",
    runs=grid({"pylib": PYLIB}, ["vanilla", "longformer+window=32", "ascender+window=32"], seeds=5),
    rule=EFFICIENCY.rule,
)
