"""RQ2 at a length where a window saves something: text in blocks of 1,024 tokens.

The suite efficiency measures quality at 32 to 128 tokens and costs at 1,024 to 4,096; here both are
measured on the same models. Same decision rule and the smallest window; steps and learning rates
tuned at this length (tune_rates_long.py), vanilla first. A first attempt with the 400 steps and the
rates for 128 tokens left full attention hardly trained (docs/log.md).
"""

from efficiency import SUITE as EFFICIENCY
from recipes import LONG

from ascender.lab import Suite, grid

RATE = 3e-3  # the best of three for vanilla, and for ASCender
SUITE = Suite(
    name="long",
    claim="In a window, on long text, ASCender is as good as full vanilla with 21% fewer FLOPs.",
    claim_ko="긴 글에서 윈도우를 쓴 ASCender는 전체 어텐션보다 21% 적은 연산으로 같은 성능을 낸다.",
    runs=grid(
        {"pylib": LONG}, ["vanilla", "longformer+window=8", "ascender+window=8"], seeds=5, rate=RATE
    ),
    rule=EFFICIENCY.rule,
)
