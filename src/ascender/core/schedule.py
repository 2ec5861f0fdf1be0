"""When the rules, the auxiliary losses and flock scope come in: λ, α and the scope over training.

    ramp(t) = 0 before `start`, then `to` at once (constant), or from 0 up to `to` within `length`:
    to · x (linear)    to · (1 − cos πx)/2 (cosine)    x = min(1, (t − start)/length)

`start` and `length` are fractions of the training where they are floats and steps where they are
ints. Layers of flock scope attend to everything visible for the first `visible_share` of the steps:
the index is fitted to what attention wants before it decides what attention sees.

Before its start a λ is exactly 0, so the rule is inactive and costs nothing. Laws: a ramp
never falls and stays in [0, to]; a schedule saved and resumed says what it would have said.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from torch import nn

from ascender.common.validate import check_int, check_number, check_options, lookup
from ascender.core.rules import RULES

SHAPES = ("constant", "linear", "cosine")
LOSSES = (*RULES, "index")


@dataclass(frozen=True)
class Ramp:
    """A number that comes in: 0, then `to`.

    >>> [Ramp(0.25, 0.5).at(step, 8) for step in range(8)]
    [0.0, 0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0]
    >>> [Ramp(start=3, shape="constant", to=0.5).at(step, 8) for step in (2, 3)]
    [0.0, 0.5]
    """

    start: float = 0.0
    length: float = 0.0
    shape: str = "linear"
    to: float = 1.0

    def __post_init__(self) -> None:
        lookup("shape", self.shape, dict.fromkeys(SHAPES))
        for name in ("start", "length"):
            t = getattr(self, name)
            if isinstance(t, bool) or not isinstance(t, int | float):
                raise TypeError(f"{name} is {t!r}; expected a fraction (float) or steps (int)")
            if not (t >= 0 and (isinstance(t, int) or t <= 1)):
                raise ValueError(f"{name} = {t!r}; expected a fraction in [0, 1] or an int ≥ 0")
        check_number("to", self.to, "a number in [0, 1]", 0, math.nextafter(1, 2))

    def at(self, step: int, total: int) -> float:
        """The number at a step of `total`."""
        check_int("total", total, 1)
        check_int("step", step, 0)
        start, length = (_steps(t, total) for t in (self.start, self.length))
        if step < start:
            return 0.0
        if self.shape == "constant" or step >= start + length:
            return float(self.to)
        x = (step - start) / length
        return self.to * (x if self.shape == "linear" else (1 - math.cos(math.pi * x)) / 2)


def changed(ramp: Ramp, what: str, given: Any) -> Ramp:
    """A ramp with some of its numbers changed, `what` naming it in errors.

    >>> changed(Ramp(0.15, 0.02), "sep", {"start": 0.3}).start
    0.3
    """
    if not isinstance(given, Mapping):
        raise ValueError(f"{what} = {given!r}; expected numbers by name, such as {{'start': 0.3}}")
    check_options(what, given, [f.name for f in fields(Ramp)])
    try:
        return replace(ramp, **given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what}: {error}") from None


def _steps(t: float, total: int) -> float:
    """An int is steps; a float a fraction of them, without the rounding of 0.07 · 100."""
    return t if isinstance(t, int) else round(t * total, 6)


SHORT = Ramp(0.0, 0.02)
LATE = Ramp(0.15, 0.02)


@dataclass(frozen=True)
class Schedule:
    """λ of each rule over training. By default alignment and cohesion come in at once, over the
    first 2% of the steps, and separation after 15%. `visible_share`: the share of the steps after
    which layers of flock scope attend to their flocks only.

    >>> Schedule.default().lam(step=100, total=1000)
    {'align': 1.0, 'sep': 0.0, 'coh': 1.0}
    """

    align: Ramp = SHORT
    sep: Ramp = LATE
    coh: Ramp = SHORT
    visible_share: float = 0.3

    def __post_init__(self) -> None:
        check_number("visible_share", self.visible_share, "a share of the steps, in [0, 1]", 0)
        if self.visible_share > 1:
            raise ValueError(
                f"visible_share = {self.visible_share!r}; expected a share of the steps, in [0, 1]"
            )

    @staticmethod
    def default() -> Schedule:
        """Alignment and cohesion at once, separation after warm-up."""
        return Schedule()

    @staticmethod
    def constant(align: float = 1.0, sep: float = 1.0, coh: float = 1.0) -> Schedule:
        """The same from the first step to the last."""
        a, s, c = (Ramp(shape="constant", to=to) for to in (align, sep, coh))
        return Schedule(a, s, c, visible_share=0.0)

    def lam(self, step: int, total: int) -> dict[str, float]:
        """λ_align, λ_sep and λ_coh at a step of `total`."""
        return {rule: getattr(self, rule).at(step, total) for rule in RULES}

    def visible_phase(self, step: int, total: int) -> bool:
        """Whether layers of flock scope still attend to everything visible at a step."""
        return step < _steps(float(self.visible_share), total)

    def apply(self, model: nn.Module, step: int, total: int) -> dict[str, float]:
        """Set λ and the phase in every layer of the model that has them; returns λ."""
        set_visible_phase(model, self.visible_phase(step, total))
        return set_lam(model, self.lam(step, total))

    def state_dict(self) -> dict[str, Any]:
        """Itself, in what JSON can say."""
        return {"kind": "schedule", **asdict(self)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """A schedule is a value and does not change, so this only checks that it is the one that
        was saved; `restore` makes the saved one."""
        saved = restore({"visible_share": self.visible_share, **state})  # older states have none
        if saved != self:
            raise ValueError(f"the state is of {saved}; expected {self}, or use restore(state)")


@dataclass
class Adaptive:
    """Task-adaptive: λ of each rule rises only while the validation loss falls.

        λ_r(t) = min( schedule.r(t), rise · (reports since r may begin with a new lowest loss) )

    The schedule says when a rule may begin and how far it may have come; the task says how far it
    does. The first loss reported is only remembered, and for a rule those before it may begin. λ of
    a rule that is not in `rules` is the schedule's.

    >>> adaptive, seen = Adaptive(rise=0.25), []
    >>> for step, loss in [(100, 4.0), (200, 3.0), (300, 3.5), (400, 2.0)]:
    ...     adaptive.report(loss, step, total=1000)
    ...     seen.append(adaptive.lam(step, total=1000))
    >>> [lam["sep"] for lam in seen], [lam["coh"] for lam in seen]
    ([0.0, 0.25, 0.25, 0.5], [0.0, 0.25, 0.25, 0.5])
    """

    schedule: Schedule = field(default_factory=Schedule)
    rise: float = 0.1
    best: float | None = None
    rises: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    rules: tuple[str, ...] = RULES

    def __post_init__(self) -> None:
        check_number("rise", self.rise, "a number in (0, 1]", math.ulp(0.0), math.nextafter(1, 2))
        for rule in self.rules:
            lookup("rule", rule, dict.fromkeys(RULES))

    def report(self, loss: float, step: int, total: int) -> None:
        """A validation loss at a step. NaN and infinity say nothing."""
        if not math.isfinite(loss) or (self.best is not None and loss >= self.best):
            return
        if self.best is not None:
            for rule, most in self.schedule.lam(step, total).items():
                self.rises[rule] += most > 0
        self.best = float(loss)

    def lam(self, step: int, total: int) -> dict[str, float]:
        lam = self.schedule.lam(step, total)
        return lam | {rule: min(lam[rule], self.rise * self.rises[rule]) for rule in self.rules}

    def visible_phase(self, step: int, total: int) -> bool:
        """The schedule's."""
        return self.schedule.visible_phase(step, total)

    def apply(self, model: nn.Module, step: int, total: int) -> dict[str, float]:
        """Set λ and the phase in every layer of the model that has them; returns λ."""
        set_visible_phase(model, self.visible_phase(step, total))
        return set_lam(model, self.lam(step, total))

    def state_dict(self) -> dict[str, Any]:
        """Itself and what it has seen, in what JSON can say."""
        own = {"rise": self.rise, "best": self.best, "rises": dict(self.rises)}
        schedule = self.schedule.state_dict()
        return {"kind": "adaptive", "schedule": schedule, **own, "rules": list(self.rules)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was saved."""
        saved = restore(state)
        if not isinstance(saved, Adaptive):
            raise ValueError(f"the state is of {saved}; expected that of an Adaptive")
        for f in fields(self):
            setattr(self, f.name, getattr(saved, f.name))


def restore(state: Mapping[str, Any]) -> Schedule | Adaptive:
    """The schedule of a state_dict."""
    rest = {name: value for name, value in state.items() if name != "kind"}
    if state.get("kind") == "schedule":
        ramps: dict[str, Any] = {rule: Ramp(**rest.pop(rule)) for rule in RULES}
        return Schedule(**ramps, **rest)
    if state.get("kind") == "adaptive":
        rest.pop("visible_share", None)
        schedule = restore(rest.pop("schedule"))
        assert isinstance(schedule, Schedule)
        if isinstance(rest["rises"], int):  # older states are of separation only
            rest |= {"rises": dict.fromkeys(RULES, rest["rises"]), "rules": ("sep",)}
        return Adaptive(schedule, **{**rest, "rules": tuple(rest["rules"])})
    raise ValueError(f"unknown kind {state.get('kind')!r}; expected one of schedule, adaptive")


def get_lam(model: nn.Module) -> dict[str, float]:
    """The λ's of the first layer that has any, which a schedule gives to all."""
    layer = next((layer for layer in model.modules() if hasattr(layer, "lam_sep")), None)
    return {} if layer is None else {rule: getattr(layer, f"lam_{rule}") for rule in RULES}


def check_lam(lam: Mapping[str, float]) -> None:
    for rule, value in lam.items():
        lookup("rule", rule, dict.fromkeys(RULES))
        if not 0 <= value <= 1:
            raise ValueError(f"lam_{rule} = {value!r}; expected a number in [0, 1]")


def set_lam(model: nn.Module, lam: Mapping[str, float]) -> dict[str, float]:
    """Give every layer that has λ's these. A model without any is left as it is."""
    check_lam(lam)
    for layer in model.modules():
        for rule, value in lam.items():
            if hasattr(layer, f"lam_{rule}"):
                setattr(layer, f"lam_{rule}", float(value))
    return dict(lam)


def set_visible_phase(model: nn.Module, on: bool) -> None:
    """Whether layers of flock scope attend to everything visible for now."""
    for layer in model.modules():
        if getattr(layer, "scope", None) == "flock" and hasattr(layer, "visible_phase"):
            layer.visible_phase = on  # type: ignore[assignment]


@dataclass(frozen=True)
class LossWeights:
    """α of each auxiliary loss, 0 by default; they come in with a ramp, after warm-up. The index
    loss is there from the start: it changes the index only.

    >>> LossWeights(coh=0.5).at(step=10, total=100).coh, LossWeights(coh=0.5).at(15, 100).coh
    (0.0, 0.5)
    >>> bool(LossWeights())
    False
    """

    align: float = 0.0
    sep: float = 0.0
    coh: float = 0.0
    index: float = 0.0
    when: Ramp = Ramp(0.15, shape="constant")

    def __post_init__(self) -> None:
        for name in LOSSES:
            check_number(name, getattr(self, name), "a number ≥ 0", 0)

    def at(self, step: int, total: int) -> LossWeights:
        """The weights at a step of `total`."""
        now = self.when.at(step, total)
        of_rules = {rule: now * getattr(self, rule) for rule in RULES}
        return LossWeights(**of_rules, index=self.index, when=Ramp())

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in LOSSES)
