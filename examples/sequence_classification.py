"""Sequence classification: handwritten digits as 64 pixels, with grid neighbours.

    python examples/sequence_classification.py

Takes under a minute on one CPU core.
"""

import sys

import torch
from shared import arguments, fit

from ascender.core.neighbours import grid
from ascender.hf import AscenderConfig, AscenderForSequenceClassification

GREYS = 17


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """(1797, 64) grey values and their digits."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        sys.exit("this example needs scikit-learn: pip install scikit-learn")
    images = load_digits()
    return torch.tensor(images.data).long(), torch.tensor(images.target)


@torch.no_grad()
def accuracy(model: AscenderForSequenceClassification, x: torch.Tensor, y: torch.Tensor) -> float:
    return float((model(x, neighbours=GRID).logits.argmax(-1) == y).float().mean())


GRID = grid(8, 8, 1)


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
    print(f"before: {accuracy(model, x[test], y[test]):.1%} of held-out digits (guessing: 10%)")

    def collate(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
        x, y = (torch.stack(column) for column in zip(*rows, strict=True))
        return {"input_ids": x, "labels": y, "neighbours": GRID}

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
