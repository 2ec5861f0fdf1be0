"""Learning rates, tuned on validation data: first for vanilla, so that the baseline is strong, then
the same grid for ASCender. One seed; test scores are not used. Sizes, steps and batches of
recipes.py were also tuned with vanilla (docs/log.md).
"""

from recipes import TASKS

from ascender.lab import Suite, grid

RATES = (1e-3, 3e-3, 1e-2)
LOWER = (3e-4, 1e-3, 3e-3)  # where vanilla was best at 1e-3
LOW = ("fewshot-digits", "distinct", "recall", "lra-text")


def rates(variant):
    """Every task at every rate of its grid."""
    return [
        run
        for name, of in TASKS.items()
        for rate in (LOWER if name in LOW else RATES)
        for run in grid({name: of}, [variant], seeds=1, rate=rate)
    ]


SUITE = Suite(
    name="tune_rates",
    claim="None: this suite chooses learning rates.",
    tuning=True,
    claim_ko="없음: 학습률을 고르기 위한 묶음이다.",
    runs=(*rates("vanilla"), *rates("ascender")),
)
