"""A run as a value: everything that its results depend on, and a hash of it."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields
from functools import cache, cached_property
from typing import Any

import torch

from ascender.common.user_code import import_code, is_code
from ascender.common.validate import check_number, lookup, nearest
from ascender.core.rules import RULES
from ascender.core.schedule import LOSSES, Adaptive, LossWeights, Ramp, Schedule, changed
from ascender.hf import (
    PRESETS,
    AscenderConfig,
    AscenderForCausalLM,
    AscenderForConditionalGeneration,
    AscenderForSequenceClassification,
    AscenderForTokenClassification,
)
from ascender.nn.baselines import attention_kind
from ascender.tasks import Task, code_named, kind_of, task
from ascender.train.settings import Settings
from ascender.train.variants import variant

HEADS = {
    "sequence": AscenderForSequenceClassification,
    "token": AscenderForTokenClassification,
    "causal": AscenderForCausalLM,
    "seq2seq": AscenderForConditionalGeneration,
}
SCHEDULES = ("default", "constant", "adaptive")
PRECISIONS = ("no", "bf16", "fp16")


@dataclass(frozen=True)
class Run(Settings):
    """One training run as a value: checked settings, their hash, and the task, model and schedule
    that they describe."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate", "every", "hidden", "layers", "heads"):
            _expect(name, getattr(self, name), lambda x: _whole(x) and x >= 1, "an int from 1")
        for name in ("seed", "patience"):
            _expect(name, getattr(self, name), lambda x: _whole(x) and x >= 0, "an int from 0")
        for name in ("dropout", "smoothing"):
            _expect(name, getattr(self, name), lambda x: 0 <= x < 1, "a number in [0, 1)")
        for name in ("warmup", "visible_share"):
            _expect(name, getattr(self, name), lambda x: 0 <= x <= 1, "a fraction of the steps")
        _expect("rise", self.rise, lambda x: 0 < x <= 1, "a number in (0, 1]")
        _expect("rate", self.rate, lambda x: x > 0, "a number > 0")
        for name in ("decay", "clip"):
            _expect(name, getattr(self, name), lambda x: x >= 0, "a number ≥ 0")
        _expect("accumulate", self.accumulate, lambda x: self.batch % x == 0,
                f"a divisor of batch = {self.batch}")  # fmt: skip
        for name, allowed in (("schedule", SCHEDULES), ("precision", PRECISIONS)):
            lookup(name, getattr(self, name), dict.fromkeys(allowed))
        if not isinstance(self.losses, Mapping):
            raise ValueError(f"losses = {self.losses!r}; expected weights by name, {{'coh': 0.1}}")
        for name, weight in self.losses.items():
            lookup("loss", name, dict.fromkeys(LOSSES))
            check_number(f"losses[{name!r}]", weight, "a number ≥ 0", 0)
        if not isinstance(self.ramps, Mapping):
            raise ValueError(f"ramps = {self.ramps!r}; expected ramps by name, {{'sep': {{…}}}}")
        for name in self.ramps:
            lookup("ramp", name, dict.fromkeys(RAMPS))
        self.make_loss_ramp()
        self.make_schedule()
        _ = self.all_losses
        attention_kind(variant(self.variant).attention, "variant")
        sizes = (self.hidden, min(self.layers, 2), self.heads)  # more layers fit as two do
        if wrong := _unfit(self.variant, kind_of(self.task).position, sizes):
            raise ValueError(f"variant {self.variant!r}: {wrong}")

    @classmethod
    def of(cls, task: str, *, size: str | None = None, **given: Any) -> Run:
        """Omitted settings (or None) use the task's defaults, then those of `Settings`. `size`: a
        preset for hidden, layers and heads where they are not given. The task and the variant may
        be your own classes, by module:Class."""
        for name in (task, str(given.get("variant") or "").split("+")[0]):
            if is_code(name):
                import_code(name)
        for name in code_named(task, given.get("options") or {}):
            import_code(name)
        known = [f.name for f in fields(cls)]
        for name in given:
            if name not in known:
                raise TypeError(
                    f"a run has no field {name!r}{nearest(name, known)}; expected one of "
                    f"{', '.join(known)}"
                )
        given = {name: value for name, value in given.items() if value is not None}
        preset = {} if size is None else cls.size(size)
        return cls(task=task, **{**kind_of(task).recipe, **preset, **given})

    @classmethod
    def size(cls, name: str) -> dict[str, int]:
        """hidden, layers and heads of a preset: tiny, small, medium, large."""
        preset = lookup("size", name, PRESETS)
        return dict(zip(("hidden", "layers", "heads"), (preset[n] for n in SIZES), strict=True))

    @cached_property
    def key(self) -> str:
        """A hash of all of it."""
        return key_of(asdict(self))

    @cached_property
    def cell(self) -> str:
        """A hash of all but the seed: runs that differ in nothing else share it."""
        return key_of({**asdict(self), "seed": 0})

    def make_task(self, data_dir: str | None = None) -> Task:
        """The task with its data, from `data_dir` where it reads files; without its lists where the
        variant says what neighbours go by."""
        files = "data_dir" in inspect.signature(kind_of(self.task)).parameters
        where = {"data_dir": data_dir} if files and data_dir is not None else {}
        made = task(self.task, **self.options, **where)
        if variant(self.variant).ignores_lists:
            made.hide_lists()
        return made

    @property
    def all_losses(self) -> dict[str, float]:
        """The weights of the auxiliary losses, the run's and those that its variant names."""
        named = variant(self.variant).losses
        if twice := [name for name in named if name in self.losses]:
            raise ValueError(
                f"losses = {dict(self.losses)} with variant {self.variant!r}, which has "
                f"{twice[0]}_loss too; expected one of them"
            )
        return {**self.losses, **named}

    def config(self, task: Task) -> AscenderConfig:
        """The model's: the same for every variant but for the slot."""
        return AscenderConfig(
            **_sizes(self.hidden, self.layers, self.heads),
            dropout=self.dropout, label_smoothing=self.smoothing,
            initializer_range=(3 * self.hidden) ** -0.5,  # torch's own; 0.02 at a width of 1024
            is_encoder_decoder=task.head == "seq2seq",
            **{f"{name}_loss": float(weight) for name, weight in self.all_losses.items()},
            **variant(self.variant).fields(task.position, self.layers, self.heads), **task.fields(),
        )  # fmt: skip

    def make_model(self, task: Task) -> Any:
        """The task's head on the variant's model, drawn from the seed."""
        torch.manual_seed(self.seed)
        model = HEADS[task.head](self.config(task))
        if self.checkpointing:
            model.gradient_checkpointing_enable()
        return model

    def make_schedule(self) -> Schedule | Adaptive:
        """λ over training; rules that the variant mutes stay at 0."""
        filled = variant(self.variant)
        kind = self.schedule if filled.schedule is None else filled.schedule
        lookup("schedule", kind, dict.fromkeys(SCHEDULES))
        if "default" != self.schedule != kind:
            raise ValueError(
                f"schedule = {self.schedule!r} with variant {self.variant!r}; expected one of them"
            )
        plain = Schedule.constant() if kind == "constant" else Schedule.default()
        off = Ramp(shape="constant", to=0.0)
        ramps = {r: self._ramp(r, getattr(plain, r)) for r in RULES}
        ramps |= dict.fromkeys(filled.mute, off)
        schedule = Schedule(**ramps, visible_share=self.visible_share)
        return Adaptive(schedule, self.rise) if kind == "adaptive" else schedule

    def make_loss_ramp(self) -> Ramp:
        """When the auxiliary losses of the rules come in."""
        return self._ramp("losses", LossWeights().when)

    def _ramp(self, name: str, plain: Ramp) -> Ramp:
        return changed(plain, f"ramps[{name!r}]", self.ramps.get(name, {}))


def _default(of: Field[Any]) -> Any:
    return of.default if of.default_factory is MISSING else of.default_factory()


ADDED = {f.name: _default(f) for f in fields(Settings) if f.metadata["added"]}
RAMPS = (*RULES, "losses")
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads")


def _sizes(*sizes: int) -> dict[str, int]:
    return dict(zip(SIZES, sizes, strict=True))


@cache
def _unfit(name: str, position: str, sizes: tuple[int, int, int]) -> str | None:
    """Why a variant does not fit. Cached: a suite has hundreds of runs of a few variants."""
    filled = variant(name)
    try:
        AscenderConfig(**_sizes(*sizes), **filled.fields(position, *sizes[1:]))
    except ImportError:
        return None  # a run can be named where it cannot be built; the model says what is missing
    except Exception as error:
        return str(error.__cause__ or error)
    return None


def key_of(fields: Mapping[str, Any]) -> str:
    """The key of a run with these fields, all of them; those in ADDED count where they differ from
    the default, so that runs stored before them keep their keys."""
    fields = {n: v for n, v in fields.items() if n not in ADDED or v != ADDED[n]}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]


def _whole(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _expect(name: str, value: Any, right: Any, expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not right(value):
        raise ValueError(f"{name} = {value!r}; expected {expected}")
