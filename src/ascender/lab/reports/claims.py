"""Claims, and what the trials say of each: supported, not supported, not testable at this scale.

A claim (lab.bundle.Claim) names its suite and one of TESTS, both fixed before the runs. A test
uses only what the suite's tables show. `ruled`: the variant that the claim is about.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from statistics import median
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from ascender.common.validate import lookup
from ascender.lab.bundle import Claim
from ascender.lab.judge import matched
from ascender.lab.reports.cells import lab_table, number, p_value, ratio, verdict_cell
from ascender.lab.reports.model_insight import grouping, insight_table, measured
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import FLOPS, table
from ascender.lab.stats import Paired, holm, paired
from ascender.lab.verdict import verdict
from ascender.report.strings import Pair, joined, listed, same
from ascender.report.table import Cell, Table
from ascender.train import variant

K = TypeVar("K", bound=Hashable)
RULED = "ascender"
FINDERS = ("z", "neighbours", "flock")  # of groups, beside the states of vanilla
NONE = same("–")


class Finding(NamedTuple):
    """What came out, and on what ground, in English and Korean; `facts`: the same ground as values,
    for a paper's sentences (lab.paper.summary)."""

    verdict: Literal["supported", "not_supported", "not_testable", "unfinished", "not_run"]
    why: str
    why_ko: str
    facts: Mapping[str, Any] = MappingProxyType({})


def _finding(holds: bool | None, why: Pair, **facts: Any) -> Finding:
    word: Literal["supported", "not_supported"] = "supported" if holds else "not_supported"
    return Finding("not_testable" if holds is None else word, *why, facts)


def _say(key: str, /, **fields: object) -> Pair:
    return STRINGS.pair(f"finding.{key}", **fields)


def wins(results: SuiteResults, ruled: str = RULED) -> Finding:
    """More tasks won than not, and none lost."""
    by = {word: _tasks(results, ruled, word) for word in ("win", "tie", "loss")}
    counts = {word: len(tasks) for word, tasks in by.items()}
    n = sum(counts.values())
    named = joined(*(
        joined(same("; "), _word(word), same(f": {', '.join(by[word])}"))
        for word in ("win", "loss") if by[word]
    ))  # fmt: skip
    holds = (counts["win"] > n / 2 and not counts["loss"]) if n else None
    return _finding(holds, _say("wins", n=n, named=named, **counts), n=n, won=by["win"], **counts)


def gain(results: SuiteResults, at_least: float, ruled: str = RULED) -> Finding:
    """Some task won by at least so much, in the points of its score."""
    gains = [
        (c.by_seed.mean, task, c.verdict, c.by_seed)
        for (task, v), c in results.judged.items()
        if v == ruled and results.of_task(task)[0].higher
    ]
    if not gains:
        return _finding(None, _say("no_scores"))
    won = [one for one in gains if one[2] == "win"]
    most, task, _, by_seed = max(won or gains, key=lambda one: one[:2])
    text = _say("gain" if won else "no_gain", task=task, x=number(most, True))
    return _finding(bool(won) and most >= at_least, text, task=task, by_seed=by_seed)


def gain_over_all(
    results: SuiteResults, ours: str, controls: Sequence[str], at_least: float
) -> Finding:
    """On some task a variant is better than every control by at least so much, and wins against
    each (paired by seed, Holm over the controls and tasks)."""
    every = {task: _paired_with(results, task, ours, controls) for task in results.tasks}
    pairs = {task: of for task, of in every.items() if len(of) == len(controls)}
    if not pairs:
        return _finding(None, _say("no_controls", ours=ours, controls=", ".join(controls)))
    flat = {(task, name): pair for task, of in pairs.items() for name, pair in of.items()}
    words = _words(results, flat)
    better = {key: pair.mean if higher else -pair.mean for key, (pair, higher) in flat.items()}
    held = [
        task for task in pairs
        if all(words[task, name] == "win" and better[task, name] >= at_least for name in controls)
    ]  # fmt: skip
    parts = [
        joined(same(f"{task}: "), listed([
            _with_verdict(name, pair.mean, words[task, name]) for name, (pair, _) in of.items()
        ]))
        for task, of in pairs.items()
    ]  # fmt: skip
    text = _say("over_all", ours=ours, tasks=joined(*parts, joint="; "))
    over = {key: pair for key, (pair, _) in flat.items()}
    return _finding(bool(held), text, ours=ours, over=over, tasks=held)


def _paired_with(
    results: SuiteResults, task: str, ours: str, controls: Iterable[str]
) -> dict[str, tuple[Paired, bool]]:
    """A variant minus each control by seed, of those with seeds in common; and whether more is
    better."""
    of = {c.variant: c for c in results.of_task(task)}
    pairs = {}
    for control in controls:
        pair = matched(of[ours], of.get(control)) if ours in of else None
        if pair and len(pair[0].seeds) > 1:
            a, b = pair
            pairs[control] = paired(a.values, b.values, a.range_), a.higher
    return pairs


def _words(results: SuiteResults, pairs: Mapping[K, tuple[Paired, bool]]) -> dict[K, str]:
    """win, tie or loss of each, with Holm over all of them."""
    adjusted = holm([pair.t_p for pair, _ in pairs.values()])
    return {
        key: verdict(pair.interval, p, replace(results.sheet.rule, higher=higher))
        for (key, (pair, higher)), p in zip(pairs.items(), adjusted, strict=True)
    }


def faster(results: SuiteResults, ruled: str = RULED) -> Finding:
    """Every goal is reached in fewer steps, on every seed."""
    parts: list[str] = []
    sure: list[bool] = []
    goals: list[dict[str, Any]] = []
    for task in results.tasks:
        goal, of = results.goal(task), {c.variant: c for c in results.of_task(task)}
        if goal is None or not {ruled, results.sheet.baseline} <= set(of):
            continue
        pair = matched(of[ruled], of[results.sheet.baseline])
        costs = [c.costs(goal, "step") for c in pair] if pair else [[], []]
        pairs = list(zip(*costs, strict=True))
        fewer = [b is None or (a is not None and a < b) for a, b in pairs if (a, b) != (None, None)]
        sure += fewer
        medians = [median(inf if x is None else x for x in of) for of in costs]
        goals.append({"task": task, "goal": goal, "fewer": sum(fewer), "seeds": len(pairs),
                      "steps": medians})  # fmt: skip
        shown = " / ".join(steps(x) for x in medians)
        parts.append(f"{task} {sum(fewer)} / {len(pairs)} ({shown})")
    names = {"ruled": ruled, "baseline": results.sheet.baseline}
    why = _say("faster", **names, tasks="; ".join(parts))
    return _finding(all(sure) if sure else None, why, goals=goals)


def steps(middle: float) -> str:
    """A median over seeds; where half of them or more never get there: –."""
    return "–" if middle == inf else f"{middle:,.0f}"


def beats(results: SuiteResults, control: str, ruled: str = RULED) -> Finding:
    """Where ASCender wins, it wins against a control too (paired by seed, Holm over the tasks)."""
    pairs = {
        task: pair
        for task in _tasks(results, ruled, "win")
        for pair in _paired_with(results, task, ruled, [control]).values()
    }
    if not pairs:
        return _finding(None, _say("no_win", control=control))
    words = _words(results, pairs)
    tasks = listed([_with_verdict(t, pairs[t][0].mean, word) for t, word in words.items()])
    text = _say("beats", control=control, baseline=results.sheet.baseline, tasks=tasks)
    holds = all(word == "win" for word in words.values())
    over = {task: pairs[task][0] for task in words}
    return _finding(holds, text, control=control, over=over)


def cheaper(results: SuiteResults, saving: float) -> Finding:
    """Some variant with the rules, not inferior on any task, saves so much of the attention's FLOPs
    in every task and, where they were measured, at every length."""
    fine = not_inferior(results)
    ruled = [v for v in fine if variant(v).attention == RULED]
    plain = [v for v in fine if v not in ruled]
    if not ruled:
        others = _say("plain_cheap", plain=", ".join(plain)) if plain else same("")
        return _finding(False, joined(_say("none_cheap"), others))
    lengths = {v: max(_at_lengths(results, v).values(), default=0.0) for v in ruled}
    worst = {v: max(worst_flops(results, v), lengths[v]) for v in ruled}
    best = min(ruled, key=lambda v: (worst[v], lengths[v]))
    shown = {"best": _flops(results, [best]), "plain": _flops(results, plain)}
    names = {"best": best, "plain": plain, "saving": saving}
    return _finding(worst[best] <= 1 - saving, _say("cheaper", **shown), **names)


def _flops(results: SuiteResults, names: Iterable[str]) -> Pair:
    """ascender+window=32 (in the tasks 2.57×; 1024: 0.54×)"""
    texts = []
    for name in names:
        lengths = "".join(f"; {n}: {ratio(x)}" for n, x in _at_lengths(results, name).items())
        tasks = same(f" {ratio(worst_flops(results, name))}{lengths})")
        texts.append(joined(same(f"{name} ("), _say("in_tasks"), tasks))
    return listed(texts) if texts else NONE


def not_inferior(results: SuiteResults) -> list[str]:
    """Variants that are on every task of the suite."""
    fits: dict[str, list[bool]] = {}
    for row in table("inferiority", results).records():
        fits.setdefault(row["variant"].text, []).append(row["verdict"].value == "not_inferior")
    return [v for v, of in fits.items() if len(of) == len(results.tasks) and all(of)]


def _at_lengths(results: SuiteResults, name: str) -> dict[int, float]:
    """FLOPs × the baseline's by length, where they were measured."""
    base = {r.n: r.flops for r in results.source.costs if r.variant == results.sheet.baseline}
    return {r.n: r.flops / base[r.n] for r in results.source.costs if r.variant == name}


def worst_flops(results: SuiteResults, name: str) -> float:
    """FLOPs × the baseline's in the worst task."""
    pairs = [(c, results.base(c.task)) for c in results.conditions if c.variant == name]
    return max(c.mean(FLOPS) / base.mean(FLOPS) for c, base in pairs if base)


def groups(results: SuiteResults, ruled: str = RULED) -> Finding:
    """On some task z, the neighbourhoods or the flocks of a layer find the true groups better than
    the states that the same layer of the baseline reads, and attention nowhere worse than the
    baseline's."""
    rows = grouping(measured(results), results.sheet.baseline, results.sheet.rule).records()
    if not rows or "verdict" not in rows[0]:
        return _finding(None, _say("not_measured"))
    own = [
        tuple(row[c].value for c in ("task", "of", "layer", "verdict"))
        for row in rows
        if row["variant"].text == ruled
    ]
    better = [(t, of, n) for t, of, n, word in own if of in FINDERS and word == "win"]
    worse = {t for t, of, _, word in own if of == "attention" and word == "loss"}
    words = [r[3] for r in own if r[1] in FINDERS]
    counts = {word: words.count(word) for word in ("win", "tie", "loss")}
    where = ", ".join(f"{t} {of} {n}" for t, of, n in better) or "–"
    text = _say("groups", where=where, worse=", ".join(worse) or "–", **counts)
    holds = any(t not in worse for t, _, _ in better)
    return _finding(holds, text, better=better, n=len(words), **counts)


def roles(results: SuiteResults, alpha: float = 0.05, ruled: str = RULED) -> Finding:
    """Seeds agree on how heads differ, within the layers: some layer of most tasks, Holm over all
    layers. Row “all” only says that layers differ from each other."""
    agreement = insight_table("agreement", measured(results), results.sheet.baseline)
    ps = adjusted_agreement([r for r in agreement.records() if r["variant"].text == ruled])
    if not ps:
        return _finding(None, _say("too_few"))
    agreed = {task for (task, _, _), p in ps.items() if p < alpha}
    tasks = {task for task, _, _ in ps}
    layers = ", ".join(f"{task} {layer}: {p_value(p)}" for (task, _, layer), p in ps.items() if p)
    most = len(agreed) > len(tasks) / 2
    return _finding(most, _say("roles", layers=layers), ps=ps, agreed=agreed, tasks=tasks)


def adjusted_agreement(rows: Iterable[Mapping[str, Cell]]) -> dict[tuple[str, ...], float]:
    """p of the agreement of seeds by task, variant and layer, Holm over all of them."""
    layers = [r for r in rows if r["layer"].text != "all" and r["p_null"].data]
    ps = holm([row["p_null"].data[""] for row in layers])
    names = [tuple(row[c].text for c in ("task", "variant", "layer")) for row in layers]
    return {name: p for name, p in zip(names, ps, strict=True) if p is not None}


def beside(results: SuiteResults) -> Finding:
    """Wherever ASCender wins alone, it wins beside each partner too."""
    won = _tasks(results, RULED, "win")
    judged = {
        name: c for name, c in results.judged.items()
        if name[1] == RULED or name[1] in results.sheet.against
    }  # fmt: skip
    text = listed([
        _with_verdict(f"{t} {v}", c.by_seed.mean, c.verdict) for (t, v), c in judged.items()
    ])  # fmt: skip
    if not won:
        return _finding(None, _say("nowhere", pairs=text))
    partners = {(t, v): c for (t, v), c in judged.items() if t in won and v != RULED}
    holds = all(c.verdict == "win" for c in partners.values()) if partners else None
    return _finding(holds, text, won=won, partners=partners)


def each(results: SuiteResults) -> Finding:
    """Without any one rule ASCender is worse on some task, and better on none."""
    parts, holds, worse = [], [], {}
    for name in ("no-align", "no-sep", "no-coh"):
        lost, won = (_tasks(results, name, word) for word in ("loss", "win"))
        if any(v == name for _, v in results.judged):
            holds.append(bool(lost) and not won)
            worse[name] = lost
            tasks = {"lost": ", ".join(lost) or "–", "won": ", ".join(won) or "–"}
            parts.append(_say("without", name=name, **tasks))
    of_all = all(holds) if len(holds) == 3 else None
    return _finding(of_all, joined(*parts, joint="; "), worse=worse)


def _word(word: str) -> Pair:
    """A verdict, in English by its code."""
    return word, STRINGS.text(f"verdict.{word}", "ko")


def _with_verdict(name: str, x: float, word: str) -> Pair:
    return joined(same(f"{name} {number(x, True)} ("), _word(word), same(")"))


def _tasks(results: SuiteResults, name: str, word: str) -> list[str]:
    return [c.task for c in results.conditions if c.variant == name and results.verdict(c) == word]


TESTS: dict[str, Callable[..., Finding]] = {
    "wins": wins, "gain": gain, "gain_over_all": gain_over_all, "faster": faster, "beats": beats,
    "cheaper": cheaper, "groups": groups, "roles": roles, "beside": beside, "each": each,
}  # fmt: skip


def find(claim: Claim, suite_results: Mapping[str, SuiteResults]) -> Finding:
    """What the trials say of a claim; of a suite that is not finished, no verdict."""
    results = suite_results.get(claim.suite)
    if results is None:
        return Finding("not_run", *_say("not_run"))
    finding = lookup("test", claim.test, TESTS)(results, **claim.given)
    return finding._replace(verdict="unfinished") if results.source.missing else finding


def claims(stated: Sequence[Claim], suite_results: Mapping[str, SuiteResults]) -> Table:
    """A row a claim."""
    rows = []
    for claim in stated:
        results, done = suite_results.get(claim.suite), "0"
        finding = find(claim, suite_results)
        if results is not None:
            done = str(len(results.records))
            if results.source.missing:
                done += f" / {len(results.sheet.trials)}"
        rows.append({
            "paper_claim": Cell(claim.text, ko=claim.text_ko),
            "suite": Cell(claim.suite),
            "since": Cell(claim.fixed.partition("T")[0] or "–"),
            "trials": Cell(done),
            "verdict": verdict_cell(finding.verdict),
            "ground": Cell(finding.why, ko=finding.why_ko),
        })  # fmt: skip
    return lab_table("claims", rows)
