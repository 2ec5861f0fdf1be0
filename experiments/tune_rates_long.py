"""Learning rates at 1,024 tokens, tuned on validation data as in tune_rates.py: vanilla first, then
the same grid for ASCender in the window of the suite long.
"""

from recipes import LONG

from ascender.lab import Suite, grid

RATES = (1e-3, 3e-3, 1e-2)
SUITE = Suite(
    name="tune_rates_long",
    claim="None: this suite chooses learning rates.",
    tuning=True,
    claim_ko="없음: 학습률을 고르기 위한 묶음이다.",
    runs=tuple(
        run
        for variant in ("vanilla", "ascender+window=8")
        for rate in RATES
        for run in grid({"pylib": LONG}, [variant], seeds=1, rate=rate)
    ),
)
