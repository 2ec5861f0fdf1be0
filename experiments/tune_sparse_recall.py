"""Learning rates of the suite sparse_recall, tuned on validation data with seed 0: every attention
has the same grid. Test scores are not used.

    ascender lab run tune_sparse_recall --out lab/tune_sparse_recall
"""

from sparse_recall import VARIANTS, cells

from ascender.lab import Suite

SUITE = Suite(
    name="tune_sparse_recall",
    claim="None: this suite chooses learning rates.",
    claim_ko="없음: 학습률을 고르기 위한 묶음이다.",
    tuning=True,
    runs=tuple(run for rate in (1e-3, 3e-3, 3e-4) for run in cells(dict.fromkeys(VARIANTS, rate))),
)
