"""Tagging words of Universal Dependencies, with their syntax trees as neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from ascender.common.user_code import function, is_code
from ascender.common.validate import lookup
from ascender.core.neighbours import tree
from ascender.tasks.base import IGNORED, Batch, Display, Stored, commonest, padded
from ascender.tasks.conllu import RELATIONS, TAGS, Sentence, treebank
from ascender.tasks.rows import digest

Parser = Callable[[Sequence[str]], Sequence[int]]
BUCKETS = 512  # of words that training has once or never
SUFFIXES = 256  # of endings of 1, 2 and 3 letters, by their hashes
SHAPES: tuple[Callable[[str], bool], ...] = (
    lambda word: word[:1].isupper(), str.isupper,
    lambda word: any(c.isdigit() for c in word), lambda word: not any(c.isalnum() for c in word),
)  # fmt: skip
TARGETS = {"tags": TAGS, "relations": RELATIONS}
ARCS = (1, 2, 5)  # the largest distance to the head in each level but the last


class Words:
    """Words as numbers and features, learned from training sentences.

    id         of its own for a (lower-cased) word that they have twice or more; the others
               share `BUCKETS` by their hashes; 0 is padding
    features   its endings of 1, 2 and 3 letters, by their hashes, and its shape: a capital
               first, all capitals, a digit, neither letter nor digit; 1 where it has one
    """

    features = SUFFIXES + len(SHAPES)

    def __init__(self, sentences: Sequence[Sentence]) -> None:
        counts = Counter(word.lower() for sentence in sentences for word in sentence.words)
        often = sorted(word for word, n in counts.items() if n > 1)
        self.ids = {word: i for i, word in enumerate(often, 1 + BUCKETS)}
        self.size = 1 + BUCKETS + len(often)
        self.known: dict[str, tuple[int, list[int]]] = {}

    def __call__(self, word: str) -> tuple[int, list[int]]:
        """(id, the features that it has)"""
        if word not in self.known:
            low = word.lower()
            has = {_bucket(f"{n} {low[-n:]}", SUFFIXES) for n in (1, 2, 3)}
            has |= {SUFFIXES + i for i, shape in enumerate(SHAPES) if shape(word)}
            self.known[word] = self.ids.get(low, 1 + _bucket(low, BUCKETS)), sorted(has)
        return self.known[word]


def _bucket(text: str, buckets: int) -> int:
    return int.from_bytes(digest(text)[:4], "big") % buckets


class Trees(Stored):
    """What is a word in its sentence? Its part of speech, or its relation to its head; words of
    Universal Dependencies, a token each, with their trees as neighbours.

        task("ud-tags", data_dir="data").example()

        From the AP comes this story :
        ADP  DET PROPN VERB DET NOUN PUNCT
        heads: AP AP comes – story comes comes

    target     "tags": 17 parts of speech; "relations": 37 universal relations
    trees      where neighbours come from: "gold", the heads in the file; "none": no lists, so
               that attention finds its own; module:function or a function, a parser: words →
               for each word the place of its head, −1 for a root
    length     words after these are left out, with the edges to them
    treebank   files: DIR/TREEBANK/*-ud-{train,dev,test}.conllu, or DIR itself has them

    A word's neighbours are its head and its dependents (neighbours.tree). The lists do not say
    which is which, nor the relation. The score is of words, not of sentences: accuracy. Levels, by
    the distance from a word to its head in the file: root, 1, 2, 3–5, 6 and more words. Chance:
    the commonest label of the test. UD English-EWT: Silveira et al. 2014; Universal
    Dependencies: Nivre et al. 2020.
    """

    head = "token"
    code_options = ("trees",)
    levels = ("root", "1 word", "2 words", "3–5 words", "6 and more")
    recipe: ClassVar[dict[str, Any]] = {"steps": 1000, "batch": 32, "rate": 2e-3}

    def __init__(
        self, target: str = "tags", trees: str | Parser = "gold", length: int = 64,
        treebank: str = "ud-english-ewt", data_dir: str | None = None,
    ) -> None:  # fmt: skip
        self.names, self.column = lookup("target", target, TARGETS), target
        if not isinstance(length, int) or isinstance(length, bool) or length < 2:
            raise ValueError(f"length = {length!r}; expected a number of words from 2")
        self.parser = _parser(trees)
        self.sentences = _found(treebank, data_dir)
        self.words = Words(self.sentences["train"])
        self.length, self.vocab_size = length, self.words.size
        self.vector_size, self.num_labels = Words.features, len(self.names)
        self.lists: dict[tuple[str, int], Tensor] = {}
        self.text: dict[bytes, tuple[str, ...]] = {}  # the words behind a row of ids

    def rows(self, split: str) -> int:
        return len(self.sentences[split])

    def collate(self, split: str, which: np.ndarray) -> Batch:
        some = [cut(self.sentences[split][i], self.length) for i in which.tolist()]
        coded = [[self.words(word) for word in sentence.words] for sentence in some]
        ids, mask = padded([[i for i, _ in row] for row in coded], 0)
        self.text |= {_key(row): one.words for row, one in zip(ids, some, strict=True)}
        vectors = torch.zeros(*ids.shape, self.vector_size)
        at = [(b, n, f) for b, row in enumerate(coded) for n, (_, has) in enumerate(row)
              for f in has]  # fmt: skip
        vectors[tuple(torch.tensor(at).T)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "vectors": vectors}
        if self.parser is not None:
            near = [self._near(split, i, one) for i, one in zip(which.tolist(), some, strict=True)]
            inputs["neighbours"] = side_by_side(near, ids.shape[1])
        labels = padded([getattr(sentence, self.column) for sentence in some], IGNORED)[0]
        return Batch(inputs, labels, padded([arcs(sentence) for sentence in some], 0)[0])

    def _near(self, split: str, row: int, sentence: Sentence) -> Int[Tensor, "n k"]:
        """The lists of a sentence, which a parser reads once."""
        if (split, row) not in self.lists:
            assert self.parser is not None
            self.lists[split, row] = tree(torch.tensor(self.parser(sentence)))
        return self.lists[split, row]

    @property
    def chance(self) -> float:
        cuts = (cut(sentence, self.length) for sentence in self.sentences["test"])
        return commonest(np.array([label for one in cuts for label in getattr(one, self.column)]))

    def display(self, one: Batch) -> Display:
        ids = one.inputs["input_ids"][0]
        words = self.text[_key(ids)]
        return Display([*words, *"·" * (len(ids) - len(words))], self.names)

    def example(self) -> str:
        one = self.sentences["train"][0]
        heads = " ".join(one.words[h] if h >= 0 else "–" for h in one.heads)
        labels = " ".join(self.names[label] for label in getattr(one, self.column))
        return f"{' '.join(one.words)}\n{labels}\nheads: {heads}"


def _found(name: str, data_dir: str | None) -> dict[str, list[Sentence]]:
    """The treebank in DIR/name, or in DIR where that is its folder."""
    if data_dir is None:
        raise FileNotFoundError(
            f"{name} has no data_dir; expected --data-dir DIR with {name}/*-ud-train.conllu, "
            "…-dev.conllu and …-test.conllu in it (universaldependencies.org)"
        )
    folder, inside = Path(data_dir), Path(data_dir) / name
    here = not inside.is_dir() and any(folder.glob("*-ud-train.conllu"))
    return treebank(folder if here else inside)


def _key(ids: Int[Tensor, "N"]) -> bytes:
    """Ids without the padding behind them."""
    return bytes(ids[ids > 0].numpy())


def cut(sentence: Sentence, length: int) -> Sentence:
    """Its first words; those whose head is not among them become roots."""
    if len(sentence.words) <= length:
        return sentence
    heads = tuple(h if h < length else -1 for h in sentence.heads[:length])
    return Sentence(
        sentence.words[:length], heads, sentence.tags[:length], sentence.relations[:length]
    )


def arcs(sentence: Sentence) -> list[int]:
    """The level of every word: 0 for a root, then by how far its head is."""
    far = [abs(head - i) for i, head in enumerate(sentence.heads)]
    return [
        0 if head < 0 else 1 + int(np.searchsorted(ARCS, d))
        for head, d in zip(sentence.heads, far, strict=True)
    ]


def side_by_side(lists: Sequence[Tensor], N: int) -> Int[Tensor, "B N K"]:
    """Lists (n, k) of examples of unequal length as one tensor, filled up with −1."""
    out = torch.full((len(lists), N, max(near.shape[1] for near in lists)), -1)
    for row, near in zip(out, lists, strict=True):
        row[: near.shape[0], : near.shape[1]] = near
    return out


def _parser(trees: str | Parser) -> Callable[[Sentence], Sequence[int]] | None:
    """Sentences to heads, as `trees` says."""
    if trees == "none":
        return None
    if trees == "gold":
        return lambda sentence: sentence.heads
    if not callable(trees) and not is_code(trees):
        raise ValueError(
            f"trees = {trees!r}; expected gold, none, or a parser: module:function or a function"
        )
    own = trees if callable(trees) else function("trees", trees)
    name = trees if isinstance(trees, str) else getattr(own, "__name__", repr(own))

    def parse(sentence: Sentence) -> list[int]:
        heads, n = own(list(sentence.words)), len(sentence.words)
        whole = isinstance(heads, Sequence | np.ndarray | Tensor) and len(heads) == n
        numbers = [int(h) for h in heads if int(h) == h] if whole else []
        if len(numbers) != n or not all(-1 <= h < n for h in numbers):
            raise ValueError(
                f"trees = {name}: {heads!r} for the {n} words {' '.join(sentence.words)!r}; "
                f"expected {n} places of heads in −1 … {n - 1}"
            )
        return numbers

    return parse
