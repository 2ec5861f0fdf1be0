"""Arrays as text in a page: small, and exact to the digits that are shown.

    i3  whole numbers of 24 bits and one scale a row: |x − x̂| ≤ 2⁻²⁴ max|row|
    i2  the same with 16 bits        f4  float32        u2  indices, 65535 = none
    b1  bits                         u1  bytes

Numbers of more than one byte are written a byte plane after the other (all low bytes, …), which
deflates better; whatever saves a tenth that way is deflated. Equal arrays are written once.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

NONE = 65535
BITS = {"i3": 24, "i2": 16}


def fixed(x: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """(scale (n, 1), whole numbers (n, m)) with x ≈ scale · whole."""
    most = 2 ** (BITS[kind] - 1) - 1
    scale = (np.abs(x).max(-1, keepdims=True, initial=0) / most).astype(np.float32)
    whole = np.rint(x / np.where(scale > 0, scale, 1)).clip(-most, most)
    return scale, whole.astype(np.int32)


def shown(x: np.ndarray, kind: str) -> np.ndarray:
    """What a reader of the page gets back."""
    if kind not in BITS:
        return x.astype(np.float32).astype(np.float64)
    scale, whole = fixed(x, kind)
    return scale.astype(np.float64) * whole


class Blobs:
    """The arrays of a page; `put` gives the place of one."""

    def __init__(self) -> None:
        self.list: list[dict[str, Any]] = []
        self._known: dict[tuple[str, int, bytes], int] = {}

    def put(self, x: np.ndarray, kind: str) -> int:
        """A vector (m,) or matrix (n, m)."""
        x = np.atleast_2d(x)
        data = _bytes(x, kind)
        key = (kind, x.shape[1], data)
        if key not in self._known:
            self._known[key] = len(self.list)
            small = zlib.compress(data, 6)
            deflated = len(small) < 0.9 * len(data)
            text = base64.b64encode(small if deflated else data).decode("ascii")
            self.list.append(
                {"t": kind, "n": x.shape[0], "m": x.shape[1], "z": int(deflated), "d": text}
            )
        return self._known[key]


def _bytes(x: np.ndarray, kind: str) -> bytes:
    if kind == "f4":
        return x.astype("<f4").tobytes()
    if kind == "b1":
        return np.packbits(x.astype(bool), axis=-1, bitorder="little").tobytes()
    if kind == "u1":
        return x.astype(np.uint8).tobytes()
    if kind == "u2":
        return _planes(x.astype(np.int64), 2)
    scale, whole = fixed(x, kind)
    return scale.astype("<f4").tobytes() + _planes(whole, BITS[kind] // 8)


def _planes(whole: np.ndarray, width: int) -> bytes:
    """All low bytes, then the next ones, …"""
    return b"".join(((whole >> 8 * i) & 255).astype(np.uint8).tobytes() for i in range(width))
