"""The limits on transformers' clock.

    watch = LimitsCallback(held_batch)
    trainer = Trainer(model, args, train_dataset=…, eval_dataset=…, callbacks=[watch])

At every evaluation the same held batch goes through the model; its numbers are in
trainer.state.log_history (and trainer_state.json) and in watch.history, and heads that cross a
threshold are warned of.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from torch import Tensor
from transformers import TrainerCallback

from ascender.insight.limits.monitor import Thresholds, alarms, by_head, head_metrics

logger = logging.getLogger(__name__)


class LimitsCallback(TrainerCallback):
    """entropy, exp(H) and N_s/N of every head on a fixed batch, at every evaluation.

    inputs   what the model's forward takes, by name
    limits   when to warn
    """

    def __init__(self, inputs: Mapping[str, Any], limits: Thresholds | None = None) -> None:
        self.inputs = dict(inputs)
        self.limits = limits or Thresholds()
        self.history: list[dict[str, Any]] = []

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        model = given["model"]
        device = next(model.parameters()).device
        inputs = {n: t.to(device) if isinstance(t, Tensor) else t for n, t in self.inputs.items()}
        found = head_metrics(model, inputs)
        told = alarms(found, self.limits)
        self.history.append({"step": state.global_step, **found, "alarms": told})
        if state.is_world_process_zero:
            state.log_history.append({**by_head(found), "step": state.global_step})
            for line in told:
                logger.warning("step %s: %s", state.global_step, line)
