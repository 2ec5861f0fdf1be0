"""Everything that is measured in a trained model, as small numbers for its record.

{
  "rows", "names"            how many rows the contributions are from, the layers' names
  "share", "moved", "whole"  by layer, head and term or rule (insight.contribution); the last two
                             only where there are rules; "aff" only where it is a term
  "omega"                    ω by rule, layer and head
  "score"                    the task's score of 256 examples: "" as it is, "sep" with it muted
  "grouping"                 [{"of", "layer", "n", "nmi": [mean, low, high], "ari": …,
                               "chance": [nmi, ari]}]           (insight.grouping)
  "left_out"                 the kinds of attention without a matrix of scores (performer, linear,
                             longformer, bigbird): then there are only the score and, of the
                             grouping, the states
}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from ascender.insight import python_token_classes as python_words
from ascender.insight.capture import has_rules, muted, rules_of, without_scores
from ascender.insight.contribution import Contribution, contributions
from ascender.insight.grouping import GroupScores, groups_found, mean_interval
from ascender.insight.loading import fed
from ascender.tasks import Batch, Task

EXAMPLES, BATCH = 32, 16
SCORED = 256  # examples of "score": a pass each, no clusters
LENGTH = 128  # tokens of a stretch of source, at most
PLACES = 4


def measure(
    model: Any, task: Task, tokenizer: Any = None, n: int = EXAMPLES, seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:  # fmt: skip
    """Over the first n test examples of a task. A tokenizer is given where the model has one of
    its own: it then reads the same text by that, and has no score."""
    lacking = without_scores(model)
    if lacking:
        say(f"{' and '.join(lacking)}: no matrix of scores, so only the states are measured")
        result: dict[str, Any] = {"left_out": list(lacking)}
    else:
        say("contributions of the rules")
        inputs = (x for x, _ in labelled(model, task, tokenizer, n))
        contribution = contributions(model, inputs, whole=True)
        result = _contributed(contribution, has_rules(model))
        result["omega"] = omegas(model, contribution.names, contribution.share.shape[1])
    if tokenizer is None:
        say("scores with a rule muted")
        result["score"] = scores(model, task, max(n, SCORED))
    pairs = labelled(model, task, tokenizer, n)
    with_groups = [(x, groups) for x, groups in pairs if groups is not None]
    if with_groups:
        say("groups of tokens")
    return {**result, "grouping": [_row(f) for f in groups_found(model, with_groups, seed)]}


def labelled(
    model: Any, task: Task, tokenizer: Any, n: int
) -> Iterator[tuple[dict[str, Tensor], Int[Tensor, "B N"] | None]]:
    """(inputs, groups of the tokens or None) of n examples, where the model is."""
    reads = tokenizer or (task.tokenizer if task.name == "pylib" else None)
    device = next(model.parameters()).device
    if reads is not None:
        longest = getattr(model.config, "max_position_embeddings", None) or LENGTH
        for ids, groups in python_words.examples(reads, n, min(longest, LENGTH), BATCH):
            yield {name: t.to(device) for name, t in ids.items()}, groups
        return
    for batch in _first(task, n):
        yield fed(task, batch.to(device)), task.clusters(batch)


def _first(task: Task, n: int) -> Iterator[Batch]:
    """The first n test examples, or all where there are fewer."""
    for batch in task.eval_batches("test", min(n, BATCH)):
        yield batch[:n]
        n -= len(batch)
        if n <= 0:
            return


@torch.no_grad()
def scores(model: Any, task: Task, n: int) -> dict[str, float]:
    """The task's mean score as it is (""), and with each rule muted in the whole model."""
    device = next(model.parameters()).device

    def score() -> float:
        graded = [task.grade(model, batch.to(device)).score for batch in _first(task, n)]
        return round(float(torch.cat(graded).mean()), PLACES)

    model.eval()
    by_rule = {"": score()}
    for rule in rules_of(model):
        with muted(model, rule):
            by_rule[rule] = score()
    return by_rule


def omegas(model: nn.Module, names: Sequence[str], heads: int) -> dict[str, list[list[float]]]:
    """ω of each rule, by layer and head (one that all share: to each), 0 in layers that have no
    rules; nothing without rules."""
    layers = [
        next((m for m in model.get_submodule(name).modules() if hasattr(m, "omega_align")), None)
        for name in names
    ]

    def of(layer: nn.Module | None, rule: str) -> Any:
        if layer is None or not hasattr(layer, f"omega_{rule}"):
            return [0.0] * heads
        omega = getattr(layer, f"omega_{rule}").detach().flatten().expand(heads)
        return _plain(omega.cpu().numpy())

    if all(layer is None for layer in layers):
        return {}
    return {rule: [of(layer, rule) for layer in layers] for rule in rules_of(model)}


def _contributed(of: Contribution, ruled: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "rows": of.rows, "names": list(of.names), "share": _plain(of.share),
    }  # fmt: skip
    if ruled:
        result["moved"] = _plain(of.moved)
    return result if of.whole is None else {**result, "whole": _plain(of.whole)}


def _row(scores: GroupScores) -> Mapping[str, Any]:
    return {
        "of": scores.of, "layer": scores.layer, "n": len(scores.nmi),
        "nmi": _rounded(mean_interval(scores.nmi, 0, 1)),
        "ari": _rounded(mean_interval(scores.ari, -0.5, 1)),
        "chance": _rounded((float(scores.chance_nmi.mean()), float(scores.chance_ari.mean()))),
    }  # fmt: skip


def _rounded(numbers: tuple[float | None, ...]) -> list[float | None]:
    return [None if x is None else round(x, PLACES) for x in numbers]


def _plain(t: np.ndarray) -> Any:
    return (np.round(t.astype(np.float64), PLACES) + 0.0).tolist()
