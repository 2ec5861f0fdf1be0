"""What a report opens with: its verdict in a sentence, and what stands first for its subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ascender.lab.reports.claims import not_inferior, worst_flops
from ascender.lab.reports.strings import OPENINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.table import Cell, Table
from ascender.lab.reports.tables import number
from ascender.lab.stats import holm

Subject = Literal["accuracy", "cost", "insight", "tuning"]
Said = tuple[str, str]
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


def subject(study: SuiteResults) -> Subject:
    """What a suite is about: one that tunes; one with a margin, how cheap it may be; one whose
    models were all measured, what they do; else how good they are."""
    if study.sheet.tuning:
        return "tuning"
    if study.sheet.rule.margin:
        return "cost"
    return "insight" if all(r.get("insight") for r in study.records) else "accuracy"


def ordered(tables: Sequence[Table], study: SuiteResults) -> list[Table]:
    """The subject's own first."""
    first = FIRST[subject(study)]
    return sorted(tables, key=lambda t: first.index(t.name) if t.name in first else len(first))


def main_figure(names: Sequence[str], study: SuiteResults) -> str | None:
    """Of the figures that were drawn the one that shows the verdict."""
    return next((name for name in MAIN[subject(study)] if name in names), None)


def sentence(study: SuiteResults, tables: Sequence[Table]) -> Said:
    """The verdict in English and Korean, of a study and its tables; of a suite that is not
    finished, how far it is."""
    said = SENTENCES[subject(study)](study, {table.name: table for table in tables})
    if not study.source.missing:
        return said
    done = {"n": len(study.records), "all": len(study.sheet.trials)}
    before = _said("unfinished", **done)
    return f"{before[0]} {said[0]}", f"{before[1]} {said[1]}"


def of_claims(judged: Table) -> Said:
    """How many of a bundle's claims came out how."""
    at = judged.columns.index("verdict")
    words = [row[at].text for row in judged.rows]
    n = {word: words.count(word) for word in ("supported", "not_supported")}
    return _said("claims", n=len(words), open=len(words) - sum(n.values()), **n)


def _accuracy(study: SuiteResults, tables: Tables) -> Said:
    """Of the variant with the rules, or of all where it is what they are compared with."""
    ruled = study.ruled()
    alone = not study.sheet.against and any(v == ruled for _, v in study.judged)
    by: dict[str, list[str]] = {"win": [], "tie": [], "loss": [], "unjudged": []}
    for cell in study.cells:
        word = study.verdict(cell)
        if word in by and (not alone or cell.variant == ruled):
            by[word].append(cell.task if alone else f"{cell.variant}: {cell.task}")
    n = {word: len(names) for word, names in by.items()}
    if not sum(n.values()) - n["unjudged"]:
        return _said("nothing")
    counts = {"n": sum(n.values()), **n, "won": _few(by["win"]), "lost": _few(by["loss"])}
    rest = _said("rest", n=n["unjudged"]) if n["unjudged"] else ("", "")
    name = "alone" if alone else "paired" if study.sheet.against else "all"
    said = _said(name, ruled=ruled, baseline=study.sheet.baseline, **counts)
    return said[0] + rest[0] + ".", said[1] + rest[1] + "."


def _cost(study: SuiteResults, tables: Tables) -> Said:
    """Who is not inferior on every task, and what it takes."""
    good = [f"{v} ({worst_flops(study, v):.2f}×)" for v in not_inferior(study)]
    given = {"baseline": study.sheet.baseline, "margin": f"{study.sheet.rule.margin:g}"}
    return _said("cheap" if good else "dear", good=", ".join(good), **given)


def _insight(study: SuiteResults, tables: Tables) -> Said:
    """Whether z and neighbours find groups that the baseline's states do not, and whether seeds
    agree on heads."""
    words = [
        row["verdict"].text for row in _rows(tables, "grouping")
        if "verdict" in row and row["of"].text in ("z", "neighbours")
    ]  # fmt: skip
    rows = [
        r for r in _rows(tables, "agreement") if r["layer"].text != "all" and r["p_null"].data
    ]  # fmt: skip
    ps = holm([row["p_null"].data[""] for row in rows])
    counts = {word: words.count(word) for word in ("win", "tie", "loss")}
    if not sum(counts.values()):
        return _accuracy(study, tables)
    return _said(
        "groups", baseline=study.sheet.baseline, n=len(words), **counts, layers=len(rows),
        same=sum(p is not None and p < study.sheet.rule.alpha for p in ps),
    )  # fmt: skip


def _tuning(study: SuiteResults, tables: Tables) -> Said:
    best = []
    for task in study.tasks:
        cells = study.of_task(task)
        up = bool(cells[0].records[0]["higher"])
        top = max(cells, key=lambda c: c.summary.mean if up else -c.summary.mean)
        best.append(f"{task} {top.variant} {number(top.summary.mean)}")
    return _said("tuned", best=_few(best, ", "))


def _rows(tables: Tables, name: str) -> list[dict[str, Cell]]:
    table = tables.get(name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows] if table else []


def _few(names: Sequence[str], joint: str = ", ") -> str:
    """(a, b, …), nothing of none."""
    if not names:
        return ""
    more = f"{joint}…" if len(names) > NAMED else ""
    return f" ({joint.join(names[:NAMED])}{more})"


def _said(name: str, **names: object) -> Said:
    en, ko = OPENINGS[name]
    return en.format(**names), ko.format(**names)


SENTENCES = {"accuracy": _accuracy, "cost": _cost, "insight": _insight, "tuning": _tuning}
