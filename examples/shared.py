"""Shared by the examples that train: arguments, text, transformers' Trainer."""

from __future__ import annotations

import argparse
import importlib
import inspect
import tempfile
import time
from typing import Any

import torch
import transformers
from console import parser_of, progress

from ascender.hf import SwarmCallback
from ascender.nn.baselines import ATTENTIONS
from ascender.nn.positions import POSITIONS

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def arguments(about: str, steps: int) -> argparse.Namespace:
    """Parse --steps, --attention, --position and --seed, and set the seed."""
    parser = parser_of(about)
    parser.add_argument("--steps", type=int, default=steps, help="training steps")
    parser.add_argument("--attention", choices=[a for a in ATTENTIONS if a != "graph"],
                        default="ascender", help="attention, ours or a baseline")  # fmt: skip
    parser.add_argument("--position", choices=list(POSITIONS), default="rope",
                        help="position")  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="seed of weights and batches")
    args = parser.parse_args()
    transformers.set_seed(args.seed)
    return args


class Progress(transformers.TrainerCallback):
    """Print step, loss and time left whenever the Trainer logs."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.start = time.perf_counter()
        progress(f"training: {state.max_steps} steps")

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "loss" in (logs or {}):  # the last log has the totals instead
            step_time = (time.perf_counter() - self.start) / state.global_step
            left = step_time * (state.max_steps - state.global_step)
            at = f"step {state.global_step}/{state.max_steps}"
            progress(f"{at}  loss {logs['loss']:.3f}  {left:.0f} s left")


def stdlib(*modules: str) -> str:
    """The source of some modules of the standard library: real text on every machine."""
    return "\n".join(inspect.getsource(importlib.import_module(name)) for name in modules)


def fit(
    model: Any, data: Any, steps: int, *, batch: int = 16, rate: float = 3e-3, collate: Any = None
) -> None:
    """Train with transformers' Trainer and the default schedule of λ."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as out:
        options = transformers.TrainingArguments(
            out, max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate,
            lr_scheduler_type="cosine", warmup_steps=min(20, steps // 4), weight_decay=0.01,
            logging_steps=max(1, steps // 10), save_strategy="no", report_to=[], disable_tqdm=True,
            dataloader_pin_memory=False,
        )  # fmt: skip
        trainer = transformers.Trainer(
            model, options, train_dataset=data, data_collator=collate,
            callbacks=[SwarmCallback(), Progress()],
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    model.eval()
    seconds = time.perf_counter() - start
    print(f"{steps} steps of {batch} in {seconds:.0f} s, {model.num_parameters():,} parameters")


def pieces(tokens: torch.Tensor, length: int) -> torch.Tensor:
    """Cut a long sequence of tokens into rows of `length`."""
    return tokens[: len(tokens) // length * length].view(-1, length)
