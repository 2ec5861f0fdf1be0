"""Do the first trials hold? (Another code, two layers, 64 wide; docs/results.md has their numbers.)

They saw few-shot digits at 90% after 1,000–1,250 steps with the rules against 1,750–2,750 without.
Here with this project's code and as many seeds; 64 episodes a step and a rate of 0.001, where
vanilla leaves its plateau (docs/log.md). Seed 0 is taken apart as theirs was, ω from 0.5 on two.
SST-2 with the steps that they had. Their distinct is that of the suite accuracy, with more seeds.
"""

from recipes import RATES, TASKS

from ascender.lab import Suite, grid
from ascender.lab.verdict import DecisionRule

FEWSHOT = {"steps": 4000, "batch": 64, "every": 250, "rate": 1e-3}
SST2 = {**TASKS["sst2"], "steps": 2000, "every": 250, "rate": RATES["sst2"][0]}
SUITE = Suite(
    name="first",
    claim="With the rules few-shot digits are learned in fewer steps; SST-2 no better.",
    claim_ko="규칙이 있으면 few-shot 숫자를 더 적은 스텝에 배운다. SST-2에서는 차이가 없다.",
    runs=(
        *grid({"fewshot-digits": FEWSHOT}, ["vanilla", "ascender"], seeds=3),
        *grid({"fewshot-digits": FEWSHOT}, ["align", "coh"], seeds=1),
        *grid({"fewshot-digits": FEWSHOT}, ["ascender+omega=0.5"], seeds=2),
        *grid({"sst2": SST2}, ["vanilla", "ascender"], seeds=2),
    ),
    rule=DecisionRule(alpha=0.05, smallest=0.005),
    goals={"fewshot-digits": 0.9},
)
