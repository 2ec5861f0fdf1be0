"""Appendix E: limitations, compute footprint and risks, as far as the records show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ascender.lab.judge import Condition, Record
from ascender.lab.paper.document import Block, Bullets, Heading, Paragraph, TableBlock, Text, text
from ascender.lab.paper.footprint_strings import FOOTPRINT
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import (
    between,
    count,
    counted,
    in_a_row,
    kind_of_task,
    named,
    records_of,
    varied,
)
from ascender.lab.paper.summary import Found, claim_counts
from ascender.lab.reports.cells import lab_table, number_cell, short
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import FEW, SuiteResults
from ascender.lab.reports.tables import FLOPS
from ascender.report.strings import Strings
from ascender.report.table import Cell, Table
from ascender.tasks.base import Drawn

ALL = Strings(STRINGS | FOOTPRINT)
WORDS = ("suite", "machine", "versions")
HOUR = 3600


def footprint(of: Material, found: Found) -> list[Block]:
    """The appendix."""
    records = records_of(of)
    total = _say(
        "footprint.total", n=count(len(records), records), hours=hours(of),
        core=_hours(core_seconds(records.values()), records),
    )  # fmt: skip
    return [
        Heading(1, _say("heading"), "app:limitations"),
        Heading(2, _say("limitations")),
        Bullets(tuple(_limitations(of, found))),
        Heading(2, _say("footprint")),
        Paragraph(total),
        TableBlock(by_suite(of)),
        TableBlock(machines(of)),
        Heading(2, _say("risks")),
        Bullets(tuple(_risks(of))),
    ]


def seconds(records: Iterable[Record]) -> float:
    """Of training and validation."""
    return sum(float(r["seconds"] + r.get("judging_seconds", 0.0)) for r in records)


def core_seconds(records: Iterable[Record]) -> float:
    """Seconds × threads × processes."""
    return sum(
        seconds([r]) * r["hardware"].get("threads", 1) * r.get("processes", 1) for r in records
    )


def hours(of: Material) -> Cell:
    """Of all trials, each once."""
    records = records_of(of)
    return _hours(seconds(records.values()), records)


def _hours(s: float, trials: Iterable[str]) -> Cell:
    return number_cell(s / HOUR, tuple(trials), lambda x: f"{x:,.2f}")


def devices(of: Material) -> list[Cell]:
    """Each kind of machine."""
    kinds = dict.fromkeys(_listed(r["hardware"]) for r in records_of(of).values())
    of.facts.learn(list(kinds))
    return [named(kind) for kind in kinds]


def _listed(about: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())


def by_suite(of: Material) -> Table:
    """A row a suite, and one of all trials."""
    groups = {name: {r["key"]: r for r in x.source.records} for name, x in of.suites.items()}
    rows = [{"suite": named(name), **_costs(records)} for name, records in groups.items()]
    if len(rows) > 1:
        rows.append({"suite": named(*FOOTPRINT["row.once"]), **_costs(records_of(of))})
    return lab_table("footprint", rows, strings=ALL, words=WORDS)


def _costs(records: Mapping[str, Record]) -> dict[str, Cell]:
    rows, trials = list(records.values()), tuple(records)
    return {
        "trials": count(len(rows), trials),
        "hours": _hours(seconds(rows), trials),
        "core_hours": _hours(core_seconds(rows), trials),
        "tokens": number_cell(float(sum(r["tokens"] for r in rows)), trials, short),
    }


def machines(of: Material) -> Table:
    """A row a kind of machine and set of versions."""
    groups: dict[tuple[str, str], list[str]] = {}
    for key, r in records_of(of).items():
        kind = _listed(r["hardware"]), _listed(r["versions"])
        groups.setdefault(kind, []).append(key)
    of.facts.learn([list(kind) for kind in groups])
    rows = [
        {"machine": named(machine), "versions": named(versions), "trials": count(len(keys), keys)}
        for (machine, versions), keys in groups.items()
    ]
    return lab_table("machines", rows, strings=ALL, words=WORDS)


# --- limitations and risks


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(FOOTPRINT[key], **fields)


def _limitations(of: Material, found: Found) -> Iterator[Text]:
    records = records_of(of, tuning=False) or records_of(of)
    runs = {n: [r["run"][n] for r in records.values()] for n in ("layers", "hidden")}
    own = {n: [r[n] for r in records.values()] for n in ("parameters", "steps")}
    sizes = {name: between(values, records) for name, values in (runs | own).items()}
    yield _say("limit.size", **sizes)
    conditions = tested(of)
    poor = sum(reaches_chance(c) for c in conditions)
    n = counted(of, len(conditions))
    yield _say("limit.chance", n=counted(of, poor), conditions=n)
    few = counted(of, sum(len(c.records) < FEW for c in conditions))
    yield _say("limit.seeds", few=few, conditions=n, limit=counted(of, FEW))
    ends = list(tuned_ends(of))
    if ends:
        yield _say("limit.edges", n=counted(of, len(ends)), edge=counted(of, sum(ends)))
    tasks = {r["run"]["task"] for r in records.values()}
    kinds = [kind for kind in map(kind_of_task, tasks) if kind is not None]
    drawn = counted(of, sum(issubclass(kind, Drawn) for kind in kinds))
    yield _say("limit.tasks", drawn=drawn, n=counted(of, len(tasks)))
    yield _say("limit.machine", device=in_a_row(devices(of), "; "))
    if found:
        counts = claim_counts(of, found)
        del counts["supported"]
        yield _say("limit.claims", **counts)


def tested(of: Material) -> list[Condition]:
    """The conditions of all suites that do not tune."""
    return [c for r in of.suites.values() if not r.sheet.tuning for c in r.conditions]


def reaches_chance(c: Condition) -> bool:
    """Whether the interval of its mean (with one seed: the score) is not above the chance level."""
    s = c.summary
    low, high = s.interval or (s.mean, s.mean)
    return c.chance is not None and (low <= c.chance if c.higher else high >= c.chance)


def tuned_ends(of: Material) -> Iterator[bool]:
    """Of each task and variant of which a suite that tunes tried three values or more of a number:
    whether the best by validation is the smallest or the largest."""
    for results in of.suites.values():
        if not results.sheet.tuning:
            continue
        for name in varied(r["run"] for r in results.source.records):
            yield from _ends(results, name)


def _ends(results: SuiteResults, name: str) -> Iterator[bool]:
    scores: dict[tuple[str, str], dict[float, list[Record]]] = {}
    for r in results.records:
        value, run = r["run"].get(name), r["run"]
        if isinstance(value, int | float) and not isinstance(value, bool):
            task = results.base_task.get(run["task"], run["task"])
            scores.setdefault((task, run["variant"]), {}).setdefault(value, []).append(r)
    for by_value in scores.values():
        if len(by_value) < 3:
            continue
        higher = next(iter(by_value.values()))[0]["higher"]
        means = {
            value: sum(r["test"]["value"] for r in rs) / len(rs) for value, rs in by_value.items()
        }  # of validation: SuiteResults shows no other of a suite that tunes
        best = (max if higher else min)(means, key=lambda value: means[value])
        yield best in (min(means), max(means))


def _risks(of: Material) -> Iterator[Text]:
    yield _say("risk.explanations")
    ratios: dict[str, float] = {}
    trials: list[str] = []
    for results in of.suites.values():
        base = results.sheet.baseline
        for c in results.conditions:
            other = results.base(c.task)
            if c.variant == "ascender" and base == "vanilla" and other is not None:
                ratios[f"{results.sheet.name} {c.task}"] = c.mean(FLOPS) / other.mean(FLOPS)
                trials += [*c.keys, *other.keys]
    if ratios:
        flops = between_times(ratios.values(), dict.fromkeys(trials))
        names = {"ruled": named("ascender"), "baseline": named("vanilla")}
        yield _say("risk.cost", flops=flops, **names)
    yield _say("risk.use")
    yield _say("risk.selection")


def between_times(ratios: Iterable[float], trials: Iterable[str]) -> Cell:
    """2.21×–4.74×"""
    known = sorted(ratios)
    data = {"low": known[0], "high": known[-1]}
    return Cell(f"{known[0]:.2f}×–{known[-1]:.2f}×", tuple(trials), data)
