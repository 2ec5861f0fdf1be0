"""Handwritten digits: 8 × 8 pixels are 64 tokens; a pixel's neighbours are those beside it.

    python examples/sequence_classification.py

Under a minute of one CPU core.
"""

import sys

import torch
from shared import arguments, fit

from ascender.core.neighbours import grid
from ascender.hf import AscenderConfig, AscenderForSequenceClassification

GREYS = 17


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """(1797, 64) greys and the digits they show."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        sys.exit("this example needs scikit-learn's digits; expected: pip install scikit-learn")
    found = load_digits()
    return torch.tensor(found.data).long(), torch.tensor(found.target)


@torch.no_grad()
def accuracy(model: AscenderForSequenceClassification, x: torch.Tensor, y: torch.Tensor) -> float:
    return float((model(x, neighbours=BESIDE).logits.argmax(-1) == y).float().mean())


BESIDE = grid(8, 8, 1)


def main() -> None:
    args = arguments(__doc__, steps=250)
    x, y = digits()
    order = torch.randperm(len(x))
    train, test = order[:-300], order[-300:]
    config = AscenderConfig.preset(
        "tiny", vocab_size=GREYS, num_labels=10, attention=args.attention, position="learned",
        max_position_embeddings=64,
    )  # fmt: skip
    model = AscenderForSequenceClassification(config).eval()
    print(f"before: {accuracy(model, x[test], y[test]):.1%} of unseen digits (guessing: 10%)")

    def collate(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
        x, y = (torch.stack(column) for column in zip(*rows, strict=True))
        return {"input_ids": x, "labels": y, "neighbours": BESIDE}

    fit(
        model,
        list(zip(x[train], y[train], strict=True)),
        args.steps,
        collate=collate,
        batch=32,
        rate=5e-3,
    )
    print(f"after:  {accuracy(model, x[test], y[test]):.1%}")


if __name__ == "__main__":
    main()
