"""KV caches for decoding.

    cache = Cache()                          everything, for exact decoding
    cache = Cache(window=128, n_global=4)    the last 128 tokens and the first 4: endless streams

Buffers grow by doubling, so appending costs O(1) a token; a bounded cache drops what no later
token may see and holds at most 2 (window + globals) tokens beyond a call's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from ascender.core.flock import Flock, make_flock
from ascender.core.geometry import FLOOR, accum_dtype, anchor, bounded, lift, unit
from ascender.core.normalizers import Normalizer
from ascender.core.rules import Rules
from ascender.core.visibility import Visibility
from ascender.kernels import gpu


class CrossKV(dict[str, Tensor]):
    """Keys and values of a cross-attention's context, computed once and used in later calls."""

    def reorder(self, index: Int[Tensor, "b"]) -> None:
        """Reorder the batch, as beam search does."""
        self.update({name: t.index_select(0, index) for name, t in self.items()})


class KVCache:
    """Named streams (B, ·, tokens, ·) of one attention layer: keys, values, and what else a row
    needs of past tokens. `len(cache)` is the number of tokens so far. Streams in BY_COLUMN are
    stored column by column on the CPU: products of one row with narrow keys are twice as fast that
    way."""

    BY_COLUMN: frozenset[str] = frozenset()

    def __init__(self, window: int | None = None, n_global: int = 0) -> None:
        if n_global and window is None:
            raise ValueError(f"n_global = {n_global} without a window; expected window=…")
        self.window, self.n_global = window, n_global
        self.length = 0  # tokens appended so far
        self.held = 0  # tokens in the buffers now
        self._buffers: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, name: str) -> Shaped[Tensor, "B G M w"]:
        """A stream's tokens."""
        return self._buffers[name].narrow(2, 0, self.held)

    def keep(self, mask: Bool[Tensor, "B n"] | None = None, **streams: Tensor) -> None:
        """Append n tokens. `mask`: False where a token is padding."""
        some = next(iter(streams.values()))
        B, n, device = some.shape[0], some.shape[2], some.device
        if mask is not None and "real" not in self._buffers and self.held:
            held, self.held = self.held, 0
            self._write("real", torch.ones(B, 1, held, 1, dtype=torch.bool, device=device))
            self.held = held
        if mask is not None or "real" in self._buffers:
            real = torch.ones(B, n, dtype=torch.bool, device=device) if mask is None else mask
            streams["real"] = real[:, None, :, None]
        if self.window is not None and self.held > 2 * (self.window + self.n_global):
            self._drop_old()
        for name, t in streams.items():
            self._write(name, t)
        self.held += n
        self.length += n

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
            room = self._room(name, t, max(2 * end, 16))
            if buffer is not None:
                room[:, :, : self.held] = buffer[:, :, : self.held]
            self._buffers[name] = buffer = room
        buffer.narrow(2, self.held, t.shape[2]).copy_(t)

    def _room(self, name: str, t: Tensor, n: int) -> Tensor:
        B, G, _, w = t.shape
        by_column = name in self.BY_COLUMN and not gpu.on_gpu(t)  # kernels there gather rows
        return t.new_empty(B, G, w, n).mT if by_column else t.new_empty(B, G, n, w)

    def _drop_old(self) -> None:
        """Keep the globals and the last `window` tokens."""
        assert self.window is not None
        start = self.held - self.window
        for name, buffer in self._buffers.items():
            kept = torch.cat([buffer[:, :, : self.n_global], buffer[:, :, start : self.held]], 2)
            room = self._room(name, buffer, buffer.shape[2])
            room[:, :, : kept.shape[2]] = kept
            self._buffers[name] = room
        self.held = self.n_global + self.window

    def crop(self, n: int) -> None:
        """Drop the newest n tokens. A bounded cache can drop at least those of its last call."""
        kept = self.held - n
        dropped = self.length > self.held  # a window has dropped older tokens
        least = (self.window or 0) + self.n_global if dropped else 0
        if n < 0 or kept < least:
            raise ValueError(
                f"n = {n} of {self.length} tokens, of which {self.held} are held; expected fewer"
            )
        self.held, self.length = kept, self.length - n

    def reorder(self, index: Int[Tensor, "b"]) -> None:
        """Reorder the batch, as beam search does: row b becomes what row index[b] was."""
        for name, t in self._buffers.items():
            beams = t.index_select(0, index)
            self._buffers[name] = self._room(name, beams, t.shape[2]).copy_(beams)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The streams with room for more tokens: only the first `held` count."""
        return self._buffers

    @property
    def positions(self) -> Int[Tensor, "M"]:
        """The position of every token held."""
        device = next(iter(self._buffers.values())).device
        tail = torch.arange(self.length - self.held, self.length, device=device)
        if self.length > self.held:  # globals stand in front of the tail
            tail[: self.n_global] = torch.arange(self.n_global, device=device)
        return tail

    @property
    def batch(self) -> int:
        """How many sequences."""
        return next(iter(self._buffers.values())).shape[0]

    def nbytes(self) -> int:
        """Memory of the buffers."""
        return sum(t.numel() * t.element_size() for t in self._buffers.values())

    def visibility(self, n: int) -> Visibility:
        """The newest n tokens as queries against everything held."""
        j = self.positions
        real = self["real"].mT if "real" in self._buffers else None
        return Visibility(
            j[-n:], j, causal=True, window=self.window, n_global=self.n_global, mask=real,
            first=self.length - n,
        )  # fmt: skip


class Cache(KVCache):
    """The cache of AscenderAttention: keys and their lengths, values, z and h. `unit_h`: h at
    length 1, else as it is."""

    BY_COLUMN = frozenset({"z", "h"})

    def __init__(
        self, window: int | None = None, n_global: int = 0, *, unit_h: bool = True
    ) -> None:
        super().__init__(window, n_global)
        self.unit_h = unit_h
        self._origin: Tensor | None = None
        self._rules: tuple[tuple[Any, ...], Rules] | None = None
        self._finite = True  # whether every token so far is known to be

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
        """Append n tokens. `mask`: False where a token is padding."""
        acc = accum_dtype(k.dtype)
        if k.shape[2] == 1 and mask is None and self._fits_in_place(k, v, z, h):
            self._append_one(k, v, z, h, bare)
            return
        more = {}
        if gpu.on_gpu(k):
            (k, v, z, h, bare), more["nonfinite"] = _without_nonfinite(k, v, z, h, bare)
        z = bounded(z.to(acc))
        if self._origin is None:
            self._origin = self._first(z.detach(), mask)
        h = h.to(acc)
        more |= {"z": lift(z - self._origin), "h": unit(h) if self.unit_h else h}
        new = {"k": k, "v": v, **more}
        if bare is not None:
            new["bare"] = bare
        self._check_finite(*new.values())
        if key_norm is None:
            keys = (k if bare is None else bare).to(acc)
            norm = torch.linalg.vector_norm(keys, dim=-1, keepdim=True)
            new["scale"] = 1 / norm.clamp_min(FLOOR)
        self.keep(mask, **new)

    @property
    def every_key_is_usual(self) -> bool:
        """Whether later tokens see all keys, and all of them are finite."""
        return self._finite and self.window is None and "real" not in self._buffers

    def _check_finite(self, *new: Tensor) -> None:
        if torch.compiler.is_compiling() or new[0].device.type != "cpu":
            self._finite = False  # values are not read here: later calls check all keys
        elif self._finite:
            self._finite = all(math.isfinite(float(t.detach().sum())) for t in new)

    def _first(self, z: Tensor, mask: Bool[Tensor, "B n"] | None) -> Float[Tensor, "B Z 1 z"]:
        """The origin of z: a token that all later ones see; in a window there is none."""
        if self.window is not None:
            return torch.zeros_like(z[..., :1, :])
        return anchor(z, None if mask is None else mask[:, None])

    def _fits_in_place(self, *new: Tensor) -> bool:
        """Whether one more token fits the buffers and numpy can write it: at one token the
        overhead of torch dominates."""
        full = self.window is not None and self.held > 2 * (self.window + self.n_global)
        return (
            self.held > 0
            and not full
            and "real" not in self._buffers
            and not torch.is_grad_enabled()
            and all(t.shape[2] > self.held for t in self._buffers.values())
            and all(plain(t) for t in (*new, *self._buffers.values()))
        )

    def _append_one(self, k: Tensor, v: Tensor, z: Tensor, h: Tensor, bare: Tensor | None) -> None:
        """The same as append, in numpy."""
        room = {name: t.numpy()[:, :, self.held] for name, t in self._buffers.items()}
        assert self._origin is not None
        at = bounded(z).numpy()[:, :, 0] - self._origin.numpy()[:, :, 0]
        key, value, latent = (t.numpy()[:, :, 0] for t in (k, v, h))
        plain_key = key if bare is None else bare.numpy()[:, :, 0]
        if self._finite:
            sums = (np.add.reduce(t, None) for t in (plain_key, value, at, latent))
            self._finite = all(map(math.isfinite, sums))
        room["k"][:], room["v"][:] = key, value
        room["z"][..., :-1], room["z"][..., -1] = at, np.add.reduce(at * at, -1)
        np.divide(latent, length(latent) if self.unit_h else 1, out=room["h"])
        if "bare" in room:
            room["bare"][:] = plain_key
        if "scale" in room:
            np.divide(1, length(plain_key), out=room["scale"])
        self.held += 1
        self.length += 1

    def reorder(self, index: Int[Tensor, "b"]) -> None:
        super().reorder(index)
        if self._origin is not None:
            self._origin = self._origin.index_select(0, index)

    def flock(
        self,
        q: Float[Tensor, "B H n d"],
        z_q: Float[Tensor, "B Z n z"],
        h_q: Float[Tensor, "B A n a"],
        *,
        rules: Rules,
        key_norm: float | Tensor | None = None,
        normalizer: Normalizer | None = None,
        **options: Any,
    ) -> Flock:
        """n queries at the newest tokens against everything held."""
        assert self._origin is not None
        acc = accum_dtype(q.dtype)
        z_q, h_q = bounded(z_q.to(acc)) - self._origin, h_q.to(acc)
        h_q = unit(h_q) if self.unit_h else h_q
        vis = self.visibility(q.shape[2])
        return self._flock(q, z_q, h_q, self.held, rules, vis, key_norm, normalizer, **options)

    def newest(
        self,
        q: Float[Tensor, "B H n d"],
        *,
        rules: Rules,
        vis: Visibility,
        h_q: Float[Tensor, "B A n a"] | None = None,
        key_norm: float | Tensor | None = None,
        normalizer: Normalizer | None = None,
        **options: Any,
    ) -> Flock:
        """The newest n tokens themselves as queries. What a window hides from all of them is left
        out; one token then sees all that is left. `h_q`: where it is not that of the keys."""
        n, recent = q.shape[2], self.held
        indexed = ("other", "pair_values")  # like index lists, these count from the first key
        cuts = all(options.get(name) is None for name in indexed)
        cuts = cuts and isinstance(options.get("neighbours"), str)
        if vis.window is not None and not vis.n_global and vis.mask is None and cuts:
            recent = min(recent, vis.window + n)
            vis = replace(vis, j=vis.j[-recent:], window=None if n == 1 else vis.window)
        z, h = (self._buffers[name].narrow(2, self.held - n, n) for name in ("z", "h"))
        h = h if h_q is None else h_q.to(h.dtype)
        return self._flock(q, z[..., :-1], h, recent, rules, vis, key_norm, normalizer, **options)

    def _flock(
        self, q: Tensor, z: Tensor, h: Tensor, recent: int, rules: Rules, vis: Visibility,
        key_norm: float | Tensor | None, normalizer: Normalizer | None, **options: Any,
    ) -> Flock:  # fmt: skip
        """Queries (z from the origin, h at length 1) against the last tokens, which they see."""
        start = self.held - recent
        held = {name: t.narrow(2, start, recent) for name, t in self._buffers.items()}
        z_q_k = z, held["z"][..., :-1]
        derived = {"z": z_q_k, "z_lifted": held["z"]}
        if self.unit_h:
            derived["h_unit"] = h, held["h"]
        if key_norm is None:
            derived["key_scale"] = held["scale"]
        if self._finite:
            derived["keys_are_finite"] = True
        if "nonfinite" in held:
            options["nonfinite_keys"] = held["nonfinite"].squeeze(-1)
        return make_flock(
            q, held["k"], held["v"], *z_q_k, h, held["h"], rules=rules, vis=vis,
            bare=held.get("bare"), key_norm=key_norm, normalizer=normalizer, derived=derived,
            **options,
        )  # fmt: skip

    def cached_rules(
        self, version: Callable[[], tuple[Any, ...]], rules: Callable[[], Rules]
    ) -> Rules:
        """rules(), called again only where the version has changed or gradients are asked for."""
        if torch.is_grad_enabled():
            return rules()
        try:
            now = version()
        except RuntimeError:  # weights created in inference mode have no version
            return rules()
        if self._rules is None or self._rules[0] != now:
            self._rules = now, rules()
        return self._rules[1]


def _without_nonfinite(*streams: Tensor | None) -> tuple[list[Any], Bool[Tensor, "B 1 n 1"]]:
    """(the streams of new tokens with 0 instead of what is not finite, which tokens had any). On a
    GPU later calls then neither read all keys to find out nor write them anew."""
    bad = reduce(or_, (
        ~torch.isfinite(t).all(-1, keepdim=True).all(1, keepdim=True)
        for t in streams if t is not None
    ))  # fmt: skip
    return [None if t is None else t.masked_fill(bad, 0) for t in streams], bad


def plain(t: Tensor) -> bool:
    """Whether t is memory that numpy can read."""
    exact = t.dtype in (torch.float32, torch.float64)
    return exact and t.device.type == "cpu" and not t.requires_grad


def length(x: Float[np.ndarray, "*s w"]) -> Float[np.ndarray, "*s 1"]:
    """max(‖x‖, 1e-12)."""
    return np.maximum(np.sqrt(np.add.reduce(x * x, -1, keepdims=True)), FLOOR)
