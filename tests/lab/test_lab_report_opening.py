"""What a report opens with: its verdict, its main figure, the tables of its subject."""

import html
import re

import pytest

from ascender.lab.reports import SuiteResults, opening, read
from ascender.lab.reports.bundle_report import bundle_page
from ascender.lab.reports.cells import lab_table, verdict_cell
from ascender.lab.reports.suite_report import all_tables, suite_page
from ascender.report.page import PageFigure
from ascender.report.table import Cell
from support import lab_cases as cases

DRAWS = 50
SVG = '<svg width="9pt"></svg>'


def results_of(folder, records, failures=None, **sheet):
    return SuiteResults.of(read(cases.store(folder, records, failures, **sheet)), DRAWS)


def unmeasured(records):
    return [{k: v for k, v in r.items() if k != "insight"} for r in records]


@pytest.mark.parametrize(
    ("change", "main"), [(list, "grouping"), (unmeasured, "deltas")], ids=["measured", "not"]
)
def test_the_page_opens_with_its_verdict_and_main_figure(tmp_path, change, main):
    found = results_of(tmp_path, change(cases.records(variants=("vanilla", "ascender"))))
    names = ("pareto", "deltas", "grouping")
    drawn = [PageFigure(n, SVG, (n, n)) for n in names]
    made = [t for t in all_tables(found) if t.name != "agreement"]  # which takes long
    text = html.unescape(suite_page(found, made, drawn, [], [], "both"))
    for said in opening.sentence(found, made):
        assert text.index(said) < text.index("<figure id") < text.index("<table")
    shown = re.findall(r'<figure id="figure-(\w+)"', text)
    assert shown == [main, *(n for n in names if n != main)]


def test_tables_and_files_are_folded_and_the_verdict_is_not(tmp_path):
    found = results_of(tmp_path, unmeasured(cases.records()))
    made = [t for t in all_tables(found) if t.name in ("summary", "accuracy")]
    text = suite_page(found, made, [PageFigure("deltas", SVG, ("d", "d"))], [], ["a.csv"], "both")
    folds = re.findall(r'<details class="fold">.*?</details>', text, re.S)
    assert len(folds) == len(made) + 1
    for table, fold in zip(made, folds, strict=False):
        assert f'<table class="{table.name}">' in fold
    assert "a.csv" in folds[-1]
    shown = re.sub(r'<details class="fold">.*?</details>', "", text, flags=re.S)
    assert re.findall('<table class="([a-z]+)">', shown) == ["counts"]
    assert 'id="figure-deltas"' in shown
    assert re.search(r'<span class="line" lang="ko"><strong>주장:</strong> ', shown)


@pytest.mark.parametrize(
    ("subject", "sheet", "first", "said"),
    [
        ("accuracy", {}, ["summary", "accuracy"], "ascender vs. vanilla on 2 tasks: "),
        ("cost", {"rule": {"margin": 0.5}}, ["inferiority", "efficiency"],
         "Not inferior to vanilla on any task (margin 0.5;"),
        ("cost", {"rule": {"margin": 1e-9}, "baseline": "ascender"}, ["inferiority", "efficiency"],
         "No variant is proven non-inferior to ascender on every task (margin 1e-09)."),
        ("tuning", {"tuning": True}, ["tuning"],
         "Tuning suite, judged on validation data only: no verdict."),
    ],
)  # fmt: skip
def test_a_report_begins_with_the_suites_subject(tmp_path, subject, sheet, first, said):
    found = results_of(tmp_path, unmeasured(cases.records()), **sheet)
    assert opening.subject(found) == subject
    made = all_tables(found)
    assert [t.name for t in made][: len(first)] == first
    assert opening.sentence(found, made)[0].startswith(said)


def test_the_first_sentence_counts_the_verdicts(tmp_path):
    records = unmeasured(cases.records())
    found = results_of(tmp_path / "a", records)
    en, ko = opening.sentence(found, [])
    n = found.counts()["ascender"]
    assert f": {n['win']} won" in en
    assert f", {n['tie']} tied, {n['loss']} lost" in en
    assert f"우세 {n['win']}" in ko
    lacks = results_of(tmp_path / "b", records, {"broken": ["Ill"]})
    assert opening.sentence(lacks, [])[0].startswith(
        "30 of 31 trials are finished: no verdict yet."
    )


def test_interpretability_opens_with_groups_and_heads(tmp_path):
    found = results_of(tmp_path, cases.records(variants=("vanilla", "ascender")))
    made = all_tables(found)
    assert [t.name for t in made][:2] == ["grouping", "agreement"]
    rows = made[0].records()
    words = [r["verdict"].value for r in rows if r["of"].value in ("z", "neighbours")]
    said = opening.sentence(found, made)[0]
    assert f"in {words.count('win')} of {len(words)} comparisons" in said
    assert f"worse in {words.count('loss')}, tied in {words.count('tie')};" in said


def test_a_bundle_opens_with_its_claims(tmp_path):
    rows = [
        {"paper_claim": Cell("a"), "suite": Cell("made-up"), "verdict": verdict_cell(word)}
        for word in ("supported", "not_supported", "not_supported", "not_run")
    ]
    judged, found = lab_table("claims", rows), results_of(tmp_path, cases.records(seeds=2))
    figure = PageFigure("deltas", SVG, ("", ""))
    text = bundle_page({"made-up": found}, {"made-up": ("Tied.", "")}, judged, "en", figure)
    said = "4 claims: 1 supported, 2 not supported, 1 open."
    assert text.index(said) < text.index("<svg") < text.index("<table")


def test_a_suites_name_is_no_link_of_its_own(tmp_path):
    found = results_of(tmp_path, cases.records(seeds=2))
    name = "javascript:alert(1)//"
    links = re.findall(r'href="([^"]*)"', bundle_page({name: found}, {name: ("", "")}, None, "en"))
    assert links == ["./javascript%3Aalert%281%29///index.html"]
