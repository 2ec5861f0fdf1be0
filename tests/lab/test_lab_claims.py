"""Claims: each test says yes, no, and cannot tell where it should."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.lab import Bundle, Claim
from ascender.lab.bundle import claimed, places
from ascender.lab.costs import Cost
from ascender.lab.reports import SuiteResults, bundle_report, fill, read
from ascender.lab.reports.claims import TESTS, claims
from support import lab_cases as cases

DRAWS = 20
LONG_AGO = "2001-01-01T00:00:00Z"


def results_of(tmp_path, gains, tasks=("distinct", "fewshot-digits"), seeds=5, costs=(), **sheet):
    """Of records whose variants are so much better than vanilla, give or take noise by seed."""
    records = []
    for task in tasks:
        for v, gain in {"vanilla": 0.0, **gains}.items():
            for seed in range(seeds):
                own = gain.get(task, 0.0) if isinstance(gain, dict) else gain
                made = cases.record(task, v, seed)
                noise = np.random.default_rng([seed, *map(ord, v)]).normal(0, 0.001)
                made["test"] = {**made["test"], "value": 0.5 + own + noise, "scores": []}
                records.append({**made, "insight": None})
    found = SuiteResults.of(read(cases.store(tmp_path, records, **sheet)), DRAWS)
    return replace(found, source=replace(found.source, costs=costs))


def verdict(test, found, **given):
    said = TESTS[test](found, **given)
    assert said.why
    assert said.why_ko
    return said.verdict


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ({"ascender": 0.1}, "supported"),
        ({"ascender": {"distinct": 0.1}}, "not_supported"),  # half is not most
        ({"ascender": {"distinct": 0.1, "fewshot-digits": -0.1}}, "not_supported"),
        ({"only-align": 0.1}, "not_testable"),
    ],
)
def test_most_tasks_and_none_lost(tmp_path, gains, said):
    assert verdict("wins", results_of(tmp_path, gains)) == said


@pytest.mark.parametrize(
    ("gain", "said"), [(0.1, "supported"), (0.05, "not_supported"), (-0.1, "not_supported")]
)
def test_a_gain_is_a_win_and_large(tmp_path, gain, said):
    assert verdict("gain", results_of(tmp_path, {"ascender": gain}), at_least=0.083) == said


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ({"flock": 0.2, "matched": 0.01}, "supported"),
        ({"flock": 0.2, "matched": 0.15}, "not_supported"),  # one control is too near
        ({"flock": {"distinct": 0.2}, "matched": 0.0}, "supported"),  # some task is enough
        ({"flock": -0.2, "matched": 0.0}, "not_supported"),
        ({"flock": 0.2}, "not_testable"),
    ],
)
def test_a_gain_over_every_control(tmp_path, gains, said):
    given = {"ours": "flock", "controls": ["vanilla", "matched"], "at_least": 0.083}
    assert verdict("gain_over_all", results_of(tmp_path, gains), **given) == said


def test_a_large_difference_that_is_no_win_is_no_gain(tmp_path):
    found = results_of(tmp_path, {"ascender": 0.2}, seeds=1)
    assert verdict("gain", found, at_least=0.083) == "not_supported"


@pytest.mark.parametrize(
    ("control", "said"), [(0.02, "supported"), (0.0999, "not_supported"), (None, "not_testable")]
)
def test_a_control_must_be_beaten_too(tmp_path, control, said):
    gains = {"ascender": 0.1, **({} if control is None else {"matched": control})}
    assert verdict("beats", results_of(tmp_path, gains), control="matched") == said


def test_a_control_where_nothing_was_won_shows_nothing(tmp_path):
    found = results_of(tmp_path, {"ascender": 0.0, "matched": -0.1})
    assert verdict("beats", found, control="matched") == "not_testable"


def reached(record, step):
    curve = [{**point, "value": 0.9 * (point["step"] >= step)} for point in record["curve"]]
    return {**record, "curve": curve}


@pytest.mark.parametrize(
    ("steps", "said", "why"),
    [
        ({"ascender": 40, "vanilla": 80}, "supported", "distinct 2 / 2 (40 / 80)"),
        ({"ascender": 40, "vanilla": 999}, "supported", "distinct 2 / 2 (40 / –)"),
        ({"ascender": 80, "vanilla": 80}, "not_supported", "distinct 0 / 2 (80 / 80)"),
        ({"ascender": 999, "vanilla": 120}, "not_supported", "distinct 0 / 2 (– / 120)"),
        ({"ascender": 999, "vanilla": 999}, "not_testable", "distinct 0 / 2 (– / –)"),
    ],
)
def test_faster_is_faster_on_every_seed(tmp_path, steps, said, why):
    records = [
        reached(cases.record("distinct", v, seed), step)
        for v, step in steps.items()
        for seed in range(2)
    ]
    found = SuiteResults.of(read(cases.store(tmp_path, records, goals={"distinct": 0.8})), DRAWS)
    assert verdict("faster", found) == said
    assert TESTS["faster"](found).why.endswith(f": {why}")


def cost(variant, flops):
    return Cost(variant=variant, n=1024, flops=flops, forward_ms=1.0, training_ms=1.0,
                memory_mb=1.0)  # fmt: skip


@pytest.mark.parametrize(
    ("gain", "flops", "tasks", "said"),
    [
        (0.0, 50, 0.5, "supported"),
        (0.0, None, 0.5, "supported"),  # not measured: the tasks alone
        (0.0, 90, 0.5, "not_supported"),
        (0.0, 50, 0.9, "not_supported"),  # cheaper at a length where quality was not measured
        (-0.05, 50, 0.5, "not_supported"),
        ({"fewshot-digits": -0.05}, 50, 0.5, "not_supported"),  # not on every task
    ],
)
def test_cheaper_is_not_inferior_everywhere_and_saves(
    tmp_path, monkeypatch, gain, flops, tasks, said
):
    ruled = "ascender+window=8"
    monkeypatch.setattr(cases, "FLOPS", {**cases.FLOPS, ruled: tasks * cases.FLOPS["vanilla"]})
    costs = () if flops is None else (cost("vanilla", 100), cost(ruled, flops))
    found = results_of(tmp_path, {ruled: gain}, rule={"margin": 0.01}, costs=costs)
    assert verdict("cheaper", found, saving=0.21) == said


@pytest.mark.parametrize(
    ("alone", "beside", "said"),
    [
        (0.1, 0.1, "supported"),
        (0.1, 0.0, "not_supported"),
        (0.0, 0.1, "not_testable"),
    ],
)
def test_beside_as_alone(tmp_path, alone, beside, said):
    gains = {"ascender": alone, "vanilla+alibi": 0.0, "ascender+alibi": beside}
    found = results_of(tmp_path, gains, against={"ascender+alibi": "vanilla+alibi"})
    assert verdict("beside", found) == said


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ({"no-align": -0.1, "no-sep": -0.1, "no-coh": -0.1}, "supported"),
        ({"no-align": -0.1, "no-sep": 0.0, "no-coh": -0.1}, "not_supported"),
        ({"no-align": -0.1, "no-sep": -0.1}, "not_testable"),
    ],
)
def test_each_rule_counts(tmp_path, without, said):
    found = results_of(tmp_path, {"ascender": 0.0, **without}, baseline="ascender")
    assert verdict("each", found) == said


def grouped(tmp_path, z, attention):
    """Of models whose z and attention find so much more than vanilla's."""
    records = []
    for v in ("vanilla", "ascender"):
        for seed in range(5):
            made = cases.record("distinct", v, seed)
            for g in made["insight"]["grouping"]:
                more = {"z": z, "attention": attention}.get(g["of"], 0.0) * (v == "ascender")
                g["nmi"] = [0.5 + more + 0.001 * ((3 * seed + len(v)) % 5), 0, 1]
            records.append(made)
    return SuiteResults.of(read(cases.store(tmp_path, records, rule={"smallest": 0.01})), DRAWS)


@pytest.mark.parametrize(
    ("z", "attention", "said"),
    [(0.1, 0.0, "supported"), (0.1, -0.1, "not_supported"), (0.0, 0.1, "not_supported")],
)
def test_groups_found_by_z_and_not_lost_by_attention(tmp_path, z, attention, said):
    assert verdict("groups", grouped(tmp_path, z, attention)) == said


@pytest.mark.slow
@pytest.mark.parametrize(("same", "said"), [(True, "supported"), (False, "not_supported")])
def test_roles_are_what_seeds_agree_on(tmp_path, same, said):
    records = []
    for seed in range(5):
        made = cases.record("distinct", "ascender", seed)
        if same:  # the heads of seed 0, in another order
            first = cases.record("distinct", "ascender", 0)["insight"]
            for name in ("share", "moved"):
                rows = first[name]
                made["insight"][name] = [[*row[seed % 3 :], *row[: seed % 3]] for row in rows]
        records.append(made)
    found = SuiteResults.of(read(cases.store(tmp_path, records)), DRAWS)
    assert verdict("roles", found) == said


def test_nothing_measured_cannot_be_told(tmp_path):
    bare = results_of(tmp_path, {"ascender": 0.1})
    assert {verdict(test, bare) for test in ("groups", "roles")} == {"not_testable"}


def bundle(tmp_path):
    """A bundle's folder with one suite that has records, and two claims."""
    results_of(tmp_path / "accuracy", {"ascender": 0.1}, name="accuracy")
    asked = [
        {"text": "It <wins>.", "text_ko": "이긴다.", "suite": "accuracy", "test": "wins"},
        {"text": "It is cheap.", "text_ko": "싸다.", "suite": "missing", "test": "cheaper"},
    ]
    sheet = {"name": "paper", "claims": [{**one, "fixed": LONG_AGO} for one in asked]}
    (tmp_path / "claims.json").write_text(json.dumps(sheet))
    return tmp_path


@pytest.mark.slow
def test_a_bundle_is_reported_with_its_claims(tmp_path):
    out, said = tmp_path / "report", []
    bundle_report(bundle(tmp_path), out, lang="both", draws=DRAWS, say=said.append)
    assert len(said) == 1
    assert said[0].startswith("report 1 of 1: accuracy, ")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "It &lt;wins&gt;." in page
    assert "지지됨" in page
    assert "not run yet" in page
    assert json.loads((out / "claims.json").read_text())["claims"][0]["fixed"] == LONG_AGO
    assert f"| {LONG_AGO[:10]} |" in (table := (out / "tables" / "claims.md").read_text())
    assert "| supported |" in table
    again = bundle_report(out, tmp_path / "again", lang="both", draws=DRAWS)  # from rows alone
    assert (tmp_path / "again" / "index.html").read_text() == page
    assert again[-1].name == "index.html"


def test_a_document_is_filled_from_a_bundle(tmp_path):
    doc = tmp_path / "doc.md"
    marks = ["paper claims", "accuracy summary", "ablation_other_tasks accuracy"]
    doc.write_text("".join(f"<!-- lab: {mark} -->\nold\n<!-- /lab -->\n" for mark in marks))
    ran = CliRunner().invoke(app, ["lab", "report", str(bundle(tmp_path)), "--into", str(doc)])
    assert ran.exit_code == 0, ran.output
    text = doc.read_text(encoding="utf-8")
    assert text.count("old") == 1, "another lab's table is left alone"
    assert "2 won, 0 tied, 0 lost of 2 tasks" in text
    assert "| distinct |" in text
    doc.write_text("<!-- lab: accuracy nonsense -->\n<!-- /lab -->\n")
    with pytest.raises(ValueError, match="accuracy nonsense; expected one of accuracy summary"):
        fill({doc: "en"}, tmp_path, draws=DRAWS)


def test_no_verdict_before_the_runs_are_done(tmp_path):
    found = results_of(tmp_path, {"ascender": 0.1})
    sheet = replace(found.sheet, trials=(*(r["key"] for r in found.records), "later"))
    part = replace(found, source=replace(found.source, sheet=sheet))
    (row,) = claims([Claim("A.", "가.", "x", "wins", fixed=LONG_AGO)], {"x": part}).records()
    assert row["since"].text == LONG_AGO[:10]
    assert row["trials"].text == f"{len(found.records)} / {len(sheet.trials)}"
    assert row["verdict"].value == "unfinished"


def test_claims_are_written_down_once(tmp_path, monkeypatch):
    monkeypatch.setattr(Bundle, "load_suites", lambda self: [])
    first, second = (Claim(x, "가.", "accuracy", "gain", {"at_least": 0.1}) for x in ("A.", "B."))
    one = Bundle("paper", "All.", (), claims=(first,))
    path = tmp_path / "claims.json"
    fixed = lambda: [c["fixed"] for c in json.loads(path.read_text())["claims"]]  # noqa: E731
    places(one, tmp_path)
    (written,) = fixed()
    path.write_text(path.read_text().replace(written, LONG_AGO))
    places(one, tmp_path)
    assert fixed() == [LONG_AGO]
    assert claimed(tmp_path) == ("paper", one.claims)
    places(replace(one, claims=(second, first)), tmp_path)  # another claim does not touch the first
    assert claimed(tmp_path) == ("paper", (second, first))
    assert fixed()[0] > LONG_AGO
    assert fixed()[1] == LONG_AGO
    places(replace(one, claims=(replace(first, given={"at_least": 0.05}),)), tmp_path)
    assert fixed()[0] > LONG_AGO


def test_an_unknown_test_is_named(tmp_path):
    found = results_of(tmp_path, {"ascender": 0.1})
    with pytest.raises(ValueError, match="unknown test 'winz' \\(did you mean 'wins'"):
        claims([Claim("A.", "가.", "x", "winz")], {"x": found})
