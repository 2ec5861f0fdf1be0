"""The settings of a run, without torch: `Run` adds what they mean, and `ascender train` makes an
option of every field. A new field is a new option."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

REQUIRED: Any = object()


def setting(default: Any, text: str, *, added: bool = False) -> Any:
    """A field with a default and the help text of its option. `added`: after runs were stored,
    whose keys it leaves as they are (run.key_of)."""
    about = {"help": text, "added": added}
    if default is REQUIRED:
        return field(metadata=about)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Settings:
    """A task, a variant, a seed, and the training recipe. A task may have defaults of its own."""

    task: str = setting(REQUIRED, "A task (ascender list tasks), or module:Class of your own.")
    variant: str = setting(
        "ascender",
        "A variant (ascender list variants), such as ascender+alibi+k=8, or module:Class of an "
        "attention of your own, such as my_bias:First+rope.",
    )
    seed: int = setting(0, "Seed of the weights, batches and dropout.")
    options: Mapping[str, Any] = setting({}, 'Options of the task, such as {"crowd": 32}.')
    hidden: int = setting(64, "Width of the model.")
    layers: int = setting(2, "Number of layers.")
    heads: int = setting(4, "Number of attention heads.")
    dropout: float = setting(0.0, "Dropout, in [0, 1).")
    smoothing: float = setting(0.0, "Label smoothing, in [0, 1).")
    steps: int = setting(1000, "Optimiser steps.")
    batch: int = setting(64, "Examples per step, over all processes.")
    rate: float = setting(1e-3, "Peak learning rate of AdamW; cosine decay to 0.")
    warmup: float = setting(0.05, "Warm-up, as a fraction of the steps.")
    decay: float = setting(0.01, "Weight decay.")
    clip: float = setting(1.0, "Largest gradient norm; 0: no clipping.")
    accumulate: int = setting(1, "Micro-batches per step (gradient accumulation).")
    checkpointing: bool = setting(False, "Activation checkpointing: less memory, more time.")
    precision: str = setting("no", "Mixed precision: no, bf16 or fp16.")
    schedule: str = setting(
        "default",
        "Schedule of λ: default (separation after 15% of the steps), constant, or adaptive (λ "
        "rises only at validations with a new lowest loss).",
    )
    ramps: Mapping[str, Any] = setting(
        {},
        "When each rule (align, sep, coh) and the auxiliary losses (losses) come in, such as "
        '{"sep": {"start": 0.3, "length": 0.1, "shape": "cosine", "to": 0.5}}: start and length in '
        "fractions of the steps, or in steps where they are whole numbers; shape: constant, linear "
        "or cosine. What is not given is as the schedule has it.",
        added=True,
    )
    rise: float = setting(
        0.1, "Adaptive schedule: how much λ rises at a validation with a new lowest loss.",
        added=True,
    )  # fmt: skip
    visible_share: float = setting(
        0.3, "Share of the steps after which flock scope begins; all visible keys before.",
        added=True,
    )  # fmt: skip
    losses: Mapping[str, float] = setting({}, 'Weights of auxiliary losses, such as {"coh": 0.1}.')
    every: int = setting(100, "Steps between validations.")
    patience: int = setting(0, "Validations without a new best before stopping early; 0: never.")
