"""Train a small language model on the prompts of GSM8K and SST-2 in lm-eval, then score it.

    python examples/eval_gsm8k.py --data-dir data --out out/gsm8k
    ascender eval out/gsm8k --tasks gsm8k,sst2 --data-dir data --limit 50 --fewshot 0

Only the answers contribute to the loss. The model is far too small for arithmetic: GSM8K stays near
0. SST-2 is a choice of two, and more steps take it above one half. Without --data-dir the rows come
from the Hub. Takes under a minute on one CPU core, plus the download.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch
from console import parser_of, progress

from ascender.hf import AscenderConfig, AscenderForCausalLM
from ascender.hf.tokens import train_tokenizer

SETS = {  # name on the Hub, configuration, prompt of lm-eval, answer
    "gsm8k": ("openai/gsm8k", "main", "Question: {question}\nAnswer:", " {answer}"),
    "sst2": (
        "nyu-mll/glue",
        "sst2",
        "{sentence}\nQuestion: Is this sentence positive or negative?\nAnswer:",
        " {sentiment}",
    ),
}


def pairs(name: str, data_dir: Path | None, most: int) -> list[tuple[str, str]]:
    """The training rows as (prompt, answer)."""
    path, config, question, answer = SETS[name]
    if data_dir is None:
        from datasets import load_dataset

        rows = list(load_dataset(path, config, split="train"))
    else:
        file = data_dir / path.split("/")[-1] / config / "train.jsonl"
        with file.open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
    random.Random(0).shuffle(rows)
    for row in rows[:most]:
        row["sentiment"] = ("negative", "positive")[row.get("label", 0)]
    return [(question.format(**row), answer.format(**row)) for row in rows[:most]]


def encode(tokenizer: Any, each: list[tuple[str, str]], length: int) -> list[torch.Tensor]:
    """Tokens and labels of every row, (2, n); prompt tokens have no labels."""
    rows = []
    questions, answers = (tokenizer([pair[side] for pair in each]).input_ids for side in (0, 1))
    for prompt, answer in zip(questions, answers, strict=True):
        tokens = [*prompt, *answer, tokenizer.eos_token_id]
        labels = [-100] * len(prompt) + tokens[len(prompt) :]
        rows.append(torch.tensor([tokens[-length:], labels[-length:]]))
    return rows


def train(model: AscenderForCausalLM, rows: list[torch.Tensor], args: argparse.Namespace) -> float:
    """Train on batches of similar length; return the mean loss of the last tenth of the steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, args.steps, pct_start=0.1)
    pick, losses = random.Random(0), []
    rows = sorted((row.T for row in rows), key=len)
    for step in range(args.steps):
        start = pick.randrange(max(1, len(rows) - args.batch))
        batch = rows[start : start + args.batch]
        both = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=-100)
        tokens, labels = both.unbind(-1)
        real = tokens != -100
        loss = model(tokens.clamp_min(0), attention_mask=real, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 10 == 0 or step == args.steps - 1:
            progress(f"step {step}/{args.steps}  loss {loss.item():.3f}")
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--data-dir", type=Path, help="local data, laid out as in docs/tasks.md")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out/gsm8k"),
        help="folder of the model",
    )
    parser.add_argument("--size", default="tiny", help="tiny, small, medium or large")
    parser.add_argument("--attention", default="ascender", help="attention")
    parser.add_argument("--steps", type=int, default=80, help="training steps")
    parser.add_argument("--batch", type=int, default=16, help="rows per step")
    parser.add_argument("--length", type=int, default=256, help="maximal tokens per row")
    parser.add_argument("--vocab", type=int, default=1024, help="size of the vocabulary")
    parser.add_argument("--rows", type=int, default=8000, help="maximal rows per data set")
    parser.add_argument("--lr", type=float, default=3e-3, help="peak learning rate")
    args = parser.parse_args()
    torch.manual_seed(0)

    progress(f"reading {' and '.join(SETS)} from {args.data_dir or 'the Hub'}")
    each = [pair for name in SETS for pair in pairs(name, args.data_dir, args.rows)]
    progress(f"{len(each)} rows; learning a vocabulary of {args.vocab} from them")
    tokenizer = train_tokenizer((prompt + answer for prompt, answer in each), args.vocab)
    end, rows = tokenizer.eos_token_id, encode(tokenizer, each, args.length)
    model = AscenderForCausalLM(
        AscenderConfig.preset(
            args.size, vocab_size=len(tokenizer), attention=args.attention, bos_token_id=end,
            eos_token_id=end, pad_token_id=tokenizer.pad_token_id,
        )
    )  # fmt: skip
    print(f"{model.num_parameters():,} parameters, {len(rows)} rows, {len(tokenizer)} tokens")
    print(f"mean loss of the last steps: {train(model, rows, args):.3f}")
    model.eval()
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
