"""SwarmCallback: λ and the weights of the auxiliary losses, scheduled by transformers' Trainer.

    trainer = Trainer(model, args, train_dataset=…, callbacks=[SwarmCallback()])

Before every step the rules get the schedule's λ, layers of flock scope their phase and the model
its loss weights α; all are part of the checkpoints (trainer_state.json) and go on from there when
training resumes. Between steps, where models are evaluated and saved, there is no visible phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch import nn
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from ascender.core.schedule import (
    Adaptive,
    LossWeights,
    Ramp,
    Schedule,
    restore,
    set_visible_phase,
)


class SwarmCallback(TrainerCallback, ExportableState):
    """Schedule (or Adaptive, which hears of every evaluation's loss) and LossWeights for a Trainer.

    schedule      λ of the rules and the visible phase; None: Schedule.default()
    loss_weights  α of the auxiliary losses; None: the model's (config.align_loss, …), which come
                  in after 15% of the steps
    """

    def __init__(
        self,
        schedule: Schedule | Adaptive | Mapping[str, Any] | None = None,
        loss_weights: LossWeights | Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(schedule, Mapping):
            schedule = restore(schedule)
        if isinstance(loss_weights, Mapping):
            loss_weights = LossWeights(**{**loss_weights, "when": Ramp(**loss_weights["when"])})
        self.schedule = Schedule.default() if schedule is None else schedule
        self.loss_weights = loss_weights

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Goes on where a checkpoint was saved; refuses one of another schedule."""
        saved = (state.stateful_callbacks or {}).get(type(self).__name__)
        if isinstance(saved, Mapping):
            self.schedule.load_state_dict(saved["args"]["schedule"])
        if self.loss_weights is None:
            weights = [m.config.loss_weights() for m in _losing(given["model"])]
            self.loss_weights = weights[0] if weights else LossWeights()

    def on_step_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._set(given["model"], state.global_step, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        set_visible_phase(given["model"], False)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        self._set(given["model"], state.max_steps, state.max_steps)

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, float], **given: Any
    ) -> None:
        if isinstance(self.schedule, Adaptive) and "eval_loss" in metrics and state.max_steps > 0:
            self.schedule.report(metrics["eval_loss"], state.global_step, state.max_steps)

    def _set(self, model: nn.Module, step: int, total: int) -> None:
        assert self.loss_weights is not None  # since training began
        self.schedule.apply(model, step, total)  # past the last step there is no visible phase
        for head in _losing(model):
            head.loss_weights = self.loss_weights.at(step, total)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        weights = None if self.loss_weights is None else asdict(self.loss_weights)
        schedule = self.schedule.state_dict()
        return {"args": {"schedule": schedule, "loss_weights": weights}, "attributes": {}}


def _losing(model: nn.Module) -> list[Any]:
    """The heads in a model, whatever wraps it."""
    return [m for m in model.modules() if isinstance(getattr(m, "loss_weights", None), LossWeights)]
