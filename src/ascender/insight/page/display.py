"""How a task shows its example: pictures, groups and their names, as data of the page."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascender.insight.page.pack import Blobs
from ascender.insight.page.pooling import Pooling
from ascender.tasks import Display


def shown(display: Display, pooling: Pooling, blobs: Blobs) -> dict[str, Any]:
    """images: bytes of every token's picture, `size` = (h, w, colours), `grid` where they are the
    cells of one; groups: of every drawn token, None where it has none or is a block of several."""
    data: dict[str, Any] = {"images": None, "groups": None}
    if display.images is not None and (pooling.size == 1 or display.grid is not None):
        bytes_ = np.rint(255 * np.clip(display.images, 0, 1)).astype(np.uint8)
        h, w, c = (*bytes_.shape[1:], 1)[:3]
        place = blobs.put(bytes_.reshape(len(bytes_), -1), "u1")
        data["images"] = {"at": place, "size": [h, w, c], "grid": display.grid}
    if display.groups is not None and pooling.size == 1:
        groups = [None if g < 0 else int(g) for g in display.groups[: pooling.tokens]]
        names = dict(enumerate(display.group_names))
        present = sorted({g for g in groups if g is not None})
        data["groups"] = {"of": groups, "names": {str(g): names.get(g, str(g)) for g in present}}
    return data
