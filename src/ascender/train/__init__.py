"""Training any variant on any task: train(Run.of("distinct", variant="ascender"), Path("out"))."""

from __future__ import annotations

from ascender.train.evaluation import Evaluation, evaluate
from ascender.train.folder import RunFolderInUse
from ascender.train.loop import Stopped, train
from ascender.train.run import Run
from ascender.train.variants import VARIANTS, Variant, variant

__all__ = [
    "VARIANTS",
    "Evaluation",
    "Run",
    "RunFolderInUse",
    "Stopped",
    "Variant",
    "evaluate",
    "train",
    "variant",
]  # fmt: skip
