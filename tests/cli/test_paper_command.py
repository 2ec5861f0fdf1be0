"""`ascender paper`: its options, its template, errors in one line."""

import json

import pytest
from typer.testing import CliRunner

from ascender import lab
from ascender.cli import app
from support.paper_cases import store


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args):
    return CliRunner().invoke(app, ["paper", *map(str, args)], env={"COLUMNS": "200"})


def assert_error(result, text):
    assert result.exit_code == 1
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_template_is_written_once(here):
    result = run("--template")
    assert result.exit_code == 0
    assert (
        "wrote draft.yaml; fill it in, then: ascender paper DIR --text draft.yaml" in result.stderr
    )
    before = (here / "draft.yaml").read_text()
    assert "abstract: []" in before
    assert_error(run("--template"), "draft.yaml exists; expected --text with a new name")
    assert (here / "draft.yaml").read_text() == before


def test_the_template_of_trials_has_their_claims(here):
    store(here / "trials")
    assert run("trials", "--template", "--text", "mine.yaml").exit_code == 0
    assert "#    1  It wins." in (here / "mine.yaml").read_text()
    assert_error(
        run("nowhere", "--template", "--text", "new.yaml"), "nowhere is no folder; expected"
    )


def test_errors_are_one_line_and_nothing_is_written(here):
    store(here / "trials")
    (here / "draft.yaml").write_text("abstract: [{en: a, claim: 9}]")
    assert_error(run(), "DIR is missing; expected a folder of trials, or --template")
    assert_error(run("nowhere"), "nowhere")
    assert_error(run("trials", "--lang", "fr"), "unknown lang 'fr'; expected one of en, ko, both")
    assert_error(run("trials", "--text", "draft.yaml"), "abstract[1].claim = 9; expected a number")
    assert_error(run("trials", "--text", "no.yaml"), "no.yaml")
    assert_error(run("trials", "--out", "trials"), "is not empty; expected a new folder")
    assert not (here / "paper").exists()


def test_options_reach_the_function(here, monkeypatch):
    seen = {}

    def write(folder, out, **options):
        seen.update(options, folder=folder, out=out)
        options["say"]("reading")
        return [out / "main.tex", out / "main.pdf", out / "figures" / "figure2.pdf"]

    monkeypatch.setattr(lab, "write_paper", write)
    result = run("trials", "--out", "p", "--lang", "both", "--no-pdf", "--docx", "--json")
    assert json.loads(result.stdout)["files"][1] == "p/main.pdf"
    assert (seen["lang"], seen["with_pdf"], seen["with_docx"], seen["with_markdown"]) == (
        "both", False, True, False,
    )  # fmt: skip
    assert run("trials", "--pdf").stdout == "wrote 3 files to paper; open paper/main.pdf\n"
    assert seen["with_pdf"] is True
    run("trials")
    assert seen["with_pdf"] is None
