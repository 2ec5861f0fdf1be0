"""The next byte of Python's own source, and some lines of it made up.

    python examples/causal_lm.py
    python examples/causal_lm.py --attention vanilla     the same model with one word changed

Under a minute of one CPU core.
"""

import torch
from shared import arguments, fit, pieces, stdlib

from ascender.hf import AscenderConfig, AscenderForCausalLM

LENGTH = 128


def to_bytes(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()))


@torch.no_grad()
def bits(model: AscenderForCausalLM, rows: torch.Tensor) -> float:
    """A byte's worth of surprise."""
    return float(model(rows, labels=rows).loss) / 0.6931


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
    print(f"before: {bits(model, test):.2f} bits a byte (8 is guessing)")
    fit(model, [{"input_ids": row, "labels": row} for row in train], args.steps)
    print(f"after:  {bits(model, test):.2f} bits a byte")
    prompt = to_bytes("def parse(self, ")[None]
    made = model.generate(prompt, max_new_tokens=80, do_sample=True, temperature=0.7)
    print(bytes(made[0].tolist()).decode(errors="replace"))


if __name__ == "__main__":
    main()
