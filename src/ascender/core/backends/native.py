"""Attention on the CPU by a fused C kernel (kernels/attention.c), forward and backward.

The same as compact, without its matrices; and one decoded token (kernels/token.c). Where there is
no compiler, torch operators run instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from ascender.core.backends.base import Backend
from ascender.core.combine import RowStats
from ascender.core.flock import Flock
from ascender.core.neighbours import compiled, given, inside_transform
from ascender.core.rules import RULES, Rules
from ascender.kernels.build import kernels

# In the order of kernels/visible.h.
NUMBERS = (
    "omega_align", "omega_sep", "omega_coh", "alpha_align", "alpha_coh", "tau_sep", "tau_coh",
    "delta", "kappa", "tau_score",
)  # fmt: skip
SHARED = 1 << 20  # scores a head from which on the keys of all heads do not fit into the cache


def native(flock: Flock) -> Tensor:
    """out = A v."""
    from ascender.kernels.operators import SEARCH, attention

    vis, r, (B, H, N, _) = flock.vis, flock.rules, flock.q.shape
    sizes, mask, lists = r.sizes(), vis.mask, None
    search = flock.neighbours if r.needs_neighbours else "none"
    if isinstance(search, Tensor):
        lists, search = given(search, vis), "given"
    elif search == "semantic" and not flock.by_cosine:
        lists, search = flock.members, "given"
    z_k, h_k = flock.z_k.float(), flock.h_k.float()
    z_q = None if flock.z_q is flock.z_k else flock.z_q.float()
    h_q = None if flock.h_q is flock.h_k else flock.h_q.float()
    shared = (
        z_k.shape[1] == h_k.shape[1] == len(sizes) == 1
        and (mask is None or mask.shape[1] == 1)
        and (lists is None or lists.shape[1] == 1)
        and search != "scores"
        and N * vis.M <= SHARED
        and one_width(r)
    )
    if not shared:
        z_k, h_k = (t.expand(-1, H, -1, -1) for t in (z_k, h_k))
        z_q, h_q = (None if t is None else t.expand(-1, H, -1, -1) for t in (z_q, h_q))
        sizes = sizes if len(sizes) == H else sizes * H
    other = flock.other_dense
    if other is not None:
        other = other.float().expand(B, H, N, vis.M)
    plain = flock.bare is None and flock.key_norm is None
    numbers = [by_head(r, name, H, z_k) for name in NUMBERS]
    out = attention(
        flock.q.float(), flock.k.float(), flock.v.float(), None if plain else flock.key_unit,
        z_q, z_k, h_q, h_k, other, torch.stack(numbers, 1), mask,
        lists, vis.p.int(), vis.j.int(), list(sizes), SEARCH.index(search), list(r.on), vis.causal,
        -1 if vis.window is None else vis.window, vis.n_global, vis.cross, r.standardise,
        r.local_scope == "neighbours",
    )  # fmt: skip
    return out.to(flock.q.dtype)


def one_width(rules: Rules) -> bool:
    """Whether the kernel widths are the same for all heads."""
    return not any(isinstance(t, Tensor) and t.numel() > 1 for t in (rules.tau_sep, rules.tau_coh))


def serves_token(flock: Flock) -> bool:
    """Whether a call is one new token that sees every key, by semantic neighbours of whom there
    are enough, without gradients: what decoding mostly is."""
    vis, r, sizes = flock.vis, flock.rules, flock.rules.sizes()
    return (
        vis.N == 1 < vis.M
        and vis.mask is None and vis.window is None and not vis.cross
        and not torch.is_grad_enabled() and compiled(flock.q)
        and flock.by_cosine
        and len(sizes) == 1 and sizes[0] < vis.M
        and flock.normalise is None and flock.pair_values is None
        and flock.other is None and r.standardise and r.local_scope == "visible"
    )  # fmt: skip


def token(flock: Flock) -> Tensor:
    """out = A v of that one row, in C (kernels/token.c)."""
    from ascender.kernels.operators import one_token

    r, H, z_k = flock.rules, flock.q.shape[1], flock.z_lifted
    scale = flock.key_scale
    if not (isinstance(scale, Tensor) and scale.ndim == 4):
        scale = torch.as_tensor(scale, dtype=z_k.dtype).flatten().expand(H).contiguous()
    h_q, h_k = flock.h_unit
    return one_token(
        flock.q, flock.k, flock.v, flock.bare, scale, (flock.z[0], z_k), (h_q, h_k),
        number_table(r, H, z_k, NUMBERS), r.sizes()[0], r.on, flock.vis.causal,
        z_k.shape[1] == h_k.shape[1] == 1 and one_width(r),
    )  # fmt: skip


def number_table(rules: Rules, heads: int, like: Tensor, names: tuple[str, ...]) -> Tensor:
    """The numbers by head, (heads, names). Kept with the rules while none of them changes; made
    again at every call where they are inference tensors, which have no version."""
    tensors = [t for t in vars(rules).values() if isinstance(t, Tensor)]
    versions = None if any(t.is_inference() for t in tensors) else [t._version for t in tensors]
    kept = vars(rules).get("_table")
    if kept is not None and versions is not None and kept[:3] == (heads, names, versions):
        return kept[3]
    table = torch.stack([by_head(rules, name, heads, like) for name in names], 1)
    object.__setattr__(rules, "_table", (heads, names, versions, table))
    return table


def by_head(rules: Rules, name: str, heads: int, like: Tensor) -> Tensor:
    """A number by head, (heads,); ω multiplied by λ."""
    value = getattr(rules, name)
    if name.removeprefix("omega_") in RULES:
        lam = getattr(rules, name.replace("omega", "lam"))
        value = value if isinstance(lam, float) and lam == 1 else lam * value
    if isinstance(value, Tensor):
        value = value.to(like.dtype)
        return value if value.shape == (heads,) else value.expand(heads)
    return like.new_full((heads,), value)


def unavailable() -> str:
    """Why there are no compiled kernels; empty where there are."""
    return "" if kernels().library is not None else kernels().reason


def lanes() -> int:
    """Numbers in a vector of the compiled kernels: 4, 8 or 16; 0 where there are none."""
    library = kernels().library
    return 0 if library is None else library.asc_lanes()


# torch.compiler.assume_constant_result does this, and imports torch._dynamo: a second and more.
for _constant in (unavailable, lanes):
    setattr(_constant, "_dynamo_marked_constant", True)  # noqa: B010


class Native(Backend):
    """On the CPU: a fused C kernel, some rows at a time."""

    name = "native"
    provides = ("columns", "matrix")
    traceable = True
    enabled = True  # without_native() sets it

    def refuses(self, flock: Flock) -> str | None:
        if flock.q.device.type != "cpu":
            return f"q is on {flock.q.device}; expected the CPU"
        if flock.q.dtype not in (torch.float32, torch.bfloat16):
            return f"dtype {flock.q.dtype}; expected float32 or bfloat16"
        if not torch.compiler.is_compiling() and inside_transform():
            return "torch.func is transforming the call; expected a plain call"
        if flock.vis.p.ndim > 1 or flock.vis.j.ndim > 1:
            return "positions have leading axes; expected (N,) and (M,)"
        if not self.enabled:
            return "native kernels are switched off here (without_native)"
        if why := unavailable():
            return f"no compiled kernels: {why}"
        return super().refuses(flock)

    def run(self, flock: Flock, stats: bool = False) -> tuple[Tensor, RowStats | None]:
        return native(flock), None


@contextmanager
def without_native() -> Iterator[None]:
    """Inside it "auto" takes the torch operators, as on a machine without a compiler."""
    before = Native.enabled
    Native.enabled = False
    try:
        yield
    finally:
        Native.enabled = before
