"""The text tasks of Long Range Arena (arXiv:2011.04006): bytes of reviews, pairs of papers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, ClassVar

from ascender.common.files import json_rows
from ascender.tasks.rows import Row, rows
from ascender.tasks.text import Example, TextClasses

SPLITS = {"train": "train", "validation": "eval", "test": "test"}  # ours: Long Range Arena's


class LraText(TextClasses):
    """Is the review of a film positive? Its bytes, one a token: IMDB, 25,000 and 25,000.

        task("lra-text").example()

        This film lacked something I couldn't put my finger on at first: charisma on the part of the
        leading actress. This inevitably translated to lack of chemistry when she shared the screen
        with her leadi…
        → negative

    `length` is 1000, or what is asked for up to 4096. Test is
    the official one; validation is a tenth carved from train, the same always. `held` takes only
    so many of each, evenly spread over their order: on a CPU 25,000 reviews take an hour. From a
    folder: imdb/{train,test}.jsonl with text and label.
    """

    class_names = ("negative", "positive")
    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 16, "rate": 1e-3}

    def __init__(
        self, length: int = 1000, tokenizer: str = "bytes", held: int | None = None,
        data_dir: str | None = None,
    ) -> None:  # fmt: skip
        if held is not None and held < 1:
            raise ValueError(f"held = {held}; expected at least 1, or None for all")
        train, test = (
            [
                Example((row["text"].strip(),), checked(row["label"]))
                for row in rows("stanfordnlp/imdb", None, split, data_dir, ("text", "label"))
            ]
            for split in ("train", "test")
        )
        self.part(train, test, tokenizer, length, most=4096)
        for split in ("validation", "test") if held is not None else ():
            all_of = self.examples[split]
            n = min(held or 0, len(all_of))
            self.examples[split] = [all_of[i * len(all_of) // n] for i in range(n)]


class LraRetrieval(TextClasses):
    """Does one paper cite the other? Two texts of the ACL Anthology Network, joined by a separator;
    each gets half of `length`, or more where the other needs less.

    The pairs are not on the Hub. From a folder: aan/new_aan_pairs.{train,eval,test}.tsv as Long
    Range Arena has them (label, two numbers, two texts, no header), or
    aan/{train,validation,test}.jsonl with text1, text2 and label. The splits are the official
    ones. Floor: the commonest class, about one half.
    """

    class_names = ("unrelated", "cited")
    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 8, "rate": 1e-3}

    def __init__(
        self, length: int = 2000, tokenizer: str = "bytes", data_dir: str | None = None
    ) -> None:
        if data_dir is None:
            raise FileNotFoundError(
                "lra-retrieval is not on the Hub; expected data_dir with "
                "aan/new_aan_pairs.train.tsv, .eval.tsv and .test.tsv in it"
            )
        examples = {split: _pairs(Path(data_dir) / "aan", split) for split in SPLITS}
        self.fill(examples, tokenizer, length)


def checked(label: Any) -> int:
    if str(label) not in ("0", "1", "0.0", "1.0"):
        raise ValueError(f"label {label!r}; expected 0 or 1")
    return int(float(label))


def _pairs(folder: Path, split: str) -> list[Example]:
    tsv, jsonl = folder / f"new_aan_pairs.{SPLITS[split]}.tsv", folder / f"{split}.jsonl"
    if not tsv.exists() and not jsonl.exists():
        raise FileNotFoundError(
            f"no file {tsv}; expected it there (Long Range Arena's), or {jsonl.name} beside it "
            "with text1, text2 and label"
        )
    lines = (
        _tabbed(tsv) if tsv.exists() else [(jsonl, i, r) for i, r in enumerate(json_rows(jsonl), 1)]
    )
    examples = []
    for file, number, row in lines:
        try:
            texts = (row["text1"].strip(), row["text2"].strip())
            examples.append(Example(texts, checked(row["label"])))
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"{file}, row {number} cannot be read ({error}); expected label, text1, text2"
            ) from None
    return examples


def _tabbed(file: Path) -> list[tuple[Path, int, Row]]:
    csv.field_size_limit(1 << 30)
    with file.open(encoding="utf-8", newline="") as lines:
        rows = []
        for number, row in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
            if len(row) != 5:
                raise ValueError(
                    f"{file}, row {number} has {len(row)} columns; expected 5: label, two "
                    "numbers, two texts"
                )
            rows.append((file, number, {"label": row[0], "text1": row[3], "text2": row[4]}))
    return rows
