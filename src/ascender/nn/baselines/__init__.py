"""What ASCender is compared with: attention objects for the same slot, by name.

attention("ascender", 64, 4, position="rope")
attention("longformer", 64, 4, position="rope", window=128)
"""

from __future__ import annotations

from typing import Any

from ascender.common.user_code import code, is_code
from ascender.common.validate import lookup
from ascender.nn.baselines.bigbird import BigBird
from ascender.nn.baselines.graph import GraphBias
from ascender.nn.baselines.linear import LinearAttention
from ascender.nn.baselines.longformer import Longformer
from ascender.nn.baselines.performer import Performer
from ascender.nn.baselines.shuffled import Shuffled
from ascender.nn.baselines.vanilla import Matched, Vanilla
from ascender.nn.call import Unsupported
from ascender.nn.module import AscenderAttention
from ascender.nn.slot import Attention, options_of

__all__ = ["ATTENTIONS", "OWNED", "attention", "attention_kind", "check_scope", "options_of"]

ATTENTIONS: dict[str, type[Attention]] = {
    "ascender": AscenderAttention,
    "shuffled": Shuffled,
    "vanilla": Vanilla,
    "matched": Matched,
    "graph": GraphBias,
    "longformer": Longformer,
    "bigbird": BigBird,
    "performer": Performer,
    "linear": LinearAttention,
}

OWNED = ("position", "normalizer", "kv_heads", "context_dim")  # a config has them elsewhere


def attention(name: str, dim: int, heads: int, **options: Any) -> Attention:
    """An attention of the slot by name; an option that it does not have is an error."""
    kind = attention_kind(name)
    if "scope" in options:
        check_scope(kind, options["scope"])
    return kind(dim, heads, **options)


def check_scope(kind: type[Attention], scope: Any) -> None:
    """Refuse a scope for an attention that has none."""
    if "scope" not in options_of(kind):
        fit = ", ".join(name for name, kind in ATTENTIONS.items() if "scope" in options_of(kind))
        raise Unsupported(
            f"scope = {scope!r}: {kind.name} attention attends to everything visible and has no "
            f"scope; expected one of {fit}"
        )


def attention_kind(name: str, what: str = "attention") -> type[Attention]:
    """The class of an attention. `module:Class` is a name too, of a module that is imported."""
    if not is_code(name):
        return lookup(what, name, ATTENTIONS)
    kind: type[Attention] = code(what, name, Attention)
    return kind
