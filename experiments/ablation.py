"""What carries the effect? Every rule and combination, k, w, τ, the start of ω, gates, neighbours
reused, shared or frozen heads, standardising; on the two tasks where the first trials saw a
difference."""

from recipes import TASKS

from ascender.lab import Suite, grid
from ascender.lab.verdict import Rule

COMBINATIONS = ["mute", "align", "sep", "coh", "no-align", "no-sep", "no-coh"]
SETTINGS = [
    "ascender+k=4", "ascender+k=8", "ascender+k=32", "ascender+tau=0.5", "ascender+tau=2",
    "ascender+omega=0.5", "ascender+window=16", "ascender+window=32",
]  # fmt: skip
HEADS = ["shared", "one-number", "roles", "ungated", "reuse", "raw", "shuffled"]
SUITE = Suite(
    name="ablation",
    claim="All three rules contribute, each more than its parameters.",
    claim_ko="세 규칙은 모두 매개변수 수 이상의 기여를 한다.",
    baseline="ascender",
    runs=grid(
        {name: TASKS[name] for name in ("fewshot-digits", "distinct")},
        variants=["ascender", "vanilla", "matched", *COMBINATIONS, *SETTINGS, *HEADS],
        seeds=5,
    ),
    rule=Rule(alpha=0.05, smallest=0.005),
    goals={"fewshot-digits": 0.9, "distinct": 0.45},
)
