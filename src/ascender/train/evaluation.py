"""A model on the held-out examples of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ascender.tasks import Graded, Task


@dataclass(frozen=True)
class Evaluation:
    """The mean score, by level too, and the score of every example in the task's order."""

    metric: str
    value: float
    loss: float
    levels: dict[str, float]
    more: dict[str, float]
    scores: list[float]

    def row(self) -> dict[str, Any]:
        """What a curve keeps of it."""
        return {"value": self.value, "loss": self.loss, "levels": self.levels, **self.more}


def evaluate(
    model: Any, task: Task, split: str, n: int, rank: int = 0, world: int = 1
) -> Evaluation:
    """All examples of a split, n at a time. In a group every process takes its share, and all
    get the whole."""
    was = model.training
    model.eval()
    device = next(model.parameters()).device
    graded: list[tuple[int, Graded]] = []
    with torch.no_grad():
        for i, batch in enumerate(task.eval_batches(split, n)):
            if i % world == rank:
                graded.append((i, task.grade(model, batch.to(device))))
    model.train(was)
    if world > 1:
        from accelerate.utils import gather_object

        graded = gather_object(graded)
    return _joined(task, [one for _, one in sorted(graded, key=lambda pair: pair[0])])


def _joined(task: Task, graded: list[Graded]) -> Evaluation:
    if not graded:
        raise ValueError(f"task {task.name} has no held-out examples; expected at least one")
    score = torch.cat([g.score.double().cpu() for g in graded])
    level = torch.cat([g.level.cpu() for g in graded])
    sizes = torch.tensor([float(len(g.score)) for g in graded])
    losses = torch.tensor([g.loss for g in graded])
    levels = {
        name: float(score[level == i].mean())
        for i, name in enumerate(task.levels)
        if bool((level == i).any())
    }
    predicted = [x for g in graded for x in g.predicted]
    target = [x for g in graded for x in g.target]
    return Evaluation(
        task.metric, float(score.mean()), float((losses * sizes).sum() / sizes.sum()),
        levels if len(task.levels) > 1 else {},
        task.summary(predicted, target) if predicted else {},
        [round(x, 6) for x in score.tolist()],
    )  # fmt: skip
