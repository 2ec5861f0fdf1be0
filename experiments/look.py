"""A look at the rules while a model learns: are gates open, do they tell tokens apart, and how much
of a bias is the same for every query? (What was seen is in docs/log.md.)

    python experiments/look.py sst2 grouping --data-dir data

Trains ASCender as the suites do, seed 0, and prints a line a layer at every validation.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from recipes import TASKS, tuned

from ascender.core.rules import RULES
from ascender.insight import capture, common, gates
from ascender.train.display import Display
from ascender.train.loop import Trainer

EXAMPLES = 32


class Looking(Trainer):
    """Prints what it sees at every validation."""

    def look(self) -> None:
        batch = next(self.task.held("validation", EXAMPLES))
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
        found = super()._validate()
        self.look()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("task", nargs="+", choices=TASKS)
    parser.add_argument("--data-dir")
    asked = parser.parse_args()
    for run in tuned(asked.task, ["ascender"], seeds=1):
        with tempfile.TemporaryDirectory() as out:
            trainer = Looking(run, Path(out), asked.data_dir, Display(), None)
            trainer.try_once()
            trainer.open(resume=False)
            trainer.look()
            trainer.go(run.steps, lambda: False)


if __name__ == "__main__":
    main()
