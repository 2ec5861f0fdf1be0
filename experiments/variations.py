"""How much hangs on the settings? k, w, τ, the start of ω, gates, neighbours reused, shared or
frozen heads, standardising; on two tasks drawn for the rules."""

from recipes import GOALS, tuned

from ascender.lab import Suite
from ascender.lab.verdict import DecisionRule

SETTINGS = [
    "ascender+k=4", "ascender+k=8", "ascender+k=32", "ascender+tau=0.5", "ascender+tau=2",
    "ascender+omega=0.5", "ascender+window=16", "ascender+window=32",
]  # fmt: skip
HEADS = ["mute", "shared", "one-number", "roles", "ungated", "reuse", "raw", "shuffled"]
TASKS = ["distinct", "fewshot-digits"]
SUITE = Suite(
    name="variations",
    claim="No nearby setting is better than the defaults.",
    claim_ko="기본값보다 나은 이웃 설정은 없다.",
    baseline="ascender",
    runs=tuned(TASKS, ["ascender", "vanilla", "matched", *SETTINGS, *HEADS]),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
    goals={name: GOALS[name] for name in TASKS},
)
