"""Measure a saved model against the limits of normalisation: the function behind `ascender limits`.

from ascender.insight import limits
result = limits.run("runs/a0", task="pylib", compare="muted", out="limits")
result.record()["verdict"]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascender.common.files import read_text
from ascender.common.validate import lookup
from ascender.core.normalizers import NORMALIZERS
from ascender.core.rules import RULES
from ascender.insight.capture import has_rules, muted
from ascender.insight.limits.inputs import (
    LENGTHS,
    default_text,
    longest_of,
    task_inputs,
    text_inputs,
)
from ascender.insight.limits.measure import Measured, measure
from ascender.insight.limits.monitor import guideline
from ascender.insight.limits.summary import advice, compared, of, summary, verdict
from ascender.insight.loading import Loaded, check_fits, check_text, load, task_for
from ascender.report.strings import in_language, languages

MUTED = "muted"


@dataclass(frozen=True)
class LimitsResult:
    """A model's measurements, those of the model it is compared with (`paired`: itself without its
    rules), and the files written, the page last."""

    measured: Measured
    other: Measured | None
    paired: bool
    files: list[Path]

    def record(self, lang: str = "en") -> dict[str, Any]:
        """Summaries of the models, the verdict of the comparison, warnings and advice, as JSON."""
        models = [m for m in (self.measured, self.other) if m is not None]
        other = self.other
        return {
            "models": [summary(m) for m in models],
            "verdict": None if other is None
            else verdict(compared(self.measured, other, self.paired)),
            "warnings": {m.name: guideline(of(m), m.flocks) for m in models},
            "advice": [in_language(pair, lang) for pair in advice(self.measured)],
        }  # fmt: skip


def run(
    model: str | Path, *, text: str | Path | None = None,
    lengths: Sequence[int] | None = None, normalizers: Sequence[str] | None = None,
    adapter: str | Path | None = None, task: str | None = None, data_dir: str | Path | None = None,
    compare: str | Path | None = None, batch: int = 4, lang: str = "en",
    out: str | Path | None = None, trust_code: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> LimitsResult:  # fmt: skip
    """Measure a saved model on a text (default: Python's standard library) or on a task's examples.

    lengths      context lengths             normalizers  beside the model's own; default: all
    compare      a second saved model on the same input; "muted": this one without its rules
    text         the text itself, or a Path to it
    out          a folder for tables, figures and a page
    """
    languages(lang)
    if task is not None and text is not None:
        raise ValueError("both --text-file and --task; expected one of them")
    names = None if normalizers is None else [name.strip() for name in normalizers]
    for name in names or ():
        lookup("normalizer", name, NORMALIZERS)
    say(f"loading {model}")
    loaded = load(model, adapter, say, trust_code)
    if compare == MUTED and not has_rules(loaded.model):
        raise ValueError(f"{loaded.name} has no rules to mute; expected --compare MODEL")
    second = None if compare in (None, MUTED) else load(str(compare), None, say, trust_code)
    models = [loaded] if second is None else [loaded, second]
    inputs = _inputs(models, text, task, data_dir, lengths, batch)
    title = _title(loaded)
    options: dict[str, Any] = {"normalizers": names, "say": say}
    measured = measure(loaded.model, inputs[0], name=title, **options)
    other = None
    if second is not None:
        label = _title(second)
        label = label if label != title else f"{label} (2)"
        other = measure(second.model, inputs[1], name=label, **options)
    elif compare == MUTED:
        with muted(loaded.model, *RULES):
            other = measure(loaded.model, inputs[0], name=f"{title}, muted", **options)
    asked = {
        "model": _last(model), "text_file": text.name if isinstance(text, Path) else None,
        "lengths": _joined(lengths), "normalizers": _joined(normalizers), "adapter": _last(adapter),
        "task": task, "compare": _last(compare), "batch": batch,
    }  # fmt: skip
    paired, files = compare == MUTED, []
    if out is not None:
        from ascender.insight.limits.page import report

        files = report(measured, Path(out), other, lang, asked, paired)
    return LimitsResult(measured, other, paired, files)


def _inputs(
    models: Sequence[Loaded], text: str | Path | None, task: str | None,
    data_dir: str | Path | None, lengths: Sequence[int] | None, batch: int,
) -> list[Any]:  # fmt: skip
    """What each model reads: the same examples, or the same text by its own tokenizer."""
    chosen = LENGTHS if lengths is None else tuple(sorted(set(lengths)))
    if min(chosen) < 2:
        raise ValueError(f"length {min(chosen)}; expected at least 2: of one key none is left out")
    first = models[0]
    if task is not None or (text is None and first.tokenizer is None):
        of_model = task_for(first, task, data_dir)
        for other in models[1:]:
            check_fits(other, of_model)
        examples = task_inputs(of_model, None if lengths is None else chosen, max(batch, 2))
        return [examples] * len(models)
    for one in models:
        check_text(one)
        chosen = _fitting(one.model, chosen, lengths is not None)
    if isinstance(text, Path):
        text = read_text(text)
    text = default_text() if text is None else text
    return [text_inputs(one.tokenizer, text, chosen, batch) for one in models]


def _fitting(model: Any, lengths: tuple[int, ...], given: bool) -> tuple[int, ...]:
    """The lengths that the model has positions for; one that was asked for and does not fit is an
    error."""
    most = longest_of(model)
    if most is not None and given and max(lengths) > most:
        raise ValueError(f"length {max(lengths)}; expected at most {most}, the model's positions")
    return tuple(n for n in lengths if most is None or n <= most) or (most or lengths[0],)


def _title(loaded: Loaded) -> str:
    """A model by its run where it has one: the folders of the lab are named by keys."""
    run = loaded.run
    return f"{run['variant']} ({run['task']}, seed {run['seed']})" if run else str(loaded.name)


def _last(path: str | Path | None) -> str | None:
    """The last part: what is before it says where someone keeps their files."""
    return None if path is None else Path(path).name


def _joined(values: Sequence[object] | None) -> str | None:
    return None if values is None else ",".join(map(str, values))
