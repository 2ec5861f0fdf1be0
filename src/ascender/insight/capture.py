"""One forward pass of a model, with the full score matrices of every attention.

    with watching(model) as layers:
        output = model(**inputs)
    layers[2].parts.coh          (B, H, N, M)

Ours, retrofitted ones, and any transformers model whose self-attentions go through its attention
interface (there: base, other, weights). The output is what it is without watching: a layer's
attention is replaced by the definition (backends.dense), which its own backend equals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ascender.core.backends.dense import dense
from ascender.core.combine import Parts, repeat_kv
from ascender.core.flock import Flock
from ascender.core.geometry import accum_dtype
from ascender.core.neighbours import as_mask
from ascender.core.rules import RULES
from ascender.core.scope import FarKeys
from ascender.core.softmax import masked_softmax
from ascender.core.visibility import Visibility
from ascender.hf.masks import understood
from ascender.hf.retrofit.install import record
from ascender.hf.retrofit.probe import UnsupportedModel, self_attentions
from ascender.hf.retrofit.rule_adapter import FOREIGN, NAME, RuleAdapter, is_causal
from ascender.nn.module import AscenderAttention
from ascender.nn.slot import Attention, Call

MUTABLE = (*RULES, "aff")


@dataclass(frozen=True)
class Geometry:
    """Where the tokens of a layer are and what its rules make of it; heads are 1 where all share.

    z       latent coordinates of the keys         c   centres, in the same coordinates
    h       semantic projections, of length 1      u   headings, in the space of the keys
    near    whether j ∈ N_k(i)                     keys   k̃: without rotation, of length 1
    gates   γ of alignment, η of separation, γ of cohesion        rho   the crowd ρ_i
    affinity   x, y with g_ij = x_i · y_j, without what the distance adds
    """

    z: Float[Tensor, "B Z M z"]
    c: Float[Tensor, "B Z N z"]
    h: Float[Tensor, "B A M a"]
    u: Float[Tensor, "B H N d"]
    near: Bool[Tensor, "B #H N M"]
    gates: dict[str, Float[Tensor, "B #H N 1"]]
    rho: Float[Tensor, "B #H N 1"]
    keys: Float[Tensor, "B H M d"]
    affinity: tuple[Float[Tensor, "B A N a"], Float[Tensor, "B A M a"]] | None = None

    @property
    def away(self) -> Float[Tensor, "B #H N"]:
        """‖z_i − c_i‖: how far a token is from the centre of its surroundings."""
        own = self.z[..., self.z.shape[-2] - self.c.shape[-2] :, :]
        return torch.linalg.vector_norm(own - self.c, dim=-1)


@dataclass(frozen=True)
class Layer:
    """One attention in one pass. base = q·k/√d; as many heads of keys and values as of queries.
    tau is τ_score, by which the sum of the terms is divided. `geometry` is None where there are no
    rules. In flock scope `visible` is the flock F(i) and `all_visible` V(i), else None; `dense` is
    the same layer, given the same input, over V(i), where it was asked for. `flock` is the call
    itself, where there are rules."""

    name: str
    parts: Parts
    q: Float[Tensor, "B H N d"]
    k: Float[Tensor, "B H M d"]
    v: Float[Tensor, "B H M e"]
    visible: Bool[Tensor, "B H N M"]
    tau: Float[Tensor, "H"]
    geometry: Geometry | None = None
    all_visible: Bool[Tensor, "B H N M"] | None = None
    dense: Layer | None = None
    flock: Flock | None = None

    @property
    def missed(self) -> Float[Tensor, "B H N"] | None:
        """1 − Σ_{j∈F(i)} A_ij with A the weights of dense attention; a row without keys: 0."""
        if self.dense is None:
            return None
        return self.dense.parts.weights.double().masked_fill(self.visible, 0).sum(-1)


@contextmanager
def watching(model: nn.Module, with_dense: bool = False) -> Iterator[list[Layer]]:
    """The layers' attentions, appended during the pass; the model is restored at the end.
    with_dense: layers of flock scope also have `dense`."""
    layers: list[Layer] = []
    with ExitStack() as stack:
        ours = [(name, m) for name, m in model.named_modules() if isinstance(m, Attention)]
        for name, attention in ours:
            parts = _slot_parts(name, attention, layers, with_dense)
            stack.enter_context(_replaced(attention, "parts", parts))
            attend = partial(_first_of, parts)
            stack.enter_context(_replaced(attention, "attend_heads", attend))
        if not ours:
            _others(model, layers, stack, with_dense)
        yield layers


@torch.no_grad()
def capture(model: nn.Module, **inputs: Any) -> tuple[Any, list[Layer]]:
    """(the output, the layers) of one pass, without dropout."""
    was = model.training
    model.eval()
    try:
        with watching(model) as layers:
            return model(**inputs), layers
    finally:
        model.train(was)


@contextmanager
def muted(model: nn.Module, *rules: str) -> Iterator[None]:
    """The model with λ = 0 for these rules, or without the affinity term ("aff": it still ranks),
    meanwhile."""
    for rule in rules:
        if rule not in MUTABLE:
            raise ValueError(f"unknown rule {rule!r}; expected one of {', '.join(MUTABLE)}")
    switches = ["affinity_term" if rule == "aff" else f"lam_{rule}" for rule in rules]
    before = [
        (layer, name, getattr(layer, name))
        for layer in model.modules()
        for name in switches
        if hasattr(layer, name)
    ]
    try:
        for layer, name, value in before:
            setattr(layer, name, False if isinstance(value, bool) else 0.0)
        yield
    finally:
        for layer, name, value in before:
            setattr(layer, name, value)


def without_scores(model: nn.Module) -> tuple[str, ...]:
    """The kinds of attention in it that never compute a matrix of scores, such as performer."""
    ours = (m for m in model.modules() if isinstance(m, Attention))
    return tuple(dict.fromkeys(m.name for m in ours if type(m).parts is Attention.parts))


def has_rules(model: nn.Module) -> bool:
    """Whether there is a rule in it to mute."""
    return any(hasattr(layer, "lam_sep") for layer in model.modules())


def rules_of(model: nn.Module) -> tuple[str, ...]:
    """The rules that can be muted in it: with "aff" where a layer has the affinity term."""
    if any(getattr(layer, "affinity_term", False) for layer in model.modules()):
        return MUTABLE
    return RULES if has_rules(model) else ()


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute of one object, replaced for a while."""
    own = vars(owner)
    before = {name: own[name]} if name in own else {}
    own[name] = value
    try:
        yield
    finally:
        del own[name]
        own.update(before)


def _first_of(parts: Callable[[Call], tuple[Tensor, Parts]], call: Call) -> Tensor:
    return parts(call)[0]


def _slot_parts(
    name: str, attention: Attention, layers: list[Layer], with_dense: bool
) -> Callable[[Call], tuple[Tensor, Parts]]:
    def parts(call: Call) -> tuple[Tensor, Parts]:
        if isinstance(attention, AscenderAttention):
            over_all = None
            if with_dense and attention.flock_only:  # a normaliser may count the keys
                given = None if isinstance(call.neighbours, FarKeys) else call.neighbours
                with _replaced(attention, "visible_phase", True):
                    over_all = attention.flock(replace(call, neighbours=given))
            out, layer = _flocking(name, attention.flock(call), over_all)
        else:
            out, terms = type(attention).parts(attention, call)
            k, v = (repeat_kv(t, call.q.shape[1]) for t in (call.k, call.v))
            q = attention.normalizer.sharpen(call.q, call.vis.count)
            layer = _layer(name, terms, q, k, v, call.vis.visible)
        layers.append(layer)
        return out, layer.parts

    return parts


def _layer(
    name: str, parts: Parts, q: Tensor, k: Tensor, v: Tensor, V: Tensor,
    geometry: Geometry | None = None,
) -> Layer:  # fmt: skip
    tau = torch.as_tensor(parts.tau_score, dtype=torch.float64).detach().flatten()
    visible = V.expand_as(parts.weights)
    return Layer(name, parts, q, k, v, visible, tau.expand(q.shape[1]), geometry)


def _flocking(name: str, flock: Flock, over_all: Flock | None = None) -> tuple[Tensor, Layer]:
    """The definition, and all that is known on the way. over_all: the same call in visible scope,
    where it is to be shown too."""
    V = flock.vis.visible if flock.scope is not None else None
    call = flock.repeat_kv()
    flock = call.narrowed()
    out, parts, stats = dense(flock, stats=True)
    assert stats is not None
    c, u, rho = stats.c, stats.u, stats.rho
    assert c is not None
    assert u is not None
    assert rho is not None
    geometry = Geometry(
        z=flock.z[1], c=c, h=flock.h_unit[1], u=u,
        near=as_mask(flock.members, flock.vis.M), rho=rho, keys=flock.key_unit,
        gates={rule: getattr(stats, f"gate_{rule}") for rule in RULES},
        affinity=flock.affinity_factors if flock.affinity_term else None,
    )  # fmt: skip
    layer = _layer(name, parts, flock.q, flock.k, flock.v, flock.vis.visible, geometry)
    return out, replace(
        layer, all_visible=None if V is None else V.expand_as(parts.weights),
        dense=None if over_all is None else _flocking(name, over_all)[1], flock=call,
    )  # fmt: skip


def _others(model: nn.Module, layers: list[Layer], stack: ExitStack, with_dense: bool) -> None:
    """Watch a model that is not ours: its swarms where it has them, else its plain attention."""
    modules = self_attentions(model)
    if not modules:
        kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        raise UnsupportedModel(f"{kind} has no self-attention that asks the attention interface")
    for name, module in modules.items():
        swarm = getattr(module, "swarm", None)
        if isinstance(swarm, RuleAdapter):
            stack.enter_context(
                _replaced(swarm, "attend_heads", _swarming(name, layers, with_dense))
            )
            plain = _Plain(name, layers).attend  # where no rule is on
            stack.enter_context(_replaced(swarm, "_plain", plain))
        else:
            stack.enter_context(_replaced(module, "swarm", _Plain(name, layers)))
    if record(model) is None:
        configs = {id(m.config): m.config for m in modules.values()}
        for config in configs.values():
            stack.enter_context(_replaced(config, "_attn_implementation_internal", NAME))


def _swarming(
    name: str, layers: list[Layer], with_dense: bool
) -> Callable[..., tuple[Tensor, Tensor]]:
    def attend_heads(flock: Flock, weights: bool, wanted: object) -> tuple[Tensor, Tensor]:
        over_all = replace(flock, scope=None) if with_dense and flock.scope is not None else None
        out, layer = _flocking(name, flock, over_all)
        layers.append(layer)
        return out.transpose(1, 2), layer.parts.weights

    return attend_heads


class _Plain:
    """Stands where a swarm would: softmax( s · q·k + other ), written out."""

    now: Any = None

    def __init__(self, name: str, layers: list[Layer]) -> None:
        self.name, self.layers = name, layers

    def attend(
        self, module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None,
        scaling: float | None, dropout: float, more: dict[str, Any],
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        for term in FOREIGN:
            if more.get(term) is not None and term != "position_bias":
                raise UnsupportedModel(f"{self.name} has {term} in its scores")
        H, N, M, d = q.shape[1], q.shape[2], k.shape[2], q.shape[-1]
        k, v = repeat_kv(k, H).to(q.dtype), repeat_kv(v, H).to(q.dtype)
        if scaling is not None:
            q = q * (scaling * d**0.5)
        kinds = understood(mask, N, M, is_causal(module, more))
        other = more.get("position_bias", kinds.pop("other", None))
        vis = Visibility.of(N, M, device=q.device, **{**WHOLE, **kinds})
        parts = _plainly(q, k, vis.visible, other)
        self.layers.append(_layer(self.name, parts, q, k, v, vis.visible))
        return (parts.weights.to(v.dtype) @ v).transpose(1, 2), parts.weights


WHOLE: dict[str, Any] = {"causal": False, "window": None, "n_global": 0, "mask": None}


def _plainly(q: Tensor, k: Tensor, V: Tensor, other: Tensor | None) -> Parts:
    base = (q @ k.mT).to(accum_dtype(q.dtype)) / q.shape[-1] ** 0.5
    V = V.expand_as(base)
    base, none = base.masked_fill(~V, 0), torch.zeros_like(base)
    more = none if other is None else other.to(base.dtype).expand_as(base).masked_fill(~V, 0)
    total = base + more
    return Parts(base, none, none, none, none, more, total, masked_softmax(total, V))
