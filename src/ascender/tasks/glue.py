"""GLUE and SuperGLUE: classes of sentences, pairs of sentences and choices about a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from ascender.common.validate import lookup
from ascender.tasks.rows import Row, digest, labelled, rows
from ascender.tasks.text import Example, TextClasses


def plain(*columns: str) -> Callable[[Row], Iterator[Example]]:
    """A row is an example: these columns."""

    def read(row: Row) -> Iterator[Example]:
        yield Example(tuple(str(row[column]).strip() for column in columns), row["label"])

    return read


def copa(row: Row) -> Iterator[Example]:
    texts = (row["premise"], f"{row['question']}?", row["choice1"], row["choice2"])
    yield Example(texts, int(row["label"]), row["premise"])


def multirc(row: Row) -> Iterator[Example]:
    texts = (row["paragraph"], row["question"], row["answer"])
    yield Example(texts, int(row["label"]), row["paragraph"])


def record(row: Row) -> Iterator[Example]:
    """The query with an entity in its gap: one that belongs there, one that does not."""
    right = set(row["answers"])
    for label, choices in ((1, right), (0, set(row["entities"]) - right)):
        if choices:  # which one is drawn by hash: the same always
            one = min(choices, key=lambda entity: digest(row["query"] + entity))
            query = row["query"].replace("@placeholder", one)
            yield Example((row["passage"], query), label, row["passage"])


def wsc(row: Row) -> Iterator[Example]:
    """The pronoun is marked: several may be spelled alike."""
    words = row["text"].split()
    at = int(row["span2_index"])
    if at < len(words):
        words[at] = f"*{words[at]}*"
    yield Example((" ".join(words), row["span1_text"]), int(row["label"]))


class Subset(NamedTuple):
    """columns that a row must have · the examples of a row (default: one, of these columns) · names
    of the classes, none for a regression · metrics beside the score · the column of the label"""

    columns: tuple[str, ...]
    class_names: tuple[str, ...] = ("no", "yes")
    reports: tuple[str, ...] = ()
    length: int = 512
    read: Callable[[Row], Iterator[Example]] | None = None
    official: str = "validation"
    label: str = "label"


PAIR = ("sentence1", "sentence2")
PREMISE = ("premise", "hypothesis")
ENTAILED = ("entailment", "not entailment")
THREE = ("entailment", "neutral", "contradiction")
GLUE = {
    "cola": Subset(("sentence",), ("unacceptable", "acceptable"), ("matthews",), 256),
    "sst2": Subset(("sentence",), ("negative", "positive"), length=256),
    "mrpc": Subset(PAIR, ("different", "equivalent"), ("f1",)),
    "qqp": Subset(("question1", "question2"), ("different", "duplicate"), ("f1",)),
    "stsb": Subset(PAIR, (), ("pearson", "spearman")),
    "mnli": Subset(PREMISE, THREE, official="validation_matched"),
    "qnli": Subset(("question", "sentence"), ENTAILED),
    "rte": Subset(PAIR, ENTAILED),
    "wnli": Subset(PAIR, ("not entailment", "entailment")),
}
SUPERGLUE = {
    "boolq": Subset(("question", "passage"), length=1024),
    "cb": Subset(PREMISE, ("entailment", "contradiction", "neutral"), ("f1 macro",)),
    "copa": Subset(("premise", "question", "choice1", "choice2"), ("first", "second"), (), 256,
                   copa),
    "multirc": Subset(("paragraph", "question", "answer"), reports=("f1",), length=2048,
                      read=multirc),
    "record": Subset(("passage", "query", "entities", "answers"), reports=("f1",), length=2048,
                     read=record, label="answers"),
    "rte": Subset(PREMISE, ENTAILED),
    "wic": Subset(("word", *PAIR), ("another meaning", "the same meaning"), length=256),
    "wsc": Subset(("text", "span1_text", "span2_index"), length=256, read=wsc),
}  # fmt: skip


class Benchmark(TextClasses):
    """The subsets of a data set on the Hub whose test labels are hidden."""

    hub: ClassVar[str]
    title: ClassVar[str]
    subsets: ClassVar[Mapping[str, Subset]]

    def __init__(
        self, subset: str, tokenizer: str = "bytes", length: int | None = None,
        data_dir: str | None = None,
    ) -> None:  # fmt: skip
        about = lookup(f"subset of {self.title}", subset, self.subsets)
        self.class_names, self.reports = about.class_names, about.reports
        self.num_labels = len(about.class_names) or 1
        columns = tuple(dict.fromkeys((*about.columns, about.label)))
        name = "wsc.fixed" if subset == "wsc" else subset
        read = about.read or plain(*about.columns)
        train, test = (
            [e for row in part for e in read(row)]
            for part in (
                rows(self.hub, name, "train", data_dir, columns),
                labelled(self.hub, name, data_dir, about.label, columns, about.official),
            )
        )
        for example in (*train, *test) if self.num_labels > 1 else ():
            if example.label not in range(self.num_labels):
                raise ValueError(
                    f"{subset}: label {example.label!r}; expected 0 to {self.num_labels - 1}"
                )
        self.part(train, test, tokenizer, about.length if length is None else length)


class Glue(Benchmark):
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

    hub, title, subsets = "nyu-mll/glue", "GLUE", GLUE

    def __init__(
        self, subset: str = "sst2", tokenizer: str = "bytes", length: int | None = None,
        data_dir: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(subset, tokenizer, length, data_dir)
        if self.num_labels == 1:
            self.metric = "within 0.5"

    @property
    def chance(self) -> float:
        if self.num_labels > 1:
            return super().chance
        values = np.sort([e.label for e in self.examples["test"]])
        ends = np.searchsorted(values, values + 1.0, side="right")
        return float((ends - np.arange(len(values))).max() / len(values))  # the best window of 1


class SuperGlue(Benchmark):
    """Choices about a text: a question's answer, a cause, a word's meaning, a pronoun's (SuperGLUE,
    arXiv:1905.00537).

        boolq     question, passage                   yes or no
        cb, rte   premise, hypothesis                 entailed?
        copa      premise, cause? or effect?, both choices: which one
        multirc   paragraph, question, one answer:    right or not; F1 of all answers beside it
        record    passage, query with an entity in its gap: right or not; one right and one wrong
                  entity of every query, so not the official score, which ranks all entities
        wic       word, two sentences:                used in one meaning?
        wsc       text with its *pronoun* marked, a noun: does the one mean the other?

    Names: as written, but `superglue-rte` beside GLUE's `rte`. The score is accuracy over these
    examples; F1 beside it (cb: macro).

    SuperGLUE hides the labels of its test. So test is the official validation, or test.jsonl
    where the folder has one with labels; validation is a tenth carved from train, the same
    always, examples about one paragraph, passage or premise kept together.
    """

    hub, title, subsets = "aps/super_glue", "SuperGLUE", SUPERGLUE
