"""Variants: named settings of the attention; everything else stays equal.

    variant = name + piece + piece …        ascender+alibi, no-sep+k=8, vanilla+rope+window=128

The name is one of VARIANTS, or module:Class of an attention of your own (my_bias:First+rope+k=8). A
piece is a position, a normaliser, or

    share=n           n layers go by one search for neighbours
    schedule=NAME     of λ, instead of the run's
    rules=NAMES       the rules that stay on: none, all, or some, such as align,coh
    index_loss=1      the weight of an auxiliary loss (align, sep, coh, index), beside the run's
    option=value      an option of the attention, the position or the normaliser

    ascender+tau_sep=0.5+omega_align=[0.1,0,0.2,0.1]   vanilla+shaw+clip=8   vanilla+topk+size=0.06
    flock+far=8+window=4+rules=none                    ascender+neighbours=semantic

What neighbours go by, where a name says it (neighbours=semantic or scores), holds on tasks that
give lists too: the lists are not read.

A piece that does not fit (a window where there is none, an option that nothing has) is refused
before any training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ascender.common.renamed import check_renamed
from ascender.common.user_code import is_code, is_imported
from ascender.common.validate import lookup, nearest
from ascender.core.normalizers import NORMALIZERS, normalizer_options
from ascender.core.rules import RULES
from ascender.core.schedule import LOSSES
from ascender.nn.baselines import ATTENTIONS, OWNED, attention_kind, check_scope, options_of
from ascender.nn.module import AscenderAttention
from ascender.nn.positions import POSITIONS, position_options
from ascender.nn.slot import Attention


@dataclass(frozen=True)
class Variant:
    """An attention and its settings.

    options   of the attention        position    None: the task's default
    position_options, normalizer_options   theirs
    mute      rules whose λ stays 0   roles       one frozen rule per head, in turn
    share     consecutive layers that use the neighbours (flock scope: the far keys) of the first
    schedule  of λ while training: default, constant or adaptive; None: the run's
    half      the half of the layers that has it, "lower" or "upper"; the others are vanilla
    losses    weights of auxiliary losses, beside the run's
    """

    attention: str
    options: Mapping[str, Any] = field(default_factory=dict)
    position: str | None = None
    normalizer: str = "softmax"
    position_options: Mapping[str, Any] = field(default_factory=dict)
    normalizer_options: Mapping[str, Any] = field(default_factory=dict)
    mute: tuple[str, ...] = ()
    roles: bool = False
    share: int = 1
    schedule: str | None = None
    half: str | None = None
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def ignores_lists(self) -> bool:
        """Whether it finds its own neighbours on tasks that give lists."""
        return "neighbours" in self.options

    def fields(self, task_position: str, layers: int, heads: int) -> dict[str, Any]:
        """The fields of an AscenderConfig."""
        options = dict(self.options)
        if self.roles:
            options["roles"] = [(*RULES, "all")[i % 4] for i in range(heads)]
        return {
            "attention": self.attention, "attention_options": options,
            "position": self.position or task_position, "normalizer": self.normalizer,
            "position_options": dict(self.position_options),
            "normalizer_options": dict(self.normalizer_options),
            "share_neighbours": self.share, "plain_layers": self._plain(layers),
        }  # fmt: skip

    def _plain(self, layers: int) -> list[int] | None:
        if self.half is None:
            return None
        if layers < 2:
            raise ValueError(f"half of {layers} layer; expected at least 2 layers")
        middle = (layers + 1) // 2
        return list(range(middle, layers) if self.half == "lower" else range(middle))


def _others(rule: str) -> tuple[str, ...]:
    return tuple(other for other in RULES if other != rule)


VARIANTS: dict[str, tuple[Variant, str]] = {
    "vanilla": (
        Variant("vanilla"),
        "scaled dot products only, by PyTorch's scaled_dot_product_attention",
    ),
    "matched": (Variant("matched"), "vanilla with as many parameters as ascender has"),
    "longformer": (Variant("longformer", {"window": 64}), "a sliding window of 64"),
    "bigbird": (Variant("bigbird", {"block": 16}), "window, global and random blocks of 16"),
    "performer": (Variant("performer"), "random features instead of the softmax"),
    "linear": (Variant("linear"), "elu + 1 instead of the softmax"),
    "graph": (Variant("graph"), "Graphormer's bias by distance in the neighbour lists"),
    "ascender": (Variant("ascender"), "alignment, separation and cohesion"),
    "only-align": (Variant("ascender", mute=_others("align")), "alignment alone"),
    "only-sep": (Variant("ascender", mute=_others("sep")), "separation alone"),
    "only-coh": (Variant("ascender", mute=_others("coh")), "cohesion alone"),
    "no-align": (Variant("ascender", mute=("align",)), "all but alignment"),
    "no-sep": (Variant("ascender", mute=("sep",)), "all but separation"),
    "no-coh": (Variant("ascender", mute=("coh",)), "all but cohesion"),
    "no-rules": (
        Variant("ascender", mute=RULES),
        "ascender's parameters with all rules off: vanilla's scores",
    ),
    "unstandardised": (
        Variant("ascender", {"standardise": False}),
        "biases not standardised by row",
    ),
    "ungated": (Variant("ascender", {"gates": False}), "γ and η the same for every token"),
    "shared-neighbours": (
        Variant("ascender", share=2),
        "every second layer uses the neighbours of the layer below",
    ),
    "rules-lower": (Variant("ascender", half="lower"), "rules in the lower half of the layers"),
    "rules-upper": (Variant("ascender", half="upper"), "rules in the upper half of the layers"),
    "shuffled": (Variant("shuffled"), "neighbours drawn at random: a control"),
    "shared": (
        Variant("ascender", {"geometry": "shared"}),
        "one z, h and τ for all heads (cheaper)",
    ),
    "shared-qknorm": (
        Variant("ascender", {"geometry": "shared", "qk_norm": True}),
        "shared geometry and QK-norm: cheapest to fold",
    ),
    "shared-numbers": (
        Variant("ascender", {"numbers": "shared"}),
        "one ω, α, δ, κ for all heads",
    ),
    "roles": (Variant("ascender", roles=True), "one frozen rule per head"),
    "flash": (
        Variant("ascender", {"backend": "folded"}),
        "ascender on PyTorch's flash kernel (backend folded): the same scores in O(N) memory",
    ),
    "dense": (
        Variant("ascender", {"backend": "dense"}),
        "ascender by the definition, with N×M matrices: the same scores",
    ),
    "windowed": (Variant("ascender", {"window": 64}), "ascender in a sliding window of 64"),
    "flock": (
        Variant("ascender", {"scope": "flock"}),
        "attends to its flock only: itself and the 32 keys of highest affinity",
    ),
    "flock-no-rules": (
        Variant("ascender", {"scope": "flock"}, mute=RULES),
        "attends to its flock only, with the affinity term and without the rules",
    ),
    "flock-random": (
        Variant("shuffled", {"scope": "flock"}),
        "flock with far keys drawn at random: a control",
    ),
    "flock-top-scores": (
        Variant("ascender", {"scope": "flock", "neighbours": "scores"}),
        "flock with the far keys of highest base score, head by head: what an index could find at "
        "best, at the cost of all base scores",
    ),
    "flock-index-loss": (
        Variant("ascender", {"scope": "flock", "affinity_term": False}, losses={"index": 1.0}),
        "flock without the affinity term: its index learns from the index loss alone",
    ),
    "ascender-affinity": (
        Variant("ascender", {"affinity": "query-key", "affinity_term": True}),
        "the affinity of queries and keys as a term of the score, and the rules",
    ),
    "affinity": (
        Variant("ascender", {"affinity": "query-key", "affinity_term": True}, mute=RULES),
        "the affinity of queries and keys as a term of the score, no rules",
    ),
}


LOSS_OPTIONS = tuple(f"{loss}_loss" for loss in LOSSES)


def variant(name: str) -> Variant:
    """A variant by name, with its pieces.

    >>> variant("ascender+alibi+k=8").position
    'alibi'
    >>> variant("vanilla+topk+size=0.06").normalizer_options
    {'size': 0.06}
    """
    first, *pieces = name.split("+")
    if first not in VARIANTS:
        check_renamed("variant", first)
    base = Variant(first) if is_code(first) else lookup("variant", first, VARIANTS)[0]
    for piece in sorted(pieces, key=lambda piece: "=" in piece):  # names, then their options
        base = _with_option(base, piece, name) if "=" in piece else _with_name(base, piece, name)
    return base


def _with_name(base: Variant, piece: str, name: str) -> Variant:
    if piece in POSITIONS:
        return replace(base, position=piece)
    if piece in NORMALIZERS:
        return replace(base, normalizer=piece)
    known = [*POSITIONS, *NORMALIZERS]
    raise ValueError(
        f"unknown piece {piece!r}{nearest(piece, known)} in variant {name!r}; expected one of "
        f"{', '.join(known)}, or option=value such as k=8"
    )


def _with_option(base: Variant, piece: str, name: str) -> Variant:
    """With an option of its attention, its position or its normaliser."""
    option, _, text = piece.partition("=")
    if option == "share":
        return replace(base, share=_share(base.attention, text, name))
    if option == "schedule":
        return replace(base, schedule=text)
    if option == "rules":
        return replace(base, mute=_muted(base.attention, text, name))
    if option in LOSS_OPTIONS:
        return replace(base, losses={**base.losses, **_loss(base, option, text, name)})
    given = {option: _value(text)}
    for what, known in _own_options(base).items():
        if option in known:
            held: dict[str, Any] = {what: {**getattr(base, what), **given}}
            return replace(base, **held)
    if not is_code(base.attention) or is_imported(base.attention):  # else checked when it is built
        _unknown_option(base, option, text, name)
    return replace(base, options={**base.options, **given})


def _muted(attention: str, text: str, name: str) -> tuple[str, ...]:
    """The rules that are off where these are on; refused where the attention has none."""
    on = {"none": (), "all": RULES}.get(text, tuple(text.split(",")))
    if any(rule not in RULES for rule in on):
        raise ValueError(
            f"rules = {text} in variant {name!r}; expected none, all, or some of {','.join(RULES)}"
        )
    _check_rules("rules", attention, text, name)
    return tuple(rule for rule in RULES if rule not in on)


def _loss(base: Variant, option: str, text: str, name: str) -> dict[str, float]:
    """The weight of an auxiliary loss; refused where nothing would have it."""
    weight = _value(text)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight < 0:
        raise ValueError(f"{option} = {text} in variant {name!r}; expected a number ≥ 0")
    _check_rules(option, base.attention, text, name)
    return {option.removesuffix("_loss"): float(weight)}


def _check_rules(option: str, attention: str, text: str, name: str) -> None:
    """Refuse a piece for an attention that has no rules."""
    if is_code(attention) and not is_imported(attention):  # checked when it is built
        return
    if not issubclass(attention_kind(attention), AscenderAttention):
        able = [n for n, kind in ATTENTIONS.items() if issubclass(kind, AscenderAttention)]
        raise ValueError(
            f"{option} = {text} in variant {name!r}: {attention} attention has no rules; expected "
            f"one of {', '.join(able)}"
        )


def _value(text: str) -> Any:
    """A number, a list, true, false, null; anything else is a name."""
    try:
        return json.loads(
            text.replace("True", "true").replace("False", "false").replace("None", "null")
        )
    except json.JSONDecodeError:
        return text


def _own_options(base: Variant) -> dict[str, list[str]]:
    """The options that a variant may have, by the field that holds them."""
    kind = base.attention
    known = options_of(attention_kind(kind)) if not is_code(kind) or is_imported(kind) else []
    return {
        "options": [option for option in known if option not in OWNED],
        "position_options": [] if base.position is None else position_options(base.position),
        "normalizer_options": normalizer_options(base.normalizer),
    }


def _unknown_option(base: Variant, option: str, text: str, name: str) -> None:
    """An option that nothing of the variant has: whose it is, or the nearest."""
    if option == "scope":
        check_scope(attention_kind(base.attention), text)
    for names, options in ((POSITIONS, position_options), (NORMALIZERS, normalizer_options)):
        if option in names:
            own = options(option)[:1]
            to = f"+{option}+{own[0]}={text}" if own else f"+{option}"
            raise ValueError(f"{option}={text} in variant {name!r}; expected {base.attention}{to}")
        if owners := [n for n in names if option in options(n)]:
            raise ValueError(
                f"{option} = {text} in variant {name!r} is an option of {', '.join(owners)}; "
                f"expected it after +{owners[0]}"
            )
    every = list(dict.fromkeys(o for known in _own_options(base).values() for o in known))
    raise ValueError(
        f"{base.attention} attention has no option {option!r}{nearest(option, every)} in "
        f"variant {name!r}; expected one of {', '.join(every)}"
    )


def _share(attention: str, text: str, name: str) -> int:
    """How many layers share; refused where the attention has no lists to hand on."""
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"share = {text} in variant {name!r}; expected an int of at least 1")
    if is_code(attention) and not is_imported(attention):  # checked when it is built
        return int(text)
    kind = attention_kind(attention)
    if kind.neighbours_of is Attention.neighbours_of:
        able = [n for n, k in ATTENTIONS.items() if k.neighbours_of is not Attention.neighbours_of]
        raise ValueError(
            f"share = {text} in variant {name!r}: {attention} attention searches for no "
            f"neighbours; expected one of {', '.join(able)}"
        )
    return int(text)
