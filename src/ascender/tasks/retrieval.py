"""Passages that were retrieved for a question, some of them copies: what do most sources say?"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from ascender.common.validate import check_int
from ascender.tasks.base import IGNORED, Batch, Display, Drawn

VOTES = ((3, 1, 1), (3, 2), (2, 1, 1, 1))  # sources for the answer first: five in all
WIDTH = 4  # tokens of a passage: wording, source, key, value
START = 0  # of the vocabulary, then wordings, sources, keys, values


class Retrieval(Drawn):
    """What do most sources say? A decoder asks, and reads retrieved passages by cross-attention.

        passages   `passages` of four tokens: a wording, its source, the key that it is about, and
                   the value it gives the key; in any order, read by the encoder
        hits       five sources on the key that is asked, with 3, 3 or 2 of them for the answer
        copies     up to `copies` passages again: same source, key and value, in another wording
        misses     the rest are about other keys
        question   the key, read by the decoder, whose next token is the value of most sources

    >>> print(Retrieval(passages=9, copies=2).example())
    w6 s4 k1 v2
    w0 s2 k1 v4
    w0 s4 k4 v3
    w5 s9 k2 v7
    w0 s6 k1 v2
    w0 s12 k1 v6
    w4 s11 k1 v3
    w0 s8 k5 v6
    w0 s10 k4 v3
    k1? → v2

    A copy is no further source, so counting passages instead of sources misleads where a value
    that loses is copied. Levels: no copies; copies agree (counting passages gives the answer);
    copies mislead (it does not). Chance: 1 / values.
    """

    name = "retrieval"
    head = "seq2seq"
    levels = ("no copies", "copies agree", "copies mislead")
    recipe: ClassVar[dict[str, Any]] = {"steps": 3000, "batch": 32, "rate": 2e-3}

    def __init__(
        self, passages: int = 12, copies: int = 4, sources: int = 16, keys: int = 8,
        values: int = 8, wordings: int = 8,
    ) -> None:  # fmt: skip
        check_int("copies", copies, 2)
        check_int("passages", passages, 5 + copies)
        check_int("sources", sources, 5)
        check_int("keys", keys, 2)
        check_int("values", values, 4)
        check_int("wordings", wordings, 2)
        self.passages, self.copies, self.length = passages, copies, WIDTH * passages
        self.sizes = (wordings, sources, keys, values)
        self.first = 1 + np.cumsum((0, *self.sizes[:-1]))  # the first token of each kind
        self.vocab_size = 1 + sum(self.sizes)
        self.num_labels = values

    @property
    def chance(self) -> float:
        return 1 / self.sizes[3]

    def fields(self) -> dict[str, Any]:
        return {**super().fields(), "decoder_start_token_id": START, "pad_token_id": START}

    def draw(self, rng: np.random.Generator, n: int) -> Batch:
        ids = np.zeros((n, self.passages, WIDTH), dtype=np.int64)
        question = np.full((n, 2), START, dtype=np.int64)
        labels = np.full((n, 2), IGNORED, dtype=np.int64)
        level = np.zeros(n, dtype=np.int64)
        for row in range(n):
            rows, key, answer, level[row] = self._one(rng)
            ids[row] = rng.permutation(rows) + self.first
            question[row, 1] = key + self.first[2]
            labels[row, 1] = answer + self.first[3]
        return Batch.of(labels, level, input_ids=ids.reshape(n, -1), decoder_input_ids=question)

    def _one(self, rng: np.random.Generator) -> tuple[np.ndarray, int, int, int]:
        """(passages, the key asked, the answer, the level)"""
        wordings, sources, keys, values = self.sizes
        votes = VOTES[rng.integers(len(VOTES))]
        said = rng.permutation(values)[: len(votes)]
        value = np.repeat(said, votes)
        key = int(rng.integers(keys))
        source = rng.permutation(sources)[:5]
        hits = np.column_stack([rng.integers(0, wordings, 5), source, np.full(5, key), value])
        level = int(rng.integers(len(self.levels)))
        copies = self._copies(rng, hits, votes, level)
        rest = self.passages - 5 - len(copies)
        other = (key + rng.integers(1, keys, rest)) % keys
        misses = np.column_stack([
            rng.integers(0, wordings, rest), rng.integers(0, sources, rest), other,
            rng.integers(0, values, rest),
        ])  # fmt: skip
        return np.concatenate([hits, copies, misses]), key, int(said[0]), level

    def _copies(
        self, rng: np.random.Generator, hits: np.ndarray, votes: tuple[int, ...], level: int
    ) -> np.ndarray:
        """Passages again in other wordings, so that the level is what its name says."""
        if level == 0:
            return hits[:0]
        lead = votes[0] - votes[1]  # copies that a loser needs to draw level
        loser = np.arange(votes[0], votes[0] + votes[1])
        if level == 1:  # as many as the answer can bear
            which = [*rng.integers(0, votes[0], self.copies - lead + 1)]
            which += [*rng.choice(loser, max(lead - 1, 0))]
        else:
            which = [*rng.choice(loser, rng.integers(lead + 1, self.copies + 1))]
        again = hits[np.array(which, dtype=np.int64)]
        shift = rng.integers(1, self.sizes[0], len(again))
        again[:, 0] = (again[:, 0] + shift) % self.sizes[0]
        return again

    def display(self, one: Batch) -> Display:
        names = self.names()
        tokens = [names[i] for i in one.inputs["input_ids"][0].tolist()]
        return Display(tokens=tokens, classes=names)

    def names(self) -> list[str]:
        """Of every token: w wording, s source, k key, v value."""
        letters = zip("wskv", self.sizes, strict=True)
        return ["·", *(f"{letter}{i}" for letter, size in letters for i in range(size))]

    def example(self) -> str:
        one, names = self.draw(np.random.default_rng(0), 1), self.names()
        rows = one.inputs["input_ids"][0].view(-1, WIDTH).tolist()
        lines = [" ".join(names[i] for i in row) for row in rows]
        asked = names[int(one.inputs["decoder_input_ids"][0, 1])]
        return "\n".join([*lines, f"{asked}? → {names[int(one.labels[0, 1])]}"])


def counted(batch: Batch, by_source: bool) -> torch.Tensor:
    """The value that most sources (or passages) give the key that is asked; of equals any."""
    answers = []
    rows = batch.inputs["input_ids"].view(len(batch), -1, WIDTH)
    for row, asked in zip(rows, batch.inputs["decoder_input_ids"][:, 1], strict=True):
        hits = row[row[:, 2] == asked][:, 1:]
        hits = hits.unique(dim=0) if by_source else hits
        answers.append(int(hits[:, 2].mode().values))
    return torch.tensor(answers)
