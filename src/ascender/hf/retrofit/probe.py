"""Measure how an attention module of another model works, by one call on a few random tokens.

The attention function of that call only records its arguments: the number of heads, the scale of
the scores, whether the keys are rotated, and that the inverse rotation gives the original keys.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ascender.core.geometry import unit
from ascender.hf.retrofit.rule_adapter import FOREIGN, NAME, RuleAdapter

FAMILIES = (
    "bert", "gemma", "gemma3_text", "gpt2", "llama", "mistral", "modernbert", "opt", "phi",
    "qwen2", "qwen3", "roberta", "vit",
)  # fmt: skip
TOKENS = 5


class UnsupportedModel(ValueError):
    """A model that cannot be retrofitted; the message says why and names families that can."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}; expected a model whose self-attentions go through transformers' attention "
            f"interface, such as {', '.join(FAMILIES)}"
        )


@dataclass
class Recorder:
    """The arguments of an attention function, recorded in the place of a RuleAdapter."""

    now: None = None
    q: Tensor = field(default_factory=lambda: torch.empty(0))
    k: Tensor = field(default_factory=lambda: torch.empty(0))
    more: dict[str, Any] = field(default_factory=dict)
    scaling: float | None = None

    def attend(
        self, module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Any, scaling: Any,
        dropout: float, more: dict[str, Any],
    ) -> tuple[Tensor, None]:  # fmt: skip
        self.q, self.k, self.more, self.scaling = q, k, more, scaling
        return q.new_zeros(q.shape[0], q.shape[2], q.shape[1], v.shape[-1]), None


@dataclass(frozen=True)
class AttentionSpec:
    """Of one attention module: its widths, the names of its arguments, and its rotation."""

    dim: int
    heads: int
    names: list[str]
    rotary: Callable[..., Any] | None
    turn_width: int = 0  # of cos and sin

    def swarm(self, options: dict[str, Any]) -> RuleAdapter:
        adapter = RuleAdapter(self.dim, self.heads, rotary=self.rotary, names=self.names, **options)
        adapter.turn_width = self.turn_width
        return adapter


def self_attentions(model: nn.Module) -> dict[str, nn.Module]:
    """The modules by name, in order, whose forward asks transformers' attention interface, and
    whose keys are of their own tokens."""
    attentions = {}
    for name, module in model.named_modules():
        forward = inspect.unwrap(type(module).forward)
        code = getattr(forward, "__code__", None)
        if code is None or "ALL_ATTENTION_FUNCTIONS" not in code.co_names:
            continue
        kind = type(module).__name__.lower()
        if "cross" not in kind and not getattr(module, "is_cross_attention", False):
            attentions[name] = module
    return attentions


@torch.no_grad()
def probe(model: nn.Module, name: str, module: nn.Module) -> AttentionSpec:
    """Try one attention module."""
    kind = f"{type(module).__name__} ({name})"
    config: Any = getattr(module, "config", None)
    dim = getattr(config, "hidden_size", None)
    like = next(module.parameters(), None)
    if dim is None or like is None:
        raise UnsupportedModel(f"{kind} has no config with a hidden_size, or no weights")
    parameters = inspect.signature(module.forward).parameters
    x = torch.randn(1, TOKENS, dim, generator=torch.Generator().manual_seed(0)).to(like)
    turn = _rotation(model, module, x) if "position_embeddings" in parameters else None
    recorder = _try(kind, module, x, turn)
    for term in FOREIGN:
        if recorder.more.get(term) is not None:
            raise UnsupportedModel(f"{kind} has {term} in its scores")
    rotary = None if turn is None else _unturn(kind, module, x, turn, recorder)
    names = [p.name for p in parameters.values() if p.kind is not p.VAR_KEYWORD]
    width = 0 if turn is None else turn[0].shape[-1]
    return AttentionSpec(dim, recorder.q.shape[1], names, rotary, width)


def bare_projections(module: nn.Module, x: Tensor, turn_width: int) -> Recorder:
    """Queries and keys of the tokens x (1, T, dim), not rotated. `turn_width`: of cos, 0 for a
    module that takes no position_embeddings."""
    ones = x.new_ones(1, x.shape[1], turn_width)
    turn = (ones, torch.zeros_like(ones)) if turn_width else None
    return _try(type(module).__name__, module, x, turn)


def _try(kind: str, module: nn.Module, x: Tensor, turn: Any) -> Recorder:
    parameters = inspect.signature(module.forward).parameters.values()
    given: dict[str, Any] = {
        p.name: None for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD
    }
    given[next(iter(given), "hidden_states")] = x
    if turn is not None:
        given["position_embeddings"] = turn
    try:
        with recording(module) as recorder:
            module(**given)
    except Exception as problem:
        raise UnsupportedModel(
            f"{kind} could not be tried ({type(problem).__name__}: {problem})"
        ) from problem
    if recorder.q.ndim != 4 or recorder.k.shape[2] != x.shape[1]:
        raise UnsupportedModel(
            f"{kind} did not hand its queries and keys to the attention interface"
        )
    return recorder


@contextmanager
def recording(module: nn.Module) -> Iterator[Recorder]:
    """Inside, the module's attention function only records its arguments."""
    config: Any = module.config
    before, recorder = config._attn_implementation_internal, Recorder()
    config._attn_implementation_internal = NAME
    module.__dict__["swarm"] = recorder
    try:
        yield recorder
    finally:
        config._attn_implementation_internal = before
        del module.__dict__["swarm"]


def _rotation(model: nn.Module, module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin as the model makes them, of positions 1, 2, 3 …"""
    where = torch.arange(1, TOKENS + 1, device=x.device)[None]
    for rotary in model.modules():
        if not any(name.endswith("inv_freq") for name, _ in rotary.named_buffers(recurse=False)):
            continue
        more = {}
        if "layer_type" in inspect.signature(rotary.forward).parameters:
            config, layer = module.config, getattr(module, "layer_idx", 0)
            more["layer_type"] = config.layer_types[layer]  # type: ignore[union-attr, index]
        return rotary(x, where, **more)
    raise UnsupportedModel(
        f"{type(module).__name__} wants position_embeddings that nothing here makes"
    )


def _unturn(
    kind: str, module: nn.Module, x: Tensor, turn: tuple[Tensor, Tensor], recorder: Recorder
) -> Callable[..., Any] | None:
    """The rotation of the model's own file, tried backwards; None where keys come unrotated."""
    cos, sin = turn
    bare = _try(kind, module, x, (torch.ones_like(cos), torch.zeros_like(sin))).k
    if torch.equal(bare, recorder.k):
        return None
    rotary = getattr(sys.modules[type(module).__module__], "apply_rotary_pos_emb", None)
    if rotary is None:
        raise UnsupportedModel(f"{kind} rotates its keys in a way of its own")
    swarm = RuleAdapter(1, 1, rotary=rotary)
    try:
        back = swarm.unrotated(recorder.k, cos[:, None], sin[:, None])
    except (TypeError, RuntimeError, IndexError) as problem:
        raise UnsupportedModel(
            f"{kind} rotates its keys in a way of its own ({problem})"
        ) from problem
    error = (unit(back.double()) - unit(bare.double())).abs().max()
    if not error < max(8 * torch.finfo(x.dtype).eps, 1e-5):
        raise UnsupportedModel(f"{kind} rotates its keys in a way that (cos, −sin) does not undo")
    return rotary
