"""One new token that sees every key, on the CPU and without gradients: what decoding mostly is.

At one row the overhead of an operation is larger than its work, and numpy's is a third of
torch's. So this is decode.py (which serves every other case) once more for the one case: rows are
numpy arrays (B, H, ·), or (B, 1, ·) where the heads share them; what reads all keys is torch,
which knows its threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ascender.combine import EPS
from ascender.flock import Flock
from ascender.geometry import FLOOR
from ascender.rules import NUMBERS

Row = Float[np.ndarray, "B #H M"]
Column = Float[np.ndarray, "B #H 1"]


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
        and flock.normalise is None and flock.pair_values is None and flock.local is None
        and flock.other is None and r.standardise and r.local_scope == "visible"
    )  # fmt: skip


def token(flock: Flock) -> Tensor:
    """out = A v of the one row."""
    with np.errstate(all="ignore"):
        return _Row(flock).attend()


def meet(x: Float[np.ndarray, "..."], y: Float[Tensor, "B G M w"]) -> Row:
    """x · y_j for every key, each head of y serving H/G of x."""
    B, G, M, w = y.shape
    rows = torch.from_numpy(x.reshape(B * G, -1, w))
    return torch.bmm(rows, y.reshape(B * G, M, w).mT).numpy().reshape(B, -1, M)


def mix(s: Row, y: Float[Tensor, "B G M w"]) -> Float[np.ndarray, "B #H w"]:
    """Σ_j softmax(s)_j y_j."""
    B, G, M, w = y.shape
    weights = torch.softmax(torch.from_numpy(s.reshape(B * G, -1, M)), -1)
    return torch.bmm(weights, y.reshape(B * G, M, w)).numpy().reshape(B, -1, w)


def total(x: Float[np.ndarray, "*s w"]) -> Float[np.ndarray, "*s 1"]:
    return np.add.reduce(x, -1, keepdims=True)


def sigmoid(x: Column) -> Column:
    return 1 / (1 + np.exp(-x))


def probe(c: Float[np.ndarray, "B #H z"]) -> Float[np.ndarray, "B #H z1"]:
    return np.concatenate([c + c, np.full_like(c[..., :1], -1)], -1)


class _Row:
    def __init__(self, flock: Flock) -> None:
        self.flock = flock
        self.B, self.H, _, self.d = flock.q.shape
        self.M, self.k = flock.vis.M, flock.rules.sizes()[0]
        self.batch, self.heads = np.arange(self.B)[:, None, None], np.arange(self.H)[:, None]
        self.n: dict[str, Any] = {}
        for name in NUMBERS:
            value = getattr(flock.rules, name)
            if isinstance(value, Tensor):
                value = value.detach().to(flock.q.dtype).numpy().reshape(-1, 1)
            self.n[name] = value

    def attend(self) -> Tensor:
        r, flock = self.flock.rules, self.flock
        q = flock.q[:, :, 0].numpy() * self.d**-0.5
        if r.active("align") or r.active("sep"):
            self.find_neighbours()
        s = self.aligned(q) if r.active("align") else meet(q, flock.k)
        if r.active("sep") or r.active("coh"):
            self.measure_distances()
        if r.active("coh"):
            s += self.cohesion()
        if r.active("sep"):
            s[self.batch, self.heads, self.near] -= self.separation()
        s /= self.n["tau_score"]
        return torch.from_numpy(mix(s, flock.v)).unsqueeze(2)

    def standardised(self, rule: str, gate: Column, r: Row) -> Row:
        """λ ω gate r̃; uses r up."""
        r -= total(r) / self.M
        f = self.n["lam_" + rule] * self.n["omega_" + rule] * gate
        return r * (f / np.sqrt(total(r * r) / self.M + EPS))

    def find_neighbours(self) -> None:
        """a_j, and the k of P with the largest."""
        h_q, h_k = self.flock.h_unit
        self.a = meet(h_q[:, :, 0].numpy(), h_k)
        self.a[..., -1] = -np.inf  # oneself
        self.near = np.argpartition(self.a, self.M - self.k, -1)[..., self.M - self.k :]

    def at(self, rows: Row) -> Float[np.ndarray, "B H k"]:
        """A row at the neighbours, (B, H, k)."""
        return rows[self.batch, np.minimum(self.heads, rows.shape[1] - 1), self.near]

    def aligned(self, q: Float[np.ndarray, "B H d"]) -> Row:
        """q·k_j and alignment: where k is not rotated q and u meet the keys in one product."""
        flock, keys = self.flock, self.flock.heading_keys
        scale = self.key_scale(self.H // keys.shape[1])
        near = keys.numpy()[self.batch, self.heads // (self.H // keys.shape[1]), self.near]
        near *= self.at(scale)[..., None] if flock.key_norm is None else scale
        s = near.sum(-2)
        length = np.sqrt(total(s * s))
        u, R = s / np.maximum(length, FLOOR), length / self.k
        gate = sigmoid(self.n["alpha_align"] * (R * R - 1))
        if flock.bare is None:
            both = meet(np.stack([q, u], 2), keys).reshape(self.B, self.H, 2, self.M)
            base, r = both[:, :, 0], both[:, :, 1]
        else:
            base, r = meet(q, flock.k), meet(u, keys)
        r *= scale if flock.key_norm is None else scale[..., 0]
        base += self.standardised("align", gate, r)
        return base

    def key_scale(self, share: int) -> Float[np.ndarray, "..."]:
        """1/‖k_j‖, each head of the keys serving `share`: (B, H, M), QK-norm: (H or 1, 1, 1)."""
        scale: Any = self.flock.key_scale
        if self.flock.key_norm is None:
            rows = scale.squeeze(-1).numpy()
            return np.repeat(rows, share, 1) if share > 1 else rows
        return np.asarray(scale, self.a.dtype).reshape(-1, 1, 1)

    def measure_distances(self) -> None:
        """−‖z − z_j‖²."""
        z = self.flock.z[0][:, :, 0].numpy()
        self.nearness = meet(probe(z), self.flock.z_lifted)
        self.nearness -= total(z * z)

    def cohesion(self) -> Row:
        tau, y = self.n["tau_coh"], self.flock.z_lifted
        mean = mix(self.nearness / tau**2, y)
        c, mean_square = mean[..., :-1], mean[..., -1:]
        gate = sigmoid(self.n["alpha_coh"] * np.minimum(total(c * c) - mean_square, 0))
        return self.standardised("coh", gate, meet(probe(c) / tau, y))

    def separation(self) -> Float[np.ndarray, "B H k"]:
        """λ ω η φ/σ at the neighbours."""
        w = self.nearness / self.n["tau_sep"] ** 2
        w[..., -1] = -np.inf
        np.exp(w, out=w)
        eta = np.minimum(total(w) / self.n["kappa"], 1)
        phi = self.at(w) * np.maximum(self.at(self.a) - self.n["delta"], 0)
        var = np.maximum(total(phi * phi) / self.M - (total(phi) / self.M) ** 2, 0)
        return self.n["lam_sep"] * self.n["omega_sep"] * eta / np.sqrt(var + EPS) * phi
