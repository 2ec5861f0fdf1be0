"""Token classification: is a character of Python source part of a name, a keyword, a number …?

    python examples/token_classification.py

Takes under a minute on one CPU core.
"""

import io
import keyword
import tokenize

import torch
from shared import arguments, fit, pieces, stdlib

from ascender.hf import AscenderConfig, AscenderForTokenClassification

KINDS = ["space", "name", "keyword", "number", "string", "comment", "operator"]
LENGTH = 96


def kind(token: tokenize.TokenInfo) -> int:
    """The label of a token of Python's tokenizer."""
    if token.type == tokenize.NAME:
        return KINDS.index("keyword" if keyword.iskeyword(token.string) else "name")
    names = {tokenize.NUMBER: "number", tokenize.STRING: "string", tokenize.COMMENT: "comment",
             tokenize.OP: "operator"}  # fmt: skip
    return KINDS.index(names.get(token.type, "space"))


def labelled(text: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Characters (non-ASCII as 127) and their labels."""
    lines = text.splitlines(keepends=True)
    starts = torch.tensor([0, *(len(line) for line in lines)]).cumsum(0).tolist()
    kinds = torch.zeros(len(text), dtype=torch.long)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (row, column), (last, end) = token.start, token.end
        if last <= len(lines):
            kinds[starts[row - 1] + column : starts[last - 1] + end] = kind(token)
    return torch.tensor([min(ord(c), 127) for c in text]), kinds


@torch.no_grad()
def accuracy(model: AscenderForTokenClassification, x: torch.Tensor, y: torch.Tensor) -> float:
    return float((model(x).logits.argmax(-1) == y).float().mean())


def main() -> None:
    args = arguments(__doc__, steps=200)
    x, y = (pieces(t, LENGTH) for t in labelled(stdlib("argparse", "inspect", "tarfile", "typing")))
    x_test, y_test = (pieces(t, LENGTH)[:60] for t in labelled(stdlib("textwrap", "shlex")))
    config = AscenderConfig.preset(
        "tiny", vocab_size=128, num_labels=len(KINDS), attention=args.attention,
        position=args.position,
    )  # fmt: skip
    model = AscenderForTokenClassification(config).eval()
    often = float((y_test == y.flatten().mode().values).float().mean())
    before = accuracy(model, x_test, y_test)
    print(f"before: {before:.1%} of characters (most frequent class: {often:.1%})")
    rows = [{"input_ids": a, "labels": b} for a, b in zip(x, y, strict=True)]
    fit(model, rows, args.steps)
    print(f"after:  {accuracy(model, x_test, y_test):.1%}")


if __name__ == "__main__":
    main()
