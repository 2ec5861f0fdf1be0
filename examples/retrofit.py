"""Add the three rules to a pretrained model and train only the added parameters (the swarm).

    python examples/retrofit.py                         # a tiny model, trained first
    python examples/retrofit.py weights/stories15M --out out/swarm
    python examples/retrofit.py weights/stories15M --data gsm8k/main/train.jsonl --out out/swarm
    ascender eval weights/stories15M --adapter out/swarm --tasks gsm8k,sst2

The text is Python source, or all strings of a JSON lines file. The tiny model is a Llama of two
layers, trained on other Python modules and written to OUT-base. With the tiny model this takes
under a minute on one CPU core.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from console import parser_of, progress
from shared import fit, pieces, stdlib
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

import ascender
from ascender.hf.tokens import train_tokenizer

LENGTH, HELD_OUT = 64, 32
TINY = {"hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 256}  # fmt: skip


def text_of(path: Path | None) -> str:
    if path is None:
        return stdlib("textwrap", "argparse", "difflib")
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line).values() for line in lines]
    return "\n".join(text for row in rows for text in row if isinstance(text, str))


def rows_of(tokenizer: Any, text: str) -> tuple[list[dict[str, torch.Tensor]], torch.Tensor]:
    """Training rows, and the first rows of the text, which are held out."""
    rows = pieces(torch.tensor(tokenizer(text, add_special_tokens=False).input_ids), LENGTH)
    return [{"input_ids": row, "labels": row} for row in rows[HELD_OUT:]], rows[:HELD_OUT]


def pretrain(steps: int, folder: Path) -> None:
    """Train a tiny Llama without the rules on other text, and save it with its tokenizer."""
    progress("no model given: training a tiny one first")
    text = stdlib("inspect", "typing", "tarfile", "unittest.mock")
    tokenizer = train_tokenizer([text], 512)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(tokenizer), bos_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, **TINY,
    ))  # fmt: skip
    fit(model, rows_of(tokenizer, text)[0], steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(f"wrote {folder}")


@torch.no_grad()
def perplexity(model: torch.nn.Module, rows: torch.Tensor) -> float:
    return float(model(input_ids=rows, labels=rows).loss.exp())


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("model", nargs="?", help="folder or Hub name of a causal language model; "
                        "default: train a tiny one")  # fmt: skip
    parser.add_argument("--data", type=Path, help="JSON, one object per line")
    parser.add_argument("--out", type=Path, default=Path("out/swarm"),
                        help="folder of the adapter")  # fmt: skip
    parser.add_argument("--steps", type=int, default=100, help="training steps of the swarm")
    parser.add_argument("--batch", type=int, default=16, help="rows per step")
    parser.add_argument("--base-steps", type=int, default=300,
                        help="training steps of the tiny model")  # fmt: skip
    args = parser.parse_args()
    torch.manual_seed(0)

    text = text_of(args.data)[:400_000]
    base = args.model or args.out.with_name(args.out.name + "-base")
    if args.model is None:
        pretrain(args.base_steps, base)
    model = AutoModelForCausalLM.from_pretrained(base).eval()
    train, test = rows_of(AutoTokenizer.from_pretrained(base), text)
    plain = perplexity(model, test)
    ascender.retrofit(model)
    swarm = sum(p.numel() for p in ascender.swarm_parameters(model))
    print(f"swarm: {swarm:,} parameters, {swarm / model.num_parameters():.2%} of the model")
    print(f"before: {perplexity(model, test):.2f} perplexity (without the swarm: {plain:.2f})")
    fit(model, train, args.steps, batch=args.batch, rate=3e-2)
    print(f"after:  {perplexity(model, test):.2f}")
    print(f"wrote {ascender.save_adapter(model, args.out)}")


if __name__ == "__main__":
    main()
