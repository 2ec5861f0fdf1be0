"""Figures 2, 3 and 5: what is drawn is what the records say."""

from statistics import mean

import pytest

from ascender.lab.costs import Cost
from ascender.lab.reports import figures, length_figures
from ascender.lab.reports.strings import STRINGS
from ascender.report.figure import labels, style
from support import lab_cases as cases
from support.lab_reports import groups, results_of

SAY = labels(STRINGS, "en")
FIELDS = {
    "attention FLOPs per example": lambda r: r["attention_flops_an_example"],
    "training step [ms]": lambda r: 1000 * r["seconds"] / 120,
    "peak memory [MB]": lambda r: r["peak_memory_mb"],
}


def points(axis):
    """(x, y) of every mark of a panel, by its label."""
    return {c.get_label(): tuple(float(t[0]) for t in c[0].get_data()) for c in axis.containers}


def test_quality_has_a_panel_for_every_cost(tmp_path):
    records = cases.records(tasks=("distinct",))
    with style():
        figure = figures.pareto(results_of(tmp_path, records), SAY)
    assert [axis.get_xlabel() for axis in figure.axes] == list(FIELDS)
    for axis, get in zip(figure.axes, FIELDS.values(), strict=True):
        found = points(axis)
        assert set(found) == set(cases.VARIANTS)
        for (_, variant), rs in groups(records).items():
            x, y = found[variant]
            assert x == pytest.approx(mean(map(get, rs)))
            assert y == pytest.approx(mean(r["test"]["value"] for r in rs))


def test_costs_stand_beside_the_differences(tmp_path):
    records = cases.records(tasks=("distinct",))
    results = results_of(tmp_path, records)
    with style():
        left, right = figures.deltas(results, SAY).axes
    assert [t.get_text() for t in left.get_yticklabels()] == list(cases.VARIANTS[1:])
    assert right.get_xlabel() == "cost, difference from vanilla [%]"
    by = {v: rs for (_, v), rs in groups(records).items()}
    drawn = [tuple(float(t[0]) for t in c[0].get_data()) for c in right.containers]
    for row, variant in enumerate(cases.VARIANTS[1:]):
        here = sorted(x for x, y in drawn if abs(y - row) < 0.4)
        wanted = sorted(
            100 * mean(get(a) / get(b) - 1 for a, b in zip(by[variant], by["vanilla"], strict=True))
            for get in FIELDS.values()
        )
        assert here == pytest.approx(wanted)


def lengths(variants=("vanilla", "only-sep"), sizes=(128, 512), seeds=2):
    return [
        {**cases.record("needle", v, s, options={"length": n}), "attention_flops_an_example": n * n}
        for n in sizes for v in variants for s in range(seeds)
    ]  # fmt: skip


def test_figure_five_has_real_lengths_and_costs(tmp_path):
    """An option of 600 characters that comes to 128 tokens is drawn at 128."""
    records = lengths()
    for r in records:
        r["run"]["options"] = {"characters": 5 * r["run"]["options"]["length"]}
    results = results_of(tmp_path, records)
    with style():
        quality, flops, *_ = length_figures.length(results, SAY).axes
    for axis in (quality, flops):
        assert [t.get_text() for t in axis.get_xticklabels()] == ["128", "512"]
        assert axis.get_xlabel() == "tokens per example"
    assert flops.get_lines()[0].get_ydata().tolist() == [128**2, 512**2]


def test_one_length_is_no_figure_five(tmp_path):
    """Nor are two settings of one length."""
    same = [{**r, "tokens": 120 * 16 * 128} for r in lengths()]
    with style():
        assert length_figures.length(results_of(tmp_path, same), SAY) is None


def test_costs_of_layers_by_length(tmp_path):
    rows = [
        Cost(v, n, n * n * (1 + i), n / 10, n / 4, None if v == "only-sep" else n / 100)
        for i, v in enumerate(("vanilla", "only-sep")) for n in (1024, 4096)
    ]  # fmt: skip
    results = results_of(tmp_path, cases.records(tasks=("distinct",)))
    assert length_figures.layer_costs(results, SAY) is None
    assert length_figures.layer_pareto(results, SAY) is None
    object.__setattr__(results.source, "costs", rows)
    with style():
        costs = length_figures.layer_costs(results, SAY)
        at = length_figures.layer_pareto(results, SAY)
    assert [axis.get_ylabel() for axis in costs.axes] == [
        "FLOPs of a forward pass", "forward pass [ms]", "training pass [ms]",
        "training memory [MB]",
    ]  # fmt: skip
    assert [t.get_text() for t in costs.axes[0].get_xticklabels()] == ["1,024", "4,096"]
    assert costs.axes[1].get_lines()[0].get_ydata().tolist() == [102.4, 409.6]
    assert len(costs.axes[3].containers) == 1, "of one variant nobody measured the memory"
    assert at.axes[0].get_title(loc="left") == "distinct (layer of 4,096 tokens)"
    assert points(at.axes[0])["only-sep"][0] == 2 * 4096**2
    assert set(points(at.axes[2])) == {"vanilla"}
