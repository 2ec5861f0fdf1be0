"""GLUE: nine tasks of sentences and pairs of sentences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ascender.common.validate import lookup
from ascender.tasks.rows import Row, labelled, rows
from ascender.tasks.text import Example, TextClasses

HUB = "nyu-mll/glue"


class GlueSubset(NamedTuple):
    columns: tuple[str, ...]
    class_names: tuple[str, ...]  # names of the classes; none: a number
    reports: tuple[str, ...] = ()
    length: int = 512
    official: str = "validation"


PAIR = ("sentence1", "sentence2")
ENTAILED = ("entailment", "not entailment")
THREE = ("entailment", "neutral", "contradiction")
SUBSETS = {
    "cola": GlueSubset(("sentence",), ("unacceptable", "acceptable"), ("matthews",), 256),
    "sst2": GlueSubset(("sentence",), ("negative", "positive"), length=256),
    "mrpc": GlueSubset(PAIR, ("different", "equivalent"), ("f1",)),
    "qqp": GlueSubset(("question1", "question2"), ("different", "duplicate"), ("f1",)),
    "stsb": GlueSubset(PAIR, (), ("pearson", "spearman")),
    "mnli": GlueSubset(("premise", "hypothesis"), THREE, official="validation_matched"),
    "qnli": GlueSubset(("question", "sentence"), ENTAILED),
    "rte": GlueSubset(PAIR, ENTAILED),
    "wnli": GlueSubset(PAIR, ("not entailment", "entailment")),
}


class Glue(TextClasses):
    """Sentences and pairs of them: acceptable? positive? paraphrase? entailed? (GLUE,
    arXiv:1804.07461.)

        task("sst2").example()

        that loves its characters and communicates something rather beautiful about human nature
        → positive

    cola, sst2, mrpc, qqp, stsb, mnli, qnli, rte, wnli. The score is accuracy; beside it what the
    field reports: Matthews' correlation (cola), F1 of class 1 (mrpc, qqp), Pearson and Spearman
    (stsb). stsb is a regression to 0 … 5: its score is the share predicted within 0.5.

    GLUE hides the labels of its test. So test is the official validation (mnli: the matched one),
    or test.jsonl where the folder has one with labels; validation is a tenth carved from train,
    the same always, texts that are equal kept together.
    """

    def __init__(
        self, subset: str = "sst2", tokenizer: str = "bytes", length: int | None = None,
        data_dir: str | None = None,
    ) -> None:  # fmt: skip
        about = lookup("subset of GLUE", subset, SUBSETS)
        self.class_names, self.reports = about.class_names, about.reports
        self.num_labels = len(about.class_names) or 1
        if self.num_labels == 1:
            self.metric = "within 0.5"
        columns = (*about.columns, "label")

        def example(row: Row) -> Example:
            label = row["label"]
            if about.class_names and label not in range(len(about.class_names)):
                raise ValueError(
                    f"{subset}: label {label!r}; expected 0 to {len(about.class_names) - 1}: {row}"
                )
            return Example(tuple(str(row[column]).strip() for column in about.columns), label)

        train = rows(HUB, subset, "train", data_dir, columns)
        test = labelled(HUB, subset, data_dir, columns=columns, official=about.official)
        self.part(
            [example(row) for row in train], [example(row) for row in test], tokenizer,
            about.length if length is None else length,
        )  # fmt: skip

    @property
    def chance(self) -> float:
        if self.num_labels > 1:
            return super().chance
        values = np.sort([e.label for e in self.examples["test"]])
        ends = np.searchsorted(values, values + 1.0, side="right")
        return float((ends - np.arange(len(values))).max() / len(values))  # the best window of 1
