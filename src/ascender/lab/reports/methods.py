"""methods.md: the statistical checklist of a paper, filled in from the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ascender.lab.reports.cells import short
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.report.strings import Pair, in_language, joined, same
from ascender.train.display import clock

SETTINGS = ("hidden", "layers", "heads", "steps", "batch", "rate", "warmup", "decay", "clip",
            "dropout", "precision", "schedule")  # fmt: skip


def methods(results: SuiteResults, lang: str) -> str:
    """Markdown in one language."""
    lines = [f"# {STRINGS.text('page.methods', lang)}", ""]
    for name, fill in ITEMS.items():
        lines += [f"## {STRINGS.text(f'method.{name}', lang)}", ""]
        lines += [f"- {_plain(in_language(pair, lang))}" for pair in fill(results)]
        lines.append("")
    return "\n".join(lines)


def _plain(text: str) -> str:
    return text.replace("<", "&lt;").replace("\n", " ")


def _say(key: str, /, **fields: object) -> Pair:
    return STRINGS.pair(f"methods.{key}", **fields)


def _claim(results: SuiteResults) -> Iterator[Pair]:
    sheet = results.sheet
    if not sheet.given:
        yield _say("no_suite")
        return
    yield sheet.claims
    yield _say("suite", name=sheet.name, key=sheet.key)


def _rule(results: SuiteResults) -> Iterator[Pair]:
    sheet, rule = results.sheet, results.sheet.rule
    numbers = f"α = {rule.alpha:g}, smallest = {rule.smallest:g}, margin = {rule.margin:g}"
    yield _say("baseline", baseline=sheet.baseline, numbers=numbers)
    yield _say("verdicts")
    when = "changed" if sheet.changed else "fixed" if sheet.fixed else "not_recorded"
    yield _say(when, fixed=sheet.fixed)


def _seeds(results: SuiteResults) -> Iterator[Pair]:
    for seeds, n in Counter(tuple(c.seeds) for c in results.conditions).items():
        yield _say("cells", n=n, seeds=len(seeds), which=", ".join(map(str, seeds)))
    yield _say("seed")


def _tests(results: SuiteResults) -> Iterator[Pair]:
    draws = next((c.examples.draws for c in results.judged.values() if c.examples), 0)
    yield _say("t_test", m=len(results.judged))
    yield _say("intervals")
    yield _say("resampling", draws=f"{draws:,}")


def _effects(results: SuiteResults) -> Iterator[Pair]:
    effects = ", ".join(
        f"{task}/{variant} δ = {c.delta:+.2f}, d_z = {'–' if c.d is None else f'{c.d:+.2f}'}"
        for (task, variant), c in results.judged.items()
    )
    yield _say("effects", effects=effects) if effects else same("–")


def _sizes(results: SuiteResults) -> Iterator[Pair]:
    for c in results.conditions:
        yield same(f"{c.task}, {c.variant}: {c.records[0]['parameters']:,}")


def _data(results: SuiteResults) -> Iterator[Pair]:
    for task, records in _by_task(results):
        options = records[0]["run"].get("options", {})
        how = options.get("tokenizer", _say("own_tokens"))
        parts = [_say("tokens", task=task, how=how)]
        if not results.sheet.tuning:  # which does not look at the test
            parts.append(_say("test", n=_range(r["test"]["n"] for r in records)))
        parts.append(_say("read", n=short(max(float(r["tokens"]) for r in records))))
        en, ko = joined(*parts, joint="; ")
        yield (f"{en}; options {options}" if options else en), ko


def _training(results: SuiteResults) -> Iterator[Pair]:
    for task, rs in _by_task(results):
        settings = (f"{name} {_range(r['run'].get(name) for r in rs)}" for name in SETTINGS)
        yield same(f"{task}: {', '.join(settings)}")
    yield _say("steps", n=_range(r["steps"] for r in results.records))


def _by_task(results: SuiteResults) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    for task in results.tasks:
        yield task, [r for c in results.of_task(task) for r in c.records]


def _stopping(results: SuiteResults) -> Iterator[Pair]:
    yield _say("validation", every=_range(r["run"].get("every") for r in results.records))
    patience = _range(r["run"].get("patience", 0) for r in results.records)
    early = sum(bool(r.get("stopped_early")) for r in results.records)
    yield _say("patience", patience=patience, early=early)


def _machine(results: SuiteResults) -> Iterator[Pair]:
    for kind, n in Counter(_listed(r["hardware"]) for r in results.records).items():
        yield _say("hardware", kind=kind, n=n)
    seconds = sum(r["seconds"] + r.get("judging_seconds", 0.0) for r in results.records)
    yield _say("time", time=clock(seconds))


def _versions(results: SuiteResults) -> Iterator[Pair]:
    yield from map(same, dict.fromkeys(_listed(r["versions"]) for r in results.records))


def _failures(results: SuiteResults) -> Iterator[Pair]:
    source, n = results.source, len(results.records)
    yield _say("finished", n=n, all=max(len(source.sheet.trials), n))
    for key, errors in source.failures.items():
        if errors:
            yield same(f"{key}: {errors[-1]}")
    missing = [key for key in source.missing if key not in source.failures]
    if missing:
        yield _say("missing", keys=", ".join(missing))
    yield from results.remarks()


def _listed(of: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} {v}" for k, v in of.items())


def _range(values: Iterable[Any]) -> str:
    """All the different values, in order."""
    different = list(dict.fromkeys(values))
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in different):
        different.sort()
        if len(different) > 4:
            return f"{different[0]:g} – {different[-1]:g}"
    return " / ".join(f"{v:,}" if isinstance(v, int) else str(v) for v in different)


ITEMS: dict[str, Callable[[SuiteResults], Iterator[Pair]]] = {
    "claim": _claim, "rule": _rule, "seeds": _seeds, "tests": _tests, "effects": _effects,
    "sizes": _sizes, "data": _data, "training": _training, "stopping": _stopping,
    "machine": _machine, "versions": _versions, "failures": _failures,
}  # fmt: skip
