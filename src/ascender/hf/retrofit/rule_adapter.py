"""RuleAdapter: the three rules for one attention module of another model, and its cache.

    x̂ = x / rms(x)      z = x̂ U      h = x̂ P
    S_ij = s · q_i·k_j + λ_a ω_a γ_i r̃^align_ij + λ_s ω_s η_i r̃^sep_ij + λ_c ω_c γ_i r̃^coh_ij

x is what the attention module is given, s its own scale, q and k its own, rotated if it rotates
them; alignment sees the keys unrotated. x̂ because models hand their attention tokens of any
length, and U starts as for tokens of unit variance. Laws: with every ω at 0 nothing changes;
decoding with a cache equals the full pass.

In flock scope a query attends to its flock F(i) only: itself, window, globals and the far keys that
an index h^q_i·h^k_j/√d_a + b[distance] ranks highest. There the rules are off (λ = 0) until a
schedule brings them in, and the scores are the model's own.

The model's own cache stores what is needed of past tokens as further columns of the keys: z, h
(and cos, sin) for the rules, h alone for the index, divided among the key heads. Whatever is done
to keys (beams reordered, batches repeated, sliding windows, cropping, offloading) is done to them
too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ascender.common.validate import check_options
from ascender.core.attention import attend
from ascender.core.checks import build_flock, check_window
from ascender.core.choose_backend import check_backend
from ascender.core.combine import repeat_kv
from ascender.core.flock import Flock
from ascender.core.index_loss import index_loss
from ascender.core.losses import Losses, Source
from ascender.core.rules import RULES
from ascender.core.scope import FlockScope
from ascender.core.visibility import Visibility
from ascender.hf.masks import described, understood
from ascender.hf.retrofit.sparse_decode import attend_one
from ascender.nn.rule_parameters import OPTIONS, RuleParameters, reset_coordinates

NAME = "ascender"  # of the attention and of its masks among transformers' own
CROSS = ("encoder_hidden_states", "key_value_states")  # keys from another sequence
FOREIGN = ("softcap", "s_aux", "position_bias")  # terms of a score that we have no place for
TINY = 1e-6  # below which a token's length says nothing


def pack(streams: list[Tensor], heads: int) -> Float[Tensor, "B G N c"]:
    """Streams (B, ·, N, ·) as columns of `heads` heads."""
    flat = torch.cat([t.transpose(1, 2).flatten(2) for t in streams], -1)
    flat = F.pad(flat, (0, -flat.shape[-1] % heads))
    return flat.unflatten(-1, (heads, -1)).transpose(1, 2)


def unpack(columns: Float[Tensor, "B G M c"], like: list[Tensor]) -> list[Tensor]:
    """The streams again, of all M tokens, with heads and widths as `like` has them."""
    flat = columns.transpose(1, 2).flatten(2)
    sizes = [t.shape[1] * t.shape[3] for t in like]
    parts = flat[..., : sum(sizes)].split(sizes, -1)
    shaped = (p.unflatten(-1, (t.shape[1], -1)) for p, t in zip(parts, like, strict=True))
    return [t.transpose(1, 2) for t in shaped]


class ExtendedCache:
    """The cache of a call, as one attention module sees it."""

    def __init__(self, cache: Any, streams: list[Tensor]) -> None:
        if getattr(cache, "is_compileable", False):
            raise ValueError(
                f"{type(cache).__name__} holds room for tokens to come, and the rules know rows by "
                "their place at the end; expected a dynamic cache (cache_implementation=None)"
            )
        self.cache, self.streams = cache, streams

    def update(
        self, key: Tensor, value: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Remember the new tokens; returns all that the cache lets this call see."""
        extra = pack(self.streams, key.shape[1]).to(key.dtype)
        wide = torch.cat([key, extra], -1)
        self._check(layer_idx, wide)
        return self.cache.update(wide, value, layer_idx, *args, **kwargs)

    def _check(self, layer_idx: int, wide: Tensor) -> None:
        layers = getattr(self.cache, "layers", [])
        cached = getattr(layers[layer_idx], "keys", None) if layer_idx < len(layers) else None
        if isinstance(cached, Tensor) and cached.numel() and cached.shape[-1] != wide.shape[-1]:
            raise ValueError(
                f"the cache has keys of width {cached.shape[-1]}; expected {wide.shape[-1]}: it "
                "was filled before the retrofit, or by another one. Start with an empty cache"
            )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)


class RuleAdapter(nn.Module, RuleParameters, Source):
    """U, P and the numbers of the rules, for one attention module of another model.

    rotary      the model's own rotation of (q, k) by (cos, sin), where it has one
    names       of the arguments of the attention module, the tokens first
    window, n_global   members of every flock, in flock scope
    options     of the rules (nn.rule_parameters.RuleOptions). Here ω starts at 0, where the model
                computes what it did before
    """

    geometry = "shared"
    omega = 0.0
    turn_width = 0  # of the cos that the attention module is given
    visible_phase = False  # in flock scope: attend to everything visible for now
    hook: Callable[[RuleAdapter, Flock], Flock] | None = None  # for studies: may change a call

    def __init__(
        self, dim: int, heads: int, *, backend: str = "auto", window: int = 0, n_global: int = 0,
        rotary: Callable[..., tuple[Tensor, Tensor]] | None = None,
        names: Sequence[str] = ("hidden_states",), **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        check_options("RuleAdapter", options, OPTIONS)
        check_backend(backend)
        self.set_options(heads, options)
        check_window(window, n_global)
        if self.scope == "visible" and (window or n_global):
            name, value = ("window", window) if window else ("n_global", n_global)
            raise ValueError(f"{name} = {value} with scope='visible'; expected scope='flock'")
        self.window, self.n_global = window, n_global
        self.heads, self.backend = heads, backend
        self.rotary, self.names = rotary, list(names)
        self.U, self.P = self.make_maps(dim, heads)
        self.P_k = self.make_affinity_map(dim) if self.affinity == "query-key" else None
        self.distance_bias = None
        if self.affinity_bias:
            self.distance_bias = nn.Parameter(torch.zeros(self.affinity_bias))
        self.make_numbers(heads)
        reset_coordinates(self.U, self.d_z)
        if self.scope == "flock":
            self.lam_align = self.lam_sep = self.lam_coh = 0.0
        self.now: list[Tensor] | None = None  # what later tokens need of those on their way
        self.query: Tensor | None = None  # h of the same, as queries
        self.index: tuple[Tensor, Tensor] | None = None  # the same for the index loss

    @property
    def ruled(self) -> bool:
        """Whether the rules are computed; in visible scope always, also while a schedule has them
        at λ = 0, so that a training step has gradients."""
        return self.scope == "visible" or any(getattr(self, f"lam_{rule}") for rule in RULES)

    @property
    def has_index(self) -> bool:  # type: ignore[override]
        """Whether a learned affinity chooses the far keys."""
        semantic = isinstance(self.neighbours, str) and self.neighbours == "semantic"
        return self.scope == "flock" and self.affinity == "query-key" and semantic

    @property
    def flock_only(self) -> bool:
        """Whether queries attend to their flock now."""
        return self.scope == "flock" and not self.visible_phase

    def flock_scope(self, vis: Visibility) -> FlockScope:
        return FlockScope(vis, self.window, self.n_global)

    def before(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        """Where the attention module gets its tokens (a forward pre-hook): take them, and let the
        cache carry with their keys what their later readers need."""
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        if any(given.get(name) is not None for name in CROSS):
            self.now = []
            return None
        self.now = self.project(given[self.names[0]], given.get("position_embeddings"))
        if given.get("past_key_values") is None:
            return None
        carried = ExtendedCache(given["past_key_values"], self.now)
        if "past_key_values" in kwargs:
            return args, {**kwargs, "past_key_values": carried}
        at = self.names.index("past_key_values")
        return (*args[:at], carried, *args[at + 1 :]), kwargs

    def project(self, x: Float[Tensor, "B N dim"], turn: Any) -> list[Tensor]:
        """What later tokens need, each (B, ·, N, ·): h; with rules z and h, and cos and sin where
        keys are rotated. Keeps h of the queries."""
        x = unit_rms(x.to(self.U.weight.dtype))
        P_k = self.P if self.P_k is None else self.P_k
        h_k = self._by_head(P_k(x), self.d_a)
        self.query = h_k if self.P_k is None else self._by_head(self.P(x), self.d_a)
        self.index = None
        if "index" in self.wanted():
            still = x.detach()
            self.index = self._by_head(self.P(still), self.d_a), self._by_head(P_k(still), self.d_a)
        if not self.ruled:
            return [h_k]
        tensors = [self._by_head(self.U(x), self.d_z), h_k]
        if self.rotary is not None:
            tensors += [t.expand(x.shape[0], -1, -1).unsqueeze(1) for t in turn]
        return tensors

    def _by_head(self, t: Float[Tensor, "B N w"], width: int) -> Float[Tensor, "B A N c"]:
        t = t.unflatten(-1, (-1, width)).transpose(1, 2)
        return t if t.shape[1] in (1, self.heads) else repeat_kv(t, self.heads)

    def attend(
        self, module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None,
        scaling: float | None, dropout: float, more: dict[str, Any],
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """The attention function's part: (out (B, N, H, e), weights where they are asked for)."""
        d, N, M = q.shape[-1], q.shape[2], k.shape[2]
        if self.now is None:
            raise RuntimeError(
                f"{type(module).__name__} attends without its tokens; expected the module to be "
                "called, not its forward"
            )
        for term in FOREIGN:
            if more.get(term) is not None:
                raise ValueError(f"{term} in the scores; expected none, as at the retrofit")
        new, self.now = self.now, None
        weights = bool(more.get("output_attentions"))
        wanted = self.wanted() if M == N else ()
        own = not (self.ruled or self.flock_only or self.affinity_term or weights)
        if own and not wanted and self.hook is None:  # the model's own attention
            return self._plain(module, q, k[..., :d], v, mask, scaling, dropout, more)
        z, h_q, h_k, turn = self._streams(new, k, q)
        k, v = k[..., :d].to(q.dtype), v.to(q.dtype)  # autocast leaves them unlike each other
        scaled = q if scaling is None else q * (scaling * d**0.5)
        kinds = understood(mask, N, M, is_causal(module, more))
        one = self.flock_only and N == 1 and not (self.ruled or self.affinity_term or weights)
        if one and self.hook is None and self.has_index and not dropout and "other" not in kinds:
            out = attend_one(self, scaled, k, v, h_q, h_k, kinds.get("mask"))
            return out.transpose(1, 2), None
        flock = build_flock(
            scaled, k, v, z[0], h_q, z[1], h_k, rules=self.rules(), neighbours=self.neighbours,
            bare=self.unrotated(k, *turn) if turn else None, dropout=dropout,
            affinity=str(self.affinity), affinity_term=bool(self.affinity_term),
            affinity_bias=self.distance_bias, **kinds,
        )  # fmt: skip
        if self.flock_only:
            flock = replace(flock, scope=self.flock_scope(flock.vis))
        if self.hook is not None:
            flock = self.hook(self, flock)
        if own and "rules" not in wanted:
            self._give_losses(None, flock, wanted)
            return self._plain(module, q, k, v, mask, scaling, dropout, more)
        return self.attend_heads(flock, weights, wanted)

    def _streams(
        self, new: list[Tensor], k: Tensor, q: Tensor
    ) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor, list[Tensor]]:
        """(z of queries and keys, h of queries, h of keys, cos and sin); z is 0 without rules."""
        (B, _, N, d), M = q.shape, k.shape[2]
        all_tokens = unpack(k[..., d:], new) if k.shape[-1] > d and M > N else new
        assert self.query is not None
        h_q, self.query = self.query.to(q.dtype), None
        if len(new) == 1:
            zeros = q.new_zeros(B, 1, M, 1)
            return (zeros[:, :, M - N :], zeros), h_q, all_tokens[0].to(q.dtype), []
        z_k, h_k, *turn = (t.to(q.dtype) for t in all_tokens)
        return (z_k[:, :, M - N :], z_k), h_q, h_k, turn

    @staticmethod
    def _plain(
        module: nn.Module, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None,
        scaling: float | None, dropout: float, more: dict[str, Any],
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        return sdpa_attention_forward(
            module, q, k, v, mask, dropout=dropout, scaling=scaling, **more
        )

    def attend_heads(
        self, flock: Flock, weights: bool, wanted: tuple[str, ...]
    ) -> tuple[Tensor, Tensor | None]:
        """(out (B, N, H, e), weights where they are asked for)."""
        asked = "rules" in wanted
        call = attend(flock, self.backend, return_parts=weights, return_losses=asked)
        out, *rest = call if isinstance(call, tuple) else (call,)
        self._give_losses(rest.pop() if asked else None, flock, wanted)
        return out.transpose(1, 2), rest[0].weights if rest else None

    def _give_losses(self, losses: Losses | None, flock: Flock, wanted: tuple[str, ...]) -> None:
        if "index" in wanted and self.index is not None:
            index = index_loss(flock, self.flock_scope(flock.vis), *self.index)
            losses = Losses.of_index(index) if losses is None else replace(losses, index=index)
        if losses is not None:
            self.give(losses)

    def unrotated(
        self, k: Float[Tensor, "B G M d"], cos: Tensor, sin: Tensor
    ) -> Float[Tensor, "B G M d"]:
        """The keys before rotation, up to one factor: the rotation is orthogonal (scaled, in some
        models), so turning by (cos, −sin) undoes it. Where cos is narrower than the keys, the
        first columns are what was rotated."""
        assert self.rotary is not None
        r = cos.shape[-1]
        turned = k[..., :r]
        back = self.rotary(turned[:, :1], turned, cos.squeeze(1), -sin.squeeze(1))[1]
        back = back.to(k.dtype)
        return back if r == k.shape[-1] else torch.cat([back, k[..., r:]], -1)

    def extra_repr(self) -> str:
        shown = f"heads={self.heads}, k={self.k}, geometry={self.geometry!r}"
        if self.scope == "visible":
            return shown
        near = f"window={self.window}, n_global={self.n_global}"
        return f"{shown}, scope='flock', far={self.far}, {near}"


def unit_rms(x: Float[Tensor, "... dim"]) -> Float[Tensor, "... dim"]:
    """x̂."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + TINY)


def is_causal(module: nn.Module, more: dict[str, Any]) -> bool:
    """Whether rows see no later keys where no mask says so."""
    said = more.get("is_causal")
    return bool(getattr(module, "is_causal", True) if said is None else said)


def attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
    scaling: float | None = None, dropout: float = 0.0, **more: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """What transformers calls in the middle of every attention of a retrofitted model; layers
    without a swarm, and keys from another sequence, get the plain softmax."""
    swarm = getattr(module, "swarm", None)
    if swarm is None or swarm.now == []:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
    return swarm.attend(module, query, key, value, attention_mask, scaling, dropout, more)


ALL_ATTENTION_FUNCTIONS.register(NAME, attention)
ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, described)
