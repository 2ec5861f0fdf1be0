"""Rows of a public data set: from a folder, else from the Hub by its name.

    nyu-mll/glue, sst2 → DIR/glue/sst2/{train,validation,test}.jsonl
    openai/gsm8k, main → DIR/gsm8k/main/{train,test}.jsonl

The last part of a data set's name, its configuration where it has one, and a file a split: one
JSON object a line with the data set's own columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ascender.common.files import json_rows, place
from ascender.common.hub import from_hub
from ascender.common.validate import need

T = TypeVar("T")
Row = dict[str, Any]
HIDDEN: tuple[Any, ...] = (-1, None, "", [])  # what stands where a data set keeps a label to itself
ZIPPED = ("tau/scrolls",)  # a zip a configuration, which `datasets` does not open by itself


def rows(
    path: str, name: str | None, split: str, data_dir: str | None, columns: Sequence[str] = ()
) -> list[Row]:
    """All rows of a split, each with these columns."""
    if data_dir is None:
        table = fetched(path, name, split)
        where = f"{path}{f' ({name})' if name else ''}, {split}, row"
    else:
        file = Path(data_dir) / place(path, name) / f"{split}.jsonl"
        table, where = json_rows(file), f"{file}, row"
    for number, row in enumerate(table, 1):
        if missing := [column for column in columns if column not in row]:
            raise ValueError(
                f"{where} {number} has no column {missing[0]!r}, only {', '.join(row)}; expected "
                f"{', '.join(columns)}"
            )
    if not table:
        raise ValueError(f"{where}s: none; expected at least one")
    return table


def labelled(
    path: str, name: str | None, data_dir: str | None, column: str = "label",
    columns: Sequence[str] = (), official: str = "validation",
) -> list[Row]:  # fmt: skip
    """Rows to test on, of a data set that hides the labels of its test: those of test.jsonl where
    the folder has one with labels, else the official validation."""
    if data_dir is not None:
        file = Path(data_dir) / place(path, name) / "test.jsonl"
        if file.exists() and all(row.get(column) not in HIDDEN for row in json_rows(file)):
            return rows(path, name, "test", data_dir, columns)
    return rows(path, name, official, data_dir, columns)


def fetched(path: str, name: str | None, split: str) -> list[Row]:
    """From the Hub, or where `datasets` has it already."""
    what = f"{path}{f' ({name})' if name else ''}"
    instead = f"data_dir with {place(path, name) / f'{split}.jsonl'} in it, one JSON object a line"
    need("datasets", "tasks", f", or {instead}")
    from datasets import load_dataset

    def load() -> list[Row]:
        if path in ZIPPED:
            files = f"zip://{name}/{split}.jsonl::hf://datasets/{path}/{name}.zip"
            return list(load_dataset("json", data_files={split: files}, split=split))
        return list(load_dataset(path, name, split=split))

    return from_hub(what, instead, load)


def digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(errors="replace"), digest_size=16).digest()


def carved(keys: Iterable[str], parts: int = 1) -> list[int]:
    """For each key the part that it is carved into, or 0 for the rest: tenths of the different
    keys, those with the smallest hashes first. Equal keys stay together, and neither the order
    of the rows nor a seed matters.

    >>> carved([f"row {i}" for i in range(10)])
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]
    """
    keys = list(keys)
    order = sorted(set(keys), key=digest)
    tenth = max(1, len(order) // 10)
    if len(order) <= parts * tenth:
        raise ValueError(
            f"{len(order)} different rows; expected more than {parts * tenth}, to carve "
            f"{parts} held-out part{'s' if parts > 1 else ''} from them"
        )
    part = {key: i // tenth + 1 for i, key in enumerate(order[: parts * tenth])}
    return [part.get(key, 0) for key in keys]


def parted(train: list[T], test: list[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """The three splits, validation carved from training: a tenth of the different keys."""
    both: tuple[list[T], list[T]] = ([], [])
    for one, part in zip(train, carved(map(key, train)), strict=True):
        both[part].append(one)
    return {"train": both[0], "validation": both[1], "test": test}
