"""Measure the trained models of one or two variants and tabulate them: the function behind
`ascender insight`.

    from ascender import lab
    result = lab.compare_models(["runs/a0", "runs/a1"], ["runs/v0", "runs/v1"], out="out")
    result.record()["tables"]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ascender.insight import load, measure
from ascender.insight.loading import source_for, task_for
from ascender.tasks import Task, kind_of

if TYPE_CHECKING:  # the report's libraries are imported where it is made
    from ascender.lab.reports.model_insight import ModelInsight

SOURCE = "pylib"  # a task of plain text, which a model reads by its own tokenizer


@dataclass(frozen=True)
class InsightResult:
    """What was measured, one value per variant; the names of the models of each variant; the
    variant they are compared with ("": none); the files written, the page last."""

    measured: Sequence[ModelInsight]
    names: dict[str, list[str]]
    baseline: str
    files: list[Path]

    def tables(self) -> list[Any]:
        """The report's tables."""
        from ascender.lab.reports import insight_report

        return insight_report.tables_of(self.measured, self.baseline)

    def advice(self) -> list[tuple[str, str]]:
        """What to do next, in English and Korean."""
        from ascender.lab.reports import insight_report

        return list(insight_report.advice(self.measured, self.names[self.measured[0].variant][0]))

    def record(self) -> dict[str, Any]:
        """Measurements, tables and advice, as JSON."""
        from ascender.lab.reports import insight_report

        return insight_report.as_json(self.measured, self.tables(), self.names)


def compare_models(
    models: Sequence[str | Path], against: Sequence[str | Path] = (), *, task: str | None = None,
    adapter: str | Path | None = None, examples: int = 32, data_dir: str | Path | None = None,
    out: str | Path | None = None, lang: str = "en", trust_code: bool = False,
    say: Callable[[str], None] = print,
) -> InsightResult:  # fmt: skip
    """Contributions of the rules, roles of heads and grouping of tokens in saved models.

    models    seeds of one variant               against   seeds of another one
    task      whose test examples they read; default: the one they were trained on
    adapter   a retrofit adapter for `models`    out       a folder for tables, figures and a page
    """
    groups = [_load(models, adapter, task, data_dir, trust_code, say)]
    if against:
        groups.append(_load(against, None, task, data_dir, trust_code, say))
    if len({group[0].variant for group in groups}) < len(groups):
        raise ValueError(
            f"--against is {groups[0][0].variant} like the models; expected another variant"
        )
    tasks = list(dict.fromkeys(m.task.name for group in groups for m in group))
    if len(tasks) > 1:
        raise ValueError(f"models of {' and '.join(tasks)}; expected models of one task")
    measured = [_measure(group, examples, say) for group in groups]
    names = {group[0].variant: [m.name for m in group] for group in groups}
    baseline = measured[-1].variant if against else ""
    files = []
    if out is not None:
        from ascender.lab.reports import insight_report

        files = insight_report.save(measured, Path(out), baseline, names, lang)
    return InsightResult(measured, names, baseline, files)


class _Model(NamedTuple):
    """A model, what it reads, and by which tokenizer (None: the task's)."""

    name: str
    variant: str
    seed: int
    model: Any
    task: Task
    tokenizer: Any


def _load(
    folders: Sequence[str | Path], adapter: str | Path | None, task: str | None,
    data_dir: str | Path | None, trust_code: bool, say: Callable[[str], None],
) -> list[_Model]:  # fmt: skip
    """The models of one variant, with what they read."""
    models = []
    for i, folder in enumerate(folders):
        loaded = load(folder, adapter, say, trust_code)
        run = loaded.run or {}
        if task == SOURCE and run.get("task") != SOURCE:
            reads, tokenizer = source_for(loaded), loaded.tokenizer
        elif task is not None and task != run.get("task"):
            kind_of(task)
            raise ValueError(
                f"{loaded.name} was not trained on {task}; expected --task "
                f"{run.get('task', SOURCE)}"
            )
        else:
            reads, tokenizer = task_for(loaded, task, data_dir), None
        name = loaded.name if adapter is None else f"{loaded.name} + {Path(adapter).name}"
        variant, seed = str(run.get("variant", name)), int(run.get("seed", i))
        models.append(_Model(loaded.name, variant, seed, loaded.model, reads, tokenizer))
    variants, seeds = list(dict.fromkeys(m.variant for m in models)), [m.seed for m in models]
    if len(variants) > 1:
        raise ValueError(
            f"models of {' and '.join(variants)}; expected seeds of one variant, others with "
            "--against"
        )
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"models of seeds {seeds}; expected each seed once")
    return models


def _measure(group: Sequence[_Model], n: int, say: Callable[[str], None]) -> ModelInsight:
    from ascender.lab.reports.model_insight import ModelInsight

    results = []
    for m in group:
        say(f"measuring {m.name}")
        results.append(measure(m.model, m.task, m.tokenizer, n, say=say))
    seeds = tuple(m.seed for m in group)
    return ModelInsight(group[0].task.name, group[0].variant, seeds, (), tuple(results))
