"""What a report opens with: its verdict in a sentence, and what stands first for its subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ascender.lab.reports.cells import number
from ascender.lab.reports.claims import FINDERS, adjusted_agreement, not_inferior, worst_flops
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.report.strings import Pair, joined
from ascender.report.table import Cell, Table

Subject = Literal["accuracy", "cost", "insight", "tuning"]
Tables = Mapping[str, Table]

# Tables and figures that come first, of those that there are.
FIRST: dict[Subject, tuple[str, ...]] = {
    "accuracy": ("summary", "accuracy"),
    "cost": ("inferiority", "costs", "efficiency"),
    "insight": ("grouping", "agreement", "contribution", "roles"),
    "tuning": ("tuning",),
}
MAIN: dict[Subject, tuple[str, ...]] = {
    "accuracy": ("deltas", "curves"),
    "cost": ("pareto", "deltas"),
    "insight": ("grouping", "heads", "deltas"),
    "tuning": ("curves",),
}
NAMED = 4  # tasks or variants that a sentence names


def subject(results: SuiteResults) -> Subject:
    """What a suite is about: one that tunes; one with a margin, how cheap it may be; one whose
    models were all measured, what they do; else how good they are."""
    if results.sheet.tuning:
        return "tuning"
    if results.sheet.rule.margin:
        return "cost"
    return "insight" if all(r.get("insight") for r in results.records) else "accuracy"


def ordered(tables: Sequence[Table], results: SuiteResults) -> list[Table]:
    """The subject's own first."""
    first = FIRST[subject(results)]
    return sorted(tables, key=lambda t: first.index(t.name) if t.name in first else len(first))


def main_figure(names: Sequence[str], results: SuiteResults) -> str | None:
    """Of the figures that were drawn the one that shows the verdict."""
    return next((name for name in MAIN[subject(results)] if name in names), None)


def sentence(results: SuiteResults, tables: Sequence[Table]) -> Pair:
    """The verdict in English and Korean, of a suite's results and tables; of a suite that is not
    finished, how far it is."""
    said = SENTENCES[subject(results)](results, {table.name: table for table in tables})
    if not results.source.missing:
        return said
    done = {"n": len(results.records), "all": len(results.sheet.trials)}
    return joined(_sentence("unfinished", **done), said, joint=" ")


def claims_sentence(judged: Table) -> Pair:
    """How many of a bundle's claims came out how."""
    words = [cell.value for cell in judged.column("verdict")]
    n = {word: words.count(word) for word in ("supported", "not_supported")}
    return _sentence("claims", n=len(words), open=len(words) - sum(n.values()), **n)


def _accuracy(results: SuiteResults, tables: Tables) -> Pair:
    """Of the variant with the rules, or of all where it is what they are compared with."""
    ruled = results.ruled()
    alone = not results.sheet.against and any(v == ruled for _, v in results.judged)
    by: dict[str, list[str]] = {"win": [], "tie": [], "loss": [], "unjudged": []}
    for condition in results.conditions:
        word = results.verdict(condition)
        if word in by and (not alone or condition.variant == ruled):
            by[word].append(condition.task if alone else f"{condition.variant}: {condition.task}")
    n = {word: len(names) for word, names in by.items()}
    if not sum(n.values()) - n["unjudged"]:
        return _sentence("nothing")
    counts = {"n": sum(n.values()), **n, "won": _few(by["win"]), "lost": _few(by["loss"])}
    rest = _sentence("rest", n=n["unjudged"]) if n["unjudged"] else ("", "")
    name = "alone" if alone else "paired" if results.sheet.against else "all"
    said = _sentence(name, ruled=ruled, baseline=results.sheet.baseline, **counts)
    return joined(said, rest, (".", "."))


def _cost(results: SuiteResults, tables: Tables) -> Pair:
    """Who is not inferior on every task, and what it takes."""
    good = [f"{v} ({worst_flops(results, v):.2f}×)" for v in not_inferior(results)]
    given = {"baseline": results.sheet.baseline, "margin": f"{results.sheet.rule.margin:g}"}
    return _sentence("cheap" if good else "dear", good=", ".join(good), **given)


def _insight(results: SuiteResults, tables: Tables) -> Pair:
    """Whether z and neighbours find groups that the baseline's states do not, and whether seeds
    agree on heads."""
    words = [
        row["verdict"].value for row in _rows(tables, "grouping")
        if "verdict" in row and row["of"].value in FINDERS
    ]  # fmt: skip
    ps = adjusted_agreement(_rows(tables, "agreement"))
    counts = {word: words.count(word) for word in ("win", "tie", "loss")}
    if not sum(counts.values()):
        return _accuracy(results, tables)
    same = sum(p < results.sheet.rule.alpha for p in ps.values())
    return _sentence(
        "groups", baseline=results.sheet.baseline, n=len(words), **counts, layers=len(ps), same=same
    )


def _tuning(results: SuiteResults, tables: Tables) -> Pair:
    best = []
    for task in results.tasks:
        cells = results.of_task(task)
        top = max(cells, key=lambda c: c.summary.mean if c.higher else -c.summary.mean)
        best.append(f"{task} {top.variant} {number(top.summary.mean)}")
    return _sentence("tuned", best=_few(best, ", "))


def _rows(tables: Tables, name: str) -> list[dict[str, Cell]]:
    table = tables.get(name)
    return table.records() if table else []


def _few(names: Sequence[str], joint: str = ", ") -> str:
    """(a, b, …), nothing of none."""
    if not names:
        return ""
    more = f"{joint}…" if len(names) > NAMED else ""
    return f" ({joint.join(names[:NAMED])}{more})"


def _sentence(name: str, **fields: object) -> Pair:
    return STRINGS.pair(f"opening.{name}", **fields)


SENTENCES = {"accuracy": _accuracy, "cost": _cost, "insight": _insight, "tuning": _tuning}
