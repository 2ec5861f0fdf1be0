"""Passes over one input: as the model is, and with rules muted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from ascender.core.rules import RULES
from ascender.insight.capture import Layer, has_rules, muted, rules_of, watching
from ascender.insight.page.data import layer_data, numbers
from ascender.insight.page.inputs import Input, piece, tells_next, to
from ascender.insight.page.memory import check_memory
from ascender.insight.page.outcome import logits_of, outcome
from ascender.insight.page.pack import Blobs
from ascender.insight.page.plane import Planes
from ascender.insight.page.pooling import Pooling
from ascender.tasks import Display

KEPT = 3_000_000  # weights of muted passes that are written out; of more, only how far they move


@torch.no_grad()
def passing(
    model: nn.Module, inputs: dict[str, Any], take: Callable[[Layer], None],
    with_dense: bool = False,
) -> Any:  # fmt: skip
    """The output of one pass; every layer is handed on as soon as it is known, so that only one
    is in memory. with_dense: a layer of flock scope with what dense attention would be."""
    was = model.training
    model.eval()
    with watching(model, with_dense) as layers:

        def drain(*_: Any) -> None:
            while layers:
                take(layers.pop(0))

        hooks = [module.register_forward_hook(drain) for module in model.modules()]
        try:
            output = model(**inputs)
            drain()
        finally:
            for hook in hooks:
                hook.remove()
            model.train(was)
    return output


def collect_page_data(
    name: str, model: Any, tokenizer: Any, what: Input, blobs: Blobs, most: int = 512,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:  # fmt: skip
    """Everything that the page shows of one model."""
    N = len(what.tokens)
    pooling = Pooling.fitting(N, most)
    check_memory(name, model, pooling)
    inputs = to(next(model.parameters()).device, what.inputs)
    kind = getattr(model, "config", None)
    first = _Layers(N, pooling, blobs, bool(getattr(kind, "is_encoder_decoder", False)))
    say(f"{name}: {N} tokens")
    runs = {"as_is": logits_of(passing(model, inputs, first.take, True), pooling.lasts)}
    if not first.layers:
        raise ValueError(f"{name} has no self-attention over the {N} tokens; expected at least one")
    mutes: dict[str, Any] = {}
    if has_rules(model) and first.ruled:
        passes = {**{rule: (rule,) for rule in rules_of(model)}, "all": RULES}
        for label, rules in passes.items():
            say(f"{name}: without {', '.join(rules)}")
            changed = _Changed(first, len(passes), blobs)
            with muted(model, *rules):
                runs[f"no_{label}"] = logits_of(passing(model, inputs, changed.take), pooling.lasts)
            mutes[label] = changed.data
    target = what.target
    if target is not None and len(target) == N:
        target = [target[i] for i in pooling.lasts]
    names = _names(model, tokenizer, what.display)
    result = outcome(runs, names, tells_next(model), target)
    return {
        "name": name, "tokens": pooling.labels(what.tokens), "of": N, "pool": pooling.size,
        "remarks": [*what.remarks, *first.remarks(model)],
        "rules": first.ruled, "layers": first.layers, "flock": first.planes.data(blobs),
        "mutes": mutes, "outcome": result, **_shown(what.display, pooling, blobs),
    }  # fmt: skip


class _Layers:
    """The layers of the first pass, packed one by one."""

    def __init__(self, N: int, pooling: Pooling, blobs: Blobs, pair: bool = False) -> None:
        self.N, self.pooling, self.blobs, self.pair = N, pooling, blobs, pair
        self.planes = Planes(pooling)
        self.layers: list[dict[str, Any]] = []
        self.weights: list[np.ndarray] = []
        self.skipped = 0
        self.ruled = False

    def fits(self, layer: Layer) -> bool:
        """Over these tokens alone: what a decoder writes may be as long as what was read."""
        elsewhere = "cross" in layer.name or (self.pair and "decoder" in layer.name)
        return tuple(layer.parts.weights.shape[2:]) == (self.N, self.N) and not elsewhere

    def share(self, layer: Layer) -> np.ndarray:
        A = numbers(layer.parts.weights[0])
        return np.stack([self.pooling.share(x) for x in A]).astype(np.float32)

    def take(self, layer: Layer) -> None:
        if not self.fits(layer):
            self.skipped += 1
            return
        self.layers.append(layer_data(layer, self.pooling, self.blobs))
        self.planes.add(layer.geometry)
        self.weights.append(self.share(layer))
        self.ruled |= layer.geometry is not None

    def remarks(self, model: nn.Module) -> list[tuple[str, dict[str, Any]]]:
        remarks: list[tuple[str, dict[str, Any]]] = []
        if self.pooling.size > 1:
            remarks.append(("pooled", {"of": self.N, "size": self.pooling.size,
                                     "blocks": len(self.pooling.starts)}))  # fmt: skip
        if self.skipped:
            remarks.append(("skipped", {"n": self.skipped}))
        if not self.ruled:
            remarks.append(("plain", {"kind": type(model).__name__}))
        return remarks


class _Changed:
    """The weights of a muted pass: how far every row moves, ½ Σ_j |A'_ij − A_ij|, and A' itself
    where that is not too much."""

    def __init__(self, first: _Layers, passes: int, blobs: Blobs) -> None:
        self.first, self.blobs, self.at = first, blobs, 0
        self.whole = passes * sum(A.size for A in first.weights) <= KEPT
        self.data: list[list[dict[str, Any]]] = []

    def take(self, layer: Layer) -> None:
        if not self.first.fits(layer):
            return
        before, after = self.first.weights[self.at], self.first.share(layer)
        moved = np.abs(after - before).sum(-1) / 2
        self.at += 1
        self.data.append([
            {"moved": self.blobs.put(moved[h], "f4")}
            | ({"weights": self.blobs.put(after[h].astype(np.float64), "i2")} if self.whole else {})
            for h in range(len(after))
        ])  # fmt: skip


def _shown(display: Display, pooling: Pooling, blobs: Blobs) -> dict[str, Any]:
    """How a task shows its example.

    images: bytes of every token's picture, `size` = (h, w, colours), `grid` where they are the
    cells of one; groups: of every drawn token, None where it has none or is a block of several."""
    data: dict[str, Any] = {"images": None, "groups": None}
    if display.images is not None and (pooling.size == 1 or display.grid is not None):
        bytes_ = np.rint(255 * np.clip(display.images, 0, 1)).astype(np.uint8)
        h, w, c = (*bytes_.shape[1:], 1)[:3]
        place = blobs.put(bytes_.reshape(len(bytes_), -1), "u1")
        data["images"] = {"at": place, "size": [h, w, c], "grid": display.grid}
    if display.groups is not None and pooling.size == 1:
        groups = [None if g < 0 else int(g) for g in display.groups[: pooling.tokens]]
        names = dict(enumerate(display.group_names))
        present = sorted({g for g in groups if g is not None})
        data["groups"] = {"of": groups, "names": {str(g): names.get(g, str(g)) for g in present}}
    return data


def _names(model: Any, tokenizer: Any, display: Display) -> Callable[[int], str]:
    """What a class of the output is called: by the task, a token, or the config's label."""
    config = getattr(model, "config", None)
    labels: dict[int, str] = getattr(config, "id2label", None) or {}
    words = _tells_tokens(model) and tokenizer is not None

    def name(c: int) -> str:
        if c < len(display.classes):
            return display.classes[c]
        if words:
            return piece(tokenizer, tokenizer.convert_ids_to_tokens(c))
        label = str(labels.get(c, c))
        return str(c) if label == f"LABEL_{c}" else label

    return name


def _tells_tokens(model: Any) -> bool:
    """Whether its classes are tokens: it has a head over its vocabulary."""
    head = getattr(model, "get_output_embeddings", lambda: None)()
    return head is not None or type(model).__name__.endswith("LM")
