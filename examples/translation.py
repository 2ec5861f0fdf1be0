"""Dates as people write them into dates as machines do: "7 March 1987" → "1987-03-07".

python examples/translation.py
"""

import datetime
import random

import torch
from shared import arguments, fit

from ascender.hf import AscenderConfig, AscenderForConditionalGeneration

FORMS = ["%-d %B %Y", "%B %-d, %Y", "%a %-d %b %Y", "%d.%m.%Y", "%b %-d %Y"]
PAD, START, END = 0, 1, 2
LETTERS = 3


def dates(count: int, seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    first, last = (datetime.date(year, 1, 1).toordinal() for year in (1900, 2100))
    days = [datetime.date.fromordinal(draw.randrange(first, last)) for _ in range(count)]
    return [(written(day, draw.choice(FORMS)), day.isoformat()) for day in days]


def written(day: datetime.date, form: str) -> str:
    return day.strftime(form.replace("%-d", str(day.day)))


def ids(text: str) -> list[int]:
    return [ord(c) - 32 + LETTERS for c in text]


def collate(pairs: list[tuple[str, str]]) -> dict[str, torch.Tensor]:
    """Padded; labels that do not count are −100."""
    sources = [ids(source) for source, _ in pairs]
    wanted = [[*ids(target), END] for _, target in pairs]
    long, wide = (max(len(row) for row in rows) for rows in (sources, wanted))
    x = torch.tensor([row + [PAD] * (long - len(row)) for row in sources])
    labels = torch.tensor([row + [-100] * (wide - len(row)) for row in wanted])
    return {"input_ids": x, "attention_mask": (x != PAD).long(), "labels": labels}


def translate(model: AscenderForConditionalGeneration, sources: list[str]) -> list[str]:
    batch = collate([(source, "") for source in sources])
    del batch["labels"]
    rows = model.generate(**batch, max_new_tokens=11, num_beams=2, do_sample=False).tolist()
    return ["".join(chr(i - LETTERS + 32) for i in row if i >= LETTERS) for row in rows]


def main() -> None:
    args = arguments(__doc__, steps=300)
    test = dates(100, seed=1)
    config = AscenderConfig.preset(
        "tiny", vocab_size=96 + LETTERS, pad_token_id=PAD, decoder_start_token_id=START,
        eos_token_id=END, attention=args.attention, position=args.position,
    )  # fmt: skip
    model = AscenderForConditionalGeneration(config).eval()

    def right() -> float:
        found = translate(model, [source for source, _ in test])
        return sum(a == b for a, (_, b) in zip(found, test, strict=True)) / len(test)

    print(f"before: {right():.0%} of unseen dates")
    fit(model, dates(20000, seed=2), args.steps, collate=collate, batch=32, rate=5e-3)
    print(f"after:  {right():.0%}")
    for source, _ in test[:4]:
        print(f"{source:>20} → {translate(model, [source])[0]}")


if __name__ == "__main__":
    main()
