"""Figure 1: one attention of a trained model, taken apart on a test example."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ascender.core.combine import Parts
from ascender.core.rules import RULES
from ascender.insight import load
from ascender.lab.judge import Record
from ascender.lab.reports.suite_results import SuiteResults, omega
from ascender.report.figure import PAGE, Figure, Label, blank
from ascender.train.run import Run

TERMS = ("base", *RULES, "aff", "total", "weights")
MOST = 96  # tokens drawn; of a longer example the first ones
NAMED = 16  # tokens that still have room for their names


@dataclass(frozen=True)
class Maps:
    """Terms (N, M) of one head, and where they are from; layer and head from 0."""

    task: str
    variant: str
    seed: int
    key: str
    layer: int
    head: int
    terms: dict[str, np.ndarray]
    tokens: tuple[str, ...]


def maps(results: SuiteResults, data_dir: str | None = None) -> Maps:
    """Of the first trial with rules whose model is here; the first test example."""
    name, records = results.ruled(), results.source.records
    chosen = [r for r in records if r["run"]["variant"] == name and omega(r)]
    here = [r for r in chosen if results.source.model(r["key"]).is_dir()]
    if not here:
        raise FileNotFoundError("no folder of a model")
    return _taken_apart(here[0], results, data_dir)


def _taken_apart(record: Record, results: SuiteResults, data_dir: str | None) -> Maps:
    run = Run(**record["run"])
    task = run.make_task(data_dir)
    model = load(results.source.model(record["key"]), say=lambda line: None).model
    batch = next(iter(task.eval_batches("test", 1)))
    with torch.no_grad():
        output = model(**task.inputs(batch), labels=batch.labels, output_parts=True)
    layers: tuple[Parts, ...] = getattr(output, "parts", None) or output.encoder_parts
    real = _real(batch.inputs.get("attention_mask"))
    moved = torch.stack([
        sum((getattr(p, rule)[0].abs().mean((-1, -2)) for rule in RULES), torch.zeros(()))
        for p in layers
    ])  # fmt: skip
    layer, head = divmod(int(moved.argmax()), moved.shape[1])
    parts = layers[layer]
    terms = {t: _cut(getattr(parts, t), head, real) for t in TERMS if t != "aff" or parts.aff.any()}
    tokens = _tokens(task.tokenizer, batch.inputs.get("input_ids"), len(terms["base"]))
    return Maps(run.task, run.variant, run.seed, record["key"], layer, head, terms, tokens)


def _real(mask: Tensor | None) -> int:
    return MOST if mask is None else min(MOST, int(mask[0].sum()))


def _cut(term: Tensor, head: int, n: int) -> np.ndarray:
    one = term[0, head if term.shape[1] > 1 else 0, :n, :n]
    return one.double().numpy()


def _tokens(tokenizer: Any, ids: Tensor | None, n: int) -> tuple[str, ...]:
    if tokenizer is None or ids is None or n > NAMED:
        return ()
    return tuple(str(tokenizer.decode([i])).replace(" ", "␣") for i in ids[0, :n].tolist())


def draw(maps: Maps, say: Label) -> Figure:
    """Three terms above, one and the sum and the weights below; four above with affinity."""
    figure = blank(PAGE, 4.6)
    axes = figure.subplots(2, (len(maps.terms) + 1) // 2)
    scores = [m for t, m in maps.terms.items() if t != "weights"]
    top = max(float(np.abs(m).max()) for m in scores) or 1.0
    signs = {"base": "", "total": "= ", "weights": "→ "}
    images = {}
    for axis in axes.flat[len(maps.terms) :]:
        axis.set_visible(False)
    for axis, term in zip(axes.flat, maps.terms, strict=False):
        how: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -top, "vmax": top}
        if term == "weights":
            how = {"cmap": "YlGnBu"}
        images[term] = axis.imshow(maps.terms[term], interpolation="nearest", **how)
        axis.set_title(signs.get(term, "+ ") + say(term), loc="left", weight="bold")
        _ticks(axis, maps.tokens)
        axis.spines[:].set_visible(False)
    for axis in axes[1]:
        axis.set_xlabel(say("key"))
    for axis in axes[:, 0]:
        axis.set_ylabel(say("query"))
    for term, place, label in (("base", axes[0], "score"), ("weights", axes[1], "weights")):
        bar = figure.colorbar(images[term], ax=list(place), shrink=0.85, aspect=18, pad=0.015)
        bar.set_label(say(label))
        bar.outline.set_visible(False)
    return figure


def _ticks(axis: Any, tokens: tuple[str, ...]) -> None:
    axis.tick_params(length=2)
    if tokens:
        long = max(map(len, tokens)) > 2
        turned = {"rotation": 60, "ha": "right"} if long else {}
        axis.set_xticks(range(len(tokens)), tokens, **turned)
        axis.set_yticks(range(len(tokens)), tokens)
