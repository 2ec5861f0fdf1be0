"""Reports of a store that was run, the command, and the tables of documents."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.files import json_rows, write
from ascender.lab import score_maps
from ascender.lab.reports import (
    SuiteResults,
    attention_maps,
    documents_in,
    fill,
    read,
    report,
)
from ascender.lab.reports.methods import methods
from ascender.lab.reports.source import raw
from ascender.lab.reports.suite_report import all_tables
from ascender.lab.store import PACKED, Store, as_json
from ascender.lab.suite import suite
from ascender.lab.trial import trial
from ascender.lab.verdict import DecisionRule
from ascender.report import figure as report_figure
from ascender.report.blocks import fill_blocks
from ascender.tasks.distinct import Distinct
from support.lab_reports import DRAWS, tables

ROOT = Path(__file__).resolve().parents[2]
TINY = str(Path(__file__).parents[1] / "support" / "lab_tiny.py")


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


def test_the_command(tiny, monkeypatch):
    monkeypatch.setattr(report_figure, "FORMATS", ("svg",))
    run = CliRunner().invoke(app, ["lab", "report", str(tiny), "--suite", TINY, "--lang", "ko"])
    assert run.exit_code == 0, run.output
    out = tiny / "report"
    files = sum(path.is_file() for path in out.rglob("*"))
    wrote, *shown = run.stdout.splitlines()
    assert wrote == f"wrote {files} files to {out}"
    assert shown[0].startswith(f"open {out / 'index.html'}: the verdict in one sentence")
    assert len(shown) == 2
    text = (out / "index.html").read_text("utf-8")
    assert "그림 1. 어텐션 하나의 항: distinct" in text
    assert "여섯 스텝으로는" in text
    assert (out / "figures" / "maps.svg").stat().st_size > 2000


def test_the_maps_add_up(tiny):
    kept = attention_maps.maps(SuiteResults.of(read(tiny), DRAWS))
    record = Store(tiny).record(kept.key)
    found = score_maps.of_model(record, Store(tiny).place(kept.key))
    assert (kept.task, kept.layer, kept.head) == (found.task, found.layer, found.head)
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


@pytest.mark.slow
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
