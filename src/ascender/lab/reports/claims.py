"""Claims, and what the trials say of each: supported, not supported, not testable at this scale.

A claim (lab.bundle.Claim) names its suite and one of TESTS, both fixed before the runs. A test
looks only at what the suite's tables show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from statistics import median
from typing import Literal, NamedTuple

from ascender.common.validate import lookup
from ascender.lab.bundle import Claim
from ascender.lab.judge import Condition
from ascender.lab.reports.cells import lab_table, number, p_value, verdict_cell
from ascender.lab.reports.model_insight import agreements, grouping, measured
from ascender.lab.reports.non_inferiority import inferiority
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import FLOPS
from ascender.lab.stats import holm, paired
from ascender.lab.verdict import verdict
from ascender.report.table import Cell, Table
from ascender.train import variant

RULED = "ascender"


class Finding(NamedTuple):
    """What came out, and on what ground, in English and Korean."""

    verdict: Literal["supported", "not_supported", "not_testable", "unfinished", "not_run"]
    why: str
    why_ko: str


def _finding(holds: bool | None, why: str, why_ko: str) -> Finding:
    return Finding(
        "not_testable" if holds is None else "supported" if holds else "not_supported", why, why_ko
    )


def wins(results: SuiteResults) -> Finding:
    """More tasks won than not, and none lost."""
    by = {word: _tasks(results, RULED, word) for word in ("win", "tie", "loss")}
    counts = {word: len(tasks) for word, tasks in by.items()}
    n = sum(counts.values())
    named, named_ko = (
        "".join(f"; {say(word)}: {', '.join(by[word])}" for word in ("win", "loss") if by[word])
        for say in (str, _ko)
    )
    return _finding(
        (counts["win"] > n / 2 and not counts["loss"]) if n else None,
        f"{counts['win']} won, {counts['tie']} tied, {counts['loss']} lost of {n} tasks{named}",
        f"과제 {n}개 중 우세 {counts['win']}, 무승부 {counts['tie']}, "
        f"열세 {counts['loss']}{named_ko}",
    )


def gain(results: SuiteResults, at_least: float) -> Finding:
    """Some task won by at least so much, in the points of its score."""
    found = [
        (c.by_seed.mean, task, c.verdict)
        for (task, v), c in results.judged.items()
        if v == RULED and _higher(results, task)
    ]
    if not found:
        return _finding(None, "no scores of which more is better", "높을수록 좋은 점수가 없다")
    won = [f for f in found if f[2] == "win"]
    most, task, word = max(won or found)
    text = f"{task} {number(most, True)}"
    return _finding(
        word == "win" and most >= at_least,
        f"largest difference that is a win: {text}" if won else f"no win; largest: {text}",
        f"우세로 판정된 가장 큰 차이: {text}" if won else f"우세 없음. 가장 큰 차이: {text}",
    )


def faster(results: SuiteResults) -> Finding:
    """Every goal is reached in fewer steps, on every seed."""
    parts: list[str] = []
    sure: list[bool] = []
    for task in results.tasks:
        goal, of = results.goal(task), {c.variant: c for c in results.of_task(task)}
        if goal is None or not {RULED, results.sheet.baseline} <= set(of):
            continue
        pairs = _steps(of[RULED], of[results.sheet.baseline], goal)
        fewer = [b is None or (a is not None and a < b) for a, b in pairs if (a, b) != (None, None)]
        sure += fewer
        medians = " / ".join(_median(costs) for costs in zip(*pairs, strict=True))
        parts.append(f"{task} {sum(fewer)} / {len(pairs)} ({medians})")
    what = "; ".join(parts)
    return _finding(
        all(sure) if sure else None,
        f"seeds with fewer steps to the goal, and the medians of {RULED} / "
        f"{results.sheet.baseline}: {what}",
        f"목표까지의 스텝이 더 적은 시드 수와 {RULED} / {results.sheet.baseline}의 중앙값: {what}",
    )


def _steps(a: Condition, b: Condition, goal: float) -> list[tuple[float | None, float | None]]:
    theirs = dict(zip(b.seeds, b.costs(goal, "step"), strict=True))
    mine = zip(a.seeds, a.costs(goal, "step"), strict=True)
    return [(cost, theirs[seed]) for seed, cost in mine if seed in theirs]


def _median(costs: Sequence[float | None]) -> str:
    """Over seeds; where half of them or more never get there: –."""
    middle = median(inf if x is None else x for x in costs)
    return "–" if middle == inf else f"{middle:,.0f}"


def beats(results: SuiteResults, control: str) -> Finding:
    """Where ASCender wins, it wins against a control too (paired by seed, Holm over the tasks)."""
    won = _tasks(results, RULED, "win")
    pairs = {}
    for task in won:
        of = {c.variant: c for c in results.of_task(task)}
        if control in of:
            a, b = of[RULED], of[control]
            common = sorted(set(a.seeds) & set(b.seeds))
            if len(common) > 1:
                x, y = ([c.values[c.seeds.index(s)] for s in common] for c in (a, b))
                pairs[task] = paired(x, y, a.range_)
    if not pairs:
        return _finding(
            None,
            f"ASCender wins nowhere that {control} was run, so there is nothing to explain",
            f"{control}을(를) 돌린 과제 가운데 ASCender가 우세한 곳이 없어 설명할 차이가 없다",
        )
    adjusted = holm([pair.t_p for pair in pairs.values()])
    words = {
        task: verdict(pair.interval, p, replace(results.sheet.rule, higher=_higher(results, task)))
        for (task, pair), p in zip(pairs.items(), adjusted, strict=True)
    }
    text, text_ko = (
        ", ".join(f"{t} {number(pairs[t].mean, True)} ({say(word)})" for t, word in words.items())
        for say in (str, _ko)
    )
    return _finding(
        all(word == "win" for word in words.values()),
        f"ASCender − {control} where it beats {results.sheet.baseline}: {text}",
        f"{results.sheet.baseline}보다 우세한 과제에서 ASCender − {control}: {text_ko}",
    )


def cheaper(results: SuiteResults, saving: float) -> Finding:
    """Some variant with the rules, not inferior on any task, saves so much of the attention's FLOPs
    in every task and, where they were measured, at every length."""
    fine = not_inferior(results)
    ruled = [v for v in fine if variant(v).attention == RULED]
    plain = [v for v in fine if v not in ruled]
    if not ruled:
        return _finding(
            False,
            "no variant with the rules is proven not inferior on every task"
            + (f"; without them: {', '.join(plain)}" if plain else ""),
            "모든 과제에서 비열등이 입증된 규칙 변형이 없다"
            + (f". 규칙 없이: {', '.join(plain)}" if plain else ""),
        )
    lengths = {v: max(_at_lengths(results, v).values(), default=0.0) for v in ruled}
    worst = {v: max(worst_flops(results, v), lengths[v]) for v in ruled}
    best = min(ruled, key=lambda v: (worst[v], lengths[v]))
    return _finding(
        worst[best] <= 1 - saving,
        f"not inferior on every task, FLOPs × vanilla's: {_shown(results, [best])}; without rules: "
        f"{_shown(results, plain)}",
        f"모든 과제에서 비열등, 기본 대비 FLOPs: {_shown(results, [best], ko=True)}. 규칙 없이: "
        f"{_shown(results, plain, ko=True)}",
    )


def _shown(results: SuiteResults, names: Sequence[str], ko: bool = False) -> str:
    """ascender+window=32 (in the tasks 2.57×; 1024: 0.54×)"""
    said = []
    for name in names:
        tasks = f"{'과제에서' if ko else 'in the tasks'} {worst_flops(results, name):.2f}×"
        lengths = [f"{n}: {ratio:.2f}×" for n, ratio in _at_lengths(results, name).items()]
        said.append(f"{name} ({'; '.join([tasks, *lengths])})")
    return ", ".join(said) or "–"


def not_inferior(results: SuiteResults) -> list[str]:
    """Variants that are on every task of the suite."""
    found: dict[str, list[bool]] = {}
    for row in inferiority(results).records():
        fits = row["verdict"].value == "not_inferior"
        found.setdefault(row["variant"].text, []).append(fits)
    return [v for v, fits in found.items() if len(fits) == len(results.tasks) and all(fits)]


def _at_lengths(results: SuiteResults, name: str) -> dict[int, float]:
    """FLOPs × the baseline's by length, where they were measured."""
    base = {r.n: r.flops for r in results.source.costs if r.variant == results.sheet.baseline}
    return {r.n: r.flops / base[r.n] for r in results.source.costs if r.variant == name}


def worst_flops(results: SuiteResults, name: str) -> float:
    """FLOPs × the baseline's in the worst task."""
    cells = [c for c in results.conditions if c.variant == name]
    bases = [results.base(c.task) for c in cells]
    return max(c.mean(FLOPS) / b.mean(FLOPS) for c, b in zip(cells, bases, strict=True) if b)


def groups(results: SuiteResults) -> Finding:
    """On some task z or the neighbourhoods of a layer find the true groups better than the states
    that the same layer of the baseline reads, and attention nowhere worse than the baseline's."""
    table = grouping(measured(results), results.sheet.baseline, results.sheet.rule)
    if not table.rows or "verdict" not in table.records()[0]:
        return _finding(None, "no model was measured", "측정한 모델이 없다")
    rows = [
        tuple(row[c].value for c in ("task", "of", "layer", "verdict"))
        for row in table.records()
        if row["variant"].text == RULED
    ]
    better = [(t, of, n) for t, of, n, word in rows if of in ("z", "neighbours") and word == "win"]
    worse = {t for t, of, _, word in rows if of == "attention" and word == "loss"}
    counts = {
        word: sum(r[3] == word for r in rows if r[1] in ("z", "neighbours"))
        for word in ("win", "tie", "loss")
    }
    where = ", ".join(f"{t} {of} {n}" for t, of, n in better) or "–"
    return _finding(
        any(t not in worse for t, _, _ in better),
        f"z and neighbourhoods by layer: {counts['win']} won, {counts['tie']} tied, "
        f"{counts['loss']} lost; won: {where}; attention worse on: {', '.join(worse) or '–'}",
        f"층별 z와 이웃: 우세 {counts['win']}, 무승부 {counts['tie']}, 열세 {counts['loss']}. "
        f"우세: {where}. 어텐션이 열세인 과제: {', '.join(worse) or '–'}",
    )


def roles(results: SuiteResults, alpha: float = 0.05) -> Finding:
    """Seeds agree on how heads differ, within the layers: some layer of most tasks, Holm over all
    layers. Row “all” only says that layers differ from each other."""
    table = agreements(measured(results), results.sheet.baseline)
    rows = [
        r for r in table.records()
        if r["variant"].text == RULED and r["layer"].text != "all" and r["p_null"].data
    ]  # fmt: skip
    if not rows:
        return _finding(None, "too few seeds or heads", "시드나 헤드가 너무 적다")
    p = holm([row["p_null"].data[""] for row in rows])
    agreed = {r["task"].text for r, x in zip(rows, p, strict=True) if x is not None and x < alpha}
    tasks = {row["task"].text for row in rows}
    text = ", ".join(
        f"{r['task'].text} {r['layer'].text}: {p_value(x)}"
        for r, x in zip(rows, p, strict=True)
        if x
    )
    return _finding(
        len(agreed) > len(tasks) / 2,
        f"agreement of seeds on heads, p (Holm) by task and layer: {text}",
        f"헤드에 대한 시드 사이의 일치, 과제와 층별 p (Holm): {text}",
    )


def beside(results: SuiteResults) -> Finding:
    """Wherever ASCender wins alone, it wins beside each partner too."""
    won = _tasks(results, RULED, "win")
    found = [
        (task, v, c.verdict, c.by_seed.mean)
        for (task, v), c in results.judged.items()
        if v == RULED or v in results.sheet.against
    ]
    text, text_ko = (
        ", ".join(f"{t} {v} {number(x, True)} ({say(word)})" for t, v, word, x in found)
        for say in (str, _ko)
    )
    if not won:
        return _finding(
            None, f"alone it wins nowhere: {text}", f"단독으로 우세한 곳이 없다: {text_ko}"
        )
    partners = [word for t, v, word, _ in found if t in won and v != RULED]
    return _finding(all(word == "win" for word in partners) if partners else None, text, text_ko)


def each(results: SuiteResults) -> Finding:
    """Without any one rule ASCender is worse on some task, and better on none."""
    parts, parts_ko, holds = [], [], []
    for name in ("no-align", "no-sep", "no-coh"):
        found = [_tasks(results, name, word) for word in ("loss", "win")]
        if any(v == name for _, v in results.judged):
            holds.append(bool(found[0]) and not found[1])
            lost, better = (", ".join(tasks) or "–" for tasks in found)
            parts.append(f"{name}: worse on {lost}, better on {better}")
            parts_ko.append(f"{name}: 열세 {lost}, 우세 {better}")
    return _finding(all(holds) if len(holds) == 3 else None, "; ".join(parts), "; ".join(parts_ko))


def _ko(word: str) -> str:
    return STRINGS.text(f"verdict.{word}", "ko")


def _higher(results: SuiteResults, task: str) -> bool:
    return bool(results.of_task(task)[0].records[0]["higher"])


def _tasks(results: SuiteResults, name: str, word: str) -> list[str]:
    return [c.task for c in results.conditions if c.variant == name and results.verdict(c) == word]


TESTS: dict[str, Callable[..., Finding]] = {
    "wins": wins, "gain": gain, "faster": faster, "beats": beats, "cheaper": cheaper,
    "groups": groups, "roles": roles, "beside": beside, "each": each,
}  # fmt: skip


def claims(asked: Sequence[Claim], suite_results: Mapping[str, SuiteResults]) -> Table:
    """A row a claim."""
    rows = []
    for claim in asked:
        results = suite_results.get(claim.suite)
        if results is None:
            found = Finding("not_run", "no trial is done", "끝난 시행이 없다")
            done = "0"
        else:
            found = lookup("test", claim.test, TESTS)(results, **claim.given)
            done = str(len(results.records))
            if results.source.missing:
                done += f" / {len(results.sheet.trials)}"
                found = found._replace(verdict="unfinished")
        rows.append((
            Cell(claim.text, ko=claim.text_ko), Cell(claim.suite), Cell(done),
            verdict_cell(found.verdict), Cell(found.why, ko=found.why_ko),
        ))  # fmt: skip
    return lab_table("claims", ("paper_claim", "suite", "trials", "verdict", "ground"), rows)
