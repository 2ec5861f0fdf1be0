"""The same attention on stock flash kernels, in O(N) memory.

Softmax ignores what is constant along a row, so of a standardised score only its slope
f_i = λωγ_i/√(var_i + ε) is left, and two of the three scores are dot products:

    k̃_j · u_i                              alignment
    −‖z_j − c_i‖² = probe(c_i)·lift(z_j) − ‖c_i‖²     cohesion (geometry.py)

Hence  Q_i = [ q_i/√d , f^a_i u_i , f^c_i probe(c_i)/τ_coh ] / τ_score
       K_j = [ k_j    , k̃_j       , lift(z_j)              ]

and separation, which lives on the k members of N_k(i), moves their mass afterwards:

    p_il = exp(s_il − lse_i) · expm1(b_il)      out' = (out + Σ_l p_il v_l) / (1 + Σ_l p_il)

The centre c_i and the density ρ_i are the output and the log-sum-exp of one more, narrow pass.
What differs between the whole sequence and windows is a Layout: how to attend, and how to get
the variance of a row of dot products without the row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ascender.backends.bags import Lists
from ascender.backends.dense import dense
from ascender.backends.flash import attend
from ascender.combine import LowRank, masked_softmax, slope
from ascender.flock import Flock
from ascender.geometry import kernel, lift, probe
from ascender.lazy import lazy
from ascender.rules import alignment, cohesion, separation
from ascender.visibility import Visibility

CHUNK = 128  # rows whose own chunk of keys is looked at directly in causal row variances


class Layout(ABC):
    """How rows meet keys."""

    vis: Visibility

    @abstractmethod
    def attend(self, Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """(out, lse) of softmax over V(i) of Q_i·K_j."""

    @abstractmethod
    def row_var(self, x: Tensor, y: Tensor) -> Float[Tensor, "B H N 1"]:
        """The population variance over j ∈ V(i) of x_i·y_j."""

    def members(self, flock: Flock) -> Int[Tensor, "B #H N K"]:
        """N_k(i)."""
        return flock.members

    @property
    @abstractmethod
    def count(self) -> Float[Tensor, "#B #H N 1"]:
        """|V(i)|."""


def fold(flock: Flock, layout: Layout) -> Float[Tensor, "B H N e"]:
    """out = A v, by the fold."""
    r, dtype = flock.rules, flock.q.dtype
    B, H, _N, d = flock.q.shape
    temperature = r.at("tau_score", flock.q)
    q = flock.q.to(flock.wide) / d**0.5
    Q, K = [q], [flock.k]
    lists = None
    if r.active("align") or r.active("sep") or r.local_scope == "neighbours":
        lists = Lists(layout.members(flock), H, flock.vis.M)

    if r.active("align"):
        assert lists is not None
        keys = flock.key_unit
        count = lists.count.to(keys.dtype)
        u, gate = alignment.heading(lists.bag(None, keys), count, r.at("alpha_align", q))
        f = slope(r.strength("align", q), gate, _var(flock, layout, u, keys))
        if flock.key_norm is not None and flock.bare is None:
            Q[0] = q + f * flock.key_scale * u  # keys of one length: u folds into q itself
        else:
            Q.append(f * u)
            K.append(keys)

    crowd = _Crowd(flock, layout, lists)
    if r.active("coh"):
        c, gate = crowd.centre
        tau = r.at("tau_coh", q)
        x, y = probe(c) / tau, lift(flock.z[1])
        Q.append(slope(r.strength("coh", q), gate, _var(flock, layout, x, y)) * x)
        K.append(y)
    _fold_other(flock, Q, K)

    Qs = torch.cat([t.expand(B, H, -1, -1).to(dtype) for t in Q], -1)
    Qs = Qs / temperature if isinstance(temperature, Tensor) or temperature != 1 else Qs
    Ks = torch.cat([t.expand(B, H, -1, -1).to(dtype) for t in K], -1)
    out, lse = layout.attend(Qs, Ks, flock.v)
    if r.active("sep"):
        out = _separate(flock, layout, crowd, Qs, Ks, out, lse)
    return out.masked_fill(layout.count == 0, 0)


def _var(flock: Flock, layout: Layout, x: Tensor, y: Tensor) -> Tensor | None:
    return layout.row_var(x, y) if flock.rules.standardise else None


class _Crowd:
    """Centre and density of each token's surroundings, over V(i) or over N_k(i)."""

    def __init__(self, flock: Flock, layout: Layout, lists: Lists | None) -> None:
        self.flock, self.layout, self.lists = flock, layout, lists
        self.local = flock.rules.local_scope == "neighbours"

    @lazy
    def near_d2(self) -> Float[Tensor, "B H N K"]:
        """‖z_i − z_l‖² over the lists."""
        assert self.lists is not None
        z_q, z_k = self.flock.z
        x = torch.cat([probe(z_q), -z_q.square().sum(-1, keepdim=True)], -1)
        y = torch.cat([lift(z_k), torch.ones_like(z_k[..., :1])], -1)
        return (-self.lists.dot(x, y)).clamp_min(0)

    def _pass(self, tau: float | Tensor) -> tuple[Tensor, Tensor]:
        """(mean of lift(z), lse) under the kernel of width τ."""
        z_q, z_k = self.flock.z
        x, y = probe(z_q) / tau**2, lift(z_k)
        heads = max(x.shape[1], y.shape[1])
        mask = self.flock.vis.mask
        if mask is not None:
            heads = max(heads, mask.shape[1])
        x, y = (t.expand(-1, heads, -1, -1) for t in (x, y))
        return self.layout.attend(x, y, y)

    @lazy
    def _coh_pass(self) -> tuple[Tensor, Tensor]:
        return self._pass(self.flock.rules.at("tau_coh", self.flock.z[0]))

    @lazy
    def _sep_pass(self) -> tuple[Tensor, Tensor]:
        if self.flock.rules.one_kernel():
            return self._coh_pass
        return self._pass(self.flock.rules.at("tau_sep", self.flock.z[0]))

    @lazy
    def centre(self) -> tuple[Float[Tensor, "B #H N z"], Float[Tensor, "B #H N 1"]]:
        """(c, γ)."""
        r, z_q = self.flock.rules, self.flock.z[0]
        alpha = r.at("alpha_coh", z_q)
        if not self.local:
            mean = self._coh_pass[0]
            c = mean[..., :-1]
            return c, cohesion.gate(c, mean[..., -1:], alpha)
        assert self.lists is not None
        tau, own_d2, own_z = r.at("tau_coh", z_q), *self.flock.own
        d2 = torch.cat([self.near_d2, own_d2.expand(*self.near_d2.shape[:3], 1)], -1)
        here = self.flock.vis.self_visible[..., None].expand(*d2.shape[:3], 1)
        there = torch.cat([self.lists.valid.expand_as(self.near_d2), here], -1)
        w = masked_softmax(-d2 / tau**2, there)
        mean = self.lists.bag(w[..., :-1], lift(self.flock.z[1])) + w[..., -1:] * lift(own_z)
        c = mean[..., :-1]
        return c, cohesion.gate(c, mean[..., -1:], alpha) * there.any(-1, keepdim=True)

    @lazy
    def density(self) -> Float[Tensor, "B #H N 1"]:
        """ρ."""
        z_q = self.flock.z[0]
        tau = self.flock.rules.at("tau_sep", z_q)
        if self.local:
            assert self.lists is not None
            w = self.lists.masked(kernel(self.near_d2, tau))
            return w.sum(-1, keepdim=True)
        lse = self._sep_pass[1].unsqueeze(-1)
        mass = torch.exp(lse - z_q.square().sum(-1, keepdim=True) / tau**2)
        mass = mass.masked_fill(self.layout.count == 0, 0)
        own = kernel(self.flock.own[0], tau) * self.flock.vis.self_visible[..., None]
        return (mass - own).clamp_min(0)


def _fold_other(flock: Flock, Q: list[Tensor], K: list[Tensor]) -> None:
    """Append the columns of a bias that folds."""
    other = flock.other
    if other is None:
        return
    if isinstance(other, LowRank):
        left, right = other.left, other.right
    else:  # (…, 1, M): one column
        right = other.transpose(-1, -2)
        left = torch.ones_like(Q[0][..., :1])
    Q.append(_to_four(left))
    K.append(_to_four(right))


def _to_four(t: Tensor) -> Tensor:
    return t.reshape((1,) * (4 - t.ndim) + t.shape)


def _separate(
    flock: Flock, layout: Layout, crowd: _Crowd, Q: Tensor, K: Tensor, out: Tensor, lse: Tensor
) -> Float[Tensor, "B H N e"]:  # fmt: skip
    """Move the mass of the k near duplicates of each row."""
    r, wide, lists, rho = flock.rules, flock.wide, crowd.lists, crowd.density
    assert lists is not None
    h_q, h_k = flock.h_unit
    w = kernel(crowd.near_d2, r.at("tau_sep", rho))
    phi = separation.penalty(w, lists.dot(h_q, h_k), r.at("delta", w))
    phi = lists.masked(phi)
    var = None
    if r.standardise:
        n = layout.count.clamp_min(1)
        mean = phi.sum(-1, keepdim=True) / n
        var = (phi.square().sum(-1, keepdim=True) / n - mean.square()).clamp_min(0)
    eta = separation.crowding(rho, r.at("kappa", rho))
    b = -slope(r.strength("sep", rho), eta, var) * phi / r.at("tau_score", rho)

    s = lists.dot(Q.to(wide), K.to(wide))
    p = lists.masked(torch.exp(s - lse.to(wide).unsqueeze(-1)) * torch.expm1(b))
    left = 1 + p.sum(-1, keepdim=True)
    few = left < (0.5 if flock.q.dtype != wide else 0.02)
    moved = out.to(wide) + lists.bag(p, flock.v.to(wide))
    moved = moved / left.masked_fill(few, 1)
    if bool(few.any()):
        moved = torch.where(few, _rows_again(flock, few.squeeze(-1)), moved)
    return moved.to(out.dtype)


def _rows_again(flock: Flock, few: Tensor) -> Float[Tensor, "B H N e"]:
    """Rows that lost nearly all their mass, where out + Σ p v cancels: by the definition, a few
    at a time, so that no N×M is held."""
    which = few.any(0).any(0).nonzero().squeeze(-1)
    out = torch.zeros(*few.shape, flock.v.shape[-1], dtype=flock.wide, device=few.device)
    for rows in which.split(CHUNK):
        part = flock.rows(rows)
        again = (
            checkpoint(lambda f: dense(f)[0], part, use_reentrant=False)
            if torch.is_grad_enabled()
            else dense(part)[0]
        )
        out = out.index_copy(-2, rows, again.to(out.dtype))
    return out


class Whole(Layout):
    """The whole sequence: full or causal, with padding."""

    def __init__(self, vis: Visibility, dtype: torch.dtype) -> None:
        self.vis, self.dtype = vis, dtype
        self.offset = vis.M - vis.N if vis.causal else 0
        self.keys = None if vis.mask is None else vis.mask.squeeze(-2)  # (b, h, M)

    @lazy
    def count(self) -> Float[Tensor, "#B #H N 1"]:
        if self.vis.causal and self.keys is None:
            n = (self.vis.p + 1).view(1, 1, -1, 1)
        elif self.keys is None:
            n = torch.full((1, 1, 1, 1), self.vis.M, device=self.vis.p.device)
        elif self.vis.causal:
            n = self.keys.cumsum(-1)[..., self.offset :, None]
        else:
            n = self.keys.sum(-1)[..., None, None]
        return n.to(self.dtype)

    def _bias(self, keys: slice, dtype: torch.dtype) -> Tensor | None:
        if self.keys is None:
            return None
        hidden = ~self.keys[..., None, keys]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(
            hidden, -torch.inf
        )

    def attend(self, Q: Tensor, K: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        bias = self._bias(slice(None), Q.dtype)
        if not self.offset:
            return attend(Q, K, V, causal=self.vis.causal, bias=bias)
        # Queries are the tail: a part that all see, and a causal square; merged by their lse.
        old, new = slice(0, self.offset), slice(self.offset, None)
        parts = []
        for keys, causal in ((old, False), (new, True)):
            bias = self._bias(keys, Q.dtype)
            out, lse = attend(Q, K[..., keys, :], V[..., keys, :], causal=causal, bias=bias)
            if self.keys is not None:
                n = (
                    self.keys[..., keys].cumsum(-1)
                    if causal
                    else self.keys[..., keys].sum(-1, True)
                )
                lse = lse.masked_fill(n == 0, -torch.inf)
            parts.append((out, lse))
        return merge(*parts)

    def row_var(self, x: Tensor, y: Tensor) -> Float[Tensor, "B H N 1"]:
        keys = None if self.keys is None else self.keys[..., None].to(y.dtype)
        if self.vis.causal:
            return causal_row_var(x, y, keys, self.count, self.offset)
        n = self.count.clamp_min(1)
        kept = y if keys is None else y * keys
        centred = y - kept.sum(-2, keepdim=True) / n
        if keys is not None:
            centred = centred * keys
        cov = centred.transpose(-1, -2) @ centred / n
        return ((x @ cov) * x).sum(-1, keepdim=True).clamp_min(0)


def merge(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Attention over two disjoint sets of keys from the attention over each."""
    lse = torch.logaddexp(a[1], b[1])
    lse = torch.where(lse == -torch.inf, 0, lse)
    out = sum(part * torch.exp(l - lse).unsqueeze(-1).to(part.dtype) for part, l in (a, b))
    assert isinstance(out, Tensor)
    return out, lse


def causal_row_var(
    x: Float[Tensor, "B H N w"], y: Float[Tensor, "B #H M w"],
    keys: Float[Tensor, "#B #H M 1"] | None, count: Float[Tensor, "#B #H N 1"], offset: int,
) -> Float[Tensor, "B H N 1"]:  # fmt: skip
    """Var over j ≤ p(i) of x_i·y_j = E(x·y)² − (E x·y)², from running moments of y: d×d before
    the chunk of i, the products themselves inside it. y is measured from its first key, which
    every row sees, so that keys of a common direction do not cancel."""
    y = y - (y[..., :1, :] if keys is None else _first(y, keys)).detach()
    if keys is not None:
        y = y * keys
    N, _w = x.shape[-2], x.shape[-1]
    short = -N % CHUNK
    before, own = y[..., :offset, :], F.pad(y[..., offset:, :], (0, 0, 0, short))
    own = own.unflatten(-2, (-1, CHUNK))
    rows = F.pad(x, (0, 0, 0, short)).unflatten(-2, (-1, CHUNK))

    first = _running(own.sum(-2, keepdim=True), before.sum(-2, keepdim=True))
    second = _running(own.transpose(-1, -2) @ own, before.transpose(-1, -2) @ before)
    r = (rows @ own.transpose(-1, -2)).tril()
    total = (rows * first).sum(-1) + r.sum(-1)
    square = ((rows @ second) * rows).sum(-1) + r.square().sum(-1)
    total, square = (t.flatten(-2)[..., :N, None] for t in (total, square))
    n = count.clamp_min(1)
    return (square / n - (total / n).square()).clamp_min(0)


def _running(moment: Float[Tensor, "B #H C r w"], start: Tensor) -> Float[Tensor, "B #H C r w"]:
    """Sums over the chunks before each chunk."""
    sums = F.pad(moment, (0, 0, 0, 0, 1, 0)).cumsum(-3)[..., :-1, :, :]
    return sums + start.unsqueeze(-3)


def _first(y: Tensor, keys: Tensor) -> Tensor:
    index = keys.to(torch.uint8).argmax(-2, keepdim=True)
    shape = torch.broadcast_shapes(y.shape[:2], keys.shape[:2])
    return y.expand(*shape, -1, -1).gather(-2, index.expand(*shape, 1, y.shape[-1]))


def folded(flock: Flock) -> Float[Tensor, "B H N e"]:
    """The whole sequence by the fold."""
    return fold(flock, Whole(flock.vis, flock.wide))
