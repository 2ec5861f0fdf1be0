"""The functions behind `ascender lab`, called from Python with plain arguments."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascender import lab
from ascender.cli import app
from ascender.train.folder import plain
from support import lab_cases as cases
from support import lab_tiny
from support.lab_tiny import SUITE

THREE = SUITE.with_seeds(3)


@pytest.fixture
def done(tmp_path):
    """A folder in which every trial of the tiny suite but one is finished."""
    made = []
    for run in THREE.runs[:-1]:
        record = cases.record(run.task, run.variant, run.seed)
        made.append({**record, "key": run.key, "run": plain(run)})
    return cases.store(tmp_path / "lab", made, name=SUITE.name)


def test_show_gives_rows(done):
    (table,) = lab.show(THREE, done)
    rows = {(row["task"], row["variant"]): row for row in table.rows}
    assert rows["distinct", "vanilla"]["n"] == 3
    assert rows["distinct", "vanilla"]["comparison"] is None
    assert rows["distinct", "ascender"]["n"] == 2
    assert rows["distinct", "ascender"]["comparison"]["baseline"] == "vanilla"
    assert rows["distinct", "ascender"]["chance"] == pytest.approx(1 / 12)


def test_the_command_prints_the_same(done):
    file = str(Path(lab_tiny.__file__))
    words = ["lab", "show", file, "--out", str(done), "--seeds", "3"]
    printed = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert printed.exit_code == 0, printed.output
    (table,) = lab.show(THREE, done)
    low, high = table.rows[1]["comparison"]["by_seed"]["interval"]
    assert f"[{low:+.4f}, {high:+.4f}]" in printed.stdout
    as_json = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(as_json.stdout) == json.loads(json.dumps(table.rows))


def test_show_of_an_empty_folder_has_no_rows(tmp_path):
    said = []
    (table,) = lab.show(SUITE, tmp_path / "new", say=said.append)
    assert table.rows == []
    assert said == ["tiny: no trial is finished yet"]


def test_run_with_nothing_left_trains_nothing(done):
    begun = sorted(done.glob("trials/*"))
    result = lab.run(replace(THREE, runs=THREE.runs[:-1]), done, say=lambda line: None)
    assert result.failures == []
    assert [row["n"] for row in result.tables[0].rows] == [3, 2]
    assert sorted(done.glob("trials/*")) == begun


@pytest.mark.slow
def test_report_gives_the_files(done, tmp_path):
    paths = lab.report(done, tmp_path / "out", say=lambda line: None)
    assert paths[-1] == tmp_path / "out" / "index.html"
    assert all(path.exists() for path in paths)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"engine": "cloud"}, "unknown engine 'cloud'"),
        ({"address": "auto"}, "expected --engine ray"),
        ({"slurm": {"account": "me"}}, "expected --engine slurm"),
        ({"budget": "soon"}, "budget 'soon'; expected a time"),
    ],
)
def test_a_bad_option_is_named_before_any_work(tmp_path, options, expected):
    with pytest.raises(ValueError, match=expected):
        lab.run(SUITE, tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
