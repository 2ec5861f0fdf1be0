"""What a run needs of the machine: its processes (one, or those that torchrun started), a tracker,
and memory, estimated from its sizes before anything is built.

P ≥ 12 · layers · hidden²          4 of attention, 8 of the gated layers; of an encoder–decoder
                                   as much again
bytes ≥ 16 · P                     float32 weights, gradients and AdamW's two moments
      + 4 · tokens · hidden        the hidden states of one layer
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ascender.measure import memory
from ascender.tasks import Task
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


def least(run: Run, task: Task) -> tuple[int, int]:
    """(parameters, bytes) that training takes at the very least."""
    layers = run.layers * (2 if task.head == "seq2seq" else 1)
    parameters = 12 * layers * run.hidden**2
    tokens = run.batch // run.accumulate * task.length
    return parameters, 16 * parameters + 4 * tokens * run.hidden


def check_memory(run: Run, task: Task, device: torch.device) -> None:
    """ValueError where it cannot fit: building such a model would take forever, or all memory."""
    parameters, needed = least(run, task)
    on_gpu = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if on_gpu else memory.available()
    if needed > free:
        raise ValueError(
            f"layers = {run.layers}, hidden = {run.hidden}, batch = {run.batch}: at least "
            f"{parameters:,} parameters and {needed / 1e9:,.1f} GB to train; expected sizes that "
            f"fit into the {free / 1e9:,.1f} GB that are free {'on the GPU' if on_gpu else 'here'}"
        )
