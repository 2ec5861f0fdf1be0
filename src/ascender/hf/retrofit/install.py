"""The three rules for a model that exists: a switch to throw on a loaded transformers model.

    ascender.retrofit(model)                       ω = 0: the same logits
    train(model)                                   only U, P and the rules' numbers learn
    ascender.save_adapter(model, "adapter")
    ascender.unretrofit(model)                     the model that was there

    ascender.retrofit(model, scope="flock", far=32)      each token attends to its flock only
    ascender.distil_index(model, texts, tokenizer=…)     the index learns whom to choose

Laws: until trained, logits are those of the original; unretrofit leaves its state dict, its config
and what was trainable as they were before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ascender.common.validate import nearest
from ascender.core.geometry import accum_dtype
from ascender.hf.retrofit.index_start import start_from_random_tokens
from ascender.hf.retrofit.probe import UnsupportedModel, probe, self_attentions
from ascender.hf.retrofit.rule_adapter import NAME, RuleAdapter
from ascender.nn.rule_parameters import OPTIONS, default

# The options of a retrofit and their defaults.
DEFAULTS: dict[str, Any] = {name: default(RuleAdapter, name) for name in OPTIONS}
DEFAULTS |= {"backend": "auto", "window": 0, "n_global": 0}
# Other defaults in flock scope: the model's own scores, chosen by an index that knows distances.
FLOCK_DEFAULTS: dict[str, Any] = {
    "window": 8, "n_global": 1, "affinity": "query-key", "affinity_term": False,
    "affinity_bias": 32,
}  # fmt: skip
TRAIN = ("swarm", "all")


@dataclass
class Retrofit:
    """What was done to a model, so that it can be undone."""

    rules: dict[str, Any]
    layers: list[int]
    train: str = "swarm"
    handles: list[Any] = field(default_factory=list)
    configs: list[tuple[Any, str | None]] = field(default_factory=list)
    trained: set[str] = field(default_factory=set)  # parameters that learned before


def retrofit(
    model: nn.Module,
    rules: Mapping[str, Any] | None = None,
    layers: Iterable[int] | None = None,
    train: str = "swarm",
    **options: Any,
) -> nn.Module:
    """Give the self-attentions of a transformers model alignment, separation and cohesion, or
    (scope="flock") an index by which each token attends to its flock only; returns the model,
    changed in place.

    rules    options of the rules: k, d_z, d_a, geometry, numbers, neighbours, standardise,
             separation_scope, local_scope, roles, gates, omega, tau, tau_score, delta, …
             (nn.rule_parameters), backend
    layers   which of its self-attentions, counted from 0; None: all
    train    "swarm": only the new parameters learn, the rest is frozen; "all": nothing is frozen
    options  more of `rules`, by name: scope="flock", far, window, n_global, …

    In flock scope the rules are off (λ = 0), the index starts from the model's own W_Q and W_K,
    and distil_index trains it.
    """
    earlier = record(model)
    if train not in TRAIN:
        raise ValueError(f"unknown train {train!r}; expected one of {', '.join(TRAIN)}")
    options = _options(rules, options)
    if earlier is not None:
        raise ValueError("the model has been retrofitted; expected one that is not (unretrofit it)")
    modules = _fitting(model)
    which = _which(layers, len(modules))
    specs = [probe(model, name, module) for name, module in modules.items()]
    swarms = {i: specs[i].swarm(options) for i in which}  # wrong options fail here, before

    done = Retrofit(options, which, train)
    done.trained = {name for name, p in model.named_parameters() if p.requires_grad}
    if train == "swarm":
        model.requires_grad_(False)
    for i, module in enumerate(modules.values()):
        _dispatch(module.config, done)
        if i in swarms:
            weight = next(module.parameters())
            module.swarm = swarms[i].to(weight.device, accum_dtype(weight.dtype))
            module.swarm.train(module.training)
            if module.swarm.has_index:
                start_from_random_tokens(module.swarm, module)
            hook = module.swarm.before
            done.handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
    model.__dict__["_ascender_retrofit"] = done
    return model


def unretrofit(model: nn.Module) -> nn.Module:
    """Take the rules away again: parameters, config and what is trainable as they were. (Weights
    that were trained since, with train="all", stay what they have become.)"""
    done = record(model)
    if done is None:
        raise ValueError("the model has not been retrofitted; expected one that is")
    for handle in done.handles:
        handle.remove()
    for module in self_attentions(model).values():
        if isinstance(getattr(module, "swarm", None), RuleAdapter):
            del module.swarm
    for config, before in done.configs:
        config._attn_implementation_internal = before
    for name, p in model.named_parameters():
        p.requires_grad_(name in done.trained)
    del model.__dict__["_ascender_retrofit"]
    return model


def record(model: nn.Module) -> Retrofit | None:
    """How a model was retrofitted, if it was."""
    check_model(model)
    return model.__dict__.get("_ascender_retrofit")


def check_model(model: Any) -> None:
    """Not the name of one."""
    if not isinstance(model, nn.Module):
        raise TypeError(
            f"model = {model!r}; expected a loaded model, such as "
            "AutoModelForCausalLM.from_pretrained(…) gives"
        )


def swarms(model: nn.Module) -> dict[str, RuleAdapter]:
    """The swarms of a retrofitted model by name."""
    check_model(model)
    return {name: m for name, m in model.named_modules() if isinstance(m, RuleAdapter)}


def swarm_parameters(model: nn.Module) -> Iterator[nn.Parameter]:
    """What a retrofit added: U, P and the rules' numbers of every layer."""
    for swarm in swarms(model).values():
        yield from swarm.parameters()


def print_trainable_parameters(model: nn.Module) -> None:
    """How many numbers learn, as peft prints it."""
    check_model(model)
    every = sum(p.numel() for p in model.parameters())
    learn = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(
        f"trainable params: {learn:,} || all params: {every:,} || "
        f"trainable%: {100 * learn / max(every, 1):.4f}"
    )


def _fitting(model: nn.Module) -> dict[str, nn.Module]:
    config: Any = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(f"{kind} is an encoder–decoder")
    modules = self_attentions(model)
    if not modules:
        raise UnsupportedModel(f"{kind} has no self-attention that asks the attention interface")
    return modules


def _dispatch(config: Any, done: Retrofit) -> None:
    """Our attention function for the modules of a config, once."""
    if all(config is not known for known, _ in done.configs):
        done.configs.append((config, config._attn_implementation_internal))
        config._attn_implementation_internal = NAME


def _options(rules: Mapping[str, Any] | None, more: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(rules, Mapping | None):
        raise TypeError(f"rules = {rules!r}; expected options by name, such as {{'k': 8}}")
    for name in more:
        if name in (rules or {}):
            raise ValueError(f"{name} is given twice, in rules and by name; expected it once")
    given = {**(rules or {}), **more}
    for name in given:
        if name not in DEFAULTS:
            raise ValueError(
                f"unknown option {name!r}{nearest(name, DEFAULTS)} in rules; expected one of "
                f"{', '.join(DEFAULTS)}"
            )
    plain = {name: list(o) if isinstance(o, tuple) else o for name, o in given.items()}
    flock = FLOCK_DEFAULTS if plain.get("scope") == "flock" else {}
    return {**DEFAULTS, **flock, **plain}


def _which(layers: Iterable[int] | None, count: int) -> list[int]:
    if isinstance(layers, str) or not isinstance(layers, Iterable | None):
        raise TypeError(f"layers = {layers!r}; expected a list of some of 0 … {count - 1}, or None")
    which = sorted(range(count) if layers is None else set(layers))
    if not which or which[0] < 0 or which[-1] >= count:
        raise ValueError(f"layers = {which}; expected some of 0 … {count - 1}")
    return which
