"""Checkpoints, written atomically; safetensors and JSON only.

    OUT/checkpoints/step-00000500/model.safetensors       weights (and buffers that are saved)
                                 /state.safetensors       AdamW's moments, the best weights so far,
                                                          random states of every process
                                 /state.json              step, AdamW's counts, λ's schedule, …

A checkpoint is written under a temporary name, flushed to disk and renamed; only then are older
ones removed, all but the last two. So kill −9 at any moment leaves at least one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from ascender.common.files import (
    Kind,
    flush,
    read_json,
    read_tensors,
    temporary_path,
    writing_tensors,
)

FOLDER, KEPT = "checkpoints", 2
WEIGHTS, STATE, SHEET = "model.safetensors", "state.safetensors", "state.json"


class CheckpointError(ValueError):
    """A checkpoint that cannot be read."""


@dataclass(frozen=True)
class Checkpoint:
    """What a run continues from: `sheet` is JSON, the rest tensors by name."""

    weights: Mapping[str, Tensor]
    state: Mapping[str, Tensor]
    sheet: Mapping[str, Any]


def save(out: Path, step: int, checkpoint: Checkpoint) -> Path:
    """Write it atomically, then delete all but the last two."""
    folder = out / FOLDER
    place = folder / f"step-{step:08d}"
    half = temporary_path(place)
    for left in folder.glob(".step-*"):  # by a process that was killed: a run has one writer
        shutil.rmtree(left, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        for name, tensors in ((WEIGHTS, checkpoint.weights), (STATE, checkpoint.state)):
            with writing_tensors(half / name):
                save_file(dict(tensors), half / name)
        (half / SHEET).write_text(json.dumps(checkpoint.sheet), encoding="utf-8")
        for path in half.iterdir():
            flush(path)
        if place.exists():  # the same step again, after a resume from the one before
            shutil.rmtree(place)
        half.rename(place)
        flush(folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    for old in saved(out)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return place


def saved(out: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; unfinished ones are not among them."""
    return sorted((out / FOLDER).glob("step-*"))


def load(place: Path, **fields: Kind) -> Checkpoint:
    """Read a checkpoint whose sheet has these fields; a missing or damaged file is an error that
    names it."""
    expected = f"a checkpoint: {WEIGHTS}, {STATE}, {SHEET}"
    try:
        sheet = read_json(place / SHEET, expected, **fields)
        weights, state = (read_tensors(place / name, expected) for name in (WEIGHTS, STATE))
    except (OSError, ValueError) as error:
        raise CheckpointError(str(error)) from None
    return Checkpoint(weights, state, sheet)


def latest(out: Path, say: Any = print, **fields: Kind) -> Checkpoint | None:
    """The newest readable checkpoint, or None. A damaged one is reported and skipped."""
    for place in reversed(saved(out)):
        try:
            return load(place, **fields)
        except CheckpointError as error:
            say(f"{error}; using the one before")
    return None


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy of the weights, tied ones once."""
    first: dict[int, str] = {}
    kept = {}
    for name, t in model.state_dict().items():
        if first.setdefault(t.data_ptr() if t.numel() else id(t), name) == name:
            kept[name] = t.detach().cpu().contiguous().clone()
    return kept


def fill(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load weights; tied ones follow."""
    missing, unknown = model.load_state_dict(weights, strict=False)
    own = weights_of(model)
    lost = [name for name in missing if name in own]
    if lost or unknown:
        raise CheckpointError(
            f"weights do not fit: missing {lost[:3]}, unknown {list(unknown)[:3]}"
        )


def moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimiser's tensors by name: "adam.<parameter>.<what>"."""
    state = optimizer.state_dict()["state"]
    return {
        f"adam.{i}.{name}": torch.as_tensor(value).detach().cpu().clone()
        for i, entry in state.items()
        for name, value in entry.items()
    }


def put_back(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """The reverse of `moments`."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, t in tensors.items():
        if key.startswith("adam."):
            _, i, name = key.split(".")
            state.setdefault(int(i), {})[name] = t
    whole = optimizer.state_dict()
    optimizer.load_state_dict({**whole, "state": state})
