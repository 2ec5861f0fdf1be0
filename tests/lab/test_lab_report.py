"""`ascender lab report`: every number again by other means, every file there, nothing unescaped."""

import csv
import json
import re
import shutil
import statistics
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text
from scipy import stats as scipy_stats
from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.files import json_rows, write
from ascender.lab.reports import (
    SuiteResults,
    attention_maps,
    documents_in,
    figures,
    fill,
    head_figures,
    read,
    report,
)
from ascender.lab.reports.methods import ITEMS, methods
from ascender.lab.reports.source import raw
from ascender.lab.reports.strings import STRINGS
from ascender.lab.reports.suite_page import suite_page
from ascender.lab.reports.suite_report import FIGURES, all_tables
from ascender.lab.reports.tables import tables
from ascender.lab.store import PACKED, Store, as_json, packed_bytes
from ascender.lab.suite import suite
from ascender.lab.trial import trial
from ascender.lab.verdict import DecisionRule
from ascender.report import figure as report_figure
from ascender.report import palette
from ascender.report.blocks import fill_blocks
from ascender.report.figure import COLUMN, FORMATS, PAGE, labels, save_figure, style
from ascender.report.page import PageFigure
from ascender.report.table import as_csv, latex, latex_text, markdown, markdown_section
from ascender.tasks.distinct import Distinct
from support import lab_cases as cases

ROOT = Path(__file__).resolve().parents[2]

TINY = str(Path(__file__).parents[1] / "support" / "lab_tiny.py")
NASTY = "<script>alert('50%_a&b#{}$^~\\')</script>"
DRAWS = 50


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(store, report, records) of a whole suite with one trial that failed."""
    folder = tmp_path_factory.mktemp("lab")
    records = cases.records()
    cases.store(folder, records, {"broken": ["Ill: step 3", "Ill: step 4"]})
    written = report(folder, folder / "report", lang="both", draws=DRAWS)
    return folder, written, records


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A store that was really run."""
    folder, found = tmp_path_factory.mktemp("tiny"), suite(TINY)
    Store(folder).open(found)
    whole, Distinct.examples = Distinct.examples, 20
    try:
        states = [trial(str(folder), as_json(run))["state"] for run in found.runs]
    finally:
        Distinct.examples = whole
    assert states == ["done"] * len(found.runs)
    return folder


def results_of(tmp_path, records, **sheet):
    return SuiteResults.of(read(cases.store(tmp_path, records, **sheet)), DRAWS)


def rows(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def groups(records):
    found = {}
    for r in records:
        found.setdefault((r["run"]["task"], r["run"]["variant"]), []).append(r)
    return found


def near(text, x):
    return float(text) == pytest.approx(x, abs=1e-9)


# --- numbers


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


@pytest.mark.parametrize("higher", [True, False])
def test_the_frontier_is_what_nothing_beats(higher):
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = rng.integers(0, 6, 7).tolist(), rng.integers(0, 6, 7).tolist()
        found = figures.frontier(x, y, higher)
        up = 1 if higher else -1
        best = {
            (a, b) for a, b in zip(x, y, strict=True)
            if not any(
                (c, -up * d) != (a, -up * b) and c <= a and up * d >= up * b
                for c, d in zip(x, y, strict=True)
            )
        }  # fmt: skip
        assert {(x[i], y[i]) for i in found} == best


# --- files


ON_DEMAND = {"inferiority", "costs", "claims", "tuning"}  # of suites that ask for them


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
    wanted |= {f"figures/{name}.{kind}" for name in set(FIGURES) - {"length"} for kind in FORMATS}
    assert {path.relative_to(out).as_posix() for path in written} == wanted
    assert {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()} == wanted
    starts = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for path in (out / "figures").iterdir():
        assert path.read_bytes().startswith(starts[path.suffix[1:]])
        assert path.stat().st_size > 2000
    for path in (out / "figures").glob("*.svg"):
        ET.parse(path)


def test_words_in_figures_are_large_enough(tmp_path):
    found = results_of(tmp_path, cases.records())
    with style():
        drawn = [draw(found, labels(STRINGS, "en")) for draw in FIGURES.values()]
        for figure in filter(None, drawn):
            assert figure.get_figwidth() in (COLUMN, PAGE)
            texts = [t for t in figure.findobj(Text) if t.get_text()]
            assert texts
            assert min(t.get_fontsize() for t in texts) >= 8


def test_variants_can_be_told_without_colour():
    look = palette.line_styles([f"v{i}" for i in range(10)])
    assert len({(each.mark, str(each.line)) for each in look.values()}) == 10


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
    assert all(f"## {item[1]}" in korean for item in ITEMS)


# --- escaping


def loose(tex):
    """Signs that TeX would take for its own, outside commands that are ours."""
    body = re.sub(r"\$\\?[a-z\-]+\$", "", "\n".join(tex.splitlines()[1:]))  # the first: a comment
    body = re.sub(r"\\resizebox\{\\textwidth\}\{!\}\{%", "{", body)
    cells = [line for line in body.splitlines() if line.endswith(r"\\")]
    return [
        sign
        for line in cells
        for sign in re.findall(r"(?<!\\)[%_#$^~]", line)
    ]  # fmt: skip


def depth(tex):
    return len(re.findall(r"(?<!\\)\{", tex)) - len(re.findall(r"(?<!\\)\}", tex))


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_latex_is_whole(tmp_path, lang):
    records = cases.records(variants=("vanilla", NASTY))
    for table in tables(results_of(tmp_path, records)):
        tex = latex(table, lang)
        assert depth(tex.replace(r"\\", "")) == 0
        assert re.findall(r"\\begin\{(\w+\*?)\}", tex) == ["table*", "tabular"]
        assert re.findall(r"\\end\{(\w+\*?)\}", tex) == ["tabular", "table*"]
        assert [tex.count(rule) for rule in (r"\toprule", r"\bottomrule")] == [1, 1]
        assert loose(tex) == []
        lines = [line for line in tex.splitlines() if line.endswith(r"\\")]
        assert len(lines) == len(table.rows) + 1
        for line in lines:
            assert len(re.findall(r"(?<!\\)&", line)) == len(table.columns) - 1
        assert not re.search(r"[±−×δ↑–…]", tex)


def test_a_loose_sign_is_noticed():
    assert loose("%\n" + r"a_b & 5% \\") == ["_", "%"]
    assert latex_text(r"a_b & 5% {x} \y") == r"a\_b \& 5\% \{x\} \textbackslash{}y"


class Reader(HTMLParser):
    """Tags, links, the text of scripts, the numbers and their trials."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.links, self.scripts, self.numbers = [], [], [], []

    def handle_starttag(self, tag, attrs):
        of = dict(attrs)
        self.tags.append(tag)
        self.links += [of[a] for a in ("src", "href", "xlink:href") if of.get(a)]
        if tag == "button" and "data-t" in of:
            self.numbers.append(["", [int(i) for i in of["data-t"].split()]])

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)
        if self.numbers and self.tags[-1] in ("button", "span"):
            self.numbers[-1][0] += data


def read_page(text):
    reader = Reader()
    reader.feed(text)
    return reader


def test_page_escapes_and_needs_no_network(tmp_path):
    records = cases.records(variants=("vanilla", NASTY))
    records += [cases.record("</script><b>t", "vanilla", s) for s in range(2)]
    found = results_of(tmp_path, records, claim="a < b & <i>c</i>", name="<b>")
    with style():
        figure = figures.deltas(found, labels(STRINGS, "en"))
        save_figure(figure, tmp_path / "f", "deltas")
    svg = (tmp_path / "f" / "deltas.svg").read_text("utf-8")
    drawn = PageFigure("deltas", svg, STRINGS.pair("caption.deltas", baseline=NASTY))
    text = suite_page(found, tables(found), [drawn], [], ["a&b"], "both")
    reader = read_page(text)
    assert reader.tags.count("script") == 2
    assert not {"b", "i"} & set(reader.tags)
    assert not [link for link in reader.links if re.match(r"(https?:)?//", link)]
    assert reader.tags.count("svg") == 1
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    data = json.loads(reader.scripts[0])
    assert NASTY in {t["variant"] for t in data}
    assert "&lt;script&gt;" in markdown(tables(found)[0], "en")


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


# --- languages


def test_korean_alone(tmp_path):
    found = results_of(tmp_path, cases.records(seeds=2))
    text = suite_page(found, tables(found), [], [], [], "ko")
    assert '<html lang="ko">' in text
    assert "규칙이 도움이 된다." in text
    assert "Rules help." not in text
    for table in tables(found):
        for made in (text, markdown_section(table, "ko"), latex(table, "ko")):
            assert table.title[1] in made
            assert table.title[0] not in made
            assert STRINGS["column.variant"][1] in made
        assert "kotex" in latex(table, "ko")
    assert "판정" in methods(found, "ko")


# --- what is left of a report, and what cannot be judged


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
    assert [row[3] for row in tables(found)[0].rows] == [
        row[3] for row in tables(SuiteResults.of(read(folder), DRAWS))[0].rows
    ]


def test_rows_and_a_suite_are_enough(tiny, tmp_path):
    (tmp_path / PACKED).write_bytes(raw(read(tiny))[PACKED])
    from_store, from_rows = (
        tables(SuiteResults.of(read(place, suite(TINY)), DRAWS)) for place in (tiny, tmp_path)
    )
    assert from_store == from_rows


def test_rows_count_as_done_and_more_seeds_join_them(tiny, tmp_path):
    found = suite(TINY)
    for name, data in raw(read(tiny)).items():
        write(tmp_path / name, data)
    store, more = Store(tmp_path), found.with_seeds(3)
    store.open(found)
    assert store.open_trials(found) == []
    store.open(more)
    new = store.open_trials(more)
    assert {run.seed for run in new} == {2}
    done = json.loads((tiny / "trials" / found.runs[0].key / "record.json").read_text("utf-8"))
    place = store.place(new[0].key)
    place.mkdir(parents=True)
    (place / "record.json").write_text(json.dumps({**done, "key": new[0].key}))
    both = read(tmp_path)
    assert [r["key"] for r in both.records] == [*(r.key for r in found.runs), new[0].key]
    assert both.missing == [run.key for run in new[1:]]
    report(
        tmp_path, tmp_path, draws=DRAWS
    )  # into its own folder: trials are added, the sheet stays
    assert len(json_rows(tmp_path / PACKED)) == len(both.records)


def test_a_suite_that_tunes_shows_no_test_score(tiny, tmp_path):
    found = SuiteResults.of(read(tiny, replace(suite(TINY), tuning=True)), DRAWS)
    (made,) = all_tables(found)
    assert made.name == "tuning"
    best = [r["validation"] for r in read(tiny).records]
    assert made.rows[0][4].data["mean"] == pytest.approx(np.mean([best[0], best[2]]))
    assert re.search(r"\d test examples;", methods(SuiteResults.of(read(tiny), DRAWS), "en"))
    assert not re.search(r"\d test examples;", methods(found, "en"))


def test_a_rule_changed_after_the_runs_is_told(tiny):
    found = SuiteResults.of(read(tiny, replace(suite(TINY), rule=DecisionRule(alpha=0.5))), DRAWS)
    assert "fixed after the runs" in found.remarks()[0][0]
    assert "changed after the runs" in methods(found, "en")
    same = SuiteResults.of(read(tiny, suite(TINY)), DRAWS)
    assert "changed" not in methods(same, "en")


def test_since_when_a_rule_stands(tmp_path):
    store, tiny = Store(tmp_path / "a"), suite(TINY)
    sheet = tmp_path / "a" / "suite.json"
    store.open(tiny)
    said = json.loads(sheet.read_text())
    sheet.write_text(json.dumps({**said, "fixed": "2001-01-01T00:00:00Z"}))
    store.open(tiny.with_seeds(3))
    assert json.loads(sheet.read_text())["fixed"] == "2001-01-01T00:00:00Z"
    store.open(replace(tiny, rule=DecisionRule(alpha=0.01)))
    assert json.loads(sheet.read_text())["fixed"] > "2001-01-01T00:00:00Z"


def test_without_a_baseline(tmp_path):
    records = cases.records(tasks=("distinct",)) + [
        cases.record("fewshot-digits", v, s) for v in ("ascender", "only-sep") for s in range(3)
    ]
    found = results_of(tmp_path, records)
    assert any(
        "fewshot-digits: the baseline vanilla has no finished trial" in r[0]
        for r in found.remarks()
    )
    verdicts = {row[1].text: row[-1].value for row in tables(found)[0].rows
                if row[0].text == "fewshot-digits"}  # fmt: skip
    assert verdicts == {"ascender": "unjudged", "only-sep": "unjudged"}
    text = suite_page(found, tables(found), [], [], [], "en")
    assert "the baseline vanilla has no finished trial" in text
    assert "not judged" in text


def test_without_any_baseline_nothing_is_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(report_figure, "FORMATS", ("svg",))
    (tmp_path / "s").mkdir()
    folder = cases.store(tmp_path / "s", cases.records(variants=("ascender", "only-sep"), seeds=2))
    report(folder, tmp_path / "out", draws=DRAWS)
    assert not (tmp_path / "out" / "tables" / "examples.csv").exists()
    assert not (tmp_path / "out" / "figures" / "deltas.svg").exists()
    assert "nothing was compared with the baseline" in (tmp_path / "out" / "index.html").read_text()


def test_one_seed_is_no_verdict(tmp_path):
    found = results_of(tmp_path, cases.records(seeds=1, tasks=("distinct",)))
    rows = tables(found)[0].rows
    assert {row[-1].value for row in rows} == {"baseline", "unjudged"}
    assert {row[5].text for row in rows} == {"–"}
    assert sum("only one seed in common" in r[0] for r in found.remarks()) == 4
    with style():
        assert all(draw(found, labels(STRINGS, "en")) for name, draw in FIGURES.items()
                   if name != "length")  # fmt: skip


def test_no_rules_no_heads(tmp_path):
    found = results_of(tmp_path, cases.records(variants=("vanilla",), seeds=2))
    say = labels(STRINGS, "en")
    assert found.ruled() is None
    assert head_figures.heads(found, say) is None
    assert head_figures.roles(found, say) is None
    assert figures.omegas(found, say) is None
    assert figures.deltas(found, say) is None


def test_lengths_are_not_mixed(tmp_path):
    records = [
        cases.record("distinct", v, s, options={"crowd": n}, gain=n / 1000)
        for n in (32, 64) for v in ("vanilla", "only-sep") for s in range(2)
    ]  # fmt: skip
    found = results_of(tmp_path, records)
    assert found.tasks == ["distinct (crowd=32)", "distinct (crowd=64)"]
    assert all(row[4].text == "2" for row in tables(found)[0].rows)
    assert found.goal("distinct (crowd=64)") == 0.9
    with style():
        axis = figures.length(found, labels(STRINGS, "en")).axes[0]
    assert [t.get_text() for t in axis.get_xticklabels()] == ["32", "64"]
    line = axis.get_lines()[0].get_ydata()
    means = [
        statistics.mean(r["test"]["value"] for r in records
                        if r["run"]["options"]["crowd"] == n and r["run"]["variant"] == "vanilla")
        for n in (32, 64)
    ]  # fmt: skip
    assert list(line) == pytest.approx(means)


@pytest.mark.parametrize("floor", [0.49, 5.0, -4.0])
def test_a_far_floor_does_not_press_the_frontier_together(tmp_path, floor):
    records = [{**r, "floor": floor} for r in cases.records(tasks=("distinct",), seeds=2)]
    with style():
        axis = figures.pareto(results_of(tmp_path, records), labels(STRINGS, "en")).axes[0]
    low, high = axis.get_ylim()
    assert (low <= floor <= high) == (floor == 0.49)
    said = [t.get_text() for t in axis.texts]
    assert said == {0.49: [], 5.0: ["chance 5 ↑"], -4.0: ["chance -4 ↓"]}[floor]


# --- the whole way


def test_the_command(tiny, monkeypatch):
    monkeypatch.setattr(report_figure, "FORMATS", ("svg",))
    run = CliRunner().invoke(app, ["lab", "report", str(tiny), "--suite", TINY, "--lang", "ko"])
    assert run.exit_code == 0, run.output
    out = tiny / "report"
    files = sum(path.is_file() for path in out.rglob("*"))
    assert run.stdout == f"wrote {files} files to {out}; open {out / 'index.html'}\n"
    text = (out / "index.html").read_text("utf-8")
    assert "그림 1. 어텐션 하나의 항: distinct" in text
    assert "여섯 스텝으로는" in text
    assert (out / "figures" / "maps.svg").stat().st_size > 2000


def test_the_maps_add_up(tiny):
    found = attention_maps.maps(SuiteResults.of(read(tiny), DRAWS))
    assert (found.task, found.variant, found.layer) == ("distinct", "ascender", 0)
    of = found.terms
    assert of["total"].shape == (13, 13)
    parts = of["base"] + of["align"] + of["sep"] + of["coh"]
    tau = (parts * of["total"]).sum() / (of["total"] ** 2).sum()  # one for the head
    assert 0.9 < tau < 1.1  # six steps from 1
    np.testing.assert_allclose(parts / tau, of["total"], atol=1e-6)
    e = np.exp(of["total"])
    np.testing.assert_allclose(e / e.sum(-1, keepdims=True), of["weights"], atol=1e-5)
    assert np.abs(of["sep"]).max() > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "nowhere is no folder"),
        (["{empty}"], "has neither suite.json nor trials.jsonl.gz"),
        (["{tiny}", "--lang", "fr"], "unknown lang 'fr'; expected one of en, ko, both"),
        (["{tiny}", "--suite", "quik"], "unknown suite 'quik' (did you mean 'quick'?)"),
    ],
)
def test_errors_teach(tiny, tmp_path, words, said):
    told = [word.format(empty=tmp_path, tiny=tiny) for word in words]
    run = CliRunner().invoke(app, ["lab", "report", *told])
    assert run.exit_code == 1
    assert said in run.output


def test_documents_have_the_tables_of_their_rows(tmp_path):
    """All pages in one go: reading the stored trials takes longest."""
    pages = documents_in([ROOT / "docs"])
    copies = {tmp_path / f"{i}{page.name}": page for i, page in enumerate(pages)}
    for copy, page in copies.items():
        whole = page.read_text(encoding="utf-8")
        bare = fill_blocks(whole, "lab", lambda name: "")
        assert len(bare) < len(whole), page
        copy.write_text(bare, encoding="utf-8")
    languages = {copy: "ko" if ".ko" in page.suffixes else "en" for copy, page in copies.items()}
    fill(languages, ROOT / "results", draws=DRAWS)
    for copy, page in copies.items():
        assert copy.read_text(encoding="utf-8") == page.read_text(encoding="utf-8"), page


def test_a_document_is_filled_in_its_language(tmp_path):
    asks = "<!-- lab: quick accuracy -->\n<!-- /lab -->\n"
    papers = [tmp_path / name for name in ("paper.md", "paper.ko.md")]
    for paper in papers:
        paper.write_text(asks)
    words = [word for paper in papers for word in ("--into", str(paper))]
    run = CliRunner().invoke(app, ["lab", "report", str(ROOT / "results/quick"), *words])
    assert run.exit_code == 0, run.output
    english, korean = (paper.read_text(encoding="utf-8") for paper in papers)
    assert "| task | variant |" in english
    assert "| 과제 | 변형 |" in korean


def test_a_document_that_asks_for_nothing_and_one_beside_it(tmp_path):
    good, none = tmp_path / "good.md", tmp_path / "none.md"
    good.write_text("<!-- lab: quick accuracy -->\n<!-- /lab -->\n")
    none.write_text("nothing")
    before = good.read_text()
    with pytest.raises(ValueError, match=r"asks for nothing \(no line <!-- lab: NAME -->"):
        fill({good: "en", none: "en"}, ROOT / "results/quick", draws=DRAWS)
    assert good.read_text() == before, "all or none"


# --- what was measured of the models


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


def test_records_from_before_are_read_as_todays(tmp_path):
    """Older records count layers from 1 and say near and hidden; a suite may have both."""
    mixed = cases.records(tasks=("distinct",), variants=("vanilla", "ascender"))
    once = {"neighbours": "near", "states": "hidden"}
    before = head_figures.measured(results_of(tmp_path / "a", mixed))[1].groups()
    for r in mixed:
        if r["run"]["seed"] == 1:
            r["insight"] = json.loads(json.dumps(r["insight"]))
            for g in r["insight"]["grouping"]:
                g |= {"of": once.get(g["of"], g["of"]), "layer": g["layer"] + 1}
    after = head_figures.measured(results_of(tmp_path / "b", mixed))[1].groups()
    assert after == before
    assert ("neighbours", 0) in after


def test_layers_and_heads_count_from_zero_in_figure_four(made):
    figure = head_figures.heads(SuiteResults.of(read(made[0]), DRAWS), labels(STRINGS, "en"))
    for row in figure.subfigs:
        axes = [a for a in row.axes if a.get_xlabel() == "head"]
        for axis in axes:
            assert [t.get_text() for t in axis.get_xticklabels()] == ["0", "1", "2"]
        assert [t.get_text() for t in axes[0].get_yticklabels()] == ["0", "1"]


def test_figure_four_shows_matched_heads(tmp_path):
    """Heads of a seed in another order change nothing; heads that are not matched would."""
    shuffled = cases.records(tasks=("distinct",), variants=("vanilla", "ascender"))
    before = head_figures.measured(results_of(tmp_path / "a", shuffled))[1]
    for r in shuffled:
        if r["run"]["variant"] == "ascender" and r["run"]["seed"] == 1:
            f = r["insight"] = json.loads(json.dumps(r["insight"]))
            for layer in range(2):
                for name in ("share", "moved"):
                    f[name][layer] = f[name][layer][1:] + f[name][layer][:1]
                for of in f["omega"].values():
                    of[layer] = of[layer][1:] + of[layer][:1]
    after = head_figures.measured(results_of(tmp_path / "b", shuffled))[1]
    for rule in ("align", "sep", "coh"):
        np.testing.assert_allclose(before.omega(rule), after.omega(rule))
        np.testing.assert_allclose(before.moved(rule), after.moved(rule))
    plain = [np.mean([f["omega"]["sep"] for f in m.found], 0) for m in (before, after)]
    assert not np.allclose(*plain)


def test_a_suite_that_asks_is_measured(tmp_path, monkeypatch):
    asked = replace(suite(TINY), insight=True)
    assert asked.key == suite(TINY).key
    assert [r.key for r in asked.runs] == [r.key for r in suite(TINY).runs]
    monkeypatch.setattr(Distinct, "examples", 8)
    for name, one in (("yes", asked), ("no", suite(TINY))):
        store = Store(tmp_path / name)
        store.open(one)
        run = one.runs[1]
        assert trial(str(store.folder), as_json(run))["state"] == "done"
        assert ("insight" in store.record(run.key)) == (name == "yes")
    found = Store(tmp_path / "yes").record(run.key)["insight"]
    assert np.array(found["moved"]).shape == (1, 2, 3)
    assert found["grouping"] == []  # distinct knows of no groups
