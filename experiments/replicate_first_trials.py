"""Do the first trials hold? They were run with other code, two layers of width 64
(docs/results.md has their numbers).

In the first trials few-shot digits reached 90% after 1,000–1,250 steps with the rules and after
1,750–2,750 without. Here they are repeated with this project's code and as many seeds, with 64
episodes a step and a learning rate of 0.001, at which vanilla leaves its plateau (docs/log.md).
Single rules are run with seed 0 and ω from 0.5 with two seeds, as before. SST-2 has the same number
of steps. The task distinct of the first trials is in the suite accuracy, with more seeds.
"""

from recipes import RATES, RULE, TASKS

from ascender.lab import Suite, grid

FEWSHOT = {"steps": 4000, "batch": 64, "every": 250, "rate": 1e-3}
SST2 = {**TASKS["sst2"], "steps": 2000, "every": 250, "rate": RATES["sst2"][0]}
SUITE = Suite(
    name="replicate_first_trials",
    claim="With the rules few-shot digits are learned in fewer steps; SST-2 no better.",
    claim_ko="규칙이 있으면 few-shot 숫자를 더 적은 스텝에 배운다. SST-2에서는 차이가 없다.",
    runs=(
        *grid({"fewshot-digits": FEWSHOT}, ["vanilla", "ascender"], seeds=3),
        *grid({"fewshot-digits": FEWSHOT}, ["only-align", "only-coh"], seeds=1),
        *grid({"fewshot-digits": FEWSHOT}, ["ascender+omega=0.5"], seeds=2),
        *grid({"sst2": SST2}, ["vanilla", "ascender"], seeds=2),
    ),
    rule=RULE,
    goals={"fewshot-digits": 0.9},
)
