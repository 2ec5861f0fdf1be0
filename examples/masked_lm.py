"""Words behind masks, in the documentation of the standard library, with a tokenizer made for it.

python examples/masked_lm.py
"""

import inspect
import sys

import torch
import transformers
from shared import arguments, fit, pieces
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from ascender.hf import AscenderConfig, AscenderForMaskedLM

LENGTH, WORDS = 32, 400


def documentation() -> list[str]:
    """Docstrings of whatever is imported by now: some hundred thousand words."""
    found = []
    for name in sorted(sys.stdlib_module_names):
        module = sys.modules.get(name)
        for thing in vars(module).values() if module else ():
            if inspect.isclass(thing) or inspect.isroutine(thing):
                found.append(inspect.getdoc(thing) or "")
    return sorted({text for text in found if len(text) > 80})


def tokenizer_of(texts: list[str]) -> transformers.PreTrainedTokenizerFast:
    made = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]", "[MASK]"]
    made.train_from_iterator(
        texts, trainers.WordLevelTrainer(vocab_size=WORDS, special_tokens=special)
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", mask_token="[MASK]"
    )


@torch.no_grad()
def accuracy(model: AscenderForMaskedLM, batch: dict[str, torch.Tensor]) -> float:
    told = batch["labels"] != -100
    guess = model(batch["input_ids"]).logits.argmax(-1)
    return float((guess == batch["labels"])[told].float().mean())


def main() -> None:
    args = arguments(__doc__, steps=160)
    texts = documentation()
    tokenizer = tokenizer_of(texts)
    ids = torch.tensor([i for text in texts for i in tokenizer(text)["input_ids"]])
    cut = pieces(ids, LENGTH)
    rows = [{"input_ids": row} for row in cut[torch.randperm(len(cut))]]
    rows, held = rows[: -len(rows) // 10], rows[-len(rows) // 10 :]
    hide = transformers.DataCollatorForLanguageModeling(
        tokenizer, mlm_probability=0.25, mask_replace_prob=1.0, random_replace_prob=0.0
    )
    test = hide(held)
    config = AscenderConfig.preset(
        "tiny", vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id,
        attention=args.attention, position=args.position,
    )  # fmt: skip
    model = AscenderForMaskedLM(config).eval()
    told = test["labels"][test["labels"] != -100]
    often = float((told == told.mode().values).float().mean())
    before = accuracy(model, test)
    print(f"before: {before:.1%} of the hidden words (always the commonest: {often:.1%})")
    fit(model, rows, args.steps, collate=hide, batch=32, rate=5e-3)
    print(f"after:  {accuracy(model, test):.1%}")


if __name__ == "__main__":
    main()
