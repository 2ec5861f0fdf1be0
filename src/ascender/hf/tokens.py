"""Tokenizers that need no download: bytes, and byte pairs learned from a text.

    id of a byte = its value (0 … 255), 256 = end of text, 257 = padding, 258 … = learned pairs

Both write every text there is and read it back unchanged, and save as tokenizer.json beside a
model (`tokenizer.save_pretrained(folder)`). Nothing is added to a text unasked: a context stays
the beginning of its continuation.
"""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

END, PAD = "<|end|>", "<|pad|>"
BYTES = 258  # the smallest vocabulary: every byte, the end, padding


def bytes_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte.

    >>> bytes_tokenizer()("Åb").input_ids
    [195, 133, 98]
    """
    return _fast(_alphabet(), [])


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE: the pairs that are most frequent in the texts become tokens of their own,
    until there are vocab_size of them (or the texts have no more)."""
    if vocab_size < BYTES:
        raise ValueError(f"vocab_size = {vocab_size}; expected at least {BYTES}: bytes, end, pad")
    learned = _with_bytes(models.BPE())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size - 2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )  # fmt: skip
    learned.train_from_iterator(texts, trainer)
    merges = _merges(learned)
    vocab = _alphabet()
    for pair in merges:
        vocab.setdefault("".join(pair), len(vocab))
    return _fast(vocab, merges)


def _alphabet() -> dict[str, int]:
    """The 256 bytes as the characters that byte-level BPE writes for them, and the two others."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]  # GPT-2's: printed as they are
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + i) for i, byte in enumerate(others)}
    return {**{letters[byte]: byte for byte in range(256)}, END: 256, PAD: 257}


def _merges(learned: tokenizers.Tokenizer) -> list[tuple[str, str]]:
    import json

    return [(a, b) for a, b in json.loads(learned.to_str())["model"]["merges"]]


def _with_bytes(model: models.Model) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _fast(vocab: dict[str, int], merges: list[tuple[str, str]]) -> PreTrainedTokenizerFast:
    tokenizer = _with_bytes(models.BPE(vocab=vocab, merges=merges))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=END, eos_token=END, pad_token=PAD,
        padding_side="left", clean_up_tokenization_spaces=False,
    )  # fmt: skip
