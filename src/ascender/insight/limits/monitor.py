"""The limits while a model trains: a few numbers of each head, thresholds that warn, a callback.

metrics = head_metrics(model, inputs)          {"entropy": [[…], …], "support": …, …}: layers, heads
for alarm in alarms(metrics): …
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers import TrainerCallback

from ascender.core.rules import COOLEST
from ascender.insight.capture import capture
from ascender.insight.contribution import rows_of
from ascender.insight.limits.distance import GUIDE, LINE, selection
from ascender.insight.limits.flocks import FlockSize, flock_warnings
from ascender.insight.limits.measure import HeadLimits, mean, measured_rows
from ascender.insight.limits.support import effective_support, entropy
from ascender.insight.loading import fed
from ascender.tasks import Task

logger = logging.getLogger(__name__)
Numbers = dict[str, list[list[float]]]
LOGGED = ("entropy", "support", "separable")


@dataclass(frozen=True)
class Thresholds:
    """When a head is warned of.

    share        exp(H)/L above this: it hardly selects
    support      exp(H) below this: it attends to one key
    separable    N_s/N at N = 0.06 L below this: the lower end of the line 0.70–0.85 at which heads
                 saturate (distance.LINE)
    temperature  T below this
    """

    share: float = 0.9
    support: float = 1.05
    separable: float = LINE[0]
    temperature: float = COOLEST

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, int | float) or value < 0:
                raise ValueError(f"{name} = {value!r}; expected a number ≥ 0")


def head_metrics(model: nn.Module, inputs: Mapping[str, Any], rows: int = 8) -> Numbers:
    """entropy H, support exp(H), share exp(H)/L, separable N_s/N at N = 0.06 L, and T, by layer and
    head: means over the rows that see the most."""
    _, layers = capture(model, **inputs)
    names = ("entropy", "support", "share", "separable", "temperature")
    metrics: Numbers = {name: [] for name in names}
    for layer, real in zip(layers, rows_of(layers), strict=True):
        sample = measured_rows(layer, real, rows)
        support = effective_support(sample.A)
        by_row = {"entropy": entropy(sample.A), "support": support, "share": support / sample.L}
        for name, t in by_row.items():
            metrics[name].append(_by_head(t))
        picked = selection(sample.A, sample.x, sample.visible)
        metrics["separable"].append(_by_head(picked.at("separable", picked.share(GUIDE))))
        metrics["temperature"].append([round(float(T), 5) for T in sample.temperature])
    return metrics


def alarms(
    metrics: Mapping[str, Sequence[Sequence[float]]], limits: Thresholds | None = None
) -> list[str]:
    """A line for every threshold that heads cross: how many and which."""
    limits = limits or Thresholds()
    warnings = []
    for name, above, why in CHECKS:
        edge = getattr(limits, name)
        bad = [
            (i, h, x)
            for i, row in enumerate(metrics[name])
            for h, x in enumerate(row)
            if (x > edge if above else x < edge)
        ]
        if bad:
            total = sum(len(row) for row in metrics[name])
            i, h, x = max(bad, key=lambda one: one[2] if above else -one[2])
            warnings.append(
                f"{len(bad)} of {total} heads {why.format(edge=f'{edge:g}')}; "
                f"most of all layer {i} head {h} with {x:.3g}"
            )
    return warnings


def task_head_metrics(model: nn.Module, task: Task, n: int = 8) -> Numbers:
    """The first n validation examples of a task, always the same."""
    device = next(model.parameters()).device
    batch = next(iter(task.eval_batches("validation", n))).to(device)
    return head_metrics(model, {**fed(task, batch), "labels": batch.labels})


def by_head(metrics: Mapping[str, Sequence[Sequence[float]]]) -> dict[str, float]:
    """limits/support/layer0.head1 … as loggers have it."""
    return {
        f"limits/{name}/layer{i}.head{h}": x
        for name in LOGGED
        for i, row in enumerate(metrics.get(name, ()))
        for h, x in enumerate(row)
    }


CHECKS = (
    ("share", True, "spread over more than {edge} of their keys (exp(H)/L)"),
    ("support", False, "attend to fewer than {edge} keys (exp(H))"),
    ("separable", False, "keep less than {edge} of N = 0.06 L keys separable (N_s/N)"),
    ("temperature", False, "have a temperature below {edge}"),
)


def guideline(rows: Sequence[HeadLimits], flocks: Sequence[FlockSize] = ()) -> list[str]:
    """Warnings by N < 0.06 L, with N = exp(H) the keys that a head uses, in layers of flock scope
    N = |F| and L = |V|; by N_s/N ≥ 0.70, below the line at which heads saturate; and by T ≥ 0.1."""
    warnings, chosen = [], {size.layer for size in flocks}
    for length in sorted({row.length for row in rows}):
        here = [row for row in rows if row.length == length and row.layer not in chosen]
        wide = [row for row in here if row.share >= GUIDE]
        if wide:
            worst = max(wide, key=lambda row: row.share)
            warnings.append(
                f"L = {length}: {len(wide)} of {len(here)} heads use N = exp(H) ≥ {GUIDE} L keys; "
                f"most of all layer {worst.layer} head {worst.head} with {worst.share:.2f} L"
            )
        warnings.extend(flock_warnings(flocks, length))
        warnings.extend(_below_the_line([row for row in rows if row.length == length]))
    cool = {(row.layer, row.head): row.temperature for row in rows if row.temperature < COOLEST}
    for (layer, head), T in sorted(cool.items()):
        warnings.append(f"layer {layer} head {head}: T = {T:.3g}; expected T ≥ {COOLEST}")
    return warnings


def _below_the_line(rows: Sequence[HeadLimits]) -> list[str]:
    """Warnings of heads of one length whose separable share N_s/N is below LINE, 0.70–0.85."""
    low, high = LINE
    below = [row for row in rows if row.separable < low]
    if not below:
        return []
    on = sum(low <= row.separable <= high for row in rows)
    worst = min(below, key=lambda row: row.separable)
    return [
        f"L = {worst.length}: {len(below)} of {len(rows)} heads keep less than {low:.2f} of "
        f"N = {GUIDE} L keys separable (N_s/N), {on} are on the line {low:.2f}–{high:.2f}; least "
        f"of all layer {worst.layer} head {worst.head} with {worst.separable:.2f}"
    ]


def _by_head(t: Tensor) -> list[float]:
    return [round(mean(t[:, h]), 5) for h in range(t.shape[1])]


class LimitsCallback(TrainerCallback):
    """entropy, exp(H) and N_s/N of every head on a fixed batch, at every evaluation.

        watch = LimitsCallback(batch)
        trainer = Trainer(model, args, train_dataset=…, eval_dataset=…, callbacks=[watch])

    The numbers are in trainer.state.log_history (and trainer_state.json) and in watch.history;
    heads that cross a threshold are logged as warnings.

    inputs   what the model's forward takes, by name
    limits   when to warn
    """

    def __init__(self, inputs: Mapping[str, Any], limits: Thresholds | None = None) -> None:
        self.inputs = dict(inputs)
        self.limits = limits or Thresholds()
        self.history: list[dict[str, Any]] = []

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        model = more["model"]
        device = next(model.parameters()).device
        inputs = {n: t.to(device) if isinstance(t, Tensor) else t for n, t in self.inputs.items()}
        metrics = head_metrics(model, inputs)
        warnings = alarms(metrics, self.limits)
        self.history.append({"step": state.global_step, **metrics, "alarms": warnings})
        if state.is_world_process_zero:
            state.log_history.append({**by_head(metrics), "step": state.global_step})
            for line in warnings:
                logger.warning("step %s: %s", state.global_step, line)
