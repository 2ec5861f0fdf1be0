"""Train on one process, on replicas (DDP) or on shards (FSDP), with the same losses.

    python examples/distributed.py
    torchrun --nproc-per-node 2 examples/distributed.py --ddp
    torchrun --nproc-per-node 2 examples/distributed.py --fsdp --model causal --out out/sharded

Every process takes its share of the same global batch. With --out the trained models are saved as
folders that from_pretrained loads on any number of processes. Uses gloo on CPUs and nccl on GPUs.
All six models take about ten seconds on one CPU core, start-up included.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import torch
import torch.distributed as dist
from console import parser_of, progress
from torch import Tensor, nn

from ascender import hf
from ascender.hf import sharding

MODELS = {
    "model": hf.AscenderModel,
    "causal": hf.AscenderForCausalLM,
    "masked": hf.AscenderForMaskedLM,
    "sequence": hf.AscenderForSequenceClassification,
    "token": hf.AscenderForTokenClassification,
    "seq2seq": hf.AscenderForConditionalGeneration,
}
VOCAB, BATCH, LENGTH, CLASSES = 61, 4, 23, 3


def config(name: str, args: argparse.Namespace) -> hf.AscenderConfig:
    """Three heads do not divide evenly over two processes, which tests the per-head parameters.
    Auxiliary losses are means over tokens, so the padded batch has none."""
    more = {} if name in ("model", "sequence") else {"sep_loss": 0.1, "coh_loss": 0.1}
    return hf.AscenderConfig(
        vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=3,
        num_labels=CLASSES, pad_token_id=0, decoder_start_token_id=0, attention=args.attention,
        position=args.position, **more,
    )  # fmt: skip


def batch(name: str, step: int) -> dict[str, Tensor]:
    """The whole batch of a step: counting in steps of 1 to 5, modulo the vocabulary."""
    g = torch.Generator().manual_seed(step)
    start, by = (torch.randint(1, n, (BATCH, 1), generator=g) for n in (VOCAB, 6))
    tokens = (start + by * torch.arange(LENGTH)) % VOCAB
    if name == "causal":
        return {"input_ids": tokens, "labels": tokens}
    if name == "masked":  # every third token, as many in every row
        hidden = torch.arange(LENGTH) % 3 == 1
        return {
            "input_ids": tokens.masked_fill(hidden, 0),
            "labels": tokens.masked_fill(~hidden, -100),
        }
    if name == "sequence":  # padded: the loss is a mean over rows of any length
        real = torch.arange(LENGTH) < torch.randint(11, LENGTH + 1, (BATCH, 1), generator=g)
        return {"input_ids": tokens, "attention_mask": real, "labels": by.squeeze(1) % CLASSES}
    if name == "model":  # has no labels of its own
        return {"input_ids": tokens}
    if name == "token":
        return {"input_ids": tokens, "labels": tokens % CLASSES}
    return {"input_ids": tokens, "labels": tokens.flip(1)[:, :13]}


def loss_of(name: str, model: nn.Module, share: dict[str, Tensor]) -> Tensor:
    """The model's own loss; for AscenderModel, the squared change between consecutive states."""
    if name != "model":
        return model(**share).loss
    states = model(**share).last_hidden_state
    return (states[:, 1:] - states[:, :-1]).square().mean()


def distribute(model: nn.Module, args: argparse.Namespace) -> nn.Module:
    """The model on this process alone, as a replica, or in shards."""
    if args.fsdp:
        return sharding.shard(model)
    if args.ddp:
        return nn.parallel.DistributedDataParallel(model)
    return model


def train(name: str, args: argparse.Namespace, rank: int, size: int) -> list[float]:
    """The loss of every step, as a mean over the processes."""
    torch.manual_seed(0)  # the same weights everywhere
    plain = MODELS[name](config(name, args)).to(args.device)
    model = distribute(plain, args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses, mine = [], slice(rank, None, size)
    for step in range(args.steps):
        share = {k: v[mine].to(args.device) for k, v in batch(name, step).items()}
        loss = loss_of(name, model, share)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        whole = loss.detach().clone()
        if size > 1:
            dist.all_reduce(whole)
        losses.append(whole.item() / size)
    if args.out and args.fsdp:
        sharding.save(plain, args.out / name)
    elif args.out and rank == 0:
        plain.save_pretrained(args.out / name)
    return losses


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--model", nargs="+", choices=MODELS, default=list(MODELS),
                        help="models to train")  # fmt: skip
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--ddp", action="store_true", help="a replica on every process")
    how.add_argument("--fsdp", action="store_true", help="one shard on every process")
    parser.add_argument("--attention", default="ascender", help="attention")
    parser.add_argument("--position", default="rope", help="position")
    parser.add_argument("--steps", type=int, default=5, help="training steps")
    parser.add_argument("--out", type=Path, help="folder for the trained models")
    args = parser.parse_args()

    size, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
    several = args.ddp or args.fsdp
    if several != ("RANK" in os.environ):
        parser.error("expected --ddp or --fsdp under torchrun, and neither without it")
    cuda = torch.cuda.is_available()
    args.device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if cuda else "cpu"
    if cuda:
        torch.cuda.set_device(args.device)
    if several:
        dist.init_process_group("nccl" if cuda else "gloo")
    for name in args.model:
        if rank == 0:
            progress(f"training {MODELS[name].__name__}: {args.steps} steps")
        losses = train(name, args, rank, size)
        if rank == 0:
            print(json.dumps({"model": name, "processes": size, "losses": losses}), flush=True)
    if several:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
