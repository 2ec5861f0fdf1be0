"""RQ2: how small may window and k be before ASCender is worse than full vanilla, and what is
saved? The paper says −21% attention FLOPs at equal quality.

Not inferior: the whole 95% interval of the difference, paired by seed, above −0.01. On text, where
most of what helps is near, and on recall, where the answer may lie anywhere; five seeds can tell
0.01 there, as they could not on digits (they differ by 0.025). Costs are of one layer, 256 wide, at
1024 to 4096 tokens.
"""

from recipes import tuned

from ascender.lab import Costs, Suite
from ascender.lab.verdict import DecisionRule

WINDOWS = (8, 16, 32)
PLAIN = ["vanilla", *(f"longformer+window={w}" for w in WINDOWS)]
RULED = ["ascender", "ascender+k=4", *(f"ascender+window={w}" for w in WINDOWS), "fast+window=16"]
SUITE = Suite(
    name="efficiency",
    claim="ASCender in a window is as good as full vanilla attention with 21% fewer FLOPs.",
    claim_ko="윈도우를 쓴 ASCender는 전체 어텐션보다 21% 적은 연산으로 같은 성능을 낸다.",
    runs=tuned(["pylib", "recall"], [*PLAIN, *RULED]),
    rule=DecisionRule(alpha=0.05, smallest=0.005, margin=0.01),
    costs=Costs(
        ("vanilla", "longformer+window=32", "ascender", "ascender+k=4", "ascender+window=32",
         "fast", "fast+window=32", "windowed"),
    ),
)  # fmt: skip
