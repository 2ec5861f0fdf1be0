"""Appendix C: how examples were chosen, seeds, colour scales, and trials that failed."""

from __future__ import annotations

from ascender.lab.paper.checklist import finished, trials
from ascender.lab.paper.document import Block, Heading, Paragraph, TableBlock, Text, text
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import count, counted, in_a_row, named, records_of
from ascender.lab.paper.sweep_strings import SWEEPS
from ascender.lab.paper.sweeps import SWEEP_WORDS
from ascender.lab.reports.cells import lab_table
from ascender.lab.reports.strings import STRINGS
from ascender.report.palette import RULES
from ascender.report.strings import Strings
from ascender.report.table import Cell, Table

ALL = Strings(STRINGS | SWEEPS)
WORDS = (*SWEEP_WORDS, "seeds", "key", "error")


def examples(of: Material) -> list[Block]:
    """The appendix."""
    blocks: list[Block] = [
        Heading(1, _say("examples.heading"), "app:examples"),
        Heading(2, _say("examples.chosen")),
        Paragraph(_say("examples.example")),
        Paragraph(_say("examples.drawn")),
        Heading(2, _say("examples.seeds")),
        Paragraph(_say("examples.seeds_said")),
        TableBlock(seeds(of)),
        Heading(2, _say("examples.colours")),
        Paragraph(_colours(of)),
        Heading(2, _say("examples.failures")),
        Paragraph(_failures(of)),
        TableBlock(completeness(of)),
    ]
    failed = failures(of)
    return [*blocks, *([TableBlock(failed)] if failed.rows else [])]


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(SWEEPS[key], **fields)


def _colours(of: Material) -> Text:
    of.facts.learn(list(RULES.values()))
    colours = [
        text("{rule} {colour}", rule=STRINGS[f"axis.{rule}"], colour=named(colour))
        for rule, colour in RULES.items()
    ]
    return _say("examples.colours_said", colours=in_a_row(colours))


def seeds(of: Material) -> Table:
    """A row for each set of seeds of a suite."""
    rows = []
    for name, results in of.suites.items():
        groups: dict[tuple[int, ...], list[tuple[str, ...]]] = {}
        for c in results.conditions:
            groups.setdefault(tuple(c.seeds), []).append(c.keys)
        for which, keys in sorted(groups.items(), key=lambda item: (len(item[0]), item[0])):
            flat = tuple(key for one in keys for key in one)
            text = ", ".join(map(str, which))
            rows.append({
                "suite": named(name),
                "conditions": count(len(keys), flat),
                "n": count(len(which), flat),
                "seeds": Cell(text, flat, {f"seed {i}": seed for i, seed in enumerate(which)}),
            })  # fmt: skip
    return lab_table("seeds", rows, strings=ALL, words=WORDS)


def _failures(of: Material) -> Text:
    planned, failed, missing = trials(of)
    records = records_of(of)
    sizes = {"done": count(len(records), records), "planned": counted(of, len(planned))}
    if not failed and not missing:
        said = _say("examples.no_failures", **sizes)
    else:
        lost = {"failed": counted(of, len(failed)), "missing": counted(of, len(missing))}
        said = _say("examples.failed", **sizes, **lost)
    return in_a_row([said, _say("examples.unrecorded")], " ")


def completeness(of: Material) -> Table:
    """A row a suite: what is finished, what failed, what stopped early, what has no verdict."""
    rows = []
    for name, results in of.suites.items():
        early = [r["key"] for r in results.source.records if r.get("stopped_early")]
        there = {r["key"] for r in results.source.records}
        failed = [k for k, e in results.source.failures.items() if e and k not in there]
        unjudged = sum(results.verdict(c) == "unjudged" for c in results.conditions)
        missing = [k for k in results.source.missing if k not in failed]
        rows.append({
            "suite": named(name),
            "trials": finished(of, results),
            "failed": counted(of, len(failed)),
            "missing": counted(of, len(missing)),
            "early": count(len(early), early) if early else counted(of, 0),
            "unjudged": Cell("–") if results.sheet.tuning else counted(of, unjudged),
        })  # fmt: skip
    words = tuple(name for name in WORDS if name != "missing")
    return lab_table("completeness", rows, strings=ALL, words=words)


def failures(of: Material) -> Table:
    """A row a trial that failed or is missing."""
    rows, (_, failed, missing) = [], trials(of)
    for name, results in of.suites.items():
        errors = results.source.failures
        for key in dict.fromkeys((*results.sheet.trials, *errors)):
            if key in failed | missing:
                error = named(errors[key][-1]) if errors.get(key) else named(*SWEEPS["missing"])
                of.facts.learn([key, error.text])
                rows.append({"suite": named(name), "key": named(key), "error": error})
    return lab_table("failures", rows, strings=ALL, words=WORDS)
