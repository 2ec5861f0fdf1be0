"""The processes that train together: one, or those that torchrun started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ascender.train.run import Run

TRACKERS = {"tensorboard": "tensorboard", "trackio": "trackio", "wandb": "wandb"}


def check_tracker(track: str | None) -> None:
    """ValueError for an unknown tracker, ModuleNotFoundError where its package is missing."""
    import importlib.util

    if track is None:
        return
    if track not in TRACKERS:
        raise ValueError(f"unknown tracker {track!r}; expected one of {', '.join(TRACKERS)}")
    if importlib.util.find_spec(TRACKERS[track]) is None:
        raise ModuleNotFoundError(f"{track} is not installed; expected: pip install {track}")


def accelerator(run: Run, out: Path, track: str | None) -> Any:
    """accelerate's Accelerator, on the GPU where there is one."""
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
        from accelerate.utils import DistributedDataParallelKwargs
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            f'training needs {missing.name}; expected: pip install "ascender-attention[train]"'
        ) from None
    AcceleratorState._reset_state()  # a run before this one may have had another precision
    # A rule that has not started yet has no gradient.
    unused = DistributedDataParallelKwargs(find_unused_parameters=True)
    group = Accelerator(
        mixed_precision=run.precision, cpu=not torch.cuda.is_available(),
        kwargs_handlers=[unused], log_with=track, project_dir=str(out),
    )  # fmt: skip
    share = group.num_processes * run.accumulate
    if run.batch % share:
        raise ValueError(
            f"batch = {run.batch} for {group.num_processes} processes and accumulate = "
            f"{run.accumulate}; expected a multiple of {share}"
        )
    return group


def announce(accelerator: Any, run: Run) -> None:
    """Start the trackers with the run's name."""
    named = {"key": run.key, "task": run.task, "variant": run.variant, "seed": run.seed}
    accelerator.init_trackers("ascender", config=named)
