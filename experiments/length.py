"""Figure 5: how does quality change as the text grows? A needle in 128 to 512 tokens."""

from ascender.lab import Suite, grid
from ascender.lab.verdict import DecisionRule

LENGTHS = (128, 256, 512)
SUITE = Suite(
    name="length",
    claim="ASCender keeps its quality over longer texts than vanilla does.",
    claim_ko="ASCender는 기본 어텐션보다 긴 글에서도 품질을 유지한다.",
    runs=tuple(
        run
        for n in LENGTHS
        for run in grid(
            {"needle": {"steps": 600, "batch": 16, "every": 100, "options": {"length": n}}},
            variants=["vanilla", "vanilla+alibi", "ascender", "shared-qknorm+window=64"],
            seeds=3,
        )
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.01),
)
