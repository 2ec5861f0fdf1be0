"""The three rules for a pretrained model: a swarm learns, the model stays as it is.

    python examples/retrofit.py weights/stories15M --out out/swarm
    python examples/retrofit.py weights/stories15M --data gsm8k/main/train.jsonl --out out/swarm
    ascender eval weights/stories15M --adapter out/swarm --tasks gsm8k,sst2

The text is Python's documentation of itself, or the lines of a JSON file (all their strings).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from shared import fit, pieces, stdlib
from transformers import AutoModelForCausalLM, AutoTokenizer

import ascender

LENGTH, HELD_OUT = 64, 32


def text_of(path: Path | None) -> str:
    if path is None:
        return stdlib("textwrap", "argparse", "difflib")
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line).values() for line in lines]
    return "\n".join(text for row in rows for text in row if isinstance(text, str))


@torch.no_grad()
def perplexity(model: torch.nn.Module, rows: torch.Tensor) -> float:
    return float(model(input_ids=rows, labels=rows).loss.exp())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder or Hub name of a causal language model")
    parser.add_argument("--data", type=Path, help="JSON, one object a line")
    parser.add_argument("--out", type=Path, default=Path("out/swarm"), help="folder of the adapter")
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)

    model = AutoModelForCausalLM.from_pretrained(args.model).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    tokens = tokenizer(text_of(args.data)[:400_000], add_special_tokens=False).input_ids
    rows = pieces(torch.tensor(tokens), LENGTH)
    train, test = rows[HELD_OUT:], rows[:HELD_OUT]
    plain = perplexity(model, test)
    ascender.retrofit(model)
    swarm = sum(p.numel() for p in ascender.swarm_parameters(model))
    print(f"swarm: {swarm:,} parameters, {swarm / model.num_parameters():.2%} of the model")
    print(f"before: {perplexity(model, test):.2f} perplexity (without the swarm: {plain:.2f})")
    fit(model, [{"input_ids": r, "labels": r} for r in train], args.steps, batch=4, rate=3e-2)
    print(f"after:  {perplexity(model, test):.2f}")
    print(f"wrote {ascender.save_adapter(model, args.out)}")


if __name__ == "__main__":
    main()
