"""Everything that the paper claims: all suites, one set of trials.

ascender lab run paper --out lab/paper --data-dir data
ascender lab report lab/paper --lang both
"""

from ascender.lab import Bundle

SUITE = Bundle(
    name="paper",
    claim="RQ1 to RQ4, the ablations and the lengths, with one set of trials.",
    claim_ko="RQ1–RQ4, 절제 실험, 길이 실험을 하나의 시행 집합으로.",
    suites=(
        "accuracy", "efficiency", "interpretability", "compatibility", "ablation", "length",
    ),
)  # fmt: skip
