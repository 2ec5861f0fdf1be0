"""ascender insight: the record, the command, advice and errors."""

import html
import json
import re
from functools import partial

import numpy as np
import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.core.rules import RULES
from ascender.insight import measure
from ascender.insight import model_summary as measuring
from ascender.lab.reports.cells import term_cell
from ascender.lab.reports.insight_report import advice
from ascender.lab.reports.model_insight import ModelInsight
from ascender.report import figure as report_figure
from ascender.tasks.grouping import Grouping
from ascender.train import Run, train


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of two seeds of ascender and of vanilla, trained for a moment, measured."""
    folder = tmp_path_factory.mktemp("runs")
    whole, Grouping.examples = Grouping.examples, 5
    try:
        for variant in ("ascender", "vanilla"):
            for seed in range(2):
                run = Run.of("grouping", variant=variant, seed=seed, steps=2, batch=4, every=2,
                             hidden=16, heads=2, options={"crowd": 23, "most": 3})  # fmt: skip
                train(run, folder / f"{variant}-{seed}", measure=partial(measure, n=4))
    finally:
        Grouping.examples = whole
    return folder


def test_the_record_is_small_and_whole(runs):
    record = json.loads((runs / "ascender-0" / "record.json").read_text())
    found = record["insight"]
    assert len(json.dumps(found)) < 20_000
    assert np.array(found["share"]).shape == (2, 2, 5)
    assert np.array(found["moved"]).shape == np.array(found["whole"]).shape == (2, 2, 3)
    np.testing.assert_allclose(np.array(found["share"]).sum(-1), 1, atol=5e-4)
    assert set(found["score"]) == {"", *RULES}
    assert {g["of"] for g in found["grouping"]} == {"z", "neighbours", "attention", "states"}
    assert np.array(found["omega"]["sep"]).shape == (2, 2)
    plain = json.loads((runs / "vanilla-0" / "record.json").read_text())["insight"]
    assert "moved" not in plain
    assert plain["omega"] == {}
    assert set(plain["score"]) == {""}
    assert {g["of"] for g in plain["grouping"]} == {"attention", "states"}


def test_layers_without_rules_have_none(monkeypatch):
    """In the upper half alone: nothing below."""
    monkeypatch.setattr(Grouping, "examples", 5)
    run = Run.of(
        "grouping", variant="rules-upper", hidden=16, heads=2, options={"crowd": 23, "most": 3}
    )
    task = run.make_task()
    found = measure(run.make_model(task), task, n=4)
    assert found["omega"]["coh"][0] == [0.0, 0.0] != found["omega"]["coh"][1]
    moved = np.array(found["moved"])
    assert moved.shape == (2, 2, 3)
    assert not moved[0].any()
    assert moved[1].any()


def test_the_command(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "SCORED", 3)
    monkeypatch.setattr(report_figure, "FORMATS", ("svg",))
    monkeypatch.setattr(Grouping, "examples", 3)
    models = [str(runs / f"ascender-{i}") for i in range(2)]
    beside = [w for i in range(2) for w in ("--against", str(runs / f"vanilla-{i}"))]
    run = CliRunner().invoke(app, ["insight", *models, *beside, "--examples", "3", "--json",
                                   "--lang", "both", "--out", str(tmp_path)])  # fmt: skip
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found == json.loads((tmp_path / "insight.json").read_text("utf-8"))
    assert [m["variant"] for m in found["models"]] == 2 * ["ascender"] + 2 * ["vanilla"]
    for name in ("contribution", "roles", "agreement", "grouping"):
        assert found["tables"][name]
        for kind in ("csv", "md", "ko.md"):
            assert (tmp_path / "tables" / f"{name}.{kind}").stat().st_size > 100
    page = (tmp_path / "index.html").read_text("utf-8")
    assert page.count("<svg") == 3
    assert not re.search(r'(src|href)="(https?:)?//', page.replace("http://www.w3.org", ""))
    for word in ("Roles of heads", "헤드의 역할", "ascender-0, ascender-1", "vanilla-1"):
        assert word in page
    row = next(r for r in found["tables"]["grouping"]
               if r["variant"] == "ascender" and r["of"] == "z" and r["layer"] == "1")  # fmt: skip
    mine, theirs = (
        [g["nmi"][0] for m in found["models"] if m["variant"] == v for g in m["grouping"]
         if (g["of"], g["layer"]) == (of, 1)]
        for v, of in (("ascender", "z"), ("vanilla", "states"))
    )  # fmt: skip
    assert row["nmi"]["mean"] == pytest.approx(np.mean(mine))
    assert row["difference"]["mean"] == pytest.approx(np.mean(mine) - np.mean(theirs))
    for line in found["advice"]:
        assert line in html.unescape(page)


def measured(moved, score):
    """One seed of two layers with two heads: what each rule moves, and what muting it does."""
    by_head = [[[x * (1 + h) for x in moved] for h in range(2)], [[0.0] * 3] * 2]
    score = {"": 0.5, **{r: 0.5 + x for r, x in zip(RULES, score, strict=True)}}
    found = {"moved": by_head, "score": score, "grouping": []}
    return ModelInsight("grouping", "ascender", (0,), (), (found,))


def test_what_was_seen_and_what_to_do():
    (seen, ko), (do, _) = advice([measured((0.001, 0.2, 0.1), (0.0, -0.03, -0.01))], "runs/a0")
    assert seen.startswith("Result: separation moves more attention than the other rules, 15.0% on "
                           "average and 30.0% in layer 0;")  # fmt: skip
    assert "separation −0.0300, cohesion −0.0100" in seen
    assert "분리" in ko
    assert "layer 0 head 1 of runs/a0, where separation moves most" in do
    assert "these rules move less than 2% in every layer: alignment" in do
    assert "--variant no-align" in do
    assert "less than" not in advice([measured((0.1, 0.2, 0.1), (0, 0, 0))], "m")[1][0]


def test_tables_have_the_words_of_their_figures():
    for codes, en, ko in (
        (("align", "coh"), ["alignment", "cohesion"], ["정렬", "응집"]),
        (("z", "neighbours", "states"), ["z", "neighbours", "states"], ["z", "이웃", "상태"]),
        (("sep+align", "base"), ["separation + alignment", "base"], ["분리 + 정렬", "기본 점수"]),
    ):
        cells = [term_cell(code) for code in codes]
        assert [cell.pair for cell in cells] == list(zip(en, ko, strict=True))
        assert [cell.value for cell in cells] == list(codes)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ascender-0", "vanilla-0"], "models of ascender and vanilla; expected seeds of one"),
        (["ascender-0", "--against", "ascender-1"], "--against is ascender like the models"),
        (["ascender-0", "ascender-0"], "models of seeds [0, 0]; expected each seed once"),
        (["ascender-0", "--task", "digits"], "was not trained on digits; expected --task grouping"),
        (["ascender-0", "--lang", "fr"], "unknown lang 'fr'; expected one of en, ko, both"),
        (["ascender-0", "--task", "groping"], "did you mean 'grouping'?"),
        (["no/where/at/all"], "no folder no/where/at/all"),
    ],
)
def test_errors_teach(runs, words, told):
    paths = [str(runs / w) if (runs / w).is_dir() else w for w in words]
    run = CliRunner().invoke(app, ["insight", *paths, "--examples", "2"])
    assert run.exit_code == 1
    assert told in run.output


def test_one_model_alone_is_compared_with_nothing(runs, monkeypatch):
    monkeypatch.setattr(measuring, "SCORED", 3)
    monkeypatch.setattr(Grouping, "examples", 3)
    words = ["insight", str(runs / "vanilla-0"), "--examples", "3"]
    told = CliRunner().invoke(app, words).stdout.splitlines()
    assert told[-2].startswith("Result: true groups of tokens are recovered best from ")
    assert told[-1].startswith("Next: compare it with a model that has rules")
    run = CliRunner().invoke(app, [*words, "--json"])
    assert run.exit_code == 0, run.output
    tables = json.loads(run.stdout)["tables"]
    assert set(tables) == {"grouping"}
    assert not {"difference", "p", "verdict"} & set(tables["grouping"][0])
