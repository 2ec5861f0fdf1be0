"""Gates and biases of the rules while a model trains: are gates open, do they differ between
tokens, and how much of a bias is the same for every query? (docs/log.md has what came out.)

    python tools/gates_over_training.py sst2 grouping --data-dir data

Trains ASCender with the recipes of the suites, seed 0, and prints a line per layer at every
validation.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from ascender.core.rules import RULES
from ascender.insight import capture, common, gates
from ascender.train.display import TrainingDisplay
from ascender.train.loop import Trainer

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from recipes import TASKS, tuned

EXAMPLES = 32


class GatePrinter(Trainer):
    """Prints gates and common biases at every validation."""

    def print_gates(self) -> None:
        batch = next(self.task.eval_batches("validation", EXAMPLES))
        _, layers = capture(self.plain, **self.task.inputs(batch))
        gate, same = gates(layers), common(layers)
        for i in range(len(layers)):
            of = [
                f"{r} {gate[r][i, :, 0].mean():.3f} ± {gate[r][i, :, 1].mean():.3f}, "
                f"common {same[r][i].nanmean():.2f}"
                for r in RULES
            ]
            print(f"{self.run.task:15} step {self.step:5} layer {i}  {'   '.join(of)}")

    def _validate(self):
        score = super()._validate()
        self.print_gates()
        return score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("task", nargs="+", choices=TASKS)
    parser.add_argument("--data-dir")
    args = parser.parse_args()
    for run in tuned(args.task, ["ascender"], seeds=1):
        with tempfile.TemporaryDirectory() as out:
            trainer = GatePrinter(run, Path(out), args.data_dir, TrainingDisplay(), None)
            trainer.try_once()
            trainer.open(resume=False)
            trainer.print_gates()
            trainer.go(run.steps, lambda: False)


if __name__ == "__main__":
    main()
