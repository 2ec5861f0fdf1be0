"""Does a schedule that listens to the task help? λ of every rule by training step, against one in
which λ rises only while the validation loss falls.

    ascender lab run adaptive --out lab/adaptive

ascender at the sizes and learning rates of the other suites, on a task that gains from the rules
and one that does not, with five validations of ten enough for the full λ (rise 0.2). Beside it the
constant schedule, and no rules at all.
"""

from dataclasses import replace

from recipes import RULE, goals, tuned

from ascender.lab import Suite

TASKS = ["fewshot-digits", "recall"]
SCHEDULES = ["ascender", "ascender+schedule=adaptive", "ascender+schedule=constant", "no-rules"]
SUITE = Suite(
    name="adaptive",
    claim="A task-adaptive schedule of all three rules is better than one by training step.",
    claim_ko="세 규칙 모두를 과제에 맞추는 스케줄이 학습 단계에 따른 스케줄보다 낫다.",
    baseline="ascender",
    runs=tuple(replace(run, rise=0.2) for run in tuned(TASKS, SCHEDULES)),
    rule=RULE,
    goals=goals(TASKS),
)
