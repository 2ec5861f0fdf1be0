"""A suite that measures its models, with attention that has no matrix of scores among them."""

import pytest

from ascender.lab.reports import SuiteResults, read
from ascender.lab.reports.suite_report import all_tables
from ascender.lab.store import Store, as_json
from ascender.lab.suite import Suite, grid
from ascender.lab.trial import trial
from ascender.tasks.grouping import Grouping

WITHOUT = ("performer", "linear", "bigbird", "longformer")
TINY = {
    "options": {"crowd": 9, "most": 3}, "hidden": 8, "heads": 2, "layers": 1, "steps": 1,
    "batch": 2, "every": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def suite():
    runs = grid({"grouping": TINY}, ["vanilla", "ascender", *WITHOUT], 1)
    return Suite("tiny", "Nothing is claimed.", runs, insight=True)


@pytest.fixture(scope="module")
def folder(suite, tmp_path_factory):
    """The suite, run in this process."""
    place = tmp_path_factory.mktemp("insight") / "tiny"
    store, whole = Store(place), Grouping.examples
    store.open(suite)
    Grouping.examples = 5
    try:
        states = [trial(str(place), as_json(one))["state"] for one in suite.runs]
    finally:
        Grouping.examples = whole
    assert states == ["done"] * 6
    return place


def test_attention_without_scores_keeps_its_trial(suite, folder):
    found = {r["run"]["variant"]: r["insight"] for r in Store(folder).records(suite)}
    assert set(found) == {"vanilla", "ascender", *WITHOUT}
    for name in WITHOUT:
        assert found[name]["left_out"] == [name]
        assert set(found[name]["score"]) == {""}
        assert {g["of"] for g in found[name]["grouping"]} == {"states"}
        assert not {"share", "moved", "omega"} & set(found[name])
    assert "left_out" not in found["vanilla"]
    assert {g["of"] for g in found["vanilla"]["grouping"]} == {"attention", "states"}


def test_the_report_says_what_was_left_out(folder):
    results = SuiteResults.of(read(folder), 10)
    said = [en for en, _ in results.remarks() if "no matrix of scores" in en]
    assert [line.partition(":")[0] for line in said] == list(WITHOUT)
    tables = {table.name: table for table in all_tables(results)}
    rows = tables["grouping"].records()
    assert {r["of"].value for r in rows if r["variant"].text == "performer"} == {"states"}
    assert {r["variant"].text for r in tables["contribution"].records()} == {"ascender"}
