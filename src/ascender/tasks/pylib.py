"""Language modelling on the source of Python's standard library."""

from __future__ import annotations

import sysconfig
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ascender.tasks.base import Batch, Graded, Task, check_split
from ascender.tasks.rows import digest
from ascender.tasks.text import Coder

SKIPPED = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}
PARTS = ("validation", "test", *8 * ("train",))
SLICES = ("repeated pair", "repeated rare pair", "other tokens")


def split_of(path: str) -> str:
    """By a hash of the file's path in the library: 8 : 1 : 1."""
    return PARTS[digest(path)[0] % len(PARTS)]


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """The library's files by their path in it, tests left out."""
    root = Path(sysconfig.get_path("stdlib"))
    texts = {}
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root)
        if not SKIPPED & set(path.parts):
            texts[path.as_posix()] = file.read_text("utf-8", errors="replace")
    if {split_of(path) for path in texts} != set(PARTS):
        raise FileNotFoundError(
            f"{len(texts)} .py files in {root}; expected the source of Python's standard library"
        )
    return texts


def counts(text: str) -> Int[np.ndarray, "256"]:
    """How often each byte is in it."""
    return np.bincount(np.frombuffer(text.encode(), np.uint8), minlength=256)


@lru_cache(maxsize=2)
def coded(tokenizer: str) -> tuple[Coder, dict[str, Int[np.ndarray, "n"]]]:
    """(the tokenizer, the tokens of every part in one row, an end behind every file). Kept:
    learning byte pairs takes much longer than a step."""
    parts: dict[str, list[str]] = {name: [] for name in ("train", "validation", "test")}
    for path, text in sources().items():
        parts[split_of(path)].append(text)
    coder = Coder(tokenizer, lambda: parts["train"])
    end = np.array([coder.end])
    rows = {name: [p for row in coder(texts) for p in (row, end)] for name, texts in parts.items()}
    return coder, {name: np.concatenate(row).astype(np.int32) for name, row in rows.items()}


@lru_cache(maxsize=2)
def pair_counts(tokenizer: str) -> tuple[Int[np.ndarray, "P"], Int[np.ndarray, "P"]]:
    """(a · vocabulary + b of every pair of neighbouring tokens in training, in order; how often)"""
    coder, tokens = coded(tokenizer)
    row = tokens["train"].astype(np.int64)
    known, counts = np.unique(row[:-1] * coder.size + row[1:], return_counts=True)
    return known, counts


class Pylib(Task):
    """What comes next in the source of Python's standard library? Blocks of `length` tokens, bytes
    or byte pairs (tokenizer="bpe:1024"), at random places in training.

    >>> print(Pylib().example())
    this.py (validation)
    s = \"\"\"Gur Mra bs Clguba, ol Gvz Crgref⏎⏎Ornhgvshy vf orggre … → each from those before

    Files, not blocks, are parted, by a hash of their path: 8 : 1 : 1. Validation and test are
    `blocks` blocks, evenly spread over theirs. The text is the running Python's: another version,
    other numbers. The metric is bits per byte, less is better: −Σ log₂ p(token) / bytes predicted.

    Levels: how far zlib gets a block down: repetitive, usual, dense. Floor: the bits of a byte of
    the test by the counts of bytes in training.

    Beside the whole score, that of tokens by what could predict them, in bits per byte of theirs
    (slices as in Zoology, arxiv.org/abs/2312.04927):

        repeated pair        the token and the one before it were a pair earlier in the block, so
                             that looking that pair up decides it
        repeated rare pair   those of them that training has fewer than `rare` times
        other tokens         the rest
    """

    name = "pylib"
    head = "causal"
    metric = "bits per byte"
    higher = False
    levels = ("repetitive", "usual", "dense")
    recipe: ClassVar[dict[str, Any]] = {"steps": 2000, "batch": 32, "rate": 2e-3}

    def __init__(
        self, tokenizer: str = "bytes", length: int = 256, blocks: int = 400, rare: int = 10
    ) -> None:
        if tokenizer != "bytes" and not tokenizer.startswith("bpe:"):
            raise ValueError(
                f"tokenizer {tokenizer!r}; expected bytes or bpe:SIZE, whose tokens are whole bytes"
            )
        if length < 2:
            raise ValueError(f"length = {length}; expected at least 2 tokens")
        if blocks < 1:
            raise ValueError(f"blocks = {blocks}; expected at least 1")
        if rare < 0:
            raise ValueError(f"rare = {rare}; expected a number of times, from 0")
        self.length, self.blocks, self.rare = length, blocks, rare
        self.coder, self.tokens = coded(tokenizer)
        self.tokenizer, self.vocab_size = self.coder.tokenizer, self.coder.size
        few = min(map(len, self.tokens.values()))
        if few < length:
            raise ValueError(f"length = {length}; expected at most {few} tokens")
        self.words = spelled(self.tokenizer, self.coder.end, self.coder.pad)
        self.bytes = torch.tensor([len(word) for word in self.words])

    def train(self, seed: int, step: int, n: int) -> Batch:
        rng = np.random.default_rng([seed, step])
        return self._at("train", rng.integers(0, len(self.tokens["train"]) - self.length + 1, n))

    def eval_batches(self, split: str, n: int) -> Iterator[Batch]:
        there = len(self.tokens[check_split(split)]) // self.length
        which = np.linspace(0, there - 1, min(self.blocks, there)).astype(np.int64)
        for start in range(0, len(which), n):
            yield self._at(split, which[start : start + n] * self.length)

    def _at(self, split: str, starts: Int[np.ndarray, "B"]) -> Batch:
        rows = self.tokens[split][starts[:, None] + np.arange(self.length)].astype(np.int64)
        ids = torch.from_numpy(rows)
        return Batch({"input_ids": ids}, ids.clone(), torch.tensor([*map(self._level, rows)]))

    def _level(self, row: Int[np.ndarray, "N"]) -> int:
        text = b"".join(self.words[token] for token in row.tolist())
        return int(np.searchsorted([0.53, 0.61], len(zlib.compress(text)) / max(1, len(text))))

    def score(self, logits: Float[Tensor, "B N v"], batch: Batch) -> Float[Tensor, "B"]:
        bits, size = self._bits(logits, batch)
        return bits.sum(1) / size.sum(1).clamp_min(1)

    def _bits(
        self, logits: Float[Tensor, "B N v"], batch: Batch
    ) -> tuple[Float[Tensor, "B n"], Int[Tensor, "B n"]]:
        """(−log₂ p, number of bytes) of every token after the first."""
        later = batch.labels[:, 1:]
        nats = F.cross_entropy(logits[:, :-1].transpose(1, 2).double(), later, reduction="none")
        return nats / np.log(2), self.bytes.to(later.device)[later]

    def grade(self, model: Any, batch: Batch) -> Graded:
        """With the bits and bytes of every slice, of each block."""
        output = model(**self.inputs(batch), labels=batch.labels)
        bits, size = (t.cpu().numpy() for t in self._bits(output.logits.float(), batch))
        again, rare = self.repeated(batch.labels.cpu().numpy())
        which = {SLICES[0]: again, SLICES[1]: again & rare, SLICES[2]: ~again}
        sums = [
            {name: (float(b[of[row]].sum()), int(n[of[row]].sum())) for name, of in which.items()}
            for row, (b, n) in enumerate(zip(bits, size, strict=True))
        ]
        score = torch.from_numpy(bits.sum(1) / np.maximum(size.sum(1), 1))
        return Graded(score, batch.level, float(output.loss), sums, sums)

    def repeated(
        self, ids: Int[np.ndarray, "B N"]
    ) -> tuple[Bool[np.ndarray, "B n"], Bool[np.ndarray, "B n"]]:
        """Of every token after the first: whether it and the one before were a pair earlier in the
        row; whether training has the pair fewer than `rare` times."""
        pair = ids[:, :-1] * self.vocab_size + ids[:, 1:]
        again = np.zeros_like(pair, dtype=bool)
        for row, codes in enumerate(pair):
            _, first, place = np.unique(codes, return_index=True, return_inverse=True)
            again[row] = first[place] < np.arange(len(codes))
        known, counts = pair_counts(self.coder.name)
        at = np.searchsorted(known, pair).clip(max=len(known) - 1)
        return again, np.where(known[at] == pair, counts[at], 0) < self.rare

    def summary(self, predicted: Sequence[Any], target: Sequence[Any]) -> dict[str, float]:
        found = {}
        for name in SLICES:
            bits, size = (sum(block[name][i] for block in predicted) for i in (0, 1))
            if size:
                found[name] = bits / size
        return found

    @property
    def chance(self) -> float:
        train, test = (
            np.sum([counts(text) for path, text in sources().items() if split_of(path) == split], 0)
            for split in ("train", "test")
        )
        p = (train + 1) / (train + 1).sum()  # one more of each, so that none is impossible
        return float(-(test * np.log2(p)).sum() / test.sum())

    def example(self) -> str:
        path = "this.py" if "this.py" in sources() else next(iter(sources()))
        shown = sources()[path][:60].replace("\n", "⏎")
        return f"{path} ({split_of(path)})\n{shown} … → each from those before"


def spelled(tokenizer: Any, *silent: int) -> list[bytes]:
    """The bytes of every token of a byte-level tokenizer; none for those that are silent."""
    from ascender.hf.tokens import bytes_tokenizer

    letter = {bytes_tokenizer().convert_ids_to_tokens(byte): byte for byte in range(256)}
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return [b"" if i in silent else bytes(letter[c] for c in name) for i, name in enumerate(names)]
