"""A suite: a claim, the runs that test it and the decision rule, fixed before the runs.

    experiments/NAME.py      SUITE = Suite("name", claim="…", runs=grid(…), rule=DecisionRule(…))

A suite of the package is found by name, a suite of your own by the path of its file; a file is
executed only if it is given as a path. Workers execute that file too, so it may register
attentions, variants and tasks.

Runs are values (train.Run), so a suite is a list to read, count and hash.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ascender.common.files import plain_name
from ascender.common.renamed import check_renamed
from ascender.common.validate import nearest
from ascender.lab.costs import Costs
from ascender.lab.verdict import DecisionRule
from ascender.train import Run


@dataclass(frozen=True)
class Suite:
    """A claim and its trials.

    claim, claim_ko   one sentence, in English and Korean
    baseline          the variant that the others are compared with
    against           variant → its own baseline, for variants compared with another one
    rule              when a difference is a win, a tie or a loss
    goals             task → score, for the steps, tokens, FLOPs and seconds needed to reach it
    budgets           task → step, whose validation score is reported beside that at the end
    costs             layers to measure at length after the trials (lab.costs)
    insight           whether every trained model is measured (insight.measure) for its record
    tuning            whether the suite chooses settings: reports show validation scores, no test's
    source            the file of a suite that was given by path
    """

    name: str
    claim: str
    runs: tuple[Run, ...]
    rule: DecisionRule = field(default_factory=DecisionRule)
    baseline: str = "vanilla"
    goals: Mapping[str, float] = field(default_factory=dict)
    budgets: Mapping[str, int] = field(default_factory=dict)
    claim_ko: str = ""
    against: Mapping[str, str] = field(default_factory=dict)
    costs: Costs | None = None
    insight: bool = False
    tuning: bool = False
    source: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        plain_name("suite", self.name)
        keys = [run.key for run in self.runs]
        if not keys:
            raise ValueError(f"suite {self.name} has no runs; expected at least one")
        often = Counter(keys)
        twice = next((run for run in self.runs if often[run.key] > 1), None)
        if twice is not None:
            raise ValueError(f"suite {self.name} has a run twice: {twice}; expected each once")
        for task, step in self.budgets.items():
            self._check_budget(task, step)
        names = {run.variant for run in self.runs}
        for name in (*self.against, *self.against.values()):
            if name not in names:
                raise ValueError(
                    f"suite {self.name} compares {name!r}; expected one of its variants: "
                    f"{', '.join(sorted(names))}"
                )

    @property
    def key(self) -> str:
        """A hash of the runs and of how they are judged."""
        keys = [run.key for run in self.runs]
        return key_of_suite(keys, self.rule, self.baseline, self.goals, self.against, self.budgets)

    def _check_budget(self, task: str, step: int) -> None:
        """There must be a validation at that step."""
        runs = [run for run in self.runs if run.task == task]
        if not runs:
            names = dict.fromkeys(run.task for run in self.runs)
            raise ValueError(
                f"suite {self.name} has a budget of {task!r}; expected one of its tasks: "
                f"{', '.join(names)}"
            )
        for run in runs:
            if not 0 < step <= run.steps or (step % run.every and step != run.steps):
                raise ValueError(
                    f"budgets[{task!r}] = {step} in suite {self.name}; expected a step with a "
                    f"validation: a multiple of every = {run.every}, up to {run.steps}"
                )

    def with_seeds(self, n: int) -> Suite:
        """The same with n seeds: its own, the smallest first, then those that follow."""
        if n < 1:
            raise ValueError(f"seeds = {n}; expected at least 1")
        once = {run.cell: run for run in self.runs}
        own = sorted({run.seed for run in self.runs})
        return replace(self, runs=seeded(once.values(), first_seeds(own, n)))


def first_seeds(own: Sequence[int], n: int) -> list[int]:
    """n seeds: the first of these, then, if there are fewer, those after the last."""
    return [*own, *range(own[-1] + 1, own[-1] + 1 + n)][:n]


def key_of_suite(
    trials: Iterable[str], rule: DecisionRule, baseline: str, goals: Mapping[str, float],
    against: Mapping[str, str], budgets: Mapping[str, int] | None = None,
) -> str:  # fmt: skip
    """The key of a suite whose trials have these keys. Budgets count only if there are any, so
    suites stored before budgets existed keep their keys."""
    parts: list[Any] = [sorted(trials), asdict(rule), baseline, dict(goals), dict(against)]
    parts += [dict(budgets)] if budgets else []
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def grid(
    tasks: Mapping[str, Mapping[str, Any]], variants: Sequence[str], seeds: int | Sequence[int],
    **common: Any,
) -> tuple[Run, ...]:  # fmt: skip
    """Runs of every task × variant × seed. `tasks`: task → its own fields of a run (size="small"
    too); `common`: fields of all runs; `seeds`: how many from 0, or a list. Ordered by seed, so
    that an interrupted suite has every task and variant."""
    cells = [
        Run.of(task, variant=variant, **{**common, **own})
        for (task, own), variant in itertools.product(tasks.items(), variants)
    ]
    return seeded(cells, seeds)


def seeded(cells: Iterable[Run], seeds: int | Sequence[int]) -> tuple[Run, ...]:
    """Each cell with seeds 0 … seeds − 1 or with the given ones; seed by seed."""
    cells = list(cells)
    over = range(seeds) if isinstance(seeds, int) else seeds
    return tuple(replace(run, seed=seed) for seed in over for run in cells)


def _folders() -> list[Path]:
    """The suites of the package: in the checkout, or in the installed package."""
    package = Path(__file__).resolve().parents[1]
    places = [package.parents[1] / "experiments", package / "experiments"]
    return [place for place in places if place.is_dir()]


def known() -> dict[str, Path]:
    """The suites of the package, by name."""
    paths: dict[str, Path] = {}
    for place in _folders():
        for path in sorted(place.glob("*.py")):
            if "SUITE" in path.read_text(encoding="utf-8"):
                paths.setdefault(path.stem, path)
    return paths


def suite(name: str) -> Any:
    """A suite, or a bundle of them (lab.bundle), by name or by the path of its file."""
    given = name.endswith(".py")
    path = Path(name) if given else known().get(name)
    if path is None or not path.exists():
        check_renamed("suite", path.stem if given and path else name)
        names = list(known())
        raise ValueError(
            f"unknown suite {name!r}{nearest(name, names)}; expected one of {', '.join(names)}, "
            "or the path of a file with SUITE = Suite(…) in it"
        )
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(f"ascender_suite_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    content: Any = getattr(module, "SUITE", None)
    if not isinstance(content, Suite) and not hasattr(content, "suites"):
        raise ValueError(f"{path} has SUITE = {content!r}; expected a Suite, or a Bundle")
    return replace(content, source=str(path.resolve())) if given else content
