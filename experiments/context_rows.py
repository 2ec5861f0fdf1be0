"""How many keys of other processes are in the flocks of a block, in trained models.

    for far in 8 32; do
        ascender train --task pylib --variant flock+rope+far=$far+window=8 --steps 240 --batch 2 \
            --rate 0.003 --options '{"length": 1024, "blocks": 20}' --out out/context-$far
    done
    python experiments/context_rows.py out/context-8/model out/context-32/model
    python -m ascender.measure.scaling_tables --into docs/scaling.md

Test sequences are cut into blocks, as context parallelism does. Of all pairs of a key and a later
process (N (P − 1)/2): the share in which a query of the process has the key in its flock, for the
model and with as many far keys chosen at random (window included in both). Mean over sequences, by
layer.
"""

from __future__ import annotations

import argparse
import json
from itertools import islice
from pathlib import Path

import torch

from ascender.core.neighbours import best
from ascender.insight.loading import load, task_for
from ascender.measure.scaling import remote_rows
from ascender.nn.module import AscenderAttention

ROWS = Path(__file__).parent.parent / "docs" / "scaling" / "rows.jsonl"
PROCESSES = (2, 4, 8, 16, 32, 64)


def requested(lists: torch.Tensor, processes: int) -> float:
    """The share of the pairs of a key and a later process that are requested; lists (N, L)."""
    N = len(lists)
    n, pairs = N // processes, 0
    for first in range(n, N, n):
        keys = lists[first : first + n].unique()
        pairs += int(((keys >= 0) & (keys < first)).sum())
    return pairs / remote_rows(N, processes)


def flocks(model, ids):
    """The Flock of each layer."""
    layers = [m for m in model.modules() if isinstance(m, AscenderAttention)]
    inputs: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_pre_hook(lambda layer, x: inputs.append(x[0])) for layer in layers
    ]
    model(input_ids=ids, use_cache=False)
    for hook in hooks:
        hook.remove()
    return [m.flock(m.call(x, causal=True)) for m, x in zip(layers, inputs, strict=True)]


@torch.no_grad()
def shares(folder: str, sequences: int) -> list[dict]:
    """A row for each layer and number of processes."""
    loaded = load(folder)
    task, draw = task_for(loaded, None), torch.Generator().manual_seed(0)
    sums: dict[tuple[int, int, str], float] = {}
    for batch in islice(task.eval_batches("test", 1), sequences):
        for i, flock in enumerate(flocks(loaded.model, batch.inputs["input_ids"])):
            outside = flock.scope.outside.flockmates
            scores = torch.rand(outside.shape, generator=draw).masked_fill(~outside, -torch.inf)
            chosen = {"model": flock.far, "random": best(scores, flock.rules.sizes("far"))}
            for how, far in chosen.items():
                lists = flock.scope.lists(far)[0, 0]
                for P in PROCESSES:
                    key = (i, P, how)
                    sums[key] = sums.get(key, 0) + requested(lists, P) / sequences
    run = loaded.run
    about = {
        "task": run["task"], "variant": run["variant"], "steps": run["steps"], "seed": run["seed"],
        "far": loaded.model.config.attention_options["far"], "length": task.length,
        "sequences": sequences,
    }  # fmt: skip
    return [
        {**about, "layer": i, "processes": P, "model": round(share, 4),
         "random": round(sums[i, P, "random"], 4)}
        for (i, P, how), share in sums.items()
        if how == "model"
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="folders of trained models in flock scope")
    parser.add_argument("--sequences", type=int, default=20, help="test sequences")
    options = parser.parse_args()
    rows = [row for folder in options.models for row in shares(folder, options.sequences)]
    ROWS.parent.mkdir(parents=True, exist_ok=True)
    ROWS.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
