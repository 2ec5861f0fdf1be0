"""AscenderAttention: multi-head attention with alignment, separation and cohesion."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from ascender.common.validate import check_choice, check_flag
from ascender.core.affinity import by_distance
from ascender.core.attention import attend, find_neighbours
from ascender.core.checks import check_neighbours, check_window
from ascender.core.choose_backend import BACKENDS
from ascender.core.combine import Parts, repeat_kv
from ascender.core.flock import Flock, make_flock
from ascender.core.geometry import unit
from ascender.core.index_loss import index_loss
from ascender.core.losses import Losses, Source
from ascender.core.neighbours import union
from ascender.core.normalizers import Normalizer
from ascender.core.rules import by_head
from ascender.core.scope import FarKeys, FlockScope
from ascender.core.visibility import Visibility
from ascender.nn.cache import Cache
from ascender.nn.call import Call
from ascender.nn.nonfinite import nonfinite_tokens
from ascender.nn.one_token import one_token
from ascender.nn.rule_parameters import OPTIONS, RuleParameters, reset_coordinates
from ascender.nn.slot import Attention, ways

LISTS = ("replace", "add")  # what index lists that are given do to a layer's own neighbours


def is_plain(module: nn.Module) -> bool:
    """Whether a map is its weight and nothing else: no bias, no hook, no adapter around it."""
    return (
        type(module) is nn.Linear
        and module.bias is None
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not module._backward_hooks
    )


class AscenderAttention(Attention, RuleParameters, Source):
    """Multi-head attention with alignment, separation and cohesion.

        q, k, v = x W_Q, x W_K, x W_V      z = x U      h = x P      y = attention(…) W_O

    heads       query heads; kv_heads ≤ heads groups keys and values
    qk_norm     queries and keys of one learned length a head: alignment then costs no width
    window      in flock scope: how many keys on each side are in the flock (n_global: how many
                leading ones), not a limit of what is visible
    lists       "replace": index lists that a call is given take the place of the layer's own
                neighbours; "add": N_k(i) is the union of both, in visible scope
    options     of the rules: d_z, d_a, k, geometry, numbers, … (rule_parameters.RuleOptions); of
                every attention: position, normalizer, window, dropout, … (slot.Attention)
    """

    name = "ascender"
    windows = True
    of_context = ("k", "v", "z_k", "h_k", "index_k")
    far_from_below = False  # set by a stack: in flock scope another layer's far keys are given
    visible_phase = False  # set by a schedule: attend to everything visible for now

    def __init__(
        self, dim: int, heads: int, *, qk_norm: bool = False, lists: str = "replace", **options: Any
    ) -> None:
        of_rules = {name: options.pop(name) for name in OPTIONS if name in options}
        near = {}
        if of_rules.get("scope", self.scope) == "flock":  # members of the flock, not limits
            near = {name: options.pop(name) for name in ("window", "n_global") if name in options}
        super().__init__(dim, heads, **options)
        check_flag("qk_norm", qk_norm)
        check_choice("lists", lists, LISTS)
        self.lists = lists
        self.set_options(heads, of_rules)
        self.flock_window, self.flock_globals = near.get("window") or 0, near.get("n_global", 0)
        check_window(self.flock_window, self.flock_globals)
        if lists == "add" and self.scope == "flock":
            raise ValueError(
                "lists = 'add' with scope='flock', where lists choose the far keys; expected "
                "lists='replace'"
            )
        self.qk_norm = qk_norm
        self.U, self.P = self.make_maps(dim, heads)
        self.U_context = self.P_context = self.P_k = self.distance_bias = None
        if self.affinity == "query-key":
            self.P_k = self.make_affinity_map(self.source)
        if self.source != dim:  # keys of another width have maps of their own
            self.U_context, P_context = self.make_maps(self.source, heads)
            self.P_context = P_context if self.P_k is None else None
        if self.affinity_bias:
            self.distance_bias = nn.Parameter(torch.empty(self.affinity_bias))
        if qk_norm:
            self.log_gain = nn.Parameter(torch.empty(heads))
        self.make_numbers(heads)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The learned numbers, and U; the other maps start as nn.Linear does."""
        self.reset_numbers()
        if self.qk_norm:
            nn.init.constant_(self.log_gain, 0.5 * math.log(self.head_dim))
        if self.distance_bias is not None:
            nn.init.zeros_(self.distance_bias)
        for U in (self.U, self.U_context):
            if U is not None:
                reset_coordinates(U, self.d_z)

    def project(
        self, x: Float[Tensor, "B N dim"], context: Float[Tensor, "B M source"] | None = None
    ) -> dict[str, Any]:
        """q, k, v, z_q, h_q, z_k, h_k (and key_norm) by head."""
        maps = [self.W_Q, self.W_K, self.W_V, self.U, self.P]
        if self.P_k is not None:
            maps.append(self.P_k)
        many = x.shape[0] * x.shape[1] >= self.dim  # tokens: copying the weights costs less
        together = maps if many else maps[3:]  # in one product; of few tokens the narrow maps only
        if context is None and all(map(is_plain, together)):
            y = F.linear(x, torch.cat([m.weight for m in together]))
            parts = list(y.split([m.out_features for m in together], -1))
            if many:
                streams: dict[str, Any] = {name: self._split(parts.pop(0)) for name in "qkv"}
            else:
                streams = super().project(x)
            z, *h = parts
        else:
            streams, z, h = super().project(x, context), self.U(x), [self.P(x)]
            if self.P_k is not None:
                h.append(self.P_k(x if context is None else context))
            elif context is not None:
                h.append((self.P_context or self.P)(context))
        z = z_k = self._split(z, self.d_z)
        if context is not None:
            z_k = self._split((self.U_context or self.U)(context), self.d_z)
        h_q, *h_k = (self._affinity_heads(t) for t in h)
        streams.update(z_q=z, z_k=z_k, h_q=h_q, h_k=h_k[0] if h_k else h_q)
        if "index" in self.wanted():
            assert self.P_k is not None
            at_k = self.P_k((x if context is None else context).detach())
            streams["index_q"] = self._affinity_heads(self.P(x.detach()))
            streams["index_k"] = self._affinity_heads(at_k)
        if self.qk_norm:  # base score = gain · cos(q, k); all keys have length 1
            gain = (self.log_gain + 0.5 * math.log(self.head_dim)).exp().view(-1, 1, 1)
            streams.update(q=unit(streams["q"], gain), k=unit(streams["k"]), key_norm=1.0)
        return streams

    def _affinity_heads(self, h: Float[Tensor, "B N w"]) -> Float[Tensor, "B A N a"]:
        """h by head: one, or as many as queries have."""
        h = self._split(h, self.d_a)
        return h if h.shape[1] == 1 else repeat_kv(h, self.heads)

    @property
    def has_index(self) -> bool:  # type: ignore[override]
        """Whether a learned affinity chooses the far keys."""
        semantic = isinstance(self.neighbours, str) and self.neighbours == "semantic"
        ranks = semantic and not self.far_from_below
        return self.scope == "flock" and self.affinity == "query-key" and ranks

    @property
    def flock_only(self) -> bool:
        """Whether queries attend to their flock now; `visible_phase` (a schedule) puts it off."""
        return self.scope == "flock" and not self.visible_phase

    def new_cache(self) -> Cache:
        """An empty cache for decoding: bounded where there is a window, and in flock scope where
        there are no far keys."""
        if self.flock_only and max(by_head("far", self.far)) == 0:
            return Cache(self.flock_window, self.flock_globals, unit_h=self._unit_h)
        return Cache(window=self.window, n_global=self.n_global, unit_h=self._unit_h)

    @property
    def _unit_h(self) -> bool:
        """Whether a cache may keep h at length 1: g needs its length."""
        return self.affinity == "tied" and not self.affinity_term

    def read_cache(self, call: Call, mask: Bool[Tensor, "B n"] | None) -> Call:
        cache, first, n = call.cache, len(call.cache) == 0, call.q.shape[2]
        if cache.unit_h and not self._unit_h:
            raise ValueError(
                f"the cache keeps h at length 1 with affinity={self.affinity!r}, affinity_term="
                f"{self.affinity_term}, which need its length; expected this layer's new_cache()"
            )
        z, h, norm = (call.more.get(name) for name in ("z_k", "h_k", "key_norm"))
        cache.append(call.k, call.v, z, h, bare=call.bare, key_norm=norm, mask=mask)
        if first and n > 1:  # prefill: a full pass is cheaper than its rows
            backend = "auto" if call.backend == "decode" else call.backend
            return replace(call, vis=cache.visibility(n), cache=None, backend=backend)
        return replace(call, vis=cache.visibility(n))

    def flock(self, call: Call) -> Flock:
        """The call as backends take it."""
        near, far = self._lists(call)
        added = near if self.lists == "add" and isinstance(call.neighbours, Tensor) else None
        if added is not None:
            if call.cache is not None:
                raise ValueError(
                    "lists = 'add' with a cache; expected lists='replace', or a whole sequence"
                )
            near = self.neighbours
        cross = call.vis.cross  # there are no distances there
        options: dict[str, Any] = dict(
            vis=call.vis, other=call.other, normalizer=self.normalizer,
            key_norm=call.more.get("key_norm"), affinity=self.affinity,
            affinity_term=self.affinity_term, affinity_bias=None if cross else self.distance_bias,
        )  # fmt: skip
        if self.flock_only:
            options.update(scope=self._flock_scope(call.vis), far_keys=far)
        if "values" in ways(type(call.position)):
            options["pair_values"] = call.pair_values
        if call.cache is not None:
            rules = call.cache.cached_rules(self.version, self.rules)
            h_q = None if self.affinity == "tied" else call.more["h_q"]
            return call.cache.newest(call.q, h_q=h_q, rules=rules, neighbours=near, **options)
        B, H, N = call.q.shape[:3]
        geometry = (call.more[name] for name in ("z_q", "z_k", "h_q", "h_k"))
        flock = make_flock(
            call.q, call.k, call.v, *geometry, rules=self.rules(), bare=call.bare,
            dropout=call.dropout, neighbours=check_neighbours(near, B, H, N), **options,
        )  # fmt: skip
        if added is None:
            return flock
        lists = cast(Tensor, check_neighbours(added, B, H, N))
        return flock.keeping_cached(neighbours=union(find_neighbours(flock), lists))

    def packed_flock(self, x: Tensor, positions: Tensor, causal: bool) -> Flock | None:
        needs_padding = (
            type(self) is not AscenderAttention  # subclasses may make another flock
            or self.flock_only
            or self.window is not None
            or (self.training and self.dropout > 0)
            or bool(self.wanted())
            or self.distance_bias is not None
            or not {"embed", "rotate"}.issuperset(ways(type(self.position)))
            or type(self.normalizer).sharpen is not Normalizer.sharpen
        )
        if needs_padding:
            return None
        call = self.call(x, causal=causal, positions=positions)
        return self.flock(call).with_affinity_in_bias()

    def _lists(self, call: Call) -> tuple[str | Tensor, Tensor | None]:
        """(what N_k(i) goes by, L_m(i) where another layer's is given)"""
        given = call.neighbours
        if not isinstance(given, FarKeys):
            return (self.neighbours if given is None else given), None
        if not self.flock_only:
            raise ValueError(
                f"neighbours = FarKeys with scope={self.scope!r}, visible_phase="
                f"{self.visible_phase}; expected index lists or None: only layers that attend to "
                "flocks (scope='flock', visible_phase=False) take far keys"
            )
        index, (B, H, N) = given.index, call.q.shape[:3]
        if index.shape[-1]:  # with far = 0 a flock has window and globals only
            index = cast(Tensor, check_neighbours(index, B, H, N))
        return self.neighbours, index

    def bias_by_distance(self) -> Float[Tensor, "r"] | None:
        """b of the affinity at every distance."""
        if self.distance_bias is None:
            return None
        return by_distance(self.distance_bias.float(), causal=True)

    def _flock_scope(self, vis: Visibility) -> FlockScope:
        if not vis.cross:
            return FlockScope(vis, self.flock_window, self.flock_globals)
        if min(by_head("far", self.far)) == 0:
            raise ValueError(
                "far = 0 in cross-attention: every flock would be empty; expected far ≥ 1"
            )
        return FlockScope(vis)

    def attend_heads(self, call: Call) -> Float[Tensor, "B H N e"]:
        return self._attend(call, call.backend)

    def parts(self, call: Call) -> tuple[Float[Tensor, "B H N e"], Parts]:
        return self._attend(call, call.backend, return_parts=True)

    def _attend(self, call: Call, backend: str, return_parts: bool = False) -> Any:
        """With losses inside `collect`; rows decoded from a cache have none."""
        own = type(self) is AscenderAttention  # subclasses may make another flock
        if own and call.cache is not None and not return_parts:
            out = one_token(self, call)
            if out is not None:
                return out
        flock = self.flock(call)
        if call.cache is not None and not return_parts:  # a bounded cache has gaps: any layout
            name = "decode" if flock.scope is None else "flock"
            able = backend != "dense" and BACKENDS[name].refuses(flock) is None
            return attend(flock, name if able else "dense")
        wanted = () if call.cache is not None else self.wanted()
        if not wanted:
            return attend(flock, backend, return_parts)
        outputs = attend(flock, backend, return_parts, return_losses="rules" in wanted)
        losses = None
        if "rules" in wanted:
            *rest, losses = outputs
            outputs = tuple(rest) if return_parts else rest[0]
        if "index" in wanted and (call.neighbours is None or isinstance(call.neighbours, FarKeys)):
            h = call.more["index_q"], call.more["index_k"]
            index = index_loss(flock, self._flock_scope(call.vis), *h)
            losses = Losses.of_index(index) if losses is None else replace(losses, index=index)
        if losses is not None:
            self.give(losses)
        return outputs

    def contain(self, call: Call, parts: bool) -> tuple[Any, ...]:
        """With a cache or losses, `attend` handles tokens that are not finite. Such a query keeps
        its z and h and has q = 0, so that a normaliser does not multiply a NaN."""
        if call.cache is None and not self.asked():
            return super().contain(call, parts)
        bad = nonfinite_tokens(call.q)[:, None, :, None]
        call = replace(call, q=call.q.masked_fill(bad, 0))
        return self.parts(call) if parts else (self.attend_heads(call),)

    def neighbours_of(self, call: Call) -> Int[Tensor, "B #H N K"] | FarKeys | None:
        """In flock scope L_m(i), by the layer's own ranking or as given; with given lists, and in
        visible scope, N_k(i). None while a schedule has flock scope wait."""
        if self.scope == "flock" and self.visible_phase and call.neighbours is None:
            return None
        flock = self.flock(call)
        if flock.scope is not None and isinstance(flock.neighbours, str):
            return FarKeys(flock.far)
        if call.cache is None:
            return find_neighbours(flock)
        near, start = flock.members, call.vis.M - flock.vis.M  # a cache leaves out what none sees
        return near if start == 0 else torch.where(near < 0, near, near + start)

    def extra_repr(self) -> str:
        shown = f"{super().extra_repr()}, k={self.k}, geometry={self.geometry!r}"
        if self.scope == "visible":
            return shown
        near = f"window={self.flock_window}, n_global={self.flock_globals}"
        return f"{shown}, scope='flock', far={self.far}, {near}"
