"""The statistical checklist of the paper, filled in from the criteria and records of all suites.

methods.md (lab.reports.methods) is the same of one suite, in more detail."""

from __future__ import annotations

from collections.abc import Iterable

from ascender.lab.paper.checklist_strings import CHECKLIST
from ascender.lab.paper.document import Block, Bullets, Heading, Paragraph, TableBlock, Text, text
from ascender.lab.paper.footprint import devices, hours
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import (
    between,
    count,
    counted,
    in_a_row,
    kind_of_task,
    named,
    records_of,
    short_number,
    varied,
)
from ascender.lab.reports.cells import NONE, lab_table, number_cell
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import FEW, SuiteResults
from ascender.report.strings import Strings
from ascender.report.table import Cell, Table
from ascender.tasks.base import Drawn

ALL = Strings(STRINGS | CHECKLIST)
WORDS = ("suite", "purpose", "fixed")


def checklist(of: Material, level: int = 1) -> list[Block]:
    """The list and the criteria by suite; `level` of its heading."""
    items = (
        _tests, _correction, _seeds, _examples, _intervals, _margins, _effects, _power, _stopping,
        _exclusions, _tuning, _leakage, _registration, _compute,
    )  # fmt: skip
    return [
        Heading(level, _say("heading"), "sec:checklist"),
        Paragraph(_say("intro")),
        Bullets(tuple(item(of) for item in items)),
        TableBlock(criteria(of)),
    ]


def criteria(of: Material) -> Table:
    """A row a suite: its trials, the size of its family and its decision rule."""
    rows = []
    for name, results in of.suites.items():
        sheet = results.sheet
        rule = {n: number_cell(getattr(sheet.rule, n), (), short_number) for n in RULE}
        if sheet.tuning:
            rule = dict.fromkeys(RULE, NONE)
        tests = not sheet.tuning
        rows.append({
            "suite": named(name),
            "purpose": _word("tuning" if sheet.tuning else "test"),
            "trials": finished(of, results),
            "m": counted(of, len(results.judged)) if tests else NONE,
            **rule,
            "fixed": _date(of, sheet.fixed),
        })  # fmt: skip
    return lab_table("criteria", rows, strings=ALL, words=WORDS)


RULE = ("alpha", "smallest", "margin")


def finished(of: Material, results: SuiteResults) -> Cell:
    """Trials of a suite: finished / planned."""
    n, planned = len(results.records), max(len(results.sheet.trials), len(results.records))
    data = of.facts.derive({"n": n, "planned": planned})
    return Cell(f"{n:,} / {planned:,}", tuple(r["key"] for r in results.records), data)


def _word(name: str) -> Cell:
    en, ko = CHECKLIST[f"purpose.{name}"]
    return Cell(en, ko=ko, code=name)


def _date(of: Material, fixed: str) -> Cell:
    """The day of a time."""
    day = fixed.partition("T")[0]
    of.facts.learn([day])
    return named(day or "–")


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(CHECKLIST[key], **fields)


def _testing(of: Material) -> list[SuiteResults]:
    return [results for results in of.suites.values() if not results.sheet.tuning]


def _tests(of: Material) -> Text:
    made = (c.examples for results in _testing(of) for c in results.judged.values())
    draws = next((e.draws for e in made if e is not None), 0)
    return _say("tests", draws=counted(of, draws))


def _correction(of: Material) -> Text:
    sizes = [len(results.judged) for results in _testing(of) if results.judged]
    if not sizes:
        return _say("no_correction")
    ends = {"low": counted(of, min(sizes)), "high": counted(of, max(sizes))}
    return _say("correction", m=counted(of, sum(sizes)), suites=counted(of, len(sizes)), **ends)


def _seeds(of: Material) -> Text:
    conditions = [c for results in _testing(of) for c in results.conditions]
    n = [len(c.records) for c in conditions]
    return _say(
        "seeds", seeds=between(n, _keys(conditions)), conditions=counted(of, len(n)),
        few=counted(of, sum(x < FEW for x in n)), limit=counted(of, FEW),
    )  # fmt: skip


def _keys(conditions: Iterable[object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for c in conditions for key in getattr(c, "keys", ())))


def _examples(of: Material) -> Text:
    sizes: dict[str, dict[int, str]] = {}
    for r in records_of(of, tuning=False).values():
        sizes.setdefault(r["run"]["task"], {})[r["test"]["n"]] = r["key"]
    tasks = [
        text("{task} {n}", task=named(task), n=between(n, n.values())) for task, n in sizes.items()
    ]
    every = {n: key for by in sizes.values() for n, key in by.items()}
    return _say("examples", n=between(every, every.values()), tasks=in_a_row(tasks))


def _intervals(of: Material) -> Text:
    return _say("intervals")


def _margins(of: Material) -> Text:
    rules = [results.sheet.rule for results in _testing(of)]
    margins = [rule.margin for rule in rules if rule.margin]
    return _say(
        "margins", smallest=between(rule.smallest for rule in rules),
        margin=between(margins), suites=counted(of, len(margins)),
    )  # fmt: skip


def _effects(of: Material) -> Text:
    return _say("effects")


def _power(of: Material) -> Text:
    return _say("power")


def _stopping(of: Material) -> Text:
    records = records_of(of)
    early = [key for key, r in records.items() if r.get("stopped_early")]
    every = [r["run"]["every"] for r in records.values() if "every" in r["run"]]
    return _say(
        "stopping", every=between(every, records), n=count(len(records), records),
        early=count(len(early), early) if early else counted(of, 0),
    )  # fmt: skip


def trials(of: Material) -> tuple[set[str], set[str], set[str]]:
    """Keys of all suites: (planned, failed, missing); what failed for good is not missing."""
    records = records_of(of)
    planned = {key for r in of.suites.values() for key in r.sheet.trials} | set(records)
    failed = {
        key for r in of.suites.values() for key, errors in r.source.failures.items()
        if errors and key not in records
    }  # fmt: skip
    return planned, failed, planned - set(records) - failed


def _exclusions(of: Material) -> Text:
    planned, failed, missing = (counted(of, len(keys)) for keys in trials(of))
    records = records_of(of)
    done = count(len(records), records)
    return _say("exclusions", done=done, planned=planned, failed=failed, missing=missing)


def _tuning(of: Material) -> Text:
    tuned = [results for results in of.suites.values() if results.sheet.tuning]
    if not tuned:
        return _say("no_tuning")
    records = {r["key"]: r for results in tuned for r in results.source.records}
    settings = dict.fromkeys(n for r in tuned for n in varied(x["run"] for x in r.source.records))
    seeds = [len(c.records) for results in tuned for c in results.conditions]
    return _say(
        "tuning", trials=count(len(records), records), suites=counted(of, len(tuned)),
        settings=in_a_row([text("`{n}`", n=named(n)) for n in settings]),
        seeds=between(seeds, records),
    )  # fmt: skip


def _leakage(of: Material) -> Text:
    tasks = {r["run"]["task"] for r in records_of(of).values()}
    kinds = [kind_of_task(task) for task in tasks]
    drawn = sum(kind is not None and issubclass(kind, Drawn) for kind in kinds)
    return _say("leakage", drawn=counted(of, drawn), n=counted(of, len(tasks)))


def _registration(of: Material) -> Text:
    days = sorted({r.sheet.fixed.partition("T")[0] for r in of.suites.values() if r.sheet.fixed})
    if not days:
        return _say("not_fixed")
    of.facts.learn(days)
    return _say("fixed", fixed=named("–".join(dict.fromkeys((days[0], days[-1])))))


def _compute(of: Material) -> Text:
    return _say("compute", hours=hours(of), device=in_a_row(devices(of), "; "))
