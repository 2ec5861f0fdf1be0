"""RQ4 on three more tasks: the rules beside ALiBi, rotary positions and a window, three seeds.

Each task keeps its own positions beside the window: rotary on lists and sentences, learned on
digits, to which rotary ones are tried as well. Three seeds show a direction and large effects; the
verdict on RQ4 is that of the suite compatibility.
"""

from recipes import tuned

from ascender.lab import Suite
from ascender.lab.verdict import Rule

TEXT = ["listops-short", "sst2"]
IMAGES = ["digits"]
PAIRS = {
    "ascender": "vanilla",
    "ascender+alibi": "vanilla+alibi",
    "ascender+window=16": "longformer+window=16",
}
TURNED = {"ascender+rope": "vanilla+rope"}
SUITE = Suite(
    name="partners",
    claim="The rules do the same beside other positions and a window as they do alone.",
    claim_ko="다른 위치 표현이나 윈도우와 함께 써도 규칙의 효과는 단독일 때와 같다.",
    runs=(
        *tuned(TEXT, [*PAIRS.values(), *PAIRS], seeds=3),
        *tuned(IMAGES, [*PAIRS.values(), *TURNED.values(), *PAIRS, *TURNED], seeds=3),
    ),
    against={v: base for v, base in (PAIRS | TURNED).items() if v != "ascender"},
    rule=Rule(alpha=0.05, smallest=0.005),
)
