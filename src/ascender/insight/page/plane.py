"""The flock in two dimensions: the same axes for every layer.

    z of all layers, each from its own mean, one below the other → the two main directions
    u of all layers → the two main directions of headings

A head has its own plane where it has its own coordinates. Layers share axes so that a movement
on the page is a movement of the coordinates, not of the axes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ascender.insight.capture import Geometry
from ascender.insight.page.data import numbers
from ascender.insight.page.pack import Blobs
from ascender.insight.page.pooling import Pooling


class Planes:
    """Gathers the layers' geometry, then projects it."""

    def __init__(self, pooling: Pooling) -> None:
        self.pooling = pooling
        self.layers: list[tuple[np.ndarray, np.ndarray, np.ndarray] | None] = []

    def add(self, geometry: Geometry | None) -> None:
        if geometry is None:
            self.layers.append(None)
            return
        z, c, u = (
            np.stack([self.pooling.rows(x) for x in numbers(t[0])])
            for t in (geometry.z, geometry.c, geometry.u)
        )
        middle = z.mean(1, keepdims=True)
        self.layers.append((z - middle, c - middle, u))

    def data(self, blobs: Blobs) -> list[list[dict[str, Any]] | None]:
        """For every layer and head: points, centres and headings in the plane, and the share of
        the variance of all layers that is in it."""
        layers = [layer for layer in self.layers if layer is not None]
        if not layers:
            return [None] * len(self.layers)
        H = max(u.shape[0] for _, _, u in layers)
        planes = [self._plane([_of(z, h) for z, _, _ in layers]) for h in range(H)]
        turns = [self._plane([_of(u, h) for _, _, u in layers]) for h in range(H)]
        return [
            None
            if layer is None
            else [_drawn(layer, h, planes[h], turns[h], blobs) for h in range(H)]
            for layer in self.layers
        ]

    @staticmethod
    def _plane(clouds: list[np.ndarray]) -> tuple[np.ndarray, float]:
        """((w, 2), share); layers of other widths than the first have no part in it."""
        w = clouds[0].shape[-1]
        cloud = np.concatenate([x for x in clouds if x.shape[-1] == w])
        _, s, rows = np.linalg.svd(cloud, full_matrices=False)
        axes = np.zeros((w, 2))
        axes[:, : min(2, len(rows))] = rows[:2].T
        signs = np.where(axes[np.abs(axes).argmax(0), [0, 1]] < 0, -1.0, 1.0)
        power = float((s * s).sum())
        return axes * signs, float((s[:2] ** 2).sum()) / power if power else 0.0


def _of(t: np.ndarray, h: int) -> np.ndarray:
    return t[min(h, len(t) - 1)]


def _drawn(
    layer: tuple[np.ndarray, np.ndarray, np.ndarray], h: int, plane: tuple[np.ndarray, float],
    turn: tuple[np.ndarray, float], blobs: Blobs,
) -> dict[str, Any]:  # fmt: skip
    z, c, u = (_of(t, h) for t in layer)

    def flat(x: np.ndarray, axes: np.ndarray) -> int:
        y = x @ axes if x.shape[-1] == len(axes) else np.zeros((len(x), 2))
        return blobs.put(y, "f4")

    return {"z": flat(z, plane[0]), "c": flat(c, plane[0]), "u": flat(u, turn[0]),
            "share": round(plane[1], 4), "turn": round(turn[1], 4)}  # fmt: skip
