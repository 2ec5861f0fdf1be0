"""The tables of the paper's draft in its order, with its names of rows, columns and units:
efficiency, quality by benchmark, interpretability.

    Transformer (base)    the baseline of a suite       ASCender (ours)   ascender
    ASC + Sparse/Flash    ascender in a window or in flock scope, with top-k, or on the flash kernel
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from ascender.lab.costs import Cost
from ascender.lab.judge import Condition
from ascender.lab.paper.body_strings import BODY
from ascender.lab.paper.material import Material
from ascender.lab.paper.numbers import count, difference, named
from ascender.lab.reports.cells import (
    NONE,
    cost_cell,
    lab_table,
    mean_cell,
    metric,
    number_cell,
    short,
    verdict_cell,
)
from ascender.lab.reports.figures import cost
from ascender.lab.reports.model_insight import ModelInsight, grouping, insight_table, measured
from ascender.lab.reports.opening import subject
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_results import SuiteResults
from ascender.lab.reports.tables import FLOPS
from ascender.report.strings import Strings
from ascender.report.table import Cell, Table
from ascender.train.variants import variant

ALL = Strings(STRINGS | BODY)
RULED = "ascender"
MODELS = ("base", "ours", "sparse")  # rows of the draft, in its order
SPARSE = ("window", "far")
WORDS = ("task", "model", "variant", "metric", "of", "suite", "verdict", "sparse_variant")
Row = dict[str, Cell]


def model_of(name: str, baseline: str) -> str:
    """Which row of the draft a variant is; "" where it is none of them.

    >>> model_of("vanilla", "vanilla"), model_of("ascender+window=8", "vanilla")
    ('base', 'sparse')
    >>> model_of("no-sep", "vanilla"), model_of("ascender+k=4", "vanilla")
    ('', '')
    """
    if name == baseline:
        return "base"
    if name == RULED:
        return "ours"
    v = variant(name)
    plain = v.attention == RULED and not v.mute and not v.position
    sparse = (
        any(v.options.get(n) for n in SPARSE) or v.options.get("scope") == "flock"
        or v.normalizer == "topk" or v.options.get("backend") == "folded"
    )  # fmt: skip
    return "sparse" if plain and sparse else ""


def in_order(of: Material) -> list[SuiteResults]:
    """The suites that judge: those that claims name first."""
    names = dict.fromkeys([*(c.suite for c in of.stated), *of.suites])
    there = [of.suites[name] for name in names if name in of.suites]
    return [results for results in there if not results.sheet.tuning]


def about_costs(of: Material) -> list[SuiteResults]:
    """Those that ask what quality costs: of them those that claims name; else the first suite."""
    judged = in_order(of)
    about = [results for results in judged if subject(results) == "cost"]
    named_by_claims = {claim.suite for claim in of.stated}
    claimed = [results for results in about if results.sheet.name in named_by_claims]
    return claimed or about or judged[:1]


def _by_model(results: SuiteResults, names: list[str]) -> list[tuple[str, str]]:
    """(model, variant) in the draft's order."""
    found = [(model_of(name, results.sheet.baseline), name) for name in names]
    return sorted((one for one in found if one[0]), key=lambda one: MODELS.index(one[0]))


def _model(model: str, name: str, trials: tuple[str, ...] = ()) -> Row:
    en, ko = BODY[f"model.{model}"]
    return {"model": Cell(en, ko=ko, code=model), "variant": Cell(name, trials)}


# --- efficiency


def layer_efficiency(of: Material) -> Table:
    """One layer at the lengths that a suite measured."""
    rows: list[Row] = []
    notes = []
    for results in in_order(of):
        measured_costs = results.source.costs
        for n in dict.fromkeys(one.n for one in measured_costs):
            at = {one.variant: one for one in measured_costs if one.n == n}
            if results.sheet.baseline in at:
                rows += _at_length(of, results, at)
        if measured_costs and (on := results.source.costs_on):
            of.facts.learn([on])
            notes.append(STRINGS.pair("note.costs_on", device=on))
    table = lab_table("draft_layers", rows, strings=ALL, words=WORDS)
    return replace(table, notes=(*table.notes, *dict.fromkeys(notes)))


def _at_length(of: Material, results: SuiteResults, at: dict[str, Cost]) -> Iterator[Row]:
    base = at[results.sheet.baseline]
    for model, name in _by_model(results, [*at]):
        own = at[name]
        speed, usual = (1e3 * one.n / one.training_ms for one in (own, base))
        yield {
            "length": number_cell(own.n, (), lambda n: f"{n:,}"),
            **_model(model, name),
            "draft_latency": _known(of, _ms(own.forward_ms, base.forward_ms)),
            "draft_flops": _known(of, cost_cell(own.flops, base.flops)),
            "draft_memory": _known(of, _gb(own.memory_mb, base.memory_mb)),
            "draft_speed": _known(of, cost_cell(speed, usual)),
        }


def _known(of: Material, cell: Cell) -> Cell:
    """A cell of the measured costs, which no trial is behind."""
    of.facts.derive({k: x for k, x in cell.data.items() if x is not None})
    return cell


def _ms(ms: float | None, base: float | None, trials: tuple[str, ...] = ()) -> Cell:
    """Milliseconds: three digits, without a power."""
    return cost_cell(ms, base, trials, show=lambda x: short(x) if x < 999.5 else f"{x:,.0f}")


def _gb(mb: float | None, base: float | None, trials: tuple[str, ...] = ()) -> Cell:
    """MB in the draft's unit."""
    gb, usual = (None if x is None else x / 1e3 for x in (mb, base))
    return cost_cell(gb, usual, trials, show=lambda x: f"{x:#.3g}".rstrip("."))


def trial_efficiency(of: Material) -> Table:
    """Whole models while they train, in suites about costs."""
    rows = [row for results in about_costs(of) for task in results.tasks
            for row in _in_training(results, task)]  # fmt: skip
    return lab_table("draft_training", rows, strings=ALL, words=WORDS)


def _in_training(results: SuiteResults, task: str) -> Iterator[Row]:
    by_name = {c.variant: c for c in results.of_task(task)}
    base = by_name.get(results.sheet.baseline)
    if base is None:
        return
    for model, name in _by_model(results, [*by_name]):
        own = by_name[name]
        trials = own.keys if own is base else (*own.keys, *base.keys)

        yield {
            "suite": named(results.sheet.name),
            "task": named(task),
            **_model(model, name, own.keys),
            "n": count(len(own.records), own.keys),
            "draft_step": _ms(_cost(own, "step_ms"), _cost(base, "step_ms"), trials),
            "draft_flops": cost_cell(own.mean(FLOPS), base.mean(FLOPS), trials),
            "draft_memory": _gb(_cost(own, "memory"), _cost(base, "memory"), trials),
            "draft_speed": cost_cell(
                own.mean("tokens_a_second"), base.mean("tokens_a_second"), trials
            ),
        }


def _cost(c: Condition, name: str) -> float:
    return cost(c, name).mean


# --- quality


def quality(of: Material) -> Table:
    """A row a benchmark, of the first suite that has both models on it; beside it the first sparse
    or flash variant that a suite names, which need not be the best. The metric is named once, in
    the notes, and where it is another."""
    pairs: dict[str, tuple[SuiteResults, Condition, Condition]] = {}
    for results in in_order(of):
        for task in results.tasks:
            base, ours = results.base(task), _ours(results, task)
            if task not in pairs and base is not None and ours is not None:
                pairs[task] = (results, base, ours)
    metrics = Counter(metric(base) for _, base, _ in pairs.values())
    usual = metrics.most_common(1)[0][0] if metrics else ""
    rows = [_quality(of, *pair, usual) for pair in pairs.values()]
    table = lab_table("draft_quality", rows, strings=ALL, words=WORDS)
    return replace(table, notes=(*table.notes, BODY.pair("note.metric", metric=usual)))


def _ours(results: SuiteResults, task: str) -> Condition | None:
    return next((c for c in results.of_task(task) if c.variant == RULED), None)


def _quality(
    of: Material, results: SuiteResults, base: Condition, ours: Condition, usual: str
) -> Row:
    compared, pair = results.comparison(ours), (*ours.keys, *base.keys)
    name = base.task if metric(base) == usual else f"{base.task}, {metric(base)}"
    return {
        "task": Cell(name, pair),
        "chance": number_cell(base.chance, base.keys),
        "base": mean_cell(base.summary, base.keys),
        "ours": mean_cell(ours.summary, ours.keys),
        "ours_difference": NONE if compared is None else difference(compared, pair),
        "verdict": verdict_cell(results.verdict(ours), pair),
        **_sparse(of, base.task),
    }


def _sparse(of: Material, task: str) -> Row:
    for results in in_order(of):
        for c in results.of_task(task):
            if model_of(c.variant, results.sheet.baseline) == "sparse":
                name = c.variant.removeprefix(f"{RULED}+")
                return {
                    "sparse": mean_cell(c.summary, c.keys),
                    "sparse_variant": Cell(name, c.keys),
                }
    return {"sparse": NONE, "sparse_variant": NONE}


# --- interpretability


def measured_tasks(of: Material) -> Iterator[tuple[SuiteResults, list[ModelInsight]]]:
    """Models that were measured, those of suites about them first; a task of one suite only."""
    seen: set[str] = set()
    for results in sorted(in_order(of), key=lambda results: subject(results) != "insight"):
        models = [m for m in measured(results) if m.task not in seen]
        whole = {m.task for m in models if m.variant == results.sheet.baseline}
        seen |= {m.task for m in models if m.variant == RULED and m.task in whole}
        if own := [m for m in models if m.task in seen]:
            yield results, own


def groups(of: Material) -> Table:
    """Whether the true groups of tokens are found, of base and ours, by source and layer."""
    rows: list[Row] = []
    for results, models in measured_tasks(of):
        baseline = results.sheet.baseline
        for row in grouping(models, baseline, results.sheet.rule).records():
            model = model_of(row["variant"].text, baseline)
            if model in ("base", "ours"):
                rows.append(_group(model, row))
    return lab_table("draft_groups", rows, strings=ALL, words=WORDS)


def _group(model: str, row: Row) -> Row:
    names = ("of", "layer", "nmi", "chance_nmi", "ari", "chance_ari", "difference", "p", "verdict")
    cells = {{"difference": "nmi_difference"}.get(n, n): row[n] for n in names}
    layer = replace(row["layer"], keys=row["variant"].keys)
    return {"task": row["task"], "model": _model(model, "")["model"], **cells, "layer": layer}


def contributions(of: Material) -> Table:
    """What each rule does in the trained models, mean over layers and heads."""
    names = ("task", "of", "omega", "share", "moved", "whole", "muted")
    rows = [row for row in _insight(of, "contribution") if row["layer"].text == "all"]
    return lab_table(
        "draft_rules", [{n: r[n] for n in names} for r in rows], strings=ALL, words=WORDS
    )


def agreement(of: Material) -> Table:
    """Whether seeds agree on how heads differ."""
    names = ("task", "layer", "pairs", "agreement", "null", "p_null")
    rows = [
        {n: row[n] for n in names} | {"layer": replace(row["layer"], keys=row["variant"].keys)}
        for row in _insight(of, "agreement")
    ]
    return lab_table("draft_agreement", rows, strings=ALL, words=WORDS)


def _insight(of: Material, name: str) -> Iterator[Row]:
    """Rows of the model with the rules in a table of the lab's."""
    for results, models in measured_tasks(of):
        for row in insight_table(name, models, results.sheet.baseline).records():
            if row["variant"].text == RULED:
                yield row
