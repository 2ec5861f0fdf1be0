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
    model: Any, made: Task, split: str, n: int, rank: int = 0, world: int = 1
) -> Evaluation:
    """All examples of a split, n at a time. In a group every process takes its share, and all
    get the whole."""
    was = model.training
    model.eval()
    device = next(model.parameters()).device
    graded: list[tuple[int, Graded]] = []
    with torch.no_grad():
        for i, batch in enumerate(made.held(split, n)):
            if i % world == rank:
                graded.append((i, made.grade(model, batch.to(device))))
    model.train(was)
    if world > 1:
        from accelerate.utils import gather_object

        graded = gather_object(graded)
    return _joined(made, [one for _, one in sorted(graded, key=lambda pair: pair[0])])


def _joined(made: Task, graded: list[Graded]) -> Evaluation:
    if not graded:
        raise ValueError(f"task {made.name} has no held-out examples; expected at least one")
    score = torch.cat([g.score.double().cpu() for g in graded])
    level = torch.cat([g.level.cpu() for g in graded])
    sizes = torch.tensor([float(len(g.score)) for g in graded])
    losses = torch.tensor([g.loss for g in graded])
    levels = {
        name: float(score[level == i].mean())
        for i, name in enumerate(made.levels)
        if bool((level == i).any())
    }
    told = [x for g in graded for x in g.told]
    meant = [x for g in graded for x in g.meant]
    return Evaluation(
        made.metric, float(score.mean()), float((losses * sizes).sum() / sizes.sum()),
        levels if len(made.levels) > 1 else {}, made.summary(told, meant) if told else {},
        [round(x, 6) for x in score.tolist()],
    )  # fmt: skip
