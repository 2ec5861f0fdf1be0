"""Learning rates, tuned on validation data: first with vanilla alone, so that the baseline is
strong; then ASCender gets the same grid. One seed; no test score is looked at."""

from recipes import TASKS

from ascender.lab import Suite, grid

RATES = (1e-3, 3e-3, 1e-2)
SUITE = Suite(
    name="settings",
    claim="None: this suite chooses learning rates.",
    claim_ko="없음: 학습률을 고르기 위한 묶음이다.",
    runs=tuple(
        run
        for variant in ("vanilla", "ascender")
        for rate in RATES
        for run in grid(TASKS, variants=[variant], seeds=1, rate=rate)
    ),
)
