"""One language into another, from CSV files."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from ascender.common.validate import need
from ascender.tasks.answers import replies
from ascender.tasks.base import IGNORED, Batch, Graded, Stored, padded
from ascender.tasks.metrics import chrf, more
from ascender.tasks.rows import carved
from ascender.tasks.text import LEVELS, Coder, level_of


class Pair(NamedTuple):
    source: str
    target: str


class Translation(Stored):
    """A sentence into another language, such as IWSLT's: an encoder reads it, a decoder writes.

        translation/train.csv       source,target
                                    Guten Morgen!,Good morning!

    Files: DIR/translation/{train,validation,test}.csv with a header; where validation or test is
    missing, each gets a tenth carved from train, the same always, equal sources kept together.
    The score is the mean chrF of sentences (0 to 1) written greedily; beside it sacrebleu's
    corpus BLEU. Validation has the first `graded` pairs. Levels: tokens of the source against
    `length`, as in text classification. Chance: the commonest target for every source.
    """

    head = "seq2seq"
    metric = "chrF"
    levels = LEVELS
    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 32, "rate": 1e-3}

    def __init__(
        self, tokenizer: str = "bytes", length: int = 256, graded: int = 100,
        data_dir: str | None = None,
    ) -> None:  # fmt: skip
        if length < 2:
            raise ValueError(f"length = {length}; expected at least 2 tokens")
        if graded < 1:
            raise ValueError(f"graded = {graded}; expected a number of examples from 1")
        need("sacrebleu", "eval")
        if data_dir is None:
            raise FileNotFoundError(
                "translation is not on the Hub; expected data_dir with translation/train.csv in "
                "it, a header source,target and a pair a row"
            )
        self.pairs = _splits(Path(data_dir) / "translation")
        self.pairs["validation"] = self.pairs["validation"][:graded]
        self.length = length
        self.coder = Coder(tokenizer, lambda: (text for p in self.pairs["train"] for text in p))
        self.tokenizer, self.vocab_size = self.coder.tokenizer, self.coder.size

    def fields(self) -> dict[str, Any]:
        return {**super().fields(), "decoder_start_token_id": self.coder.end}

    def rows(self, split: str) -> int:
        return len(self.pairs[split])

    def collate(self, split: str, which: np.ndarray) -> Batch:
        some = [self.pairs[split][i] for i in which.tolist()]
        sources = self.coder([pair.source for pair in some])
        targets = self.coder([pair.target for pair in some])
        ids, mask = padded([row[: self.length] for row in sources], self.coder.pad)
        wanted = [np.append(row[: self.length - 1], self.coder.end) for row in targets]
        level = torch.tensor([level_of(len(row), self.length) for row in sources])
        later = [np.append(self.coder.end, row[:-1]) for row in wanted]  # what the decoder reads
        before = padded(later, self.coder.pad)[0]
        inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": before}
        return Batch(inputs, padded(wanted, IGNORED)[0], level)

    def grade(self, model: Any, batch: Batch) -> Graded:
        loss = float(model(**self.inputs(batch), labels=batch.labels).loss)
        ids, mask = batch.inputs["input_ids"], batch.inputs["attention_mask"]
        predicted = replies(model, ids, mask, self.coder, self.length)
        target = [
            self.coder.text([t for t in row if t != IGNORED]) for row in batch.labels.tolist()
        ]
        score = [chrf(a, b) for a, b in zip(target, predicted, strict=True)]
        return Graded(
            torch.tensor(score, dtype=torch.float64), batch.level, loss, predicted, target
        )

    def summary(self, predicted: Sequence[Any], target: Sequence[Any]) -> dict[str, float]:
        return more(("bleu",), predicted, target)

    @property
    def chance(self) -> float:
        guess = Counter(pair.target for pair in self.pairs["train"]).most_common(1)[0][0]
        return float(np.mean([chrf(pair.target, guess) for pair in self.pairs["test"]]))

    def example(self) -> str:
        one = self.pairs["train"][0]
        return f"{one.source}\n→ {one.target}"


def _splits(folder: Path) -> dict[str, list[Pair]]:
    """Files where there are files, tenths of train where there are none."""
    train = _pairs(folder / "train.csv")
    splits = {
        name: _pairs(folder / f"{name}.csv")
        for name in ("validation", "test")
        if (folder / f"{name}.csv").exists()
    }
    missing = [name for name in ("validation", "test") if name not in splits]
    where = carved((p.source for p in train), len(missing)) if missing else [0] * len(train)
    for part, name in enumerate(["train", *missing]):
        splits[name] = [pair for pair, at in zip(train, where, strict=True) if at == part]
    return splits


def _pairs(file: Path) -> list[Pair]:
    if not file.exists():
        raise FileNotFoundError(
            f"no file {file}; expected it there, a header source,target and a pair a row"
        )
    pairs = []
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        try:
            for row in reader:
                source, target = (row.get(name) or "" for name in ("source", "target"))
                if not source.strip() or not target.strip():
                    raise ValueError("no source or no target")
                pairs.append(Pair(source.strip(), target.strip()))
        except (ValueError, csv.Error) as error:  # broken UTF-8 is a kind of ValueError
            raise ValueError(
                f"{file}, line {reader.line_num} cannot be read ({error}); expected a header "
                "source,target and both in every row"
            ) from None
    if not pairs:
        raise ValueError(f"{file} has no rows; expected at least one")
    return pairs
