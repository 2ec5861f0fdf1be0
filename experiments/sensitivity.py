"""How much depends on the settings? k, window, τ, the initial ω, gates, shared neighbours, shared
or frozen heads, standardisation; on two tasks that were made for the rules.
"""

from recipes import RULE, goals, tuned

from ascender.lab import Suite

SETTINGS = [
    "ascender+k=4", "ascender+k=8", "ascender+k=32", "ascender+tau=0.5", "ascender+tau=2",
    "ascender+omega=0.5", "ascender+window=16", "ascender+window=32",
]  # fmt: skip
CHANGES = [
    "no-rules", "shared", "shared-numbers", "roles", "ungated", "shared-neighbours",
    "unstandardised", "shuffled",
]  # fmt: skip
TASKS = ["distinct", "fewshot-digits"]
SUITE = Suite(
    name="sensitivity",
    claim="No nearby setting is better than the defaults.",
    claim_ko="기본값보다 나은 이웃 설정은 없다.",
    baseline="ascender",
    runs=tuned(TASKS, ["ascender", "vanilla", "matched", *SETTINGS, *CHANGES]),
    rule=RULE,
    goals=goals(TASKS),
)
