"""Do gates tell tokens apart, and do biases tell queries apart?

    gates     mean of a gate over tokens, and its standard deviation within an example
    common    Σ_j m_j² / mean_i Σ_j x_ij²      x: a term less its row's mean, m its mean over rows

`common` is 1 where every query gets the same bias, so that it says which keys are looked at and
not who looks; for n unrelated rows it is 1/n. Over the later half of an example's rows and the keys
that all of these see, so that causal models are measured by the same rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core.rules import RULES
from ascender.insight.capture import Layer
from ascender.insight.contribution import TERMS, rows_of


def gates(layers: Sequence[Layer]) -> dict[str, Float[Tensor, "L H 2"]]:
    """Of γ, η, γ by layer and head: mean over tokens, standard deviation within an example."""
    spread: dict[str, list[Tensor]] = {rule: [] for rule in RULES}
    for layer, rows in zip(layers, rows_of(layers), strict=True):
        if layer.geometry is None:
            raise ValueError(f"{layer.name} has no rules, so no gates; expected ASCender's layers")
        for rule in RULES:
            gate = layer.geometry.gates[rule][..., 0].double().expand_as(rows)
            n = rows.sum(-1).clamp_min(1)
            mean = gate.masked_fill(~rows, 0).sum(-1) / n
            apart = (gate - mean[..., None]).masked_fill(~rows, 0).square().sum(-1) / n
            spread[rule].append(torch.stack([mean.mean(0), apart.sqrt().mean(0)], -1))
    return {rule: torch.stack(of) for rule, of in spread.items()}


def common(layers: Sequence[Layer]) -> dict[str, Float[Tensor, "L H"]]:
    """How much of each term is the same for all queries, by layer and head; nan where a term is
    flat or no key is visible to all. Without the affinity term where no layer has it."""
    spread: dict[str, list[Tensor]] = {term: [] for term in TERMS}
    for layer, rows in zip(layers, rows_of(layers), strict=True):
        common_keys = list(_later(layer, rows))
        for term, scores in layer.parts.terms().items():
            heads = []
            for h in range(rows.shape[1]):
                blocks = [scores[b, h][i][:, j].double() for b, i, j in common_keys if len(j) > 1]
                blocks = [x - x.mean(1, keepdim=True) for x in blocks]
                same = sum(float(x.mean(0).square().sum()) for x in blocks)
                whole = sum(float(x.square().sum(1).mean()) for x in blocks)
                heads.append(same / whole if whole > 0 else float("nan"))
            spread[term].append(torch.tensor(heads, dtype=torch.double))
    if not any(bool(layer.parts.aff.any()) for layer in layers):
        del spread["aff"]
    return {term: torch.stack(of) for term, of in spread.items()}


def _later(layer: Layer, rows: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(example, the later half of its rows, the keys that all of these see in every head)."""
    for b in range(rows.shape[0]):
        own = rows[b].all(0).nonzero()[:, 0]
        i = own[len(own) // 2 :]
        if len(i):
            yield b, i, layer.visible[b][:, i].all((0, 1)).nonzero()[:, 0]
