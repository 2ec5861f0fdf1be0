"""Masked language model: fill the gaps in sequences of days, months, notes and hours.

    python examples/masked_lm.py

Takes under a minute on one CPU core.
"""

import calendar
import random

import torch
import transformers
from shared import arguments, fit
from tokenizers import Tokenizer, models, pre_tokenizers

from ascender.hf import AscenderConfig, AscenderForMaskedLM

CYCLES = [
    list(calendar.day_name),
    list(calendar.month_name)[1:],
    ["do", "re", "mi", "fa", "so", "la", "ti"],
    [str(hour) for hour in range(24)],
]
LENGTH = 12
Words = transformers.PreTrainedTokenizerFast


def rows(count: int, seed: int) -> list[str]:
    """Parts of the cycles, forwards or backwards, from any start."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        cycle, start, way = draw.choice(CYCLES), draw.randrange(24), draw.choice((1, -1))
        lines.append(" ".join(cycle[(start + way * i) % len(cycle)] for i in range(LENGTH)))
    return lines


def tokenizer() -> Words:
    words = ["[PAD]", "[MASK]", *dict.fromkeys(word for cycle in CYCLES for word in cycle)]
    words_only = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[PAD]"))
    words_only.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return Words(tokenizer_object=words_only, pad_token="[PAD]", mask_token="[MASK]")


@torch.no_grad()
def accuracy(model: AscenderForMaskedLM, batch: dict[str, torch.Tensor]) -> float:
    masked = batch["labels"] != -100
    guess = model(batch["input_ids"]).logits.argmax(-1)
    return float((guess == batch["labels"])[masked].float().mean())


@torch.no_grad()
def filled(
    model: AscenderForMaskedLM, words: transformers.PreTrainedTokenizerFast, text: str
) -> str:
    """The text with its masks replaced by predictions."""
    ids = torch.tensor([words(text)["input_ids"]])
    guess = torch.where(ids == words.mask_token_id, model(ids).logits.argmax(-1), ids)
    return words.decode(guess[0])


def main() -> None:
    args = arguments(__doc__, steps=200)
    words = tokenizer()
    hide = transformers.DataCollatorForLanguageModeling(
        words, mlm_probability=0.3, mask_replace_prob=1.0, random_replace_prob=0.0
    )
    data = [{"input_ids": words(text)["input_ids"]} for text in rows(5000, seed=args.seed)]
    test = hide([{"input_ids": words(text)["input_ids"]} for text in rows(200, seed=12345)])
    config = AscenderConfig.preset(
        "tiny", vocab_size=len(words), pad_token_id=words.pad_token_id,
        attention=args.attention, position=args.position,
    )  # fmt: skip
    model = AscenderForMaskedLM(config).eval()
    masked = test["labels"][test["labels"] != -100]
    often = float((masked == masked.mode().values).float().mean())
    before = accuracy(model, test)
    print(f"before: {before:.1%} of the masked words (most frequent word: {often:.1%})")
    fit(model, data, args.steps, collate=hide, batch=64, rate=3e-3)
    print(f"after:  {accuracy(model, test):.1%}")
    for text in ("Friday [MASK] Sunday [MASK]", "4 3 [MASK] 1 [MASK] 23"):
        print(f"{text} → {filled(model, words, text)}")


if __name__ == "__main__":
    main()
