"""RQ2: how small may the window and k be before ASCender is worse than full vanilla attention, and
how much is saved? The paper says −21% attention FLOPs at equal quality.

Not inferior: the whole 95% interval of the difference, paired by seed, is above −0.01. On text,
where most of the useful context is near, and on recall, where the answer may be anywhere. Five
seeds resolve 0.01 on these tasks; on digits they do not (seeds differ by 0.025). Costs are measured
on one layer of width 256 at 1024 to 4096 tokens.
"""

from recipes import tuned

from ascender.lab import Costs, Suite
from ascender.lab.verdict import DecisionRule

WINDOWS = (8, 16, 32)
PLAIN = ["vanilla", *(f"longformer+window={w}" for w in WINDOWS)]
RULED = ["ascender", "ascender+k=4", *(f"ascender+window={w}" for w in WINDOWS)]
SUITE = Suite(
    name="efficiency",
    claim="ASCender in a window is as good as full vanilla attention with 21% fewer FLOPs.",
    claim_ko="윈도우를 쓴 ASCender는 전체 어텐션보다 21% 적은 연산으로 같은 성능을 낸다.",
    runs=tuned(["pylib", "recall"], [*PLAIN, *RULED, "shared-qknorm+window=16"]),
    rule=DecisionRule(alpha=0.05, smallest=0.005, margin=0.01),
    costs=Costs(
        ("vanilla", "longformer+window=32", "ascender", "ascender+k=4", "ascender+window=32",
         "shared-qknorm", "shared-qknorm+window=32", "windowed"),
    ),
)  # fmt: skip
