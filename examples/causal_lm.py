"""Causal language model: the next byte of Python source, then a generated sample.

    python examples/causal_lm.py
    python examples/causal_lm.py --attention vanilla     the same model with plain attention

Takes under a minute on one CPU core.
"""

import math

import torch
from shared import arguments, fit, pieces, stdlib

from ascender.hf import AscenderConfig, AscenderForCausalLM

LENGTH = 128


def to_bytes(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()))


@torch.no_grad()
def bits(model: AscenderForCausalLM, rows: torch.Tensor) -> float:
    """Cross-entropy in bits per byte."""
    return float(model(rows, labels=rows).loss) / math.log(2)


def main() -> None:
    args = arguments(__doc__, steps=100)
    train = pieces(
        to_bytes(stdlib("argparse", "inspect", "typing", "tarfile", "unittest.mock")), LENGTH
    )
    test = pieces(to_bytes(stdlib("textwrap", "shlex")), LENGTH)[:32]
    config = AscenderConfig.preset(
        "tiny", vocab_size=256, attention=args.attention, position=args.position
    )
    model = AscenderForCausalLM(config).eval()
    print(f"before: {bits(model, test):.2f} bits per byte (guessing: 8)")
    fit(model, [{"input_ids": row, "labels": row} for row in train], args.steps)
    print(f"after:  {bits(model, test):.2f} bits per byte")
    prompt = to_bytes("def parse(self, ")[None]
    sample = model.generate(prompt, max_new_tokens=80, do_sample=True, temperature=0.7)
    print(bytes(sample[0].tolist()).decode(errors="replace"))


if __name__ == "__main__":
    main()
