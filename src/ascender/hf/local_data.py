"""Data sets from a folder, where lm-eval would fetch them from the Hub.

    nyu-mll/glue, sst2 → DIR/glue/sst2/{train,validation,test}.jsonl
    openai/gsm8k, main → DIR/gsm8k/main/{train,test}.jsonl

The last part of a data set's name, its configuration where it has one, and a file a split: one
JSON object a line with the data set's own columns. Task and metric stay lm-eval's; only the rows
come from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets

from ascender.common.files import place, reason
from ascender.common.hub import unavailable

Say = Callable[[str], None]
BUILDERS = ("arrow", "csv", "json", "pandas", "parquet", "text", "xml")  # files, not names
HIDDEN = -1  # what GLUE has for a label that it keeps to itself


class Splits(datasets.DatasetDict):
    """The splits there are files for; asking for another names the file. Where validation is
    missing and the rows of test have labels, test stands in for it."""

    def __init__(self, task: str, folder: Path, say: Say) -> None:
        files = {path.stem: str(path) for path in sorted(folder.glob("*.jsonl"))}
        super().__init__(datasets.load_dataset("json", data_files=files) if files else {})
        self.task, self.folder, self.say = task, folder, say

    def __getitem__(self, split: Any) -> datasets.Dataset:
        if split in self:
            return super().__getitem__(split)
        missing = self.folder / f"{split}.jsonl"
        if split == "validation" and "test" in self and self._labelled("test"):
            self.say(f"{self.task}: no file {missing}; the labelled test.jsonl stands in for it")
            self[split] = super().__getitem__("test")
            return super().__getitem__(split)
        raise FileNotFoundError(
            f"{self.task}: no file {missing}; expected the split {split!r} there, one JSON object "
            "a line"
        )

    def _labelled(self, split: str) -> bool:
        rows = super().__getitem__(split)
        return "label" in rows.column_names and HIDDEN not in rows["label"]


@contextmanager
def data_from(folder: Path | None, say: Say) -> Iterator[None]:
    """Inside, lm-eval's tasks find their rows in the folder (None: where they always did), and
    rows that cannot be had are an error that names them. Tasks that bring their own files, or
    their own way to fetch them, are left alone."""
    from lm_eval.api.task import ConfigurableTask

    before = ConfigurableTask.download

    def download(task: Any, dataset_kwargs: dict[str, Any] | None = None, **more: Any) -> None:
        path, name = task.DATASET_PATH, task.DATASET_NAME
        own = path is None or path in BUILDERS or callable(task.config.custom_dataset)
        if own or folder is None:
            try:
                before(task, dataset_kwargs, **more)
            except Exception as error:
                raise OSError(_unavailable(task, own, error)) from error
            return
        task.dataset = Splits(task.config.task, folder / place(path, name), say)

    ConfigurableTask.download = download
    try:
        yield
    finally:
        ConfigurableTask.download = before


def _unavailable(task: Any, own: bool, error: Exception) -> str:
    path, name, config = task.DATASET_PATH, task.DATASET_NAME, task.config
    what = f"{path}{f' ({name})' if name else ''}"
    if own:
        return f"{config.task}: cannot load {what}: {type(error).__name__}: {reason(error)}"
    split = config.test_split or config.validation_split or "test"
    instead = f"--data-dir DIR with {place(path, name) / f'{split}.jsonl'} in it"
    return f"{config.task}: {unavailable(what, error, instead)}"
