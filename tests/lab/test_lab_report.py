"""A report of a whole suite: every number again by other means, every file there."""

import json
import re
import shutil
import statistics
import xml.etree.ElementTree as ET
from math import sqrt

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ascender.common.files import json_rows
from ascender.lab.reports import (
    SuiteResults,
    head_figures,
    read,
    report,
)
from ascender.lab.reports.methods import ITEMS, methods
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_report import FIGURES
from ascender.lab.store import PACKED, packed_bytes
from ascender.report.figure import FORMATS, labels
from ascender.report.table import as_csv
from support import lab_cases as cases
from support.lab_reports import DRAWS, groups, near, read_page, rows, tables

BY_LENGTH = {"length", "layer_costs", "layer_pareto"}
ON_DEMAND = {"inferiority", "costs", "claims", "tuning", "budget"}  # of suites that ask for them


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(store, report, records) of a whole suite with one trial that failed."""
    folder = tmp_path_factory.mktemp("lab")
    records = cases.records()
    cases.store(folder, records, {"broken": ["Ill: step 3", "Ill: step 4"]})
    written = report(folder, folder / "report", lang="both", draws=DRAWS)
    return folder, written, records


def test_quality_is_the_records(made):
    folder, _, records = made
    of = groups(records)
    ps = {}
    for (task, variant), rs in of.items():
        if variant != "vanilla":
            pair = [[r["test"]["value"] for r in x] for x in (rs, of[task, "vanilla"])]
            ps[task, variant] = float(scipy_stats.ttest_rel(*pair).pvalue)
    order = sorted(ps, key=lambda name: ps[name])
    holm = {}
    for i, name in enumerate(order):
        holm[name] = max([0, *holm.values(), min(1, (len(ps) - i) * ps[name])])
    found = rows(folder / "report" / "tables" / "accuracy.csv")
    assert [(row["task"], row["variant"]) for row in found] == sorted(
        of, key=lambda name: list(cases.TASKS).index(name[0])
    )
    for row in found:
        name = row["task"], row["variant"]
        x = [r["test"]["value"] for r in of[name]]
        mean, sd, n = statistics.mean(x), statistics.stdev(x), len(x)
        half = 4.302652729911275 * sd / sqrt(n)  # t of 2 degrees of freedom at 97.5 %
        assert near(row["test_mean"], mean)
        assert near(row["test_sd"], sd)
        assert row["n"] == "3"
        assert near(row["interval_low"], max(mean - half, 0))
        assert near(row["interval_high"], min(mean + half, 1))
        assert near(row["chance"], cases.TASKS[name[0]][2])
        if name[1] == "vanilla":
            assert row["difference_mean"] == row["p"] == ""
            assert row["verdict"] == "baseline"
            continue
        b = [r["test"]["value"] for r in of[name[0], "vanilla"]]
        d = [p - q for p, q in zip(x, b, strict=True)]
        assert near(row["difference_mean"], statistics.mean(d))
        assert near(row["p"], holm[name])
        above = sum((p > q) - (p < q) for p in x for q in b) / len(x) / len(b)
        assert near(row["delta"], above)
        assert float(row["d"]) == pytest.approx(statistics.mean(d) / statistics.stdev(d), rel=1e-6)
        half = 4.302652729911275 * statistics.stdev(d) / sqrt(n)
        low, high = statistics.mean(d) - half, statistics.mean(d) + half
        clear = holm[name] < 0.05 and max(abs(low), abs(high)) >= 0.005
        word = "win" if clear and low > 0 else "loss" if clear and high < 0 else "tie"
        assert row["verdict"] == word
    assert {row["verdict"] for row in found} >= {"win", "tie", "baseline"}


def test_learning_is_the_records(made):
    folder, _, records = made
    of = groups(records)
    goals = {"fewshot-digits": 0.45, "distinct": 0.9}
    texts = {}
    for row in rows(folder / "report" / "tables" / "learning.csv"):
        rs = of[row["task"], row["variant"]]
        goal = goals[row["task"]]
        met = [next((p["step"] for p in r["curve"] if p["value"] >= goal), None) for r in rs]
        there = sorted(t for t in met if t is not None)
        median = str(float(there[1])) if len(there) > 1 else ""  # of three, all end at one step
        assert row["steps_median"] == median
        assert (row["steps_reached"], row["steps_of"]) == (str(len(there)), "3")
        if median:
            scale = [r["seconds"] / 120 for r in rs]
            times = sorted(t * s for t, s in zip(met, scale, strict=True) if t is not None)
            if len(times) == 3:
                assert near(row["seconds_median"], times[1])
            assert near(row["tokens_median"], float(median) * 16 * 25)
        t = [p["step"] for p in rs[0]["curve"]]
        areas = [np.trapezoid([p["value"] for p in r["curve"]], t) / (t[-1] - t[0]) for r in rs]
        assert near(row["area_mean"], statistics.mean(areas))
        texts[row["task"]] = texts.get(row["task"], 0) + len(there)
    assert texts["fewshot-digits"] > 0
    assert texts["distinct"] == 0  # censored, and said so
    shown = (folder / "report" / "tables" / "learning.md").read_text("utf-8")
    assert "&gt; 120 (0/3)" in shown


def test_costs_are_the_records(made):
    folder, _, records = made
    of = groups(records)
    names = {
        "flops": "attention_flops_an_example",
        "memory": "peak_memory_mb",
        "throughput": "tokens_a_second",
        "time": "seconds",
        "parameters": "parameters",
    }
    for row in rows(folder / "report" / "tables" / "efficiency.csv"):
        for column, field in names.items():
            mean, base = (
                statistics.mean(r[field] for r in of[row["task"], variant])
                for variant in (row["variant"], "vanilla")
            )
            assert near(row[f"{column}_mean"], mean)
            assert near(row[f"{column}_ratio"], mean / base)
        assert near(row["chance"], cases.TASKS[row["task"]][2])


def test_examples_and_slices_are_the_records(made):
    folder, _, records = made
    of = groups(records)
    for row in rows(folder / "report" / "tables" / "examples.csv"):
        a, b = (
            np.mean([r["test"]["scores"] for r in of[row["task"], variant]])
            for variant in (row["variant"], "vanilla")
        )
        assert near(row["bootstrap_difference"], a - b)
        assert float(row["bootstrap_low"]) <= a - b <= float(row["bootstrap_high"])
        assert 0 < float(row["randomised_p"]) <= 1
        assert row["examples"] == str(cases.EXAMPLES)
        assert row["chance"]
    found = rows(folder / "report" / "tables" / "further.csv")
    assert {row["of"] for row in found} == {"few", "many"}
    for row in found:
        x = [r["test"]["levels"][row["of"]] for r in of[row["task"], row["variant"]]]
        assert near(row["test_mean"], statistics.mean(x))


def test_trials_behind_a_row(made):
    folder, _, records = made
    of = groups(records)
    for row in rows(folder / "report" / "tables" / "accuracy.csv"):
        mine = {r["key"] for r in of[row["task"], row["variant"]]}
        base = {r["key"] for r in of[row["task"], "vanilla"]}
        assert set(row["trials"].split()) == mine | base


def test_markdown_shows_what_csv_has(made):
    folder, *_ = made
    text = (folder / "report" / "tables" / "accuracy.md").read_text("utf-8")
    for row in rows(folder / "report" / "tables" / "accuracy.csv"):
        said = f"{float(row['test_mean']):.4f} ± {float(row['test_sd']):.4f}"
        assert re.search(rf"{row['task']} \| {row['variant']} \|.*{re.escape(said)}", text)


def test_every_file_is_there(made):
    folder, written, _ = made
    out = folder / "report"
    wanted = {
        "index.html",
        "methods.md",
        "methods.ko.md",
        "trials.jsonl.gz",
        "suite.json",
    }
    wanted |= {f"tables/{name}.{kind}" for name in set(STRINGS.section("title")) - ON_DEMAND
               for kind in ("csv", "md", "tex", "ko.md", "ko.tex")}  # fmt: skip
    wanted |= {f"figures/{name}.{kind}" for name in set(FIGURES) - BY_LENGTH for kind in FORMATS}
    assert {path.relative_to(out).as_posix() for path in written} == wanted
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} == wanted
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for path in (out / "figures").iterdir():
        assert path.read_bytes().startswith(starts[path.suffix[1:]])
        assert path.stat().st_size > 2000
    for path in (out / "figures").glob("*.svg"):
        ET.parse(path)


def test_methods_are_filled_in(made):
    folder, _, records = made
    text = (folder / "report" / "methods.md").read_text("utf-8")
    assert text.count("\n## ") == len(ITEMS)
    for said in (
        "α = 0.05, smallest = 0.005", "2026-01-02T03:04:05Z", "n = 3 (0, 1, 2)",
        "family of 8 comparisons", "50 draws", "ascender: 13,023", "torch 2.13",
        "x86_64", "broken: Ill: step 4", "30 / 31", "patience", "every 40 steps",
    ):  # fmt: skip
        assert said.lower() in text.lower(), said
    seconds = sum(r["seconds"] + r["judging_seconds"] for r in records)
    minutes = int(re.search(r"summed: (\d+) min", text)[1])
    assert abs(minutes - seconds / 60) <= 1
    korean = (folder / "report" / "methods.ko.md").read_text("utf-8")
    assert all(f"## {STRINGS.text(f'method.{item}', 'ko')}" in korean for item in ITEMS)


def test_every_number_leads_to_its_trials(made):
    folder, _, records = made
    text = (folder / "report" / "index.html").read_text("utf-8")
    reader = read_page(text)
    data = json.loads(reader.scripts[0])
    assert [t["key"] for t in data] == [r["key"] for r in records]
    for (task, variant), rs in groups(records).items():
        x = [r["test"]["value"] for r in rs]
        said = f"{statistics.mean(x):.4f} ± {statistics.stdev(x):.4f}"
        behind = [at for number, at in reader.numbers if number == said]
        mine = [i for i, t in enumerate(data) if (t["task"], t["variant"]) == (task, variant)]
        assert mine in behind
        assert [data[i]["value"] for i in mine] == x
    assert "Rules help." in text
    assert "규칙이 도움이 된다." in text


def test_rows_make_it_again(made, tmp_path):
    folder, *_ = made
    for name in (PACKED, "suite.json"):
        shutil.copy(folder / "report" / name, tmp_path)
    before, again = (SuiteResults.of(read(place), DRAWS) for place in (folder, tmp_path))
    for old, new in zip(tables(before), tables(again), strict=True):
        assert old == new
        assert as_csv(new) == (folder / "report" / "tables" / f"{new.name}.csv").read_text("utf-8")
    assert methods(again, "en") == methods(before, "en")
    for record in (records := json_rows(tmp_path / PACKED)):
        del record["test"]["scores"]
    (tmp_path / PACKED).write_bytes(packed_bytes(records))
    less = tables(SuiteResults.of(read(tmp_path), DRAWS))
    assert less[0] == tables(before)[0]  # over seeds nothing is lost
    assert {row[3].text for row in less[1].rows} == {"–"}


def test_rows_alone_say_that_no_rule_was_fixed(made, tmp_path):
    folder, *_ = made
    shutil.copy(folder / "report" / PACKED, tmp_path)
    found = SuiteResults.of(read(tmp_path), DRAWS)
    assert "no record that they were fixed before" in found.remarks()[0][0]
    of_rows, of_store = (
        {(row[0].text, row[1].text): row[3].text for row in tables(results)[0].rows}
        for results in (found, SuiteResults.of(read(folder), DRAWS))
    )
    assert of_rows == of_store


def test_measured_numbers_are_the_records(made):
    folder, _, records = made
    of = groups(records)
    rule = ("align", "sep", "coh")
    found = rows(folder / "report" / "tables" / "contribution.csv")
    assert len(found) == 2 * 4 * 3 * 3  # tasks, variants with rules, rules, two layers and all
    for row in found:
        rs = [r["insight"] for r in of[row["task"], row["variant"]]]
        at = slice(None) if row["layer"] == "all" else int(row["layer"])
        r = rule.index(row["of"])
        for name, wanted in (
            ("omega", [np.mean(np.array(f["omega"][row["of"]])[at]) for f in rs]),
            ("share", [np.mean(np.array(f["share"])[at][..., 1 + r]) for f in rs]),
            ("moved", [np.mean(np.array(f["moved"])[at][..., r]) for f in rs]),
            ("whole", [np.mean(np.array(f["whole"])[at][..., r]) for f in rs]),
        ):
            assert near(row[f"{name}_mean"], statistics.mean(wanted))
            assert near(row[f"{name}_sd"], statistics.stdev(wanted))
        if row["layer"] == "all":
            lost = [f["score"][row["of"]] - f["score"][""] for f in rs]
            assert near(row["muted_mean"], statistics.mean(lost))
        else:
            assert row["muted_mean"] == ""


def test_groups_found_are_compared_with_the_baselines(made):
    folder, _, records = made
    of = groups(records)

    def nmi(task, variant, source, layer):
        return [g["nmi"][0] for r in of[task, variant] for g in r["insight"]["grouping"]
                if (g["of"], g["layer"]) == (source, int(layer))]  # fmt: skip

    found = rows(folder / "report" / "tables" / "grouping.csv")
    assert len(found) == 2 * (5 + 4 * 9)
    ps, judged = [], []
    for row in found:
        mine = nmi(row["task"], row["variant"], row["of"], row["layer"])
        assert near(row["nmi_mean"], statistics.mean(mine))
        if row["variant"] == "vanilla":
            assert row["verdict"] == "baseline"
            continue
        beside = row["of"] if row["of"] in ("attention", "states") else "states"
        theirs = nmi(row["task"], "vanilla", beside, row["layer"])
        apart = [a - b for a, b in zip(mine, theirs, strict=True)]
        assert near(row["difference_mean"], statistics.mean(apart))
        ps.append(float(scipy_stats.ttest_rel(mine, theirs).pvalue))
        judged.append(row)
    order = np.argsort(ps)
    adjusted = np.maximum.accumulate(np.sort(ps) * np.arange(len(ps), 0, -1)).clip(max=1)
    for i, p in zip(order, adjusted, strict=True):
        assert float(judged[i]["p"]) == pytest.approx(p, abs=1e-6)


def test_layers_and_heads_count_from_zero_in_figure_four(made):
    figure = head_figures.heads(SuiteResults.of(read(made[0]), DRAWS), labels(STRINGS, "en"))
    for row in figure.subfigs:
        axes = [a for a in row.axes if a.get_xlabel() == "head"]
        for axis in axes:
            assert [t.get_text() for t in axis.get_xticklabels()] == ["0", "1", "2"]
        assert [t.get_text() for t in axes[0].get_yticklabels()] == ["0", "1"]
