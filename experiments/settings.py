"""Learning rates, tuned on validation data: first with vanilla alone, so that the baseline is
strong; then ASCender gets the same grid. One seed; no test score is looked at.

On fewshot-digits and recall vanilla stays on a plateau at first, so steps and batch are tuned too.
"""

from recipes import TASKS

from ascender.lab import Suite, grid

RATES = (1e-3, 3e-3, 1e-2)
LONGER = {
    "fewshot-digits": (
        {"steps": 4000, "batch": 64},
        {"steps": 3000, "batch": 64, "options": {"unlabelled": 4}},
    ),
    "recall": ({"steps": 3000, "batch": 32}, {"steps": 2000, "batch": 64}),
}
QUICK = {name: of for name, of in TASKS.items() if name not in LONGER}


def plateaus(variant, rates=RATES[:2]):
    """The slow tasks at every size of LONGER."""
    return [
        run
        for name, sizes in LONGER.items()
        for size in sizes
        for rate in rates
        for run in grid({name: {**TASKS[name], **size}}, [variant], seeds=1, rate=rate)
    ]


SUITE = Suite(
    name="settings",
    claim="None: this suite chooses learning rates.",
    claim_ko="없음: 학습률을 고르기 위한 묶음이다.",
    runs=(
        *(run for rate in RATES for run in grid(QUICK, ["vanilla"], seeds=1, rate=rate)),
        *plateaus("vanilla"),
        *(run for rate in RATES for run in grid(QUICK, ["ascender"], seeds=1, rate=rate)),
    ),
)
