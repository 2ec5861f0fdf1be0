"""Training any variant on any task: train(Run.of("distinct", variant="ascender"), Path("out")).

Names are imported at first use, so that the command line can read the settings of a run without
importing torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
]

HOMES = {
    "evaluation": ("Evaluation", "evaluate"),
    "folder": ("RunFolderInUse",),
    "loop": ("Stopped", "train"),
    "run": ("Run",),
    "variants": ("VARIANTS", "Variant", "variant"),
}


def __getattr__(name: str) -> Any:
    for module, names in HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
