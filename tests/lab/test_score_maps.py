"""Figure 1: its matrices are kept beside the trials, and drawn without the model."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from ascender.common.files import Damaged
from ascender.lab import score_maps
from ascender.lab.reports import SuiteResults, attention_maps, read, report, suite_report
from ascender.lab.reports.source import pack
from ascender.lab.reports.strings import STRINGS
from ascender.lab.runner import report as lab_report
from ascender.lab.runner import run
from ascender.lab.score_maps import ScoreMaps
from ascender.lab.store import Store, as_json
from ascender.lab.suite import suite
from ascender.lab.trial import trial
from ascender.report import figure as report_figure
from ascender.report.figure import labels, style
from ascender.tasks.distinct import Distinct
from support import lab_cases as cases
from support.lab_reports import DRAWS

TINY = str(Path(__file__).parents[1] / "support" / "lab_tiny.py")
NAMES = ("a", "␣b", "c", "d", "한", "f", "g")


def made(key="k", **sizes):
    rng = np.random.default_rng(0)
    size = {"base": 4.0, "align": 0.01, "sep": 0.3, "coh": 0.5, "total": 5.0, **sizes}
    terms = {name: x * (2 * rng.random((7, 7)) - 1) for name, x in size.items()}
    terms["weights"] = rng.random((7, 7))
    return ScoreMaps("distinct", "ascender", 3, key, 1, 0, terms, NAMES)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A suite that was really run: its trials in this process."""
    folder, found = tmp_path_factory.mktemp("maps") / "tiny", suite(TINY)
    whole, Distinct.examples = Distinct.examples, 8
    Store(folder).open(found)
    try:
        states = [trial(str(folder), as_json(one))["state"] for one in found.runs]
        run(found, folder, workers=1, say=lambda line: None)
    finally:
        Distinct.examples = whole
    assert states == ["done"] * len(found.runs)
    return folder


def test_a_file_is_small_and_gives_the_maps_again(tmp_path):
    maps = made()
    data = score_maps.as_bytes(maps)
    assert data == score_maps.as_bytes(made())
    assert len(data) < 2000
    (tmp_path / "m").write_bytes(data)
    back = score_maps.read(tmp_path / "m")
    assert (back.task, back.seed, back.layer, back.tokens) == ("distinct", 3, 1, NAMES)
    assert list(back.terms) == list(maps.terms)
    for name, m in maps.terms.items():
        np.testing.assert_allclose(back.terms[name], m, atol=1e-3 * np.abs(m).max())


@pytest.mark.parametrize("harm", [
    lambda data: data[:-9], lambda data: b"PK" + data[2:],
    lambda data: gzip.compress(gzip.decompress(data)[:40]),
    lambda data: gzip.compress(gzip.decompress(data).replace(b"align", b"elign")),
    lambda data: gzip.compress(gzip.decompress(data).replace(b"layer", b"lawyr")),
])  # fmt: skip
def test_a_damaged_file_is_named(tmp_path, harm):
    path = tmp_path / "m.safetensors.gz"
    path.write_bytes(harm(score_maps.as_bytes(made())))
    with pytest.raises(Damaged, match=r"m\.safetensors\.gz"):
        score_maps.read(path)


def test_every_term_has_its_own_scale_unless_one_is_asked_for():
    """A small term fills its colours; on one scale it would be blank."""
    maps, say = made(), labels(STRINGS, "en")
    with style():
        own, one = (attention_maps.draw(maps, say, shared) for shared in (False, True))

    def reach(figure, term):
        axis = next(a for a in figure.axes if a.get_title(loc="left").endswith(say(term)))
        return axis.get_images()[0].get_clim()[1]

    for term in ("base", "align", "sep", "coh", "total", "weights"):
        largest = np.abs(maps.terms[term]).max()
        assert reach(own, term) == pytest.approx(largest)
        if term != "weights":
            assert reach(one, term) == pytest.approx(np.abs(maps.terms["total"]).max())
    assert reach(one, "align") > 100 * reach(own, "align")


def test_a_run_keeps_the_maps_of_its_first_trial_with_rules(store):
    first = next(r for r in suite(TINY).runs if r.variant == "ascender")
    kept = list(store.rglob("*.safetensors.gz"))
    assert kept == [Store(store).place(first.key) / "maps.safetensors.gz"]
    assert score_maps.read(kept[0]).key == first.key


def test_packed_results_have_the_figure_without_a_model(store, tmp_path, monkeypatch):
    """Pack, delete the models, report; then the report again from itself."""
    monkeypatch.setattr(report_figure, "FORMATS", ("svg",))
    monkeypatch.setattr(suite_report, "FIGURES", {})
    mine, out = tmp_path / "mine", tmp_path / "results"
    shutil.copytree(store, mine)
    pack(mine, out)
    shutil.rmtree(mine)
    key = next(r for r in suite(TINY).runs if r.variant == "ascender").key
    assert (out / "maps" / f"{key}.safetensors.gz").is_file()
    assert not list((out / "tiny").rglob("*.safetensors.gz")), "once, for all suites"
    report(out / "tiny", tmp_path / "one", draws=DRAWS)
    lab_report(tmp_path / "one", tmp_path / "two", shared_scale=True, say=lambda line: None)
    for place, said in (("one", "a colour scale of its own"), ("two", "share one scale")):
        assert (tmp_path / place / "figures" / "maps.svg").is_file()
        assert (tmp_path / place / "maps" / f"{key}.safetensors.gz").is_file()
        assert said in (tmp_path / place / "index.html").read_text("utf-8")


def test_what_cannot_be_shown_is_said_and_loses_nothing(tmp_path):
    records = cases.records(tasks=("distinct",), variants=("vanilla", "ascender"), seeds=1)
    folder = cases.store(tmp_path / "lab", records)
    said = []
    assert score_maps.keep(folder, records, say=said.append) is None
    assert said == []
    (Store(folder).place(records[1]["key"]) / "model").mkdir()
    assert score_maps.keep(folder, records, say=said.append) is None
    assert len(said) == 1
    assert records[1]["key"] in said[0]
    results = SuiteResults.of(read(folder), DRAWS)
    with pytest.raises(FileNotFoundError, match=r"no attention maps of dis-ascender-0"):
        attention_maps.maps(results)
