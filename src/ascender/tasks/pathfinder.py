"""Are the two dots on the same dashed curve?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int

from ascender.core.neighbours import grid
from ascender.tasks.base import Batch, Display, Drawn

ANSWERS = ("not connected", "connected")
SHADES, DOT = 8, 7  # 0: nothing, 2 … 6: a dash, 7: a dot
CLEAR = 4  # pixels from one curve to another, and from a curve to itself
BEND, TURN = 0.5, 0.4  # radians from dash to dash, at most: of the whole curve, of each dash
LAG = 6  # pixels of a curve that are near one another in any case
TRIES, CURVES = 16, 512  # curves tried at once: at least for an image, for all of them
PLUS = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0]])


def walk(
    rng: np.random.Generator, dashes: Int[np.ndarray, "w"], side: int
) -> tuple[Int[np.ndarray, "w points 2"], Bool[np.ndarray, "w"]]:
    """Curves that bend smoothly, as pixels one apart along the longer axis, three for a dash and
    the gap behind it; and which of them fit into the image. Behind the end of a curve its last
    pixel stands again."""
    w, most = len(dashes), int(dashes.max())
    bend = rng.uniform(-BEND, BEND, (w, 1)) + rng.uniform(-TURN, TURN, (w, most))
    θ = rng.uniform(0, 2 * np.pi, (w, 1)) + np.cumsum(bend, 1)
    y, x = np.cos(θ), np.sin(θ)
    longer = np.maximum(np.abs(y), np.abs(x))
    index = np.minimum(np.arange(3 * most - 1), 3 * dashes[:, None] - 2)
    pixels, fits = np.empty((w, 3 * most - 1, 2), dtype=np.int64), np.ones(w, dtype=bool)
    for axis, step in enumerate((y / longer, x / longer)):
        at = np.take_along_axis(np.cumsum(np.repeat(step, 3, 1), 1), index, 1)
        low, high = at.min(1), at.max(1)
        room = side - 3 - (high - low)  # a pixel on all sides is left for the dots
        start = 1 + rng.random(w) * room - low
        pixels[..., axis] = np.rint(at + start[:, None])
        fits &= room >= 0
    return pixels, fits


def away(
    pixels: Int[np.ndarray, "w points 2"], dashes: Int[np.ndarray, "w"]
) -> Bool[np.ndarray, "w"]:
    """Whether pixels LAG or more apart along a curve are CLEAR apart in the image."""
    y, x = pixels[:, ::2].astype(np.int16).transpose(2, 0, 1)  # every other one will do
    near = np.abs(y[:, :, None] - y[:, None]) < CLEAR
    near &= np.abs(x[:, :, None] - x[:, None]) < CLEAR
    i = np.arange(y.shape[1])
    inside = 2 * i < 3 * dashes[:, None] - 1
    near &= (np.abs(i[:, None] - i) >= LAG // 2) & inside[:, None] & inside[:, :, None]
    return ~near.any((1, 2))


def place(
    rng: np.random.Generator, taken: Bool[np.ndarray, "n side side"], dashes: Int[np.ndarray, "n"]
) -> tuple[Int[np.ndarray, "n points 2"], Bool[np.ndarray, "n"]]:
    """A curve for each image where nothing is taken, and whether one was found; it is taken then,
    with CLEAR − 1 pixels around it."""
    n, side = len(taken), taken.shape[1]
    tries = max(TRIES, CURVES // n)
    row, dashes = (np.repeat(t, tries) for t in (np.arange(n), dashes))
    pixels, fits = walk(rng, dashes, side)
    y, x = pixels[fits].transpose(2, 0, 1)
    fits[fits] = ~taken[row[fits, None], y, x].any(-1)
    fits[fits] = away(pixels[fits], dashes[fits])
    first = fits.reshape(n, tries).argmax(1) + tries * np.arange(n)
    chosen, placed = pixels[first], fits[first]
    zone = np.zeros_like(taken)
    row = np.flatnonzero(placed)
    zone[row[:, None], chosen[row, :, 0], chosen[row, :, 1]] = True
    for axis in (1, 2):
        zone = spread(zone, axis)
    taken |= zone
    return chosen, placed


def spread(zone: Bool[np.ndarray, "n side side"], axis: int) -> Bool[np.ndarray, "n side side"]:
    """CLEAR − 1 pixels to both sides along an axis."""
    wide, zone = zone.copy(), np.moveaxis(zone, axis, -1)
    out = np.moveaxis(wide, axis, -1)
    for d in range(1, CLEAR):
        out[..., d:] |= zone[..., :-d]
        out[..., :-d] |= zone[..., d:]
    return wide


class Pathfinder(Drawn):
    """Are the two dots the ends of one dashed curve, or of two?

        curves     two of L dashes, and distractors of L/3, bending smoothly, 4 pixels or more
                   from each other; a dash is two pixels of one shade, a gap is one
        dots       bright, on both ends of one of the two curves (label 1), or on an end of each,
                   about as far from each other (label 0)
        tokens     32 × 32 pixels, one of 8 shades each; a pixel's neighbours are those beside it

    >>> print(Pathfinder().example())
    ⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⡀⠀⠀⠀⠀⠀
    ⠀⠀⠀⡀⠔⠐⠂⠤⢀⠀⠈⠠⡀⠀⠀⠀
    ⠀⢀O⠀⠀⠀⠀⠀⠀⠁⡄⠀⠰⠀⠀⠀
    ⠀⠀⠁O⡀⠀⠀⠀⠀⠀⠰⠀⠀⡃⠀⠀
    ⠀⠀⠀⠈⢄⠀⠀⠀⡠⠐⠁⠀⢠⠁⠀⠀
    ⠀⠐⠄⠀⠀⠉⠈⠁⠀⠀⠀⠠⠂⠀⠀⠀
    ⠀⠀⠀⠉⠐⠄⢄⢀⡀⡠⠐⠁⠀⠀⠀⠀
    ⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀⠀
    → connected

    After Linsley et al. 2018 (arxiv.org/abs/1805.08315), whose contour lengths are the levels: 6,
    9, 14. As in Long Range Arena an image is read pixel by pixel. Both answers are equally likely,
    and the curves are drawn before the answer is: chance is 1/2.
    """

    name = "pathfinder"
    position = "learned"
    vocab_size, num_labels = SHADES, 2
    # A validation is 1000 × 1024 tokens, as much as 20 steps: not every 100.
    recipe: ClassVar[dict[str, Any]] = {"steps": 5000, "batch": 16, "rate": 1e-3, "every": 500}

    def __init__(
        self, contours: Sequence[int] = (6, 9, 14), distractors: int = 6, side: int = 32,
        radius: int = 1,
    ) -> None:  # fmt: skip
        if not 16 <= side <= 128:
            raise ValueError(f"side = {side}; expected from 16 to 128 pixels")
        if not contours or not all(3 <= L <= side * 7 // 16 for L in contours):
            raise ValueError(
                f"contours = {list(contours)}; expected numbers of dashes from 3 to "
                f"{side * 7 // 16}, which fit into {side} × {side} pixels"
            )
        if distractors < 0:
            raise ValueError(f"distractors = {distractors}; expected a number ≥ 0")
        self.contours, self.distractors, self.side = tuple(contours), distractors, side
        self.length, self.neighbours = side * side, grid(side, side, radius)
        self.levels = tuple(f"{L} dashes" for L in contours)

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        level = rng.integers(0, len(self.contours), n)
        label = rng.integers(0, 2, n)
        image = np.zeros((n, self.side, self.side), dtype=np.int64)
        todo = np.arange(n)
        while len(todo):
            todo = self.attempt(rng, image, todo, np.array(self.contours)[level], label)
        return Batch.of(label, level, input_ids=image.reshape(n, -1))

    def attempt(
        self, rng: np.random.Generator, image: Int[np.ndarray, "n side side"],
        todo: Int[np.ndarray, "m"], dashes: Int[np.ndarray, "n"], label: Int[np.ndarray, "n"],
    ) -> Int[np.ndarray, "left"]:  # fmt: skip
        """Draws those of the images into which two curves fit at once; the others are left."""
        taken = np.zeros((len(todo), self.side, self.side), dtype=bool)
        (a, ok), (b, too) = (place(rng, taken, dashes[todo]) for _ in range(2))
        good = ok & too
        done, taken, a, b = todo[good], taken[good], a[good], b[good]
        if len(done):
            L = dashes[done]
            for curve in (a, b):
                dashed(rng, image, done, curve, L)
            for _ in range(self.distractors):
                curve, placed = place(rng, taken, np.maximum(2, L // 3))
                dashed(rng, image, done, curve, np.where(placed, np.maximum(2, L // 3), 0))
            dots(image, done, a, b, label[done])
        return todo[~good]

    def display(self, one: Batch) -> Display:
        image = one.inputs["input_ids"][0].numpy() / DOT
        return Display(
            classes=ANSWERS, images=image[:, None, None], grid=(self.side, self.side)
        )  # fmt: skip

    def example(self) -> str:
        one = self.draw(np.random.default_rng(0), 1)
        image = one.inputs["input_ids"][0].view(self.side, self.side).numpy()
        return f"{braille(image)}\n→ {ANSWERS[int(one.labels[0])]}"


def dashed(
    rng: np.random.Generator, image: Int[np.ndarray, "m side side"], which: Int[np.ndarray, "n"],
    pixels: Int[np.ndarray, "n points 2"], dashes: Int[np.ndarray, "n"],
) -> None:  # fmt: skip
    """Draws curves into these of the images, each dash in a shade of its own."""
    points = np.arange(pixels.shape[1])
    shade = rng.integers(2, DOT, (len(which), len(points) // 3 + 1))
    row, p = np.nonzero((points % 3 != 2) & (points < 3 * dashes[:, None]))
    image[which[row], pixels[row, p, 0], pixels[row, p, 1]] = shade[row, p // 3]


def dots(
    image: Int[np.ndarray, "m side side"], which: Int[np.ndarray, "n"],
    a: Int[np.ndarray, "n points 2"], b: Int[np.ndarray, "n points 2"],
    label: Int[np.ndarray, "n"],
) -> None:  # fmt: skip
    """A dot on both ends of one curve where the label is 1; else on an end of each. Of the two
    such pairs of places and the four, those two that are most nearly as far apart, so that the
    distance tells little."""
    i = np.arange(len(which))
    ends = np.stack([a[:, [0, -1]], b[:, [0, -1]]], 1)  # (n, curve, end, 2)
    own = np.linalg.norm(ends[:, :, 0] - ends[:, :, 1], axis=-1)
    across = np.linalg.norm(ends[:, 0, :, None] - ends[:, 1, None], axis=-1).reshape(-1, 4)
    best = np.abs(own[:, :, None] - across[:, None]).reshape(-1, 8).argmin(1)
    curve, first, second = best // 4, best % 4 // 2, best % 2
    for one, other in ((ends[i, curve, 0], ends[i, 0, first]),
                       (ends[i, curve, 1], ends[i, 1, second])):  # fmt: skip
        centre = np.where(label[:, None] == 1, one, other)
        y, x = (centre[:, None] + PLUS).transpose(2, 0, 1)
        image[which[:, None], y, x] = DOT


def braille(image: Int[np.ndarray, "side side"]) -> str:
    """An image in characters of 4 × 2 pixels; the middle of a dot is an O."""
    bits = np.array([[0, 3], [1, 4], [2, 5], [6, 7]])
    bright = image == DOT
    middle = np.zeros_like(bright)
    middle[1:-1, 1:-1] = (bright[1:-1, 1:-1] & bright[:-2, 1:-1] & bright[2:, 1:-1]
                          & bright[1:-1, :-2] & bright[1:-1, 2:])  # fmt: skip
    lines = []
    for y in range(0, len(image) - 3, 4):
        line = ""
        for x in range(0, image.shape[1] - 1, 2):
            cell = image[y : y + 4, x : x + 2] > 0
            code = int((cell << bits).sum())
            line += "O" if middle[y : y + 4, x : x + 2].any() else chr(0x2800 + code)
        lines.append(line)
    return "\n".join(lines)
