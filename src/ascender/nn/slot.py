"""Attention: the base class of every attention, ours and the baselines.

    x ─ embed ─ W_Q, W_K, W_V ─ rotate ─ attend_heads ─ W_O ─ y
          └──────── position ────┴─ bias ──┘
                                 normalizer

A subclass computes softmax(…) v of the heads (`attend_heads`); the projections, the position, the
normaliser, masks and caches are the same for all. A baseline differs from ours by one object:

    AscenderAttention(64, 4, position="rope")      Performer(64, 4, position="rope")
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from ascender.common.validate import check_flag, check_int, check_number, check_options
from ascender.core.checks import KNOWN_ELSEWHERE, check_other, check_window, make_visibility
from ascender.core.choose_backend import check_backend
from ascender.core.combine import Bias, Parts, add_bias, repeat_kv
from ascender.core.flock import Flock
from ascender.core.normalizers import NORMALIZERS, Normalizer
from ascender.core.normalizers import normalizer as make_normalizer
from ascender.core.scope import FarKeys
from ascender.core.visibility import Visibility
from ascender.nn.cache import CrossKV, KVCache
from ascender.nn.call import Call, Unsupported, check_tokens, new_token_mask, padding
from ascender.nn.nonfinite import contain, within_limits, zero_nonfinite
from ascender.nn.packed import attend_packed
from ascender.nn.positions import POSITIONS, Position
from ascender.nn.positions import position as make_position

# Options of nn.MultiheadAttention, and what to write here instead.
MULTIHEAD = {
    "batch_first": "nothing: tokens are always (batch, tokens, dim)",
    "kdim": "context_dim=…",
    "vdim": "context_dim=…",
    "is_causal": "causal=True at the call",
}
# The same for the arguments of its call, and of transformers' models.
CALLED = {
    **KNOWN_ELSEWHERE,
    "key_padding_mask": "mask=~key_padding_mask (here True = may attend)",
    "attention_mask": "mask=attention_mask.bool() (True = a real token)",
    "past_key_values": "cache=…, from new_cache()",
    "position_ids": "positions=…",
}
WAYS = ("embed", "rotate", "bias", "scores", "values")  # in which a position can act


def ways(kind: type[Position]) -> list[str]:
    """How a position acts: the methods that it overrides."""
    acts = {w for w in (*WAYS, "key_scores") if getattr(kind, w) is not getattr(Position, w)}
    acts |= {"scores"} if "key_scores" in acts else set()
    return [w for w in WAYS if w in acts]


def options_of(kind: type) -> list[str]:
    """The keywords that an attention's constructor takes, its own first."""
    classes = (cls for cls in kind.__mro__ if issubclass(cls, Attention))
    each = (p for cls in classes for p in inspect.signature(cls.__init__).parameters.values())
    return list(dict.fromkeys(p.name for p in each if p.kind is p.KEYWORD_ONLY))


class Attention(nn.Module, ABC):
    """Multi-head attention: everything but `attend_heads`.

    heads       query heads; kv_heads ≤ heads groups keys and values
    position    none, rope, alibi, t5, shaw, learned, sinusoidal, or a Position
    normalizer  softmax, ssmax, topk, sparsemax, entmax15, length, or a Normalizer
    window, n_global   attend to w tokens on each side and to the first g tokens (where `windows`)
    dropout     on the weights while training
    """

    name: str
    windows = False  # whether it has a window
    serves: tuple[str, ...] = WAYS  # the ways in which its position may act
    softmax_only = False  # whether its normaliser must be a softmax
    decodes = True  # whether it can decode with a cache
    crosses = True  # whether keys may come from another sequence
    of_context: tuple[str, ...] = ("k", "v")  # what `project` computes from the keys' tokens
    repeats = True  # whether it keeps no state, so that a call may be computed twice

    def __init__(
        self, dim: int, heads: int, *, head_dim: int | None = None, kv_heads: int | None = None,
        window: int | None = None, n_global: int = 0, dropout: float = 0.0, bias: bool = False,
        context_dim: int | None = None, position: str | Position | None = None,
        normalizer: str | Normalizer | None = None, backend: str = "auto", **unknown: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        check_options(f"{self.name} attention", unknown, options_of(type(self)), MULTIHEAD)
        kv_heads = heads if kv_heads is None else kv_heads
        for name, size in (("dim", dim), ("heads", heads), ("kv_heads", kv_heads),
                           ("head_dim", head_dim), ("context_dim", context_dim)):  # fmt: skip
            if size is not None:
                check_int(name, size, 1)
        if head_dim is None and dim % heads:
            raise ValueError(f"heads = {heads}; expected a divisor of dim = {dim}, or head_dim=…")
        if heads % kv_heads:
            raise ValueError(f"kv_heads = {kv_heads}; expected a divisor of heads = {heads}")
        check_number("dropout", dropout, "a number in [0, 1)", 0, 1)
        check_window(window, n_global)
        check_flag("bias", bias)
        check_backend(backend)
        self.dim, self.heads, self.kv_heads = dim, heads, kv_heads
        self.head_dim = dim // heads if head_dim is None else head_dim
        self.window, self.n_global = window, n_global
        self.dropout, self.backend = dropout, backend
        self.source = dim if context_dim is None else context_dim
        self.position = make_position(position, dim=dim, heads=heads, head_dim=self.head_dim)
        self.normalizer = make_normalizer(normalizer, heads=heads)
        self.check_fit()
        self.W_Q = nn.Linear(dim, heads * self.head_dim, bias=bias)
        self.W_K = nn.Linear(self.source, kv_heads * self.head_dim, bias=bias)
        self.W_V = nn.Linear(self.source, kv_heads * self.head_dim, bias=bias)
        self.W_O = nn.Linear(heads * self.head_dim, dim, bias=bias)

    def check_fit(self) -> None:
        """Refuse combinations that this attention cannot compute."""
        if self.window is not None and not self.windows:
            raise Unsupported(
                f"window = {self.window}: {self.name} attention has no window; expected one of "
                "ascender, shuffled, longformer, bigbird"
            )
        lacks = [w for w in ways(type(self.position)) if w not in self.serves]
        if lacks:
            fit = [n for n, P in POSITIONS.items() if all(w in self.serves for w in ways(P))]
            raise Unsupported(
                f"position {self.position.name!r} uses {', '.join(lacks)}, which {self.name} "
                f"attention does not support; expected one of {', '.join(fit)}"
            )
        if self.softmax_only and not self.normalizer.softmax:
            fit = [n for n, kind in NORMALIZERS.items() if kind.softmax]
            raise Unsupported(
                f"normalizer {self.normalizer.name!r} needs whole rows of scores, which "
                f"{self.name} attention never computes; expected one of {', '.join(fit)}"
            )

    @abstractmethod
    def attend_heads(self, call: Call) -> Float[Tensor, "B H N e"]:
        """A v of each head."""

    def parts(self, call: Call) -> tuple[Float[Tensor, "B H N e"], Parts]:
        """attend_heads, with every term of every score."""
        raise Unsupported(
            f"{self.name} attention has no matrix of scores to take apart; expected one "
            "of vanilla, graph, ascender, shuffled, or a call without return_parts"
        )

    def pattern(self, p: Int[Tensor, "N"], j: Int[Tensor, "M"]) -> Bool[Tensor, "h N M"]:
        """Which keys its window lets a query see, without other masks."""
        vis = Visibility(p, j, window=self.window, n_global=self.n_global)
        return vis.visible[0]

    def bias(self, call: Call, other: Bias) -> Bias:
        """β: the caller's, the position's, and Shaw's q_i·a^K_ij/√d and a^Q_ij·k_j/√d."""
        vis = call.vis
        if vis.cross:
            return other
        other = add_bias(other, self.position.bias(vis.p, vis.j, vis.causal))
        for scores in (self.position.scores(call.q, vis.p, vis.j), self._key_scores(call)):
            if scores is not None:
                other = add_bias(other, scores / call.q.shape[-1] ** 0.5)
        return other

    def _key_scores(self, call: Call) -> Float[Tensor, "B H N M"] | None:
        """What the position adds by the keys, those in a cache included."""
        if type(self.position).key_scores is Position.key_scores:
            return None  # some caches have no keys
        keys = call.k if call.cache is None else call.cache["k"]
        scores = self.position.key_scores(keys, call.vis.p, call.vis.j)
        return None if scores is None else repeat_kv(scores, self.heads)

    def neighbours_of(self, call: Call) -> Int[Tensor, "..."] | FarKeys | None:
        """The neighbour lists of a pass, for another layer to use."""
        return call.neighbours if isinstance(call.neighbours, Tensor) else None

    def forward(
        self,
        x: Float[Tensor, "B N dim"],
        context: Float[Tensor, "B M source"] | None = None,
        causal: bool = False,
        mask: Bool[Tensor, "..."] | None = None,
        *,
        other: Bias = None,
        neighbours: str | Int[Tensor, "..."] | FarKeys | None = None,
        cache: Any = None,
        positions: Int[Tensor, "..."] | None = None,
        backend: str | None = None,
        return_parts: bool = False,
        return_neighbours: bool = False,
        is_causal: bool = False,
        cu_seqlens: Int[Tensor, "sequences1"] | None = None,
        max_seqlen: int | None = None,
        **unknown: Any,
    ) -> Any:
        """y, or (y, Parts) with return_parts, or (y, index lists) with return_neighbours, or
        (y, Parts, index lists).

        context    keys and values come from here instead of x: cross-attention; positions that act
                   in the attention (rope, alibi, t5, shaw) do nothing there
        mask       bool, True = may attend: (B, M) for padding, or broadcastable to (B, H, N, M)
        other      an additive bias that broadcasts to (B, H, N, M), or LowRank
        neighbours index lists (ascender, graph), such as another layer's; in flock scope FarKeys
        cache      x are the next tokens, which attend causally to themselves and to the cache. With
                   a context: a CrossKV, so that its keys are computed once
        positions  (N,) or (B, N), for rope and the absolute ones, where not 0, 1, 2 …
        is_causal  another name of causal
        cu_seqlens where packed sequences begin and end, in x (1, tokens, dim); max_seqlen: the
                   length of the longest (core/varlen.py)
        """
        if unknown:
            check_options("the call", unknown, CALL, CALLED)
        if isinstance(causal, Tensor):
            raise TypeError(
                f"causal is a tensor {tuple(causal.shape)}; expected True or False: q, k and v are "
                "all made of x here, so call it as attention(x), or attention(x, context) where "
                "keys and values are of other tokens"
            )
        inputs: dict[str, Any] = {
            "causal": causal or is_causal, "mask": mask, "other": other, "neighbours": neighbours,
            "positions": positions,
        }  # fmt: skip
        if cu_seqlens is not None:
            options = {"causal": inputs.pop("causal"), "backend": backend}
            inputs |= {"context": context, "cache": cache}
            inputs |= {"return_parts": return_parts, "return_neighbours": return_neighbours}
            return attend_packed(self, x, cu_seqlens, max_seqlen, options, inputs)
        usual = within_limits(x) and (
            context is None or cache is not None or within_limits(context)
        )
        if usual or cache is not None:  # a cache keeps the tokens as they are
            call = self.call(x, context, cache=cache, **inputs)
        else:
            call = self._nonfinite_call(x, context, inputs)
        if backend is not None:
            call = replace(call, backend=backend)
        if return_neighbours:
            call = replace(call, neighbours=self.neighbours_of(call))
        out, *parts = self._run(call, return_parts, usual, cache is not None)
        near = [call.neighbours] if return_neighbours else []
        y = self._merge(out) if usual else self._merge_finite(out)
        return (y, *parts, *near) if parts or near else y

    def packed_flock(self, x: Tensor, positions: Tensor, causal: bool) -> Flock | None:
        """The call on packed tokens as if they were one sequence, for kernels that read where each
        begins; None where only a padded batch serves."""
        return None

    def _nonfinite_call(self, x: Tensor, context: Tensor | None, inputs: dict[str, Any]) -> Call:
        """The call of tokens of which some are not finite or too large."""
        check_tokens(self, x, context)
        x, bad = zero_nonfinite(x)
        bad_q = bad_k = bad
        if context is not None:
            context, bad_k = zero_nonfinite(context)
        call = self.call(x, context, **inputs)
        return call.fill_tokens(bad_q, bad_k, self.of_context, torch.nan)

    def _run(self, call: Call, parts: bool, usual: bool, cached: bool) -> tuple[Any, ...]:
        """(out,) or (out, Parts); by `contain` where a token, or one in the cache, is not usual."""
        if usual:
            result = self.parts(call) if parts else (self.attend_heads(call),)
            if not (cached and self.repeats) or within_limits(result[0]):
                return result
        return self.contain(call, parts)

    def contain(self, call: Call, parts: bool) -> tuple[Any, ...]:
        """The same with tokens that are not finite or too large: see nonfinite.py."""
        return contain(self, call, parts)

    def count(self, vis: Visibility) -> Int[Tensor, "#B #H #N 1"]:
        """|V(i)|, without a matrix."""
        return vis.count

    def call(
        self, x: Tensor, context: Tensor | None = None, *, causal: bool = False,
        mask: Tensor | None = None, other: Bias = None,
        neighbours: str | Tensor | FarKeys | None = None,
        cache: Any = None, positions: Tensor | None = None,
    ) -> Call:  # fmt: skip
        """The checked inputs of a forward pass."""
        check_tokens(self, x, context, cache)
        memory, cache = (cache, None) if isinstance(cache, CrossKV) else (None, cache)
        start = 0 if cache is None else len(cache)
        where = positions
        if where is None:
            where = torch.arange(start, start + x.shape[1], device=x.device)
        x = self.position.embed(x, where)
        streams = self._project_cached(x, context, memory)
        if context is None:
            rotated = self.position.rotate(streams["k"], where)
            if rotated is not streams["k"]:
                q = self.position.rotate(streams["q"], where)
                streams.update(q=q, bare=streams["k"], k=rotated)
        q, k, v, bare = (streams.pop(name, None) for name in ("q", "k", "v", "bare"))
        cross = context is not None
        window, n_global = (None, 0) if cross else (self.window, self.n_global)
        vis = make_visibility(
            q, k.shape[2], causal=causal or cache is not None, window=window, n_global=n_global,
            mask=padding(mask, x if context is None else context) if cache is None else None,
            cross=cross,
        )  # fmt: skip
        call = Call(
            q, k, v, vis, self.position, bare=bare, neighbours=neighbours, backend=self.backend,
            dropout=self.dropout if self.training else 0.0, cache=cache, more=streams,
        )  # fmt: skip
        if cache is not None:
            call = self.read_cache(call, new_token_mask(mask, call.q.shape[2], len(cache)))
        B, H, N = call.q.shape[:3]
        check_other(other, B, H, N, call.vis.M)
        other = self.bias(call, other)
        return call if other is None else replace(call, other=other)

    def project(
        self, x: Float[Tensor, "B N dim"], context: Float[Tensor, "B M source"] | None = None
    ) -> dict[str, Any]:
        """q, k, v by head, and what else `attend_heads` reads from `call.more`."""
        source = x if context is None else context
        q = self._split(self.W_Q(x))
        return {"q": q, "k": self._split(self.W_K(source)), "v": self._split(self.W_V(source))}

    def scale_query(
        self, q: Float[Tensor, "B H N d"], count: Callable[[], Tensor]
    ) -> Float[Tensor, "B H N d"]:
        """q as the normaliser scales it; |V(i)| is computed only if it needs it."""
        if type(self.normalizer).sharpen is not Normalizer.sharpen:
            q = self.normalizer.sharpen(q, count())
        T = self.normalizer.temperature
        return q if T == 1 else q / T

    def _project_cached(
        self, x: Tensor, context: Tensor | None, memory: CrossKV | None
    ) -> dict[str, Any]:
        """project, with the keys and values of the context computed once and kept in `memory`."""
        if memory and context is not None:
            return {**self.project(x, context[:, :1]), **memory}
        streams = self.project(x, context)
        if memory is not None:
            memory.update({n: streams[n] for n in self.of_context if n in streams})
        return streams

    def new_cache(self) -> Any:
        """An empty cache for decoding: bounded where there is a window."""
        return KVCache(window=self.window, n_global=self.n_global)

    def read_cache(self, call: Call, mask: Bool[Tensor, "B n"] | None) -> Call:
        """The new tokens against everything in the cache, themselves included."""
        cache = call.cache
        cache.keep(mask, k=call.k, v=call.v)
        vis = cache.visibility(call.q.shape[2])
        return replace(call, k=cache["k"], v=cache["v"], vis=vis, bare=None)

    def _split(self, t: Shaped[Tensor, "B N w"], width: int | None = None) -> Tensor:
        return t.unflatten(-1, (-1, self.head_dim if width is None else width)).transpose(1, 2)

    def _merge(self, out: Float[Tensor, "B H N d"]) -> Float[Tensor, "B N dim"]:
        return self.W_O(out.transpose(1, 2).flatten(2))

    def _merge_finite(self, out: Float[Tensor, "B H N d"]) -> Float[Tensor, "B N dim"]:
        """_merge, with NaN for rows that are not finite: W_O gets no gradient from them."""
        finite, bad = zero_nonfinite(out.transpose(1, 2).flatten(2))
        return self.W_O(finite).masked_fill(bad[..., None], torch.nan)

    def extra_repr(self) -> str:
        shape = f"dim={self.dim}, heads={self.heads}"
        return shape + (f", window={self.window}" if self.window is not None else "")


CALL = [name for name in inspect.signature(Attention.forward).parameters if name != "unknown"][1:]
