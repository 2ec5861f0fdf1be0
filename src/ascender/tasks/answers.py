"""Questions answered by writing: a prompt, a reply, and what the model writes compared with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ascender.tasks.base import IGNORED, Batch, Graded, Stored, padded
from ascender.tasks.rows import parted
from ascender.tasks.text import Coder


class Asked(NamedTuple):
    """A prompt, its answer, and an index into the task's levels of difficulty."""

    prompt: str
    answer: str
    level: int = 0


def replies(model: Any, ids: Tensor, mask: Tensor, coder: Coder, most: int) -> list[str]:
    """What the model writes, greedily, until the end or `most` tokens."""
    inner = getattr(model, "module", model)
    with torch.no_grad():
        generated = inner.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=most, do_sample=False, num_beams=1,
            eos_token_id=coder.end, pad_token_id=coder.pad,
        )  # fmt: skip
    start = 1 if inner.config.is_encoder_decoder else ids.shape[1]
    return [coder.text(row) for row in generated[:, start:].tolist()]


def middle_out(tokens: np.ndarray, room: int) -> np.ndarray:
    """Its beginning and its end, half each, where it does not fit."""
    if len(tokens) <= room:
        return tokens
    return np.concatenate([tokens[: room - room // 2], tokens[len(tokens) - room // 2 :]])


class Answers(Stored):
    """A prompt and its answer as one text: the answer's tokens are learned, and to grade it the
    model writes its own from the prompt alone, greedily.

    A prompt gets length − reply tokens and loses its middle where it is longer; an answer gets
    reply tokens and loses its end (a solution, whose end counts: its beginning). The score is
    `right(target, predicted)`. Validation has the first `graded` of its examples, as writing takes
    long; test has them all. Chance: the most frequent answer of the training split, given to
    every question of the test.
    """

    head = "causal"
    last_counts = False
    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 16, "rate": 1e-3}

    def part(
        self, train: list[Asked], test: list[Asked], tokenizer: str, usual: tuple[int, int],
        length: int | None, reply: int | None, graded: int,
    ) -> None:  # fmt: skip
        """Fill it with these, validation carved from train; usual: tokens of a prompt and of a
        reply where none are asked for."""
        reply = usual[1] if reply is None else reply
        length = usual[0] + reply if length is None else length
        splits = parted(train, test, lambda asked: asked.prompt)
        self.fill(splits, tokenizer, length, reply, graded)

    def fill(
        self, asked: dict[str, list[Asked]], tokenizer: str, length: int, reply: int, graded: int
    ) -> None:
        """The questions of every split, and how they are written."""
        if not 2 <= reply < length:
            raise ValueError(f"reply = {reply}; expected a number from 2 to below length {length}")
        if graded < 1:
            raise ValueError(f"graded = {graded}; expected a number of examples from 1")
        self.asked = {**asked, "validation": asked["validation"][:graded]}
        self.length, self.reply = length, reply
        self.coder = Coder(tokenizer, lambda: (a.prompt + a.answer for a in asked["train"]))
        self.tokenizer, self.vocab_size = self.coder.tokenizer, self.coder.size

    def right(self, target: str, predicted: str) -> float:
        """How good a reply is, 0 to 1."""
        raise NotImplementedError

    def rows(self, split: str) -> int:
        return len(self.asked[split])

    def collate(self, split: str, which: np.ndarray) -> Batch:
        some = [self.asked[split][i] for i in which.tolist()]
        prompts = self.coder([asked.prompt for asked in some])
        answers = self.coder([asked.answer for asked in some])
        tokens, labels = [], []
        for prompt, answer in zip(prompts, answers, strict=True):
            prompt = middle_out(prompt, self.length - self.reply)
            over = max(0, len(answer) + 1 - self.reply) if self.last_counts else 0
            answer = np.append(answer[over : over + self.reply - 1], self.coder.end)
            tokens.append(np.concatenate([prompt, answer]))
            labels.append(np.concatenate([np.full(len(prompt), IGNORED), answer]))
        ids, mask = padded(tokens, self.coder.pad)
        inputs = {"input_ids": ids, "attention_mask": mask}
        level = torch.tensor([asked.level for asked in some])
        return Batch(inputs, padded(labels, IGNORED)[0], level)

    def grade(self, model: Any, batch: Batch) -> Graded:
        loss = float(model(**self.inputs(batch), labels=batch.labels).loss)
        real = batch.inputs["attention_mask"].bool()
        counts = batch.labels != IGNORED
        rows = zip(batch.inputs["input_ids"], real & ~counts, strict=True)
        prompts = [ids[which].flip(0).tolist() for ids, which in rows]
        ids, mask = (t.flip(1).to(batch.labels.device) for t in padded(prompts, self.coder.pad))
        predicted = replies(
            model, ids, mask, self.coder, self.reply
        )  # prompts filled up on the left
        target = [
            self.coder.text(row[which].tolist())
            for row, which in zip(batch.labels, counts, strict=True)
        ]
        score = [self.right(a, b) for a, b in zip(target, predicted, strict=True)]
        return Graded(
            torch.tensor(score, dtype=torch.float64), batch.level, loss, predicted, target
        )

    @property
    def chance(self) -> float:
        guess = self.commonest([a.answer for a in self.asked["train"]])
        return float(np.mean([self.right(a.answer, guess) for a in self.asked["test"]]))

    def commonest(self, answers: Sequence[str]) -> str:
        return Counter(answers).most_common(1)[0][0]

    def example(self) -> str:
        one = self.asked["train"][0]
        prompt = (
            one.prompt if len(one.prompt) <= 600 else f"{one.prompt[:300]} … {one.prompt[-280:]}"
        )
        return f"{prompt}\n→{one.answer if len(one.answer) <= 600 else one.answer[:599] + '…'}"
