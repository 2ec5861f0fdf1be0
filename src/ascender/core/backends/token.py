"""One new token that sees every key, on the CPU and without gradients: what decoding mostly is.

At one row the overhead of an operation is larger than its work, and numpy's is a third of
torch's. So this is decode.py (which serves every other case) once more for the one case: rows are
numpy arrays (B, H, ·), or (B, 1, ·) where the heads share them. Only where there are many keys and
several threads does torch read them.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ascender.core import neighbours as nb
from ascender.core.combine import EPS
from ascender.core.flock import Flock
from ascender.core.geometry import FLOOR

MANY = 1 << 18  # numbers to read, from which on threads pay
Row = Float[np.ndarray, "B #H M"]
Column = Float[np.ndarray, "B #H 1"]
Keys = Float[np.ndarray, "B G M w"]


def serves(flock: Flock) -> bool:
    """Whether a call is such a token, going by semantic neighbours of whom there are enough."""
    vis, r, sizes = flock.vis, flock.rules, flock.rules.sizes()
    return (
        vis.N == 1 < vis.M
        and vis.mask is None and vis.window is None and not vis.cross
        and flock.q.device.type == "cpu" and flock.q.dtype in (torch.float32, torch.float64)
        and not torch.is_grad_enabled()
        and isinstance(flock.neighbours, str) and flock.neighbours == "semantic"
        and len(sizes) == 1 and sizes[0] < vis.M
        and flock.normalise is None and flock.pair_values is None
        and flock.other is None and r.standardise and r.local_scope == "visible"
    )  # fmt: skip


def token(flock: Flock) -> Tensor:
    """out = A v of the one row."""
    with np.errstate(all="ignore"):
        return _Row(flock).attend()


def array(t: Float[Tensor, "..."]) -> Float[np.ndarray, "..."]:
    """The same memory, of a leaf that learns too."""
    return t.detach().numpy()


def threaded(y: Keys) -> bool:
    """Whether torch reads these keys."""
    return y.size >= MANY and torch.get_num_threads() > 1


def key_products(x: Float[np.ndarray, "B #H w"], y: Keys) -> Row:
    """x · y_j for every key, each head of y serving H/G of x."""
    B, G, M, w = y.shape
    rows = x.reshape(B, G, -1, w)
    if not threaded(y):
        if rows.shape[2] == 1:
            return np.matmul(y, rows.swapaxes(2, 3))[..., 0]
        return np.matmul(rows, y.swapaxes(2, 3)).reshape(B, -1, M)
    product = torch.matmul(torch.from_numpy(rows), torch.from_numpy(y).mT)
    return product.numpy().reshape(B, -1, M)


def weighted_sum(p: Row, y: Keys) -> Float[np.ndarray, "B #H w"]:
    """Σ_j p_j y_j."""
    B, G, M, w = y.shape
    rows = p.reshape(B, G, -1, M)
    if not threaded(y):
        return np.matmul(rows, y).reshape(B, -1, w)
    return torch.matmul(torch.from_numpy(rows), torch.from_numpy(y)).numpy().reshape(B, -1, w)


def softmax(s: Row) -> Row:
    """In place."""
    s -= np.maximum.reduce(s, -1, keepdims=True)
    np.exp(s, out=s)
    s /= total(s)
    return s


def total(x: Float[np.ndarray, "*s w"]) -> Float[np.ndarray, "*s 1"]:
    return np.add.reduce(x, -1, keepdims=True)


def sigmoid(x: Column) -> Column:
    return 1 / (1 + np.exp(-x))


def probe(c: Float[np.ndarray, "B #H z"]) -> Float[np.ndarray, "B #H z1"]:
    made = np.full((*c.shape[:-1], c.shape[-1] + 1), -1, c.dtype)
    np.add(c, c, out=made[..., :-1])
    return made


class _Row:
    def __init__(self, flock: Flock) -> None:
        self.flock, self.r = flock, flock.rules
        self.B, self.H, _, self.d = flock.q.shape
        self.M, self.k = flock.vis.M, self.r.sizes()[0]
        self.batch, self.heads = np.arange(self.B)[:, None, None], np.arange(self.H)[:, None]
        self.n = self.r.columns(flock.q.dtype)
        self.k_k, self.v = array(flock.k), array(flock.v)

    def attend(self) -> Tensor:
        r, flock = self.r, self.flock
        align, sep, coh = (r.active(rule) for rule in ("align", "sep", "coh"))
        q = array(flock.q)[:, :, 0] * self.d**-0.5
        s = key_products(q, self.k_k)
        if align or sep:
            self.find_neighbours()
        if align:
            s += self.alignment()
        if sep or coh:
            self.measure_distances()
        if coh:
            s += self.cohesion()
        if sep:
            s[self.batch, self.heads, self.near] -= self.separation()
        s /= self.n["tau_score"]
        return torch.from_numpy(weighted_sum(softmax(s), self.v)).unsqueeze(2)

    def standardised(self, rule: str, gate: Column, r: Row) -> Row:
        """λ ω gate r̃; uses r up."""
        r -= total(r) / self.M
        f = self.n["lam_" + rule] * self.n["omega_" + rule] * gate
        f = f / np.sqrt(total(r * r) / self.M + EPS)
        return np.multiply(r, f, out=r) if r.shape[1] == f.shape[1] else r * f

    def find_neighbours(self) -> None:
        """a_j, and the k of P with the largest."""
        h_q, h_k = self.flock.h_unit
        self.a = key_products(array(h_q)[:, :, 0], array(h_k))
        self.a[..., -1] = -np.inf  # oneself
        ranked = self.a
        if self.flock.vis.causal:  # among equals the most recent (neighbours.py)
            age = np.minimum(np.arange(self.M - 1, -1, -1), nb.OLD)
            ranked = self.a - (nb.TIE * age).astype(self.a.dtype)
        self.near = np.argpartition(ranked, self.M - self.k, -1)[..., self.M - self.k :]

    def at(self, rows: Row) -> Float[np.ndarray, "B H k"]:
        """A row at the neighbours, (B, H, k)."""
        heads = self.heads if rows.shape[1] == self.H else 0
        return rows[self.batch, heads, self.near]

    def alignment(self) -> Row:
        keys = self.k_k if self.flock.bare is None else array(self.flock.bare)
        share = self.H // keys.shape[1]
        near = keys[self.batch, self.heads // share, self.near]
        scale = self.key_scale(share)
        if self.flock.key_norm is None:
            s = np.matmul(self.at(scale)[..., None, :], near)[..., 0, :]
        else:
            s = np.add.reduce(near, -2) * scale
        length = np.sqrt(total(s * s))
        u, R = s / np.maximum(length, FLOOR), length / self.k
        gate = sigmoid(self.n["alpha_align"] * (R * R - 1))
        r = key_products(u, keys)
        r *= scale
        return self.standardised("align", gate, r)

    def key_scale(self, share: int) -> Float[np.ndarray, "..."]:
        """1/‖k_j‖, each head of the keys serving `share`: (B, H, M), QK-norm: (H or 1, 1)."""
        scale = self.flock.key_scale
        if self.flock.key_norm is None:
            assert isinstance(scale, Tensor)
            rows = array(scale)[..., 0]
            return np.repeat(rows, share, 1) if share > 1 else rows
        return np.asarray(scale, self.a.dtype).reshape(-1, 1)

    def measure_distances(self) -> None:
        """−‖z − z_j‖²."""
        z, self.y = array(self.flock.z[0])[:, :, 0], array(self.flock.z_lifted)
        self.nearness = key_products(probe(z), self.y)
        self.nearness -= total(z * z)
        np.minimum(self.nearness, 0, out=self.nearness)

    def cohesion(self) -> Row:
        tau = self.n["tau_coh"]
        mean = weighted_sum(softmax(self.nearness / tau**2), self.y)
        c, mean_square = mean[..., :-1], mean[..., -1:]
        gate = sigmoid(self.n["alpha_coh"] * np.minimum(total(c * c) - mean_square, 0))
        return self.standardised("coh", gate, key_products(probe(c) / tau, self.y))

    def separation(self) -> Float[np.ndarray, "B H k"]:
        """λ ω η φ/σ at the neighbours."""
        w = self.nearness / self.n["tau_sep"] ** 2
        w[..., -1] = -np.inf
        np.exp(w, out=w)
        eta = np.minimum(total(w) / self.n["kappa"], 1)
        phi = self.at(w) * np.maximum(self.at(self.a) - self.n["delta"], 0)
        var = np.maximum(total(phi * phi) / self.M - (total(phi) / self.M) ** 2, 0)
        return self.n["lam_sep"] * self.n["omega_sep"] * eta / np.sqrt(var + EPS) * phi
