"""Training: one task, one variant, one seed. A resumed run equals an uninterrupted one.

    OUT/run.json          the run, as a value
    OUT/metrics.jsonl     a row a step, more at every validation (with limits: by layer and head)
    OUT/checkpoints/      the last two
    OUT/model/            the best by validation, as from_pretrained reads it
    OUT/record.json       everything a table or a figure needs, written last

Step t is a function of the weights before it and of (seed, t): batch, dropout, learning rate and
λ. So nothing else has to be stored to resume.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ascender.common.files import NUMBER, Kind, write
from ascender.core.schedule import Adaptive, LossWeights, set_lam, set_visible_phase
from ascender.insight.limits.monitor import Thresholds, alarms, by_head, task_head_metrics
from ascender.measure import memory
from ascender.tasks import Batch, Task
from ascender.train import checkpoint, record
from ascender.train.accelerator import accelerator, check_memory, check_tracker
from ascender.train.display import News, TrainingDisplay
from ascender.train.evaluation import Evaluation, evaluate
from ascender.train.folder import METRICS, RECORD, RUN, claim, cut_metrics, keep_model, plain
from ascender.train.health import LossMonitor, TrainingDiverged, culprit
from ascender.train.run import Run

# The state of a run beside its tensors, the schedule of λ and the loss monitor.
STATE: dict[str, Kind] = {
    "step": int, "read": int, "seconds": NUMBER, "drawing": NUMBER, "judging": NUMBER,
    "best": (*NUMBER, type(None)), "best_step": int, "best_lam": dict, "stale": int, "curve": list,
}  # fmt: skip
BETAS = (0.9, 0.98)  # of AdamW
Measure = Callable[[Any, Task], dict[str, Any]]


class Stopped(Exception):
    """Training was asked to stop; it can resume from its last checkpoint."""


def train(
    run: Run, out: Path, *, resume: bool = False, data_dir: str | None = None,
    show: TrainingDisplay | None = None, save_every: int | None = None, track: str | None = None,
    stopping: Callable[[], bool] = lambda: False, measure: Measure | None = None,
    limits: Thresholds | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train a run and return its record; the record of a finished run is only read. `measure` fills
    the record's "insight" from the trained model; `limits` (thresholds of warnings) logs entropy
    and support of every head at each validation."""
    check_tracker(track)
    done = claim(run, out, resume)
    if done is not None:
        (show or TrainingDisplay()).say(f"{out} is finished; nothing to do")
        return done
    trainer = Trainer(run, out, data_dir, show or TrainingDisplay(), track)
    trainer.measure, trainer.limits = measure, limits
    trainer.try_once()
    trainer.open(resume)
    return trainer.go(save_every or run.every, stopping)


def rate(run: Run, step: int) -> float:
    """Linear warm-up, then cosine decay to 0."""
    warm = max(1, round(run.warmup * run.steps)) if run.warmup else 0
    if step < warm:
        return run.rate * (step + 1) / warm
    x = (step - warm) / max(1, run.steps - warm)
    return run.rate * 0.5 * (1 + math.cos(math.pi * x))


class Trainer:
    """A run in progress."""

    measure: Measure | None = None
    limits: Thresholds | None = None

    def __init__(
        self, run: Run, out: Path, data_dir: str | None, show: TrainingDisplay, track: str | None
    ) -> None:
        self.run, self.out, self.show = run, out, show
        self.accelerator, self.tracked = accelerator(run, out, track), track is not None
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        self.task = run.make_task(data_dir)
        check_memory(run, self.task, self.accelerator.device)
        self.plain = run.make_model(self.task)  # the model itself, whatever wraps it
        self.parameters = sum(p.numel() for p in self.plain.parameters())
        self.schedule, self.monitor = run.make_schedule(), LossMonitor()
        self.weights = replace(self.plain.loss_weights, when=run.make_loss_ramp())
        groups = [
            {"params": [p for p in self.plain.parameters() if (p.ndim >= 2) == matrix],
             "weight_decay": run.decay if matrix else 0.0}
            for matrix in (True, False)
        ]  # fmt: skip
        self.adam = torch.optim.AdamW(groups, lr=run.rate, betas=BETAS)
        self.step, self.read = 0, 0
        self.seconds, self.drawing, self.judging = 0.0, 0.0, 0.0  # steps, batches in them, else
        self.best: float | None = None
        self.best_step, self.stale = 0, 0
        self.lam: dict[str, float] = {}
        self.best_lam: dict[str, float] = {}
        self.best_weights: dict[str, torch.Tensor] = {}
        self.curve: list[dict[str, Any]] = []

    # --- before

    def try_once(self) -> None:
        """Two examples through the model: a misfit is an error before anything is written."""
        self.schedule.apply(self.plain, self.run.steps, self.run.steps)
        batch = self.task.train(self.run.seed, 0, self.run.batch)[:2]
        self.plain.loss_weights = LossWeights()
        with torch.no_grad():
            self.plain.eval()(**self.task.inputs(batch), labels=batch.labels)
            one = self.task.inputs(batch[:1])
            self.flops = record.attention_flops(self.plain, one)
            self.visible_phase = self._visible_phase(one)
        if self.limits is not None:
            task_head_metrics(self.plain, self.task)

    def _visible_phase(self, one: dict[str, torch.Tensor]) -> dict[str, int]:
        """Of flock scope: the steps in which all of V(i) is attended to, and the FLOPs then."""
        flocks = [m for m in record.attentions(self.plain) if getattr(m, "flock_only", False)]
        total = self.run.steps
        steps = sum(self.schedule.visible_phase(t, total) for t in range(total)) if flocks else 0
        if not steps:
            return {}
        set_visible_phase(self.plain, True)
        flops = record.attention_flops(self.plain, one)
        set_visible_phase(self.plain, False)
        return {"steps": steps, "attention_flops_an_example": flops}

    def open(self, resume: bool) -> None:
        """Prepare the folder; with `resume`, continue from its last checkpoint."""
        if self.main:
            sheet = {"key": self.run.key, "run": plain(self.run)}
            write(self.out / RUN, json.dumps(sheet, indent=1))
            if self.tracked:
                run = self.run
                named = {"key": run.key, "task": run.task, "variant": run.variant, "seed": run.seed}
                self.accelerator.init_trackers("ascender", config=named)
        self.model, self.optimizer = self.accelerator.prepare(self.plain, self.adam)
        known = {"watch": dict, "schedule": dict, **STATE}
        saved = checkpoint.latest(self.out, self.show.say, **known) if resume else None
        if saved is not None:
            self._restore(saved)
            self.show.say(f"resuming from step {self.step}")
        if self.main:
            cut_metrics(self.out, self.step)
        self.accelerator.wait_for_everyone()

    @property
    def main(self) -> bool:
        return bool(self.accelerator.is_main_process)

    # --- the steps

    def go(self, save_every: int, stopping: Callable[[], bool]) -> dict[str, Any]:
        run = self.run
        memory.reset()
        while self.step < run.steps and not (run.patience and self.stale >= run.patience):
            start = time.perf_counter()
            row = self.one()
            self.seconds += time.perf_counter() - start
            self.step += 1
            last = self.step == run.steps
            if self.step % run.every == 0 or last:
                start = time.perf_counter()
                row |= self._validate()
                self.judging += time.perf_counter() - start
            self._log(row)
            stop = self._agreed(stopping())
            if self.step % save_every == 0 or last or stop:
                self._save()
            if stop and not last:
                raise Stopped(f"stopped after step {self.step} of {run.steps}, as asked")
        return self._finish()

    def one(self) -> dict[str, Any]:
        """One step of the optimiser."""
        run, t = self.run, self.step
        begun = time.perf_counter()
        whole = self.task.train(run.seed, t, run.batch)
        self.drawing += time.perf_counter() - begun
        self.read += whole.tokens()
        items = self.task.counted(whole)
        self.model.train()
        self.lam = self.schedule.apply(self.plain, t, run.steps)
        self.plain.loss_weights = self.weights.at(t, run.steps)
        for group in self.adam.param_groups:
            group["lr"] = rate(run, t)
        dropout = np.random.SeedSequence((run.seed, t, self.rank)).generate_state(1)
        torch.manual_seed(int(dropout[0]))
        share = run.batch // self.world
        mine = whole[self.rank * share : (self.rank + 1) * share].to(self.accelerator.device)
        pieces = list(mine.split(share // run.accumulate))
        total = torch.zeros((), device=self.accelerator.device)
        for i, piece in enumerate(pieces):
            last = i == len(pieces) - 1  # gradients are exchanged once a step
            with nullcontext() if last else self.accelerator.no_sync(self.model):
                loss = self._loss(piece, items)
                total += loss.detach()
                self.accelerator.backward(loss * self.world)  # a group takes the mean
        mean = float(self.accelerator.reduce(total, "sum"))
        wrong = self.monitor.check(t, mean)
        norm = self.accelerator.clip_grad_norm_(self.plain.parameters(), run.clip or math.inf)
        if wrong is None and run.precision != "fp16" and not math.isfinite(float(norm)):
            wrong = f"the gradient's norm is {float(norm)}"
        if wrong is not None:
            self._diverged(wrong, pieces[-1], items)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"step": t + 1, "loss": mean, "rate": rate(run, t), "lam": self.lam}

    def _loss(self, piece: Batch, items: int) -> torch.Tensor:
        inputs = self.task.inputs(piece)
        output = self.model(**inputs, labels=piece.labels, num_items_in_batch=items)
        loss: torch.Tensor = output.loss
        return loss

    def _agreed(self, stop: bool) -> bool:
        if self.world == 1:
            return stop
        flag = torch.tensor(float(stop), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum") > 0)

    def _diverged(self, wrong: str, piece: Batch, items: int) -> None:
        where = culprit(self.plain, lambda: self._loss(piece, items))
        good = checkpoint.saved(self.out)
        then = f"last good checkpoint {good[-1]}" if good else "no checkpoint yet"
        raise TrainingDiverged(f"step {self.step + 1}: {wrong}; first in {where}; {then}")

    def _validate(self) -> dict[str, Any]:
        result = self.evaluate("validation")
        better = self.best is None or (
            result.value > self.best if self.task.higher else result.value < self.best
        )
        if isinstance(self.schedule, Adaptive):
            self.schedule.report(result.loss, self.step, self.run.steps)
        if better:
            self.best, self.best_step, self.stale = result.value, self.step, 0
            self.best_weights, self.best_lam = checkpoint.weights_of(self.plain), self.lam
        elif not self.waits_for_flock():
            self.stale += 1
        row = {"validation": result.row(), "omega": record.omegas(self.plain)}
        self.curve.append({"step": self.step, **row["validation"], "omega": row["omega"]})
        if self.limits is not None and self.main:
            row["limits"] = task_head_metrics(self.plain, self.task)
            for line in alarms(row["limits"], self.limits):
                self.show.say(f"step {self.step}: {line}")
        return row

    def waits_for_flock(self) -> bool:
        """Whether layers of flock scope are still trained over everything visible."""
        waiting = self.schedule.visible_phase(self.step, self.run.steps)
        return waiting and any(getattr(m, "scope", "") == "flock" for m in self.plain.modules())

    def evaluate(self, split: str) -> Evaluation:
        """The model as it is on a split, as it will be used: in flock scope, even before the steps
        that train it there."""
        set_visible_phase(self.plain, False)
        self.plain.loss_weights = LossWeights()  # the task's loss alone
        return evaluate(self.plain, self.task, split, self.run.batch, self.rank, self.world)

    def _log(self, row: dict[str, Any]) -> None:
        if not self.main:
            return
        with (self.out / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "seconds": round(self.seconds, 3)}) + "\n")
        if self.tracked:
            flat = {"loss": row["loss"], "rate": row["rate"]}
            flat |= {f"lam/{rule}": value for rule, value in row["lam"].items()}
            if "validation" in row:
                flat |= {"validation": row["validation"]["value"], **by_head(row.get("limits", {}))}
            self.accelerator.log(flat, step=row["step"])
        whole = "validation" in row
        last = self.curve[-1] if self.curve else {}
        pace = (self.seconds + self.judging) / self.step
        self.show.show(
            News(
                self.step, self.run.steps, row["loss"], row["rate"], self.read / self.seconds,
                pace * (self.run.steps - self.step), self.task.metric, last.get("value"),
                self.best, last.get("omega", {}),
            ),
            whole,
        )  # fmt: skip

    # --- going on

    def _save(self) -> None:
        """By the first process; every other waits."""
        if self.main:
            state = checkpoint.moments(self.adam)
            state |= {f"best.{name}": t for name, t in self.best_weights.items()}
            sheet = {name: getattr(self, name) for name in STATE}
            sheet |= {
                "watch": self.monitor.state(), "schedule": self.schedule.state_dict(),
                "scaler": self._scaler().state_dict() if self._scaler() else None,
            }  # fmt: skip
            saved = checkpoint.Checkpoint(checkpoint.weights_of(self.plain), state, sheet)
            try:
                checkpoint.save(self.out, self.step, saved)
            except OSError as error:
                before = checkpoint.saved(self.out)
                kept = f"{before[-1]} is as it was" if before else "nothing was there before"
                raise OSError(
                    f"cannot write the checkpoint of step {self.step} into {self.out}: {error}; "
                    f"{kept}; expected room on the disk, then --resume"
                ) from error
        self.accelerator.wait_for_everyone()

    def _restore(self, saved: checkpoint.Checkpoint) -> None:
        sheet = saved.sheet
        checkpoint.fill(self.plain, saved.weights)
        checkpoint.put_back(self.adam, saved.state)
        best = {n.removeprefix("best."): t for n, t in saved.state.items() if n.startswith("best.")}
        self.best_weights = best
        for name in STATE:
            setattr(self, name, sheet[name])
        self.monitor.restore(sheet["watch"])
        self.schedule.load_state_dict(sheet["schedule"])
        if self._scaler() and sheet.get("scaler"):
            self._scaler().load_state_dict(sheet["scaler"])

    def _scaler(self) -> Any:
        return getattr(self.accelerator, "scaler", None)

    # --- after

    def _finish(self) -> dict[str, Any]:
        """The best weights on the test examples; the model and the record."""
        run = self.run
        if self.best_weights:
            checkpoint.fill(self.plain, self.best_weights)
        set_lam(self.plain, self.best_lam)
        test = self.evaluate("test")
        device = self.accelerator.device
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else memory.peak()
        result: dict[str, Any] = {
            "key": run.key, "run": plain(run),
            "metric": self.task.metric, "higher": self.task.higher, "chance": self.task.chance,
            "test": {**test.row(), "n": len(test.scores), "scores": test.scores},
            "validation": self.best, "best_step": self.best_step, "steps": self.step,
            "stopped_early": self.step < run.steps, "curve": self.curve,
            "parameters": self.parameters, "attention_flops_an_example": self.flops,
            "seconds": round(self.seconds, 3), "judging_seconds": round(self.judging, 3),
            "tokens": self.read,
            "tokens_a_second": round(self.read / max(self.seconds, 1e-9), 1),
            "data_share": round(self.drawing / max(self.seconds, 1e-9), 5),
            "peak_memory_mb": round(peak / 1e6, 1), "processes": self.world,
            "versions": record.versions(), "hardware": record.hardware(device),
        }  # fmt: skip
        if self.visible_phase:
            result["visible_phase"] = self.visible_phase
        if self.main:
            if self.measure is not None:
                result["insight"] = self.measure(self.plain, self.task)
            keep_model(self.out, self.plain, self.task)
            write(self.out / RECORD, json.dumps(result, ensure_ascii=False))
        if self.tracked:
            self.accelerator.end_training()
        self.accelerator.wait_for_everyone()
        return result
