"""What ASCender is compared with: attention objects for the same slot, by name.

attention("ascender", 64, 4, position="rope")
attention("longformer", 64, 4, position="rope", window=128)
"""

from __future__ import annotations

import inspect
from typing import Any

from ascender.baselines.bigbird import BigBird
from ascender.baselines.graph import GraphBias
from ascender.baselines.linear import LinearAttention
from ascender.baselines.longformer import Longformer
from ascender.baselines.performer import Performer
from ascender.baselines.shuffled import Shuffled
from ascender.baselines.vanilla import Matched, Vanilla
from ascender.module import AscenderAttention
from ascender.names import lookup, nearest
from ascender.slot import Attention

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


def attention(name: str, dim: int, heads: int, **options: Any) -> Attention:
    """An attention of the slot by name; an option that it does not have is an error."""
    kind = lookup("attention", name, ATTENTIONS)
    known = options_of(kind)
    for option in options:
        if option not in known:
            raise TypeError(
                f"{name} attention has no option {option!r}{nearest(option, known)}; expected "
                f"one of {', '.join(known)}"
            )
    return kind(dim, heads, **options)


def options_of(kind: type) -> list[str]:
    """The keywords that an attention's constructor takes, its own first."""
    found: dict[str, None] = {}
    for cls in kind.__mro__:
        if not issubclass(cls, Attention):
            break
        for p in inspect.signature(cls.__init__).parameters.values():
            if p.kind is p.KEYWORD_ONLY:
                found[p.name] = None
    return list(found)
