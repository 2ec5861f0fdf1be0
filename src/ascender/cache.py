"""What decoding remembers: keys, values, coordinates and semantic directions of past tokens.

    cache = Cache()                          everything, for exact decoding
    cache = Cache(window=128, n_global=4)    the last 128 tokens and the first 4: endless streams

Buffers grow by doubling, so appending costs O(1) a token; a bounded cache drops what no later
token may see and holds at most 2 (window + globals) tokens beyond a call's own.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.flock import Flock
from ascender.geometry import FLOOR, lift, unit, wide
from ascender.rules import Rules
from ascender.visibility import Visibility

NAMES = ("k", "v", "z", "h", "bare", "scale", "real")


class Cache:
    """The past of one attention layer. `len(cache)` is the number of tokens seen so far."""

    def __init__(self, window: int | None = None, n_global: int = 0) -> None:
        if n_global and window is None:
            raise ValueError(f"n_global = {n_global} without a window; expected window=…")
        self.window, self.n_global = window, n_global
        self.seen = 0  # tokens ever appended
        self.held = 0  # tokens in the buffers
        self._buffers: dict[str, Tensor] = {}
        self._origin: Tensor | None = None

    def __len__(self) -> int:
        return self.seen

    def append(
        self,
        k: Float[Tensor, "B G n d"],
        v: Float[Tensor, "B G n e"],
        z: Float[Tensor, "B Z n z"],
        h: Float[Tensor, "B A n a"],
        *,
        bare: Float[Tensor, "B G n d"] | None = None,
        key_norm: float | Tensor | None = None,
        mask: Bool[Tensor, "B n"] | None = None,
    ) -> None:
        """Remember n more tokens. `mask`: False where a token is padding."""
        n, acc = k.shape[2], wide(k.dtype)
        if self._origin is None:
            self._origin = z[..., :1, :].to(acc).detach()
        new = {"k": k, "v": v, "z": lift(z.to(acc) - self._origin), "h": unit(h.to(acc))}
        if bare is not None:
            new["bare"] = bare
        if key_norm is None:
            keys = (k if bare is None else bare).to(acc)
            norm = torch.linalg.vector_norm(keys, dim=-1, keepdim=True)
            new["scale"] = 1 / norm.clamp_min(FLOOR)
        if mask is not None and "real" not in self._buffers and self.held:
            self._put_real(torch.ones(k.shape[0], self.held, dtype=torch.bool, device=k.device))
        if mask is not None or "real" in self._buffers:
            real = mask if mask is not None else k.new_ones(k.shape[0], n, dtype=torch.bool)
            new["real"] = real[:, None, :, None]
        if self.window is not None and self.held > 2 * (self.window + self.n_global):
            self._forget()
        for name, t in new.items():
            self._write(name, t)
        self.held += n
        self.seen += n

    def _put_real(self, real: Bool[Tensor, "B n"]) -> None:
        held, self.held = self.held, 0
        self._write("real", real[:, None, :, None])
        self.held = held

    def _write(self, name: str, t: Tensor) -> None:
        end = self.held + t.shape[2]
        buffer = self._buffers.get(name)
        if torch.is_grad_enabled() and (
            t.requires_grad or (buffer is not None and buffer.requires_grad)
        ):
            old = t if buffer is None else torch.cat([buffer[:, :, : self.held], t], 2)
            self._buffers[name] = old  # in place would break the graph: training through a cache
            return
        if buffer is None or buffer.shape[2] < end:
            room = t.new_empty(*t.shape[:2], max(2 * end, 16), t.shape[3])
            if buffer is not None:
                room[:, :, : self.held] = buffer[:, :, : self.held]
            self._buffers[name] = buffer = room
        buffer[:, :, self.held : end] = t

    def _forget(self) -> None:
        """Keep the globals and the last `window` tokens."""
        assert self.window is not None
        start = self.held - self.window
        for name, buffer in self._buffers.items():
            kept = torch.cat([buffer[:, :, : self.n_global], buffer[:, :, start : self.held]], 2)
            room = torch.empty_like(buffer)
            room[:, :, : kept.shape[2]] = kept
            self._buffers[name] = room
        self.held = self.n_global + self.window

    def reorder(self, index: Int[Tensor, "b"]) -> None:
        """Follow the beams: batch row b becomes what row index[b] was."""
        self._buffers = {name: t.index_select(0, index) for name, t in self._buffers.items()}
        if self._origin is not None:
            self._origin = self._origin.index_select(0, index)

    @property
    def positions(self) -> Int[Tensor, "M"]:
        """The position of every token held."""
        device = self._buffers["k"].device
        tail = torch.arange(self.seen - self.held, self.seen, device=device)
        if self.seen > self.held:  # globals stand in front of the tail
            tail[: self.n_global] = torch.arange(self.n_global, device=device)
        return tail

    def nbytes(self) -> int:
        """Memory of the buffers."""
        return sum(t.numel() * t.element_size() for t in self._buffers.values())

    def flock(
        self,
        q: Float[Tensor, "B H n d"],
        z_q: Float[Tensor, "B Z n z"],
        h_q: Float[Tensor, "B A n a"],
        *,
        rules: Rules,
        key_norm: float | Tensor | None = None,
        other: Tensor | None = None,
        neighbours: str | Tensor = "semantic",
    ) -> Flock:
        """The newest n tokens as queries against everything held."""
        held = {name: t[:, :, : self.held] for name, t in self._buffers.items()}
        j = self.positions
        real = held.get("real")
        vis = Visibility(
            j[-q.shape[2] :], j, causal=True, window=self.window, n_global=self.n_global,
            mask=None if real is None else real.mT,
        )  # fmt: skip
        assert self._origin is not None
        flock = Flock(
            q, held["k"], held["v"], z_q, held["z"][..., :-1], h_q, held["h"], rules=rules, vis=vis,
            other=other, neighbours=neighbours, bare=held.get("bare"), key_norm=key_norm,
        )  # fmt: skip
        acc = wide(q.dtype)
        known: dict[str, object] = {
            "z": (z_q.to(acc) - self._origin, held["z"][..., :-1]),
            "z_lifted": held["z"],
            "h_unit": (unit(h_q.to(acc)), held["h"]),
        }
        if key_norm is None:
            known["key_scale"] = held["scale"]
        return flock.prepared(**known)
