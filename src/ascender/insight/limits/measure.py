"""A model's attentions against the limits, by length, normaliser, layer and head.

    measured = measure(model, {64: inputs, 256: longer}, name="…")
    measured.heads      a row for every length, normaliser, layer and head
    measured.curves     distance and separability against N, of the model's own weights
    measured.slopes     the Jacobian against T, at the greatest length
    measured.flocks     |F| beside |V| by length and layer; empty where no layer has flock scope

Every number is a mean over the rows (queries) that were measured: of each sequence those that see
the most keys, evenly spread where many see as many; never padding. L is the number of keys that a
row attends to: |V|, in flock scope |F|.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from ascender.core.normalizers import NORMALIZERS, Sparsemax
from ascender.insight.capture import Layer, capture
from ascender.insight.contribution import rows_of
from ascender.insight.limits.distance import GUIDE, Selection, selection
from ascender.insight.limits.flocks import FlockSize
from ascender.insight.limits.sensitivity import (
    EXPONENT,
    TEMPERATURES,
    largest_entry,
    reweighted,
    spectral,
)
from ascender.insight.limits.support import (
    delta,
    effective_support,
    entropy,
    envelope,
    half_range,
    outside,
    tight,
)
from ascender.nn.slot import Attention

ROWS = 8  # queries of a sequence that are measured, at most; no more than an eighth of them
FIXED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SHARES = (0.02, 0.06, 0.125, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class HeadLimits:
    """One head under one normaliser at one length.

    keys L · entropy H in nats · support exp(H) · share exp(H)/L · largest weight
    delta, half_range: Δ by norms and biases, and the smallest one · tight, tight_range: the share
    of weights within a factor 2 of an edge of either envelope · outside: the share it does not hold
    separable N_s/N, distance d̃ and bound at N = 0.06 L · critical: critical N over L
    spectral, entry: ‖J‖₂ and the largest |J_jl|, the largest over rows · temperature T of the model
    """

    length: int
    normalizer: str
    layer: int
    head: int
    keys: float
    entropy: float
    support: float
    share: float
    largest: float
    delta: float
    half_range: float
    tight: float
    tight_range: float
    outside: float
    separable: float
    distance: float
    bound: float
    critical: float
    spectral: float
    entry: float
    temperature: float


@dataclass(frozen=True)
class Curve:
    """d̃, its bound, ᾱ and N_s/N at one N; `of`: "N" where N is fixed and the share is what it
    comes to, "L" where N = share · L, rounded."""

    length: int
    layer: int
    head: int
    of: str
    N: float
    share: float
    mass: float
    distance: float
    bound: float
    separable: float


@dataclass(frozen=True)
class ScoreSensitivity:
    """‖J‖₂ (mean and largest) and the largest |J_jl| with the scores divided by T."""

    length: int
    normalizer: str
    layer: int
    head: int
    T: float
    mean: float
    spectral: float
    entry: float


@dataclass(frozen=True)
class Measured:
    """All rows of one model. `own`: the normaliser that it has."""

    name: str
    own: str
    layers: tuple[str, ...]
    heads: list[HeadLimits] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    slopes: list[ScoreSensitivity] = field(default_factory=list)
    flocks: list[FlockSize] = field(default_factory=list)

    def visible(self, row: HeadLimits) -> float:
        """|V| of a row of `heads`."""
        sizes = {(size.length, size.layer): size.visible for size in self.flocks}
        return sizes.get((row.length, row.layer), row.keys)

    def asdict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Measured:
        """From what asdict gave."""
        kinds: dict[str, Any] = {
            "heads": HeadLimits, "curves": Curve, "slopes": ScoreSensitivity, "flocks": FlockSize,
        }  # fmt: skip
        rows = {name: [kind(**row) for row in stored.get(name, ())] for name, kind in kinds.items()}
        return cls(stored["name"], stored["own"], tuple(stored["layers"]), **rows)


@dataclass(frozen=True)
class RowSample:
    """The queries of a layer that are measured; base and rest as they are in S. `visible` is what
    they attend to, in flock scope F(i); V then is |V(i)|."""

    S: Tensor
    A: Tensor
    base: Tensor
    rest: Tensor
    visible: Tensor
    q: Tensor
    k: Tensor
    x: Tensor
    temperature: Tensor
    V: Tensor | None = None

    @property
    def L(self) -> Tensor:
        return self.visible.sum(-1)


def measure(
    model: nn.Module, inputs: Mapping[int, Mapping[str, Any]], *, name: str = "model",
    normalizers: Sequence[str] | None = None, rows: int = ROWS,
    temperatures: Sequence[float] = TEMPERATURES, say: Callable[[str], None] = lambda text: None,
) -> Measured:  # fmt: skip
    """All of it. normalizers: beside the model's own; None: every one of the slot whose package is
    installed, applied to the scores that the model has."""
    own = own_normalizer(model)
    if normalizers is None:
        normalizers = list(NORMALIZERS)
        if find_spec("entmax") is None:
            normalizers = [n for n, kind in NORMALIZERS.items() if not issubclass(kind, Sparsemax)]
            say('without sparsemax and entmax15: pip install "ascender-attention[normalizers]"')
    names = [own, *(n for n in normalizers if n != own)]
    measured, last = Measured(name, own, ()), max(inputs)
    where: list[str] = []
    for length in sorted(inputs):
        say(f"{name}: {length} tokens")
        _, layers = capture(model, **inputs[length])
        where = [layer.name for layer in layers]
        for at, (layer, real) in enumerate(zip(layers, rows_of(layers), strict=True)):
            sample = measured_rows(layer, real, min(rows, max(1, length // 8)))
            place: dict[str, Any] = {"length": length, "layer": at}
            if int(sample.L.max()) < 2:
                raise ValueError(
                    f"{layer.name}: a row attends to {int(sample.L.max())} key; expected at least "
                    "2: of one key none is left out"
                )
            if sample.V is not None:
                support = effective_support(sample.A)
                measured.flocks.append(FlockSize.of(length, at, sample.V, sample.L, support))
            for normalizer in names:
                for h, numbers, picked in _heads(sample, normalizer, own):
                    measured.heads.append(
                        HeadLimits(normalizer=normalizer, head=h, **place, **numbers)
                    )
                    if normalizer == own:
                        measured.curves.extend(_curves(picked, head=h, **place))
                if length == last:
                    measured.slopes.extend(_slopes(sample, normalizer, own, temperatures, place))
    return replace(measured, layers=tuple(where))


def own_normalizer(model: nn.Module) -> str:
    """The normaliser that a model has; softmax unless it is ours and says otherwise."""
    ours = (m for m in model.modules() if isinstance(m, Attention))
    return next((m.normalizer.name for m in ours), "softmax")


def measured_rows(layer: Layer, real: Tensor, rows: int = ROWS) -> RowSample:
    """Of each sequence the real rows (contribution.rows_of) that see the most keys, in float64."""
    which = _longest(_visible_keys(layer) * real[:, 0], rows)

    def pick(t: Tensor) -> Tensor:
        index = which[:, None, :, None].expand(-1, t.shape[1], -1, t.shape[-1])
        return t.gather(2, index)

    parts = layer.parts
    T = layer.tau.view(1, -1, 1, 1)
    base, whole = pick(parts.base).double() / T, pick(parts.total).double()
    R = which.shape[-1]
    x = layer.v.double().unsqueeze(2).expand(-1, -1, R, -1, -1)
    return RowSample(
        whole, pick(parts.weights).double(), base, whole - base, pick(layer.visible),
        pick(layer.q).double() / T, layer.k.double(), x, T.flatten(),
        None if layer.all_visible is None else pick(layer.all_visible).sum(-1),
    )  # fmt: skip


def _visible_keys(layer: Layer) -> Tensor:
    """|V(i)| of head 0, (B, N); in flock scope without the rows whose flock is all of V(i)
    (globals), where a sequence has others."""
    if layer.all_visible is None:
        return layer.visible[:, 0].sum(-1)
    chosen = (layer.all_visible & ~layer.visible).any((1, 3))
    counts = layer.all_visible[:, 0].sum(-1)
    return torch.where(chosen | ~chosen.any(-1, keepdim=True), counts, 0)


def _longest(counts: Tensor, rows: int) -> Tensor:
    """(B, rows): of those that see as much as the rows-th, evenly spread ones; some twice where
    fewer see anything."""
    rows = min(rows, counts.shape[-1])
    indices = []
    for n in counts:
        edge = n.topk(min(rows, max(1, int((n > 0).sum())))).values[-1]
        there = (n >= edge).nonzero().flatten()
        indices.append(there[torch.linspace(0, len(there) - 1, rows).round().long()])
    return torch.stack(indices)


def _weights(sample: RowSample, normalizer: str, own: str, T: float = 1.0) -> tuple[Tensor, Tensor]:
    """(A, c) under a normaliser; the model's own are as they were."""
    if normalizer != own:
        return reweighted(normalizer, sample.S, sample.base, sample.visible, T)
    c = torch.ones_like(sample.S[..., :1])
    if T == 1:
        return sample.A, c
    plain = "softmax" if normalizer in ("ssmax", "length") else normalizer  # S is sharpened already
    return reweighted(plain, sample.S, sample.base, sample.visible, T)


def _heads(
    sample: RowSample, normalizer: str, own: str
) -> list[tuple[int, dict[str, Any], Selection]]:
    A, c = _weights(sample, normalizer, own)
    scale = c.squeeze(-1)
    reach = delta(sample.q * c, sample.k, sample.rest, sample.visible)
    spread = half_range(sample.S + (c - 1) * sample.base, sample.visible)
    wide, close = envelope(sample.L, reach), envelope(sample.L, spread)
    support, a = effective_support(A), EXPONENT.get(normalizer, 1.0)
    by_row = {
        "keys": sample.L, "entropy": entropy(A), "support": support, "share": support / sample.L,
        "largest": A.amax(-1), "delta": reach, "half_range": spread,
        "tight": tight(A, wide, sample.visible), "tight_range": tight(A, close, sample.visible),
        "outside": outside(A, wide, sample.visible),
    }  # fmt: skip
    norms = {"spectral": scale * spectral(A, a), "entry": scale * largest_entry(A, a)}
    heads = []
    for h in range(A.shape[1]):
        picked = selection(A[:, h], sample.x[:, h], sample.visible[:, h])
        N = picked.share(GUIDE)
        numbers = {what: mean(t[:, h]) for what, t in by_row.items()}
        numbers |= {what: mean(picked.at(what, N)) for what in ("separable", "distance", "bound")}
        numbers |= {"critical": mean(picked.critical / picked.L)}
        numbers |= {what: float(t[:, h].max()) for what, t in norms.items()}
        heads.append((h, {**numbers, "temperature": float(sample.temperature[h])}, picked))
    return heads


def _curves(picked: Selection, **place: Any) -> list[Curve]:
    """At fixed N below the smallest L, and at N ∝ L."""
    least, L = int(picked.L.min()), mean(picked.L)
    whole = torch.ones_like(picked.L)
    chosen = [("N", N / L, N * whole) for N in FIXED if least > N]
    chosen += [("L", share, picked.share(share)) for share in SHARES if least > 1]
    what = ("mass", "distance", "bound", "separable")
    curves = []
    for of, share, N in chosen:
        numbers: dict[str, Any] = {name: mean(picked.at(name, N)) for name in what}
        curves.append(Curve(of=of, N=mean(N), share=share, **place, **numbers))
    return curves


def _slopes(
    sample: RowSample,
    normalizer: str,
    own: str,
    temperatures: Sequence[float],
    place: Mapping[str, int],
) -> list[ScoreSensitivity]:
    slopes, a = [], EXPONENT.get(normalizer, 1.0)
    for T in temperatures:
        A, c = _weights(sample, normalizer, own, T)
        scale = c.squeeze(-1) / T
        norm, entry = scale * spectral(A, a), scale * largest_entry(A, a)
        for h in range(A.shape[1]):
            slopes.append(
                ScoreSensitivity(normalizer=normalizer, head=h, T=T, mean=mean(norm[:, h]),
                      spectral=float(norm[:, h].max()), entry=float(entry[:, h].max()), **place)
            )  # fmt: skip
    return slopes


def mean(t: Tensor) -> float:
    """Over the rows for which the number is there."""
    return float(t.double().nanmean())
