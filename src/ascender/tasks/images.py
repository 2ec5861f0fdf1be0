"""Pictures: the published files, read without pickle.

DIR/mnist/train-images-idx3-ubyte[.gz] …           MNIST's own format, Fashion-MNIST's too
DIR/cifar-10-batches-bin/data_batch_1.bin …        a label byte, then 3 × 32 × 32
"""

from __future__ import annotations

import gzip
import zlib
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from ascender.common.hub import from_hub
from ascender.common.validate import lookup, need
from ascender.core.neighbours import grid
from ascender.tasks.base import Batch, Display, Stored, commonest


class ImageSource(NamedTuple):
    """Where a set of pictures is: its folder, its name on the Hub and columns there."""

    folder: str
    hub: str
    image: str
    classes: tuple[str, ...]


CIFAR = "airplane automobile bird cat deer dog frog horse ship truck"
FASHION = "t-shirt trouser pullover dress coat sandal shirt sneaker bag boot"
SOURCES = {
    "mnist": ImageSource("mnist", "ylecun/mnist", "image", tuple("0123456789")),
    "fashion-mnist": ImageSource(
        "fashion-mnist", "zalando-datasets/fashion_mnist", "image", tuple(FASHION.split())
    ),
    "cifar10": ImageSource("cifar-10-batches-bin", "uoft-cs/cifar10", "img", tuple(CIFAR.split())),
}
Pictures = tuple[UInt8[np.ndarray, "n side side c"], Int[np.ndarray, "n"]]


@lru_cache(maxsize=4)
def pictures(name: str, split: str, data_dir: str | None) -> Pictures:
    """(pictures, classes) of "train" or "test"."""
    source = SOURCES[name]
    if data_dir is None:
        return _from_hub(source, split)
    folder = Path(data_dir) / source.folder
    if name == "cifar10":
        names = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else [
            "test_batch.bin"
        ]  # fmt: skip
        return _cifar(folder, names)
    stem = "train" if split == "train" else "t10k"
    images = _idx(folder, f"{stem}-images-idx3-ubyte")[..., None]
    labels = _idx(folder, f"{stem}-labels-idx1-ubyte").astype(np.int64)
    if len(images) != len(labels):
        raise ValueError(f"{folder}: {len(images)} images, {len(labels)} labels; expected as many")
    return images, labels


def splits(name: str, data_dir: str | None) -> dict[str, Pictures]:
    """Train, validation (a fixed tenth of the training pictures) and the official test."""
    images, labels = pictures(name, "train", data_dir)
    order = np.random.default_rng(0).permutation(len(labels))
    validation, train = np.sort(order[: len(order) // 10]), np.sort(order[len(order) // 10 :])
    return {
        "train": (images[train], labels[train]),
        "validation": (images[validation], labels[validation]),
        "test": pictures(name, "test", data_dir),
    }


def _idx(folder: Path, name: str) -> np.ndarray:
    """Two zero bytes, the type (8: bytes), the number of axes, their sizes, the data."""
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
    if path is None:
        raise FileNotFoundError(f"no file {folder / name} (or .gz); expected it there")
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} cannot be read ({error}); expected a whole file") from None
    axes = raw[3] if len(raw) > 4 and raw[:3] == b"\0\0\x08" else 0
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    if not axes or len(raw) != 4 + 4 * axes + int(np.prod(shape)):
        raise ValueError(f"{path} is no whole idx file of bytes; expected one (idx-ubyte)")
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _cifar(folder: Path, names: list[str]) -> Pictures:
    parts = []
    for name in names:
        path = folder / name
        if not path.exists():
            raise FileNotFoundError(f"no file {path}; expected CIFAR-10's binary version there")
        raw = np.fromfile(path, np.uint8)
        if len(raw) == 0 or len(raw) % 3073:
            raise ValueError(f"{path} has {len(raw)} bytes; expected a multiple of 3073")
        parts.append(raw.reshape(-1, 3073))
    rows = np.concatenate(parts)
    images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), rows[:, 0].astype(np.int64)


def _from_hub(source: ImageSource, split: str) -> Pictures:
    need("datasets", "tasks")
    from datasets import load_dataset

    instead = f"--data-dir DIR with {source.folder}/ in it"
    rows = from_hub(source.hub, instead, lambda: load_dataset(source.hub, split=split))
    images = np.stack([np.asarray(image, np.uint8) for image in rows[source.image]])
    return images.reshape(*images.shape[:3], -1), np.asarray(rows["label"], np.int64)


class Images(Stored):
    """What is in the picture? The base of the tasks with pictures."""

    position = "learned"
    num_labels = 10

    def __init__(self, name: str, data_dir: str | None = None) -> None:
        self.classes = lookup("pictures", name, SOURCES).classes
        self.parts = splits(name, data_dir)
        self.side = self.parts["train"][0].shape[1]

    def rows(self, split: str) -> int:
        return len(self.parts[split][1])

    @property
    def chance(self) -> float:
        return commonest(self.parts["test"][1])

    def example(self) -> str:
        image, label = (part[0] for part in self.parts["train"])
        return f"{drawn(image.mean(-1))}\n→ {self.classes[int(label)]}"


def drawn(grey: np.ndarray, width: int = 32) -> str:
    """A picture in characters, every second row."""
    shades = " .:-=+*#%@"
    small = grey[:: max(2, 2 * len(grey) // width), :: max(1, grey.shape[1] // width)]
    return "\n".join("".join(shades[int(v) * 10 // 256] for v in row) for row in small)


class Patches(Images):
    """What is in the picture? Patches of 4 × 4 pixels as tokens (7 × 7 of MNIST, 8 × 8 of
    CIFAR-10); a patch's neighbours are those beside it on the grid. Pixels are scaled to
    [−1, 1]. Names: mnist, fashion-mnist, cifar10; files or the Hub. Chance: the commonest class.

    One of MNIST:

            ..-**@@@@@%*@@#:
            %@@@@@##@@
               *@-
                #@:
                 -@@@=
                    -@@#
                  .+#@@%
               =%@@@@#-
           *%@@@@#-
        +@@@%++                   → 5
    """

    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 64, "rate": 1e-3}

    def __init__(
        self, pictures: str = "mnist", patch: int = 4, radius: int = 1, data_dir: str | None = None
    ) -> None:
        super().__init__(pictures, data_dir)
        if patch < 1 or self.side % patch:
            raise ValueError(f"patch = {patch}; expected a divisor of the side, {self.side}")
        self.patch, across = patch, self.side // patch
        self.length, self.neighbours = across * across, grid(across, across, radius)
        self.vector_size = patch * patch * self.parts["train"][0].shape[-1]

    def collate(self, split: str, which: np.ndarray) -> Batch:
        images, labels = (part[which] for part in self.parts[split])
        n, side, _, c = images.shape
        across, p = side // self.patch, self.patch
        x = images.reshape(n, across, p, across, p, c).swapaxes(2, 3).reshape(n, across**2, -1)
        return Batch.of(labels, vectors=x.astype(np.float32) / 127.5 - 1)

    def display(self, one: Batch) -> Display:
        p, across = self.patch, self.side // self.patch
        images = (one.inputs["vectors"][0].numpy() + 1) / 2
        c = images.shape[1] // p**2
        shape = (across**2, p, p) if c == 1 else (across**2, p, p, c)
        return Display(classes=self.classes, images=images.reshape(shape), grid=(across, across))


class Pixels(Images):
    """What is in the picture, pixel by pixel? CIFAR-10 in 256 greys, 32 × 32 = 1024 tokens (the
    image task of Long Range Arena); a pixel's neighbours are those beside it. Files or the Hub.
    Chance: the commonest class. Rows 10 to 22 of one:

        ====--=-=-.:.:-------+-::-------
        =====-::-:-+=+*+***+++=---------
        ====-.:::-++-*#%%%%######=------
        =----.::=##-+*#%@%%%*+#@%====---
        =:----:*%@++%%**+===+##%%=-:::-=
        =-----#%#*+=++--===-=+#**=::--:-      → frog
    """

    vocab_size = 256
    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 16, "rate": 1e-3}

    def __init__(
        self, pictures: str = "cifar10", radius: int = 1, data_dir: str | None = None
    ) -> None:
        super().__init__(pictures, data_dir)
        self.length, self.neighbours = self.side**2, grid(self.side, self.side, radius)

    def collate(self, split: str, which: np.ndarray) -> Batch:
        images, labels = (part[which] for part in self.parts[split])
        weights = np.array([0.299, 0.587, 0.114]) if images.shape[-1] == 3 else np.ones(1)
        grey = np.rint(images @ weights).astype(np.int64).reshape(len(images), -1)
        return Batch.of(labels, input_ids=grey)

    def display(self, one: Batch) -> Display:
        images = one.inputs["input_ids"][0].numpy()[:, None, None] / 255
        return Display(classes=self.classes, images=images, grid=(self.side, self.side))
