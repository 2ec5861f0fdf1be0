"""Whether a run fits into memory, estimated from its sizes before anything is built.

P ≥ 12 · layers · hidden²          4 of attention, 8 of the gated layers; of an encoder–decoder
                                   as much again
bytes ≥ 16 · P                     float32 weights, gradients and AdamW's two moments
      + 4 · tokens · hidden        the hidden states of one layer
"""

from __future__ import annotations

import torch

from ascender.measure import memory
from ascender.tasks import Task
from ascender.train.run import Run


def least(run: Run, task: Task) -> tuple[int, int]:
    """(parameters, bytes) that training takes at the very least."""
    layers = run.layers * (2 if task.head == "seq2seq" else 1)
    parameters = 12 * layers * run.hidden**2
    tokens = run.batch // run.accumulate * task.length
    return parameters, 16 * parameters + 4 * tokens * run.hidden


def check_room(run: Run, task: Task, device: torch.device) -> None:
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
