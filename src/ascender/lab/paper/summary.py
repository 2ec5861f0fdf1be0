"""The paper's own abstract and conclusion: the claims that hold with their numbers, and how many
were tested and do not hold. Every sentence is made of a claim's finding (lab.reports.claims)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf

from ascender.lab.bundle import Claim
from ascender.lab.judge import Comparison
from ascender.lab.paper.document import Block, Paragraph, Text, joined_text, text
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import (
    Trials,
    between,
    count,
    counted,
    difference,
    in_a_row,
    named,
    records_of,
    times,
)
from ascender.lab.paper.summary_strings import SUMMARY
from ascender.lab.reports.cells import difference_cell, number, number_cell, p_value
from ascender.lab.reports.claims import RULED, Finding, find, steps, worst_flops
from ascender.lab.reports.suite_results import SuiteResults
from ascender.report.table import Cell

Found = Sequence[tuple[Claim, Finding]]


def findings(of: Material) -> Found:
    """Every claim and what the trials say of it."""
    return [(claim, find(claim, of.suites)) for claim in of.stated]


def abstract(of: Material, found: Found) -> list[Block]:
    """One paragraph: what was tested, how many claims held, those with their numbers, and for
    which models."""
    records = records_of(of)
    runs = [r["run"] for r in records.values()]
    size = {
        "trials": count(len(records), records),
        "tasks": count(len({run["task"] for run in runs}), records),
        "variants": count(len({run["variant"] for run in runs}), records),
    }
    if not found:
        return [Paragraph(_say("abstract.unclaimed", **size))]
    sentences = [
        _say("abstract.opening", n=counted(of, len(found)), **size),
        _say("abstract.counts", **claim_counts(of, found)),
        *_held(of, found),
        _scope(of),
    ]
    return [Paragraph(joined_text(*sentences))]


def conclusion(of: Material, found: Found) -> list[Block]:
    """What held, what did not, what is open, and how sure that is."""
    if not found:
        return [Paragraph(joined_text(_say("abstract.none"), *_comparisons(of)))]
    counts = claim_counts(of, found)
    by = {word: [claim for claim, f in found if _word(f) == word] for word in counts}
    n = counted(of, len(found))
    blocks: list[Block] = []
    if by["supported"]:
        stated = _say("conclusion.held", n=n, claims=_quoted(by["supported"]), **counts)
        blocks.append(Paragraph(joined_text(stated, *_held(of, found))))
    else:
        blocks.append(Paragraph(_say("conclusion.none", n=n)))
    for word, key in (("not_supported", "failed"), ("open", "open")):
        if by[word]:
            blocks.append(Paragraph(_say(f"conclusion.{key}", claims=_quoted(by[word]), **counts)))
    return [*blocks, *(Paragraph(said) for said in _comparisons(of))]


def _say(key: str, /, **fields: Cell | Text) -> Text:
    return text(SUMMARY[key], **fields)


def _word(finding: Finding) -> str:
    """supported, not_supported, or open: not testable, not finished, not run."""
    return finding.verdict if finding.verdict in ("supported", "not_supported") else "open"


def claim_counts(of: Material, found: Found) -> dict[str, Cell]:
    """How many claims are supported, not supported, open."""
    words = Counter(_word(finding) for _, finding in found)
    return {word: counted(of, words[word]) for word in ("supported", "not_supported", "open")}


def _quoted(claims: Iterable[Claim]) -> Text:
    """Their own sentences, without the full stop."""
    quotes = [
        text("“{claim}”", claim=named(claim.text.rstrip("."), claim.text_ko.rstrip(".")))
        for claim in claims
    ]
    return in_a_row(quotes, "; ")


def _held(of: Material, found: Found) -> list[Text]:
    """A sentence for each claim that holds, or that there is none."""
    held = [(claim, finding) for claim, finding in found if finding.verdict == "supported"]
    if not held:
        return [_say("abstract.none")]
    return [SENTENCES.get(c.test, _own)(of.suites[c.suite], c, f) for c, f in held]


def _scope(of: Material) -> Text:
    records = records_of(of, tuning=False) or records_of(of)
    of_run = {n: [r["run"][n] for r in records.values()] for n in ("layers", "hidden")}
    of_record = {n: [r[n] for r in records.values()] for n in ("parameters", "steps")}
    cells = {name: between(values, records) for name, values in (of_run | of_record).items()}
    return _say("abstract.scope", **cells)


def _comparisons(of: Material) -> list[Text]:
    """How many were judged, and how."""
    suites = {n: results for n, results in of.suites.items() if not results.sheet.tuning}
    made = [c for results in suites.values() for c in results.judged.values() if c.p is not None]
    if not made:
        return []
    verdicts = Counter(c.verdict for c in made)
    cells = {word: counted(of, verdicts[word]) for word in ("win", "tie", "loss")}
    with_any = sum(any(c.p is not None for c in r.judged.values()) for r in suites.values())
    sizes = {"m": counted(of, len(made)), "suites": counted(of, with_any)}
    return [_say("conclusion.comparisons", **sizes, **cells)]


# --- a sentence a test (lab.reports.claims.TESTS)


def _wins(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    facts, trials = finding.facts, _trials(results)
    counts = {word: count(facts[word], trials) for word in ("win", "tie", "loss", "n")}
    return _say("held.wins", **_baseline(results), won=in_a_row(facts["won"]), **counts)


def _gain(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    task, trials = finding.facts["task"], _trials(results, finding.facts["task"])
    c = results.judged[task, RULED]
    cells = {"x": difference(c, trials), "task": named(task), "seeds": count(c.by_seed.n, trials)}
    return _say("held.gain", **_baseline(results), **cells)


def _gain_over_all(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    """The tasks on which it holds, with the difference from each control."""
    at_least, ours = claim.given["at_least"], finding.facts["ours"]
    gaps = [
        _say("held.over", task=named(task), control=named(name),
             x=difference_cell(pair.mean, pair.interval, trials := _trials(results, task)),
             seeds=count(pair.n, trials))
        for (task, name), pair in finding.facts["over"].items()
        if task in finding.facts["tasks"]
    ]  # fmt: skip
    return _say(
        "held.gain_over_all", suite=named(claim.suite), ours=named(ours),
        at_least=number_cell(at_least, (), _short), gaps=in_a_row(gaps),
    )  # fmt: skip


def _faster(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    goals = [
        _say(
            "held.goal", **_baseline(results), task=named(one["task"]),
            goal=number_cell(one["goal"], (trials := _trials(results, one["task"])), _short),
            metric=named(results.of_task(one["task"])[0].records[0]["metric"]),
            fewer=count(one["fewer"], trials), seeds=count(one["seeds"], trials),
            ours=_steps(one["steps"][0], trials), theirs=_steps(one["steps"][1], trials),
        )
        for one in finding.facts["goals"]
    ]  # fmt: skip
    said = in_a_row(goals, "; ")
    return _say("held.faster", **_baseline(results), suite=named(claim.suite), goals=said)


def _steps(median: float, trials: Trials) -> Cell:
    return Cell(steps(median)) if median == inf else number_cell(median, trials, steps)


def _beats(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    over = [
        text("{task} {x}", task=named(task), x=number_cell(p.mean, _trials(results, task), _signed))
        for task, p in finding.facts["over"].items()
    ]
    control = named(finding.facts["control"])
    return _say("held.beats", **_baseline(results), control=control, over=in_a_row(over))


def _cheaper(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    best, plain = finding.facts["best"], finding.facts["plain"]
    compared = [c for (_, v), c in results.judged.items() if v == best]
    said = _say(
        "held.cheaper", **_baseline(results), suite=named(claim.suite), best=named(best),
        margin=number_cell(results.sheet.rule.margin, (), _short),
        seeds=between((c.by_seed.n for c in compared), _trials(results)),
        flops=times(worst_flops(results, best), _trials(results)),
    )  # fmt: skip
    if not plain:
        return said
    others = [
        text("{v} ({x})", v=named(v), x=times(worst_flops(results, v), _trials(results)))
        for v in plain
    ]
    return joined_text(said, _say("held.plain", plain=in_a_row(others)))


def _groups(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    counts = {n: count(finding.facts[n], _trials(results)) for n in ("win", "loss", "n")}
    return _say("held.groups", **_baseline(results), **counts)


def _roles(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    facts, trials = finding.facts, _trials(results)
    layers = [
        text("{task} {layer}: {p}", task=named(task), layer=named(layer),
             p=number_cell(p, trials, p_value))
        for (task, _, layer), p in facts["ps"].items()
    ]  # fmt: skip
    sizes = {n: count(len(facts[name]), trials) for n, name in (("agreed",) * 2, ("n", "tasks"))}
    return _say("held.roles", layers=in_a_row(layers), **sizes)


def _beside(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    partners: Mapping[tuple[str, str], Comparison] = finding.facts["partners"]
    said = [
        text("{variant} {x}", variant=named(v), x=difference(c, _trials(results, task)))
        for (task, v), c in partners.items()
    ]
    seeds = between((c.by_seed.n for c in partners.values()), _trials(results))
    won = in_a_row(finding.facts["won"])
    return _say("held.beside", won=won, partners=in_a_row(said), seeds=seeds)


def _each(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    worse = [
        text("{name} ({tasks})", name=named(name), tasks=in_a_row(tasks))
        for name, tasks in finding.facts["worse"].items()
    ]
    return _say("held.each", worse=in_a_row(worse))


def _own(results: SuiteResults, claim: Claim, finding: Finding) -> Text:
    """Of a test that has no sentence here: the claim, and the ground as the tables give it."""
    ground = Cell(finding.why, _trials(results), ko=finding.why_ko)
    return _say("held.own", claim=named(claim.text, claim.text_ko), ground=ground)


def _baseline(results: SuiteResults) -> dict[str, Cell]:
    return {"baseline": named(results.sheet.baseline)}


def _trials(results: SuiteResults, task: str | None = None) -> Trials:
    """Of a suite, or of one of its tasks."""
    conditions = results.conditions if task is None else results.of_task(task)
    return tuple(key for c in conditions for key in c.keys)


def _signed(x: float) -> str:
    return number(x, signed=True)


def _short(x: float) -> str:
    return f"{x:g}"


SENTENCES: dict[str, Callable[[SuiteResults, Claim, Finding], Text]] = {
    "wins": _wins, "gain": _gain, "gain_over_all": _gain_over_all, "faster": _faster,
    "beats": _beats, "cheaper": _cheaper, "groups": _groups, "roles": _roles, "beside": _beside,
    "each": _each,
}  # fmt: skip
