"""The FLOPs of stored trials come out the same, with native kernels and without."""

import gzip
import json
from pathlib import Path

import pytest
import torch

from ascender.train import Run
from ascender.train.display import TrainingDisplay
from ascender.train.loop import Trainer

STORE = Path(__file__).parents[2] / "results" / "trials.jsonl.gz"


def stored(task, variant):
    with gzip.open(STORE, "rt", encoding="utf-8") as lines:
        records = map(json.loads, lines)
        return next(
            r for r in records if [r["run"]["task"], r["run"]["variant"]] == [task, variant]
        )


@pytest.mark.parametrize(
    ("task", "variant"),
    [
        ("distinct", "ascender"),
        ("distinct", "vanilla"),
        ("grouping", "ascender+rope"),
        ("pylib", "ascender"),
    ],
)
def test_the_count_is_that_of_the_stored_trial(task, variant, tmp_path):
    record = stored(task, variant)
    trainer = Trainer(Run(**record["run"]), tmp_path, None, TrainingDisplay(), None)
    with torch.no_grad():
        trainer.try_once()
    assert trainer.flops == record["attention_flops_an_example"]
