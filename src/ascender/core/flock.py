"""Flock: the checked tensors and options of one attention call, as every backend takes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.common.lazy import lazy
from ascender.core import neighbours as nb
from ascender.core.affinity import at_distance, by_distance
from ascender.core.combine import LowRank, add_bias, repeat_kv, to_4d
from ascender.core.geometry import FLOOR, accum_dtype, anchor, bounded, lift, middle, unit
from ascender.core.normalizers import Normalizer, apply_normalizer
from ascender.core.rules import NUMBERS, Rules
from ascender.core.scope import FlockScope
from ascender.core.softmax import masked_softmax
from ascender.core.visibility import Visibility

CHOICES = ("semantic", "scores")
LISTS = ("neighbours", "far_keys")
OF_QUERIES, OF_KEYS = ("q", "z_q", "h_q"), ("k", "v", "z_k", "h_k", "bare")


@dataclass(frozen=True)
class Flock:
    """q: (B, H, N, d); k, v and bare have as many heads or fewer, which are shared in equal groups;
    z and h may have one that all heads share. `bare`: the keys without rotation, where k is
    rotated. `key_norm`: the length that all keys of a head have (QK-norm), so that k̃ = k /
    key_norm. `normalise`: the weights from (scores, V) where they are not the softmax. `scope`:
    where a query attends to its flock only; None: to everything visible. `far_keys`: L_m(i) where
    it is given. `nonfinite_keys`: which keys a cache keeps as 0 because they were not finite; None:
    nobody has looked. `derived`: lazy attributes that are already known, by name (a KV cache has z
    and h_unit); a `replace` drops them."""

    q: Float[Tensor, "B H N d"]
    k: Float[Tensor, "B G M d"]
    v: Float[Tensor, "B G M e"]
    z_q: Float[Tensor, "B Z N z"]
    z_k: Float[Tensor, "B Z M z"]
    h_q: Float[Tensor, "B A N a"]
    h_k: Float[Tensor, "B A M a"]
    rules: Rules
    vis: Visibility
    other: Tensor | LowRank | None = None
    neighbours: str | Int[Tensor, "B #H N K"] = "semantic"
    bare: Float[Tensor, "B G M d"] | None = None
    key_norm: float | Float[Tensor, "H"] | None = None
    dropout: float = 0.0
    pair_values: Callable[[Tensor], Tensor | None] | None = None  # from A, what pairs add to out
    normalise: Callable[[Tensor, Tensor], Tensor] | None = None
    scope: FlockScope | None = None
    far_keys: Int[Tensor, "B #H N m"] | None = None
    affinity: str = "tied"
    affinity_term: bool = False
    affinity_bias: Float[Tensor, "n"] | None = None
    nonfinite_keys: Bool[Tensor, "B 1 M"] | None = None
    derived: InitVar[dict[str, Any] | None] = None
    base_scores: ClassVar[Tensor | None] = None  # q·k/√d where a backend has written it out

    def __post_init__(self, derived: dict[str, Any] | None) -> None:
        if derived:
            self.__dict__.update(derived)

    @property
    def accum_dtype(self) -> torch.dtype:
        return accum_dtype(self.q.dtype)

    @property
    def heading_keys(self) -> Float[Tensor, "B G M d"]:
        """The unrotated keys."""
        return self.k if self.bare is None else self.bare

    @lazy
    def key_scale(self) -> float | Tensor:
        """1/‖k_j‖, so that k̃ = key_scale · k: (B, G, M, 1), or (H, 1, 1) with QK-norm."""
        if self.key_norm is None:
            norm = torch.linalg.vector_norm(
                self.heading_keys.to(self.accum_dtype), dim=-1, keepdim=True
            )
            return 1 / norm.clamp_min(FLOOR)
        if isinstance(self.key_norm, Tensor):
            return 1 / self.key_norm.to(self.accum_dtype).view(-1, 1, 1)
        return 1 / self.key_norm

    @property
    def key_unit(self) -> Float[Tensor, "B G M d"]:
        """k̃."""
        keys = self.heading_keys.to(self.accum_dtype)
        if self.key_norm is None:
            return unit(keys)
        scale = self.key_scale
        return keys if isinstance(scale, float) and scale == 1 else keys * scale

    @lazy
    def h_unit(self) -> tuple[Tensor, Tensor]:
        """(h_q, h_k) at length 1."""
        h_k = unit(self.h_k.to(self.accum_dtype))
        return (h_k if self.h_q is self.h_k else unit(self.h_q.to(self.accum_dtype))), h_k

    def origin(self, y: Float[Tensor, "B #H M w"]) -> Float[Tensor, "B #H #M w"]:
        """A reference point computed from keys that every row sees; 0 where there are none, as in
        a window: a hidden key must not change even the rounding of a row."""
        if self.vis.cu is not None:
            return y.index_select(-2, self.vis.start)
        if self.vis.window is not None or not self.vis.by_key_only:
            return torch.zeros_like(y[..., :1, :])
        mask = None if self.vis.mask is None else self.vis.mask.squeeze(-2)
        return (anchor if self.vis.causal else middle)(y, mask)

    @lazy
    def z(self) -> tuple[Tensor, Tensor]:
        """(z_q, z_k) measured from `origin`: less rounding where all tokens are far from 0."""
        z_k = bounded(self.z_k.to(self.accum_dtype))
        origin = self.origin(z_k.detach())
        z_k = z_k - origin
        return (
            z_k if self.z_q is self.z_k else bounded(self.z_q.to(self.accum_dtype)) - origin
        ), z_k

    @lazy
    def z_lifted(self) -> Float[Tensor, "B Z M z1"]:
        """(z, ‖z‖²) of the keys."""
        return lift(self.z[1])

    @lazy
    def own(self) -> tuple[Tensor, Tensor]:
        """(‖z_i − z_p(i)‖², z_p(i)): the distance of a query from its own key. 0, unless queries
        and keys have different coordinates. Meaningless in cross-attention."""
        z_q, z_k = self.z
        if z_q is z_k or self.vis.cross:
            return torch.zeros_like(z_q[..., :1]), z_q
        own = z_k.index_select(-2, self.vis.own)
        return (z_q - own).square().sum(-1, keepdim=True), own

    @lazy
    def members(self) -> Int[Tensor, "B #H N K"]:
        """N_k(i)."""
        if self.scope is not None:
            return self.narrowed().members
        if isinstance(self.neighbours, Tensor):
            return nb.given(self.neighbours, self.vis)
        return self.top_k(self.vis, self.rules.sizes())

    def top_k(self, vis: Visibility, sizes: tuple[int, ...]) -> Int[Tensor, "B #H N K"]:
        """The members of P(i) of a visibility that rank highest."""
        if self.by_scores and self.base_scores is not None:
            return nb.top_k_of(self.base_scores, vis, sizes)
        return nb.top_k(*self.ranked_by, vis, sizes, self.by_cosine, self.rank_bias)

    @lazy
    def far(self) -> Int[Tensor, "B #H N m"]:
        """L_m(i), the far keys of flock scope."""
        assert self.scope is not None
        lists = self.neighbours if self.far_keys is None else self.far_keys
        if isinstance(lists, Tensor):
            return nb.given(lists, self.scope.outside)
        return self.top_k(self.scope.outside, self.rules.sizes("far"))

    def narrowed(self) -> Flock:
        """The same call in visible scope, with F(i) as its mask: the definition of flock scope."""
        if self.scope is None:
            return self
        vis = replace(self.vis, mask=self.scope.mask(self.far))
        derived = {} if self.base_scores is None else {"base_scores": self.base_scores}
        return replace(self, scope=None, vis=vis, derived=derived)

    def with_base_scores(self, base: Float[Tensor, "B H N M"]) -> Flock:
        """A copy whose neighbours by "scores" are ranked by base scores computed anyway."""
        return replace(self, derived={"base_scores": base.detach()})

    @property
    def by_cosine(self) -> bool:
        """Whether neighbours are ranked by the cosine of h."""
        return (
            isinstance(self.neighbours, str)
            and self.neighbours == "semantic"
            and self.affinity == "tied"
        )

    @property
    def ranked_by(self) -> tuple[Tensor, Tensor]:
        """x, y with x_i·y_j the score that ranks the neighbours: the cosine, g without its bias,
        or the base score."""
        if self.neighbours == "semantic":
            x, y = self.h_unit if self.affinity == "tied" else self.affinity_factors
            return x.detach(), y.detach()
        q, k = (t.detach().to(self.accum_dtype) for t in (self.q, self.k))
        return q / q.shape[-1] ** 0.5, k

    @property
    def by_scores(self) -> bool:
        """Whether neighbours are ranked by the base score."""
        return isinstance(self.neighbours, str) and self.neighbours == "scores"

    @property
    def rank_bias(self) -> Float[Tensor, "r"] | None:
        """What is added to the score that ranks, by distance."""
        bias = None if self.by_scores else self.affinity_by_distance
        return None if bias is None else bias.detach()

    @lazy
    def keys_are_finite(self) -> bool:
        """Whether k, v, z and h of all keys are finite; a cache knows it without reading them."""
        keys = (getattr(self, name) for name in OF_KEYS)
        return all(bool(t.sum().isfinite()) for t in keys if t is not None)

    @lazy
    def affinity_factors(self) -> tuple[Tensor, Tensor]:
        """x, y with x_i·y_j = h^q_i·h^k_j/√d_a."""
        x, y = self.h_q.to(self.accum_dtype), self.h_k.to(self.accum_dtype)
        return x / x.shape[-1] ** 0.5, y

    @lazy
    def affinity_by_distance(self) -> Float[Tensor, "r"] | None:
        """b[bucket(p(i) − j)] as a table by distance (affinity.by_distance)."""
        if self.affinity_bias is None:
            return None
        return by_distance(self.affinity_bias.to(self.accum_dtype), self.vis.causal)

    def with_affinity_in_bias(self) -> Flock:
        """A copy with the affinity term added to `other`, for backends without that term."""
        if not self.affinity_term:
            return self
        x, y = self.affinity_factors
        omega = self.rules.at("omega_aff", x)
        other = add_bias(self.other, LowRank(omega * x, y))
        if self.affinity_by_distance is not None:
            distance = self.vis.p[:, None] - self.vis.j
            other = add_bias(other, omega * at_distance(self.affinity_by_distance, distance))
        derived = {n: t for n, t in vars(self).items() if n not in self.__dataclass_fields__}
        derived.pop("other_dense", None)
        return replace(self, other=other, affinity_term=False, derived=derived)

    def with_lifted_values(self) -> Flock:
        """v with the columns (z, ‖z‖²) appended: the output then has Σ_j A_ij (z_j, ‖z_j‖²)."""
        z = self.z_lifted
        v = self.v.to(z.dtype)
        v = v if z.shape[1] == 1 else repeat_kv(v, self.q.shape[1])
        return self.keeping_cached(v=torch.cat([v, z.expand(*v.shape[:3], -1)], -1))

    def keeping_cached(self, **new: Any) -> Flock:
        """A copy with new fields that keeps cached tensors: for v and neighbours, from which only
        `members` is derived."""
        lists = ("members", "far") if "neighbours" in new else ()
        stale = {*self.__dataclass_fields__, *lists}
        derived = {name: t for name, t in vars(self).items() if name not in stale}
        return replace(self, **new, derived=derived)

    @lazy
    def other_dense(self) -> Tensor | None:
        return self.other.dense() if isinstance(self.other, LowRank) else self.other

    def repeat_kv(self) -> Flock:
        """With as many heads of keys and values as of queries."""
        H = self.q.shape[1]
        if self.k.shape[1] == H:
            return self
        bare = None if self.bare is None else repeat_kv(self.bare, H)
        stale = {*self.__dataclass_fields__, "key_scale"}
        return replace(
            self, k=repeat_kv(self.k, H), v=repeat_kv(self.v, H), bare=bare,
            derived={name: t for name, t in vars(self).items() if name not in stale},
        )  # fmt: skip

    def rows(self, which: Int[Tensor, "R"], heads: Int[Tensor, "h"] | None = None) -> Flock:
        """Some of the queries (and heads) against all the keys."""
        flock = self if heads is None else self.of_heads(heads.tolist())
        lists = [n for n in LISTS if isinstance(getattr(flock, n), Tensor)]
        names = (*OF_QUERIES, *lists)
        cut: dict[str, Any] = {name: getattr(flock, name).index_select(-2, which) for name in names}
        other = flock.other
        if isinstance(other, LowRank):
            other = LowRank(other.left.index_select(-2, which), other.right)
        elif other is not None and to_4d(other).shape[-2] > 1:
            other = to_4d(other).index_select(-2, which)
        vis = flock.vis.rows(which)
        scope = None if flock.scope is None else replace(flock.scope, vis=vis)
        return replace(flock, **cut, vis=vis, scope=scope, other=other)

    def of_heads(self, heads: Sequence[int], derived: dict[str, Any] | None = None) -> Flock:
        """Some of the heads, one of them as views. Fields that are the same tensor stay the same
        tensor: if τ_sep is τ_coh, one pass serves both."""
        other = self.other
        if isinstance(other, LowRank):
            other = LowRank(to_4d(other.left), to_4d(other.right))
        elif other is not None:
            other = to_4d(other)
        known: dict[int, Tensor] = {}
        H = self.q.shape[1]

        def cut(t: Any, axis: int = 1) -> Any:
            """What the heads share stays whole; of groups those of the heads, one for each."""
            if isinstance(t, LowRank):
                return LowRank(cut(t.left), cut(t.right))
            if not isinstance(t, Tensor) or t.ndim <= axis or t.shape[axis] == 1:
                return t
            if id(t) not in known:
                places = [h * t.shape[axis] // H for h in heads]
                if len(heads) == 1:
                    known[id(t)] = t.narrow(axis, places[0], 1)
                else:
                    index = torch.tensor(places, device=t.device)
                    known[id(t)] = t.index_select(axis, index)
            return known[id(t)]

        tensors = {n: cut(getattr(self, n)) for n in (*OF_QUERIES, *OF_KEYS, *LISTS)}
        numbers = {name: cut(getattr(self.rules, name), 0) for name in NUMBERS}
        for name in ("k", "far"):
            if len(sizes := self.rules.sizes(name)) > 1:
                numbers[name] = [sizes[h] for h in heads]
        vis = replace(self.vis, mask=cut(self.vis.mask))
        return replace(
            self, **tensors, rules=replace(self.rules, **numbers), key_norm=cut(self.key_norm, 0),
            vis=vis, scope=None if self.scope is None else replace(self.scope, vis=vis),
            other=cut(other), derived=derived,
        )  # fmt: skip

    def weights(self, total: Float[Tensor, "B H N M"]) -> Float[Tensor, "B H N M"]:
        """A from the scores, over V(i)."""
        normalise = masked_softmax if self.normalise is None else self.normalise
        return normalise(total, self.vis.visible)

    def without_nonfinite(self) -> tuple[Flock, Bool[Tensor, "B H N"]]:
        """The flock with every non-finite token set to 0, and the rows that see one.

        0 · NaN is NaN: without this, a hidden token would make every sum over all keys NaN.
        """
        B, H = self.q.shape[:2]

        def bad(names: tuple[str, ...]) -> Bool[Tensor, "B H n"]:
            tensors = (getattr(self, name) for name in names)
            some = reduce(or_, (_nonfinite(t, H) for t in tensors if t is not None))
            return some.expand(B, H, -1)

        bad_q = bad(OF_QUERIES)
        bad_k = bad(OF_KEYS) if self.nonfinite_keys is None else self.nonfinite_keys
        other = self.other
        if isinstance(other, LowRank):
            bad_q = bad_q | _nonfinite(to_4d(other.left), H)
            bad_k = bad_k | _nonfinite(to_4d(other.right), H)
            other = LowRank(*(torch.nan_to_num(t, 0, 0, 0) for t in (other.left, other.right)))
        elif other is not None and to_4d(other).shape[-2] == 1:
            bad_k = bad_k | ~torch.isfinite(to_4d(other)).all(-2)
            other = torch.nan_to_num(other, 0, 0, 0)

        def clean(name: str, bad: Tensor) -> Tensor | None:
            t = getattr(self, name)
            if t is None:
                return None
            if t.shape[1] not in (1, H):  # a token of one head may be bad, and its group is not
                return torch.where(torch.isfinite(t).all(-1, keepdim=True), t, 0)
            bad = bad if t.shape[1] == H else bad.any(1, keepdim=True)
            return t.masked_fill(bad[..., None], 0)

        finite: dict[str, Any] = {name: clean(name, bad_q) for name in OF_QUERIES}
        if self.nonfinite_keys is None:
            finite |= {name: clean(name, bad_k) for name in OF_KEYS}
        else:  # what the cache knows of its keys stays known
            finite["derived"] = self._derived_with(finite)
        if self.vis.mask is not None:  # a row that sees nothing is 0 in any case
            bad_q = bad_q & self.vis.sees(torch.ones_like(bad_k))
        return replace(self, **finite, other=other), bad_q | self.vis.sees(bad_k)

    def _derived_with(self, queries: dict[str, Any]) -> dict[str, Any]:
        """What a cache knows of its keys, beside other queries."""
        known = {n: t for n, t in vars(self).items() if n not in self.__dataclass_fields__}
        for pair, name in (("z", "z_q"), ("h_unit", "h_q")):
            if pair in known:
                known[pair] = queries[name], known[pair][1]
        return {n: known[n] for n in ("z", "z_lifted", "h_unit", "key_scale") if n in known}


def _nonfinite(t: Float[Tensor, "#B G n w"], heads: int) -> Bool[Tensor, "#B #H n"]:
    """Tokens with a NaN or an infinity, by head of the queries."""
    bad = ~torch.isfinite(t).all(-1)
    return bad if bad.shape[1] in (1, heads) else bad.repeat_interleave(heads // bad.shape[1], 1)


def make_flock(
    q: Tensor, k: Tensor, v: Tensor, z_q: Tensor, z_k: Tensor, h_q: Tensor, h_k: Tensor, *,
    rules: Rules, vis: Visibility, normalizer: Normalizer | None = None,
    scope: FlockScope | None = None, **fields: Any,
) -> Flock:  # fmt: skip
    """A Flock of arguments that are already checked, under a normaliser: q is sharpened and
    τ_score multiplied by its temperature."""

    if scope is not None and scope.vis is not vis:
        scope = replace(scope, vis=vis)

    def count() -> Tensor:
        if scope is None:
            return vis.count
        far = fields.get("far_keys")
        lists = fields.get("neighbours") if far is None else far
        if isinstance(lists, Tensor):
            return scope.count(nb.given(lists, scope.outside))
        return scope.count(rules.sizes("far"))

    q, rules, normalise = apply_normalizer(normalizer, q, rules, count)
    return Flock(
        q, k, v, z_q, z_k, h_q, h_k, rules=rules, vis=vis, normalise=normalise, scope=scope,
        **fields,
    )  # fmt: skip
