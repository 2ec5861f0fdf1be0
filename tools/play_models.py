"""Train the models of `ascender play` and write them as one file, weights rounded to float16.

    python tools/play_models.py runs/play src/ascender/insight/play/fewshot_digits.safetensors

Vanilla and ASCender with two seeds and the same settings each, as small as experiments/quick.py has
them, 2,000 steps. They were fixed before these runs; what comes out is written, whichever is
better. The file also has the test images of the task and, in its metadata, the scores of the
rounded models. Finished runs in the first folder are only read. Training takes about three minutes
on one CPU core.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

from ascender.common.files import write
from ascender.hf.source import load_model
from ascender.tasks import Task, task
from ascender.train import Run, evaluate, train

VARIANTS, SEEDS = ("ascender", "vanilla"), (0, 1)
OPTIONS = {"ways": 3, "unlabelled": 2}
SETTINGS = {
    "hidden": 32, "layers": 2, "heads": 2, "batch": 32, "rate": 3e-3, "steps": 2000, "every": 250,
}  # fmt: skip


def rounded(folder: Path) -> torch.nn.Module:
    """The model of a run with its weights as float16 has them."""
    _, model = load_model(folder)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.half().float())
    return model.eval()


def difference(scores: dict[str, list[float]]) -> dict[str, float]:
    """ASCender's accuracy minus vanilla's on the same examples, with its 95% interval."""
    apart = np.subtract(scores["ascender"], scores["vanilla"])
    half = 1.96 * apart.std(ddof=1) / len(apart) ** 0.5
    return {
        "mean": float(apart.mean()), "low": float(apart.mean() - half),
        "high": float(apart.mean() + half),
    }  # fmt: skip


def images(data: Task) -> dict[str, torch.Tensor]:
    """The held-out pictures in the task's shades, 0 … 16, and the digit each shows."""
    kinds = {int(i): d for d, at in enumerate(data.of["test"]) for i in at}
    rows = sorted(kinds)
    return {
        "images": torch.from_numpy(np.rint(16 * data.images[rows]).astype(np.uint8)),
        "kinds": torch.tensor([kinds[i] for i in rows], dtype=torch.uint8),
    }


def main(runs: Path, file: Path) -> None:
    data = task("fewshot-digits", **OPTIONS)
    tensors, models, apart = images(data), [], []
    for seed in SEEDS:
        scores = {}
        for variant in VARIANTS:
            run = Run.of("fewshot-digits", variant=variant, seed=seed, options=OPTIONS, **SETTINGS)
            train(run, runs / f"{variant}-{seed}")
            model = rounded(runs / f"{variant}-{seed}")
            weights = {n: t for n, t in model.state_dict().items() if t.is_floating_point()}
            tensors |= {f"{variant}-{seed}/{n}": t.half().clone() for n, t in weights.items()}
            result = evaluate(model, data, "test", 100)
            scores[variant] = result.scores
            models.append({
                "variant": variant, "seed": seed, "accuracy": result.value,
                "levels": result.levels, "n": len(result.scores),
                "parameters": sum(t.numel() for t in weights.values()),
            })  # fmt: skip
            print(models[-1])
        apart.append({"seed": seed, **difference(scores)})
        print(apart[-1])
    record = {
        "task": "fewshot-digits", "options": OPTIONS, "settings": SETTINGS, "models": models,
        "differences": apart,
    }  # fmt: skip
    write(file, save(tensors, {"record": json.dumps(record)}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    main(given.runs, given.file)
