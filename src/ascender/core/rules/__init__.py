"""The three rules, one file each, and their parameters. A new rule is a file here, its numbers in
Rules and its term in every backend, the definition (backends/dense.py) first."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.common.validate import check_flag, check_options

Number = float | Tensor

RULES = ("align", "sep", "coh")
COOLEST = 0.1  # τ_score and temperatures: below it ‖∂A/∂S‖₂ may exceed 1/(2 · 0.1) = 5
CHOICES = {
    "separation_scope": ("neighbours", "all"),
    "local_scope": ("visible", "neighbours"),
}


@dataclass(frozen=True)
class Rules:
    """The numbers of docs/definition.md, sections 3 and 4: a float, or an (H,) tensor.

    ω weighs a rule (learned), λ ∈ [0, 1] is its schedule's coefficient, α the sharpness of its
    gate, τ_sep and τ_coh the kernel widths, δ the similarity above which separation acts, κ the
    crowd at which it acts fully, τ_score the temperature, k the size of a neighbourhood
    (an int, or one a head). ω_aff weighs the affinity term, `far` is m, the number of far keys in
    flock scope (an int, or one a head): section 8.

    Metadata is of the numbers that modules learn: as they are or as their logarithm, one per head
    or one per space (a z that heads share), whether they shape a gate, and the option that they
    belong to.
    """

    omega_align: Number = field(default=0.1, metadata={"learned_as": "value"})
    omega_sep: Number = field(default=0.1, metadata={"learned_as": "value"})
    omega_coh: Number = field(default=0.1, metadata={"learned_as": "value"})
    alpha_align: Number = field(default=1.0, metadata={"learned_as": "value", "gate": True})
    alpha_coh: Number = field(default=1.0, metadata={"learned_as": "value", "gate": True})
    tau_sep: Number = field(default=1.0, metadata={"learned_as": "log", "per": "space"})
    tau_coh: Number = field(default=1.0, metadata={"learned_as": "log", "per": "space"})
    delta: Number = field(default=0.2, metadata={"learned_as": "value"})
    kappa: Number = field(default=32.0, metadata={"learned_as": "log", "gate": True})
    tau_score: Number = field(default=1.0, metadata={"learned_as": "log"})
    omega_aff: Number = field(default=1.0, metadata={"learned_as": "value", "of": "affinity_term"})
    k: int | Sequence[int] | Tensor = 16
    far: int | Sequence[int] | Tensor = 32
    lam_align: Number = 1.0
    lam_sep: Number = 1.0
    lam_coh: Number = 1.0
    standardise: bool = True
    separation_scope: str = "neighbours"
    local_scope: str = "visible"

    def __new__(cls, *args: Any, **given: Any) -> Rules:
        check_options("Rules", given, cls.__dataclass_fields__)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; expected one of {', '.join(allowed)}"
                )
        check_flag("standardise", self.standardise)
        for name in NUMBERS:
            self._check_number(name, getattr(self, name))
        sizes, far = self.sizes(), self.sizes("far")
        if not sizes or min(sizes) < 1:
            raise ValueError(f"k = {min(sizes, default=self.k)}; expected at least 1 neighbour")
        if not far or min(far) < 0:
            raise ValueError(f"far = {min(far, default=self.far)}; expected at least 0 far keys")

    def _check_number(self, name: str, value: Number) -> None:
        if not isinstance(value, int | float | Tensor):
            raise TypeError(f"{name} is {value!r}; expected a number or one value a head")
        if isinstance(value, Tensor):
            if value.ndim > 1:
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}; expected a float or one value a head"
                )
            # A learned number is kept in range by its map; reading it would stall a GPU.
            if value.requires_grad or value.device.type != "cpu" or torch.compiler.is_compiling():
                return
            low, high = (float(value.min()), float(value.max())) if value.numel() else (1.0, 1.0)
        else:
            low = high = value
        if LEARNED.get(name, {}).get("learned_as") == "log" and not low > 0:
            raise ValueError(f"{name} = {low:g}; expected a positive number")
        if name == "tau_score" and not isinstance(value, Tensor):
            warn_cool(name, value)
        if name.startswith("lam_") and not (low >= 0 and high <= 1):
            raise ValueError(f"{name} = {low if low < 0 else high:g}; expected a number in [0, 1]")

    def at(self, name: str, like: Tensor) -> Number:
        """The number, shaped to multiply a (B, H, N, ·) tensor of like's kind."""
        value = getattr(self, name)
        if not isinstance(value, Tensor) or value.ndim == 0:
            return value
        return value.to(device=like.device, dtype=like.dtype).view(-1, 1, 1)

    def strength(self, rule: str, like: Tensor) -> Number:
        """λω."""
        lam, omega = self.at(f"lam_{rule}", like), self.at(f"omega_{rule}", like)
        return omega if isinstance(lam, float) and lam == 1 else lam * omega

    def active(self, rule: str) -> bool:
        """False where the rule is switched off by a plain 0 (a float, not a learned number)."""
        return rule in self.on

    @lazy
    def on(self) -> tuple[str, ...]:
        """The rules that are active."""

        def off(x: Number) -> bool:
            return not isinstance(x, Tensor) and x == 0

        pairs = {r: (getattr(self, f"lam_{r}"), getattr(self, f"omega_{r}")) for r in RULES}
        return tuple(rule for rule, pair in pairs.items() if not any(map(off, pair)))

    @property
    def needs_neighbours(self) -> bool:
        """Whether any active rule uses N_k(i)."""
        local = self.local_scope == "neighbours" and self.active("coh")
        return self.active("align") or self.active("sep") or local

    def sizes(self, name: str = "k") -> tuple[int, ...]:
        """k (or far) as a tuple: one entry, or one a head."""
        return by_head(name, getattr(self, name))

    def one_kernel(self) -> bool:
        """Whether separation and cohesion share τ, so that one pass serves both."""
        a, b = self.tau_sep, self.tau_coh
        if a is b:
            return True
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return False
        return a == b

    def check_heads(self, heads: int) -> None:
        for name in (*NUMBERS, "k", "far"):
            value = getattr(self, name)
            listed = name in ("k", "far")
            n = len(self.sizes(name)) if listed else value.numel() if _per_head(value) else 1
            if n not in (1, heads):
                raise ValueError(f"{name} has {n} values; expected 1 or one a head ({heads})")


def warn_cool(name: str, temperature: float) -> None:
    """Warn of a temperature so low that training may become unstable."""
    if temperature < COOLEST:
        warnings.warn(
            f"{name} = {temperature:g}; expected at least {COOLEST}: below it a small change of a "
            f"score changes the weights by up to 1/(2 {name}) times as much, and gradients become "
            "unstable (docs/limits.md)",
            stacklevel=2,
        )


def by_head(name: str, size: int | Sequence[int] | Tensor) -> tuple[int, ...]:
    """A size as a tuple: one entry, or one a head."""
    if isinstance(size, Tensor):
        listed = size.flatten().tolist()
    else:
        listed = list(size) if isinstance(size, Sequence) and not isinstance(size, str) else [size]
    if not all(isinstance(x, int) and not isinstance(x, bool) for x in listed):
        raise TypeError(f"{name} = {size!r}; expected an int, or one a head")
    return tuple(listed)


def _per_head(value: Number) -> bool:
    return isinstance(value, Tensor) and value.ndim == 1


LEARNED: dict[str, Mapping[str, Any]] = {f.name: f.metadata for f in fields(Rules) if f.metadata}
NOT_LEARNED = tuple(f.name for f in fields(Rules) if not f.metadata)
NUMBERS = (*LEARNED, *(f"lam_{rule}" for rule in RULES))
