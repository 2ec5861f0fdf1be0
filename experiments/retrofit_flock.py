"""Pretrained models in flock scope: perplexity by the number of far keys m, and tokens a second.

    python experiments/retrofit_flock.py --model weights/stories15M --sample 300
    python experiments/retrofit_flock.py --model weights/SmolLM2-135M --texts book.txt
    python experiments/retrofit_flock.py --model weights/stories15M --speed 256,1024,4096
    python experiments/retrofit_flock.py --table

The texts (JSON lines with a "text", or one plain text) are cut into blocks of --length tokens;
--sample N has the model write N blocks itself instead (temperature 1, seed 0), each from its first
token on. The last --test blocks are held out, the others train the index (300 steps of 8 blocks),
once, at window 8 and one global token. Then the held-out text is scored with far keys chosen by

    dense     everything visible: the model itself
    oracle    the true attention weights, mean over heads (needs the dense scores: a bound)
    index     the distilled index
    start     the index before it was trained: the leading directions of W_Q and W_K
    window    no far keys, but a window larger by m (a streaming cache)
    random    m keys at random

Perplexity is over all tokens of a block but the first, and over its second half alone: the first
tokens see everything in any case, which hides part of the loss. The interval is of the mean
difference to dense over blocks (1.96 standard errors).

Speed: greedy generation of 32 tokens after a prompt of random tokens, median of 3 turns, one
thread; a prompt longer than the model's training length says nothing about quality. Rows that are
there are not measured again.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import ascender
from ascender.core.index_loss import head_weights
from ascender.hf.retrofit.distil import best_far, hooked, indexed_layers, text_blocks
from ascender.report.blocks import fill_document
from ascender.report.table import Table, markdown

DOCS = Path(__file__).parent.parent / "docs"
ROWS = DOCS / "retrofit" / "flock.jsonl"
WINDOW, GLOBALS, NEW = 8, 1, 32
NAMES = {
    "oracle": "true attention (oracle)", "index": "index", "start": "index, not trained",
    "window": "a window larger by m, and the first token", "random": "random",
}  # fmt: skip


def read() -> list[dict]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()] if ROWS.exists() else []


def add(row: dict) -> None:
    print(row, flush=True)
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    with ROWS.open("a") as rows:
        rows.write(json.dumps(row) + "\n")


def texts_of(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8")
    if path.suffix != ".jsonl":
        return [lines]
    return [json.loads(line)["text"] for line in lines.splitlines()]


@torch.no_grad()
def sampled(model, blocks: int, length: int) -> torch.Tensor:
    """Token ids that the model writes, (blocks, length)."""
    torch.manual_seed(0)
    start = torch.full((blocks, 1), model.config.bos_token_id)
    options = {"max_new_tokens": length - 1, "do_sample": True, "top_k": 0, "eos_token_id": None}
    parts = [model.generate(ids, **options, pad_token_id=0) for ids in start.split(64)]
    return torch.cat(parts)


@torch.no_grad()
def nats(model, blocks) -> torch.Tensor:
    """Cross-entropy of each token but the first, (blocks, length − 1)."""
    found = []
    for ids in blocks.split(4):
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        each = torch.nn.functional.cross_entropy(logits.mT, ids[:, 1:], reduction="none")
        found.append(each.double())
    return torch.cat(found)


def chooser(how: str):
    """The far keys of a call by the true weights, or at random."""
    draw = torch.Generator().manual_seed(0)

    def hook(swarm, flock):
        if how == "oracle":
            scores = head_weights(replace(flock, scope=None).repeat_kv()).mean(1, keepdim=True)
        else:
            shape = (flock.q.shape[0], 1, flock.vis.N, flock.vis.M)
            scores = torch.rand(shape, generator=draw)
        return replace(flock, neighbours=best_far(swarm, flock, scores))

    return hook


def set_flock(model, far: int, window: int) -> None:
    for swarm in indexed_layers(model):
        swarm.far, swarm.window = far, window


def score(model, how: str, far: int, blocks) -> torch.Tensor:
    """The nats of each token with m = far keys chosen so."""
    set_flock(model, *((0, WINDOW + far) if how == "window" else (far, WINDOW)))
    if how in ("oracle", "random"):
        with hooked(model, chooser(how)):
            return nats(model, blocks)
    return nats(model, blocks)


def over_dense(change: torch.Tensor) -> dict[str, float]:
    """Perplexity over dense, and its interval, from the difference in nats of each block."""
    mean, half = float(change.mean()), 1.96 * float(change.std()) / math.sqrt(len(change))
    named = {"ratio": mean, "low": mean - half, "high": mean + half}
    return {name: round(math.exp(x), 4) for name, x in named.items()}


def quality(folder: str, options: argparse.Namespace) -> None:
    """Perplexity, a row for each m and way of choosing."""
    name, N = Path(folder).name, options.length
    key = {"kind": "perplexity", "model": name, "length": N}
    trained = {"steps": options.steps, "batch": options.batch, "d_a": options.d_a}
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    cut = f"{options.sample or options.texts}-{options.blocks}-{options.test}".replace("/", "_")
    saved = Path(f"{options.out}/{name}-{N}-{cut}")
    saved.mkdir(parents=True, exist_ok=True)
    blocks = once_made(saved / "blocks.pt", lambda: blocks_of(model, folder, options))
    learn, test = blocks[: -options.test], blocks[-options.test :]
    key |= {"blocks": len(learn), "test_blocks": len(test)}
    dense = once_made(saved / "dense.pt", lambda: nats(model, test))

    def once(how: str, far: int) -> None:
        row = {**key, "how": how, "far": far, **(trained if how == "index" else {})}
        if any(row.items() <= r.items() for r in read()):
            return
        begun = time.perf_counter()
        scored = score(model, how, far, test)
        row |= {
            "perplexity": round(math.exp(scored.mean()), 4),
            "dense": round(math.exp(dense.mean()), 4),
        }  # fmt: skip
        for part, start in {"all": 0, "late": N // 2 - 1}.items():
            row[part] = over_dense((scored - dense)[:, start:].mean(1))
        add({**row, "seconds": round(time.perf_counter() - begun, 1)})

    ascender.retrofit(
        model, scope="flock", far=N // 8, window=WINDOW, n_global=GLOBALS, d_a=options.d_a
    )  # fmt: skip
    sizes = [N // share for share in options.shares]
    for far in sizes:
        for how in options.how:
            once(how, far)
    adapter = saved / "-".join(f"{name}{n}" for name, n in trained.items())
    if adapter.exists():
        ascender.load_adapter(model, adapter)
    else:
        report = ascender.distil_index(
            model, learn, steps=options.steps, batch=options.batch,
            progress=lambda a, b, loss: a % 10 == 0 and print(a, b, loss, flush=True),
        )  # fmt: skip
        ascender.save_adapter(model, adapter)
        more = {"kind": "distil", "model": name, **trained, **report.record()}
        add({**more, "loss": [report.loss[0], report.loss[-1]]})
    for far in sizes:
        once("index", far)


def blocks_of(model, folder: str, options: argparse.Namespace) -> torch.Tensor:
    if options.sample:
        return sampled(model, options.sample, options.length)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return text_blocks(texts_of(options.texts), tokenizer, options.length)[: options.blocks]


def once_made(path: Path, make) -> torch.Tensor:
    """A tensor that is computed once and kept."""
    if not path.exists():
        torch.save(make(), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)
    return torch.load(path)


@torch.no_grad()
def speed(folder: str, options: argparse.Namespace) -> None:
    """Tokens a second of generate() after prompts of some lengths, dense and in flock scope."""
    name = Path(folder).name
    for length in options.speed:
        for how in ("dense", "index"):
            key = {"kind": "speed", "model": name, "how": how, "length": length}
            if any(key.items() <= r.items() for r in read()):
                continue
            model = AutoModelForCausalLM.from_pretrained(folder).eval()
            if how == "index":
                ascender.retrofit(model, scope="flock", far=32, window=WINDOW, n_global=GLOBALS)
            ids = torch.randint(3, model.config.vocab_size, (1, length))
            rates = []
            for _ in range(3):
                cache = model(ids, use_cache=True, logits_to_keep=1).past_key_values
                token = ids[:, -1:]
                begun = time.perf_counter()
                for _ in range(NEW):
                    out = model(token, past_key_values=cache, use_cache=True)
                    token = out.logits[:, -1:].argmax(-1)
                rates.append(NEW / (time.perf_counter() - begun))
            add({**key, "far": 32, "tokens_a_second": round(statistics.median(rates), 2)})


def tables() -> dict[str, str]:
    """Perplexity over dense by m, and tokens a second."""
    scores = [r for r in read() if r["kind"] == "perplexity"]
    texts = dict.fromkeys((r["model"], r["length"], r["blocks"]) for r in scores)
    filled = {f"flock-{model}-{blocks}": _quality(scores, model, N, blocks)
              for model, N, blocks in texts}  # fmt: skip
    speeds = [r for r in read() if r["kind"] == "speed"]
    if speeds:
        rates = {(r["model"], r["length"], r["how"]): r["tokens_a_second"] for r in speeds}
        lines = [
            (model, f"{length:,}", *_rates(rates, model, length))
            for model, length in dict.fromkeys((r["model"], r["length"]) for r in speeds)
        ]
        headings = ("model", "context", "dense", "flock scope, m = 32", "ratio")
        filled["flock-speed"] = markdown(Table.of_text("speed", headings, lines))
    return filled


def _quality(scores: list[dict], model: str, N: int, blocks: int) -> str:
    """One line for each way of choosing; of the index one for each number of steps."""
    rows = [r for r in scores if (r["model"], r["length"], r["blocks"]) == (model, N, blocks)]
    sizes = sorted({r["far"] for r in rows}, reverse=True)
    lines = []
    for how, text in NAMES.items():
        for steps in sorted({r.get("steps", 0) for r in rows if r["how"] == how}):
            cells = {r["far"]: r for r in rows if (r["how"], r.get("steps", 0)) == (how, steps)}
            label = f"{text}, {steps} steps" if steps else text
            lines.append((label, *(_cell(cells.get(far)) for far in sizes)))
    headings = ("far keys chosen by", *(f"m = {far} (N/{N // far})" for far in sizes))
    return markdown(Table.of_text(model, headings, lines))


def _cell(row: dict | None) -> str:
    if row is None:
        return "–"
    both, late = row["all"], row["late"]
    return f"{both['ratio']:.3f} ({both['low']:.3f} … {both['high']:.3f}); {late['ratio']:.3f}"


def _rates(rates: dict, model: str, length: int) -> tuple[str, str, str]:
    dense, flock = (rates.get((model, length, how)) for how in ("dense", "index"))
    if dense is None or flock is None:
        return "–", "–", "–"
    return f"{dense:.1f}", f"{flock:.1f}", f"{flock / dense:.2f}"


def numbers(text: str) -> list[int]:
    return [int(piece) for piece in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a folder that from_pretrained loads")
    parser.add_argument("--texts", type=Path, help="JSON lines with a text in each, or a text")
    parser.add_argument("--sample", type=int, help="blocks that the model writes instead of texts")
    parser.add_argument("--blocks", type=int, help="blocks of the texts at most")
    parser.add_argument("--length", type=int, default=256, help="tokens of a block")
    parser.add_argument("--test", type=int, default=60, help="blocks that are held out")
    parser.add_argument("--steps", type=int, default=300, help="steps of the distillation")
    parser.add_argument("--batch", type=int, default=8, help="blocks a step")
    parser.add_argument(
        "--shares", type=numbers, default=[4, 8, 16, 32], help="N/m, separated by commas"
    )
    parser.add_argument("--d_a", type=int, default=16, help="width of the index")
    parser.add_argument(
        "--how", type=lambda text: text.split(","), default=["start", "random", "window", "oracle"],
        help="what the index is compared with, separated by commas",
    )  # fmt: skip
    parser.add_argument("--speed", type=numbers, help="lengths of prompts to generate after")
    parser.add_argument("--out", default="out/retrofit_flock", help="folder for adapters")
    parser.add_argument("--table", action="store_true", help="write the tables into docs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.model and (options.texts or options.sample):
        quality(options.model, options)
    if options.model and options.speed:
        speed(options.model, options)
    if options.table:
        page = DOCS / "retrofit.md"
        elsewhere = lambda name: not name.startswith("flock")  # noqa: E731
        page.write_text(fill_document(page, "retrofit", tables(), elsewhere))


if __name__ == "__main__":
    main()
