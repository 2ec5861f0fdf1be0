"""Encoder-decoder: translate numbers in words into digits, "four hundred seven" → "407".

    python examples/translation.py

Takes under a minute on one CPU core.
"""

import random

import torch
from shared import arguments, fit

from ascender.hf import AscenderConfig, AscenderForConditionalGeneration

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SPECIAL = ["<pad>", "<start>", "<end>"]
VOCABULARY = [*SPECIAL, *"0123456789", *ONES, *TENS, "hundred", "thousand"]
PAD, START, END = range(3)


def said(n: int) -> str:
    """
    >>> said(12_407)
    'twelve thousand four hundred seven'
    """
    if n >= 1000:
        return f"{said(n // 1000)} thousand {said(n % 1000) if n % 1000 else ''}".strip()
    if n >= 100:
        return f"{ONES[n // 100]} hundred {said(n % 100) if n % 100 else ''}".strip()
    if n >= 20:
        return f"{TENS[n // 10 - 2]} {ONES[n % 10] if n % 10 else ''}".strip()
    return ONES[n]


def collate(numbers: list[int]) -> dict[str, torch.Tensor]:
    """Padded inputs and labels; ignored labels are −100."""
    sources = [[VOCABULARY.index(word) for word in said(n).split()] for n in numbers]
    targets = [[*(VOCABULARY.index(digit) for digit in str(n)), END] for n in numbers]
    long, wide = (max(len(row) for row in rows) for rows in (sources, targets))
    x = torch.tensor([row + [PAD] * (long - len(row)) for row in sources])
    labels = torch.tensor([row + [-100] * (wide - len(row)) for row in targets])
    return {"input_ids": x, "attention_mask": (x != PAD).long(), "labels": labels}


def translate(model: AscenderForConditionalGeneration, numbers: list[int]) -> list[str]:
    batch = collate(numbers)
    del batch["labels"]
    rows = model.generate(**batch, max_new_tokens=7, num_beams=2, do_sample=False).tolist()
    return ["".join(VOCABULARY[i] for i in row if i > END) for row in rows]


def main() -> None:
    args = arguments(__doc__, steps=450)
    numbers = random.Random(1).sample(range(100_000), 20_000)
    train, test = numbers[:-100], numbers[-100:]
    config = AscenderConfig.preset(
        "tiny", vocab_size=len(VOCABULARY), pad_token_id=PAD, decoder_start_token_id=START,
        eos_token_id=END, attention=args.attention, position=args.position,
    )  # fmt: skip
    model = AscenderForConditionalGeneration(config).eval()

    def accuracy() -> float:
        return sum(a == str(n) for a, n in zip(translate(model, test), test, strict=True)) / 100

    print(f"before: {accuracy():.0%} of held-out numbers")
    fit(model, train, args.steps, collate=collate, batch=32, rate=5e-3)
    print(f"after:  {accuracy():.0%}")
    for n in test[:4]:
        print(f"{said(n)} → {translate(model, [n])[0]}")


if __name__ == "__main__":
    main()
