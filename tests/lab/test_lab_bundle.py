"""Suites together: trials shared, costs measured, a margin kept to, pages that lead to each."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import submitit
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

from ascender.cli import app
from ascender.common.files import write
from ascender.lab import Bundle, Costs, Suite, grid
from ascender.lab import bundle as bundles
from ascender.lab import costs as measured
from ascender.lab import plan as planning
from ascender.lab.engine import Slurm
from ascender.lab.reports import SuiteResults, bundle_report, read
from ascender.lab.reports.source import raw
from ascender.lab.reports.suite_report import suite_page
from ascender.lab.reports.tables import costs, table
from ascender.lab.store import Store, as_json
from ascender.lab.suite import suite
from ascender.lab.trial import trial
from ascender.measure.flops import count
from ascender.measure.timing import TimingPlan
from ascender.report.table import as_csv, markdown
from ascender.tasks.distinct import Distinct
from support import lab_cases as cases

ROOT = Path(__file__).resolve().parents[2]
SIZE = {"hidden": 16, "layers": 1, "heads": 2, "steps": 2, "batch": 2, "every": 2}
ONCE = TimingPlan(repeats=1, at_least=0.0, at_most=30.0)


def test_every_suite_of_the_paper_is_there():
    paper = suite("paper")
    assert isinstance(paper, Bundle)
    assert {"accuracy", "efficiency", "compatibility", "ablation", "length"} <= set(paper.suites)
    made = paper.load_suites()
    assert [one.name for one in made] == list(paper.suites)
    assert all(one.claim_ko for one in made)


def test_suites_of_a_bundle_share_their_trials(tmp_path, monkeypatch):
    runs = grid({"distinct": SIZE}, variants=["vanilla", "ascender"], seeds=1)
    two = {
        "a": Suite("a", "One.", runs[:1]),
        "b": Suite("b", "Both.", runs),
    }
    monkeypatch.setattr(bundles, "suite", two.__getitem__)
    found = bundles.places(Bundle("both", "All.", ("a", "b")), tmp_path)
    assert [(s.name, folder.name) for s, folder in found] == [("a", "a"), ("b", "b")]
    stores = [folder for _, folder in found]
    (stores[0] / "trials" / "key").mkdir()
    assert (stores[1] / "trials" / "key").is_dir()
    assert not (stores[1] / "trials").readlink().is_absolute(), "the folder could not be moved"
    single = bundles.places(two["b"], tmp_path / "alone")
    assert single == [(two["b"], tmp_path / "alone")]
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "suite.json").write_text("{}")
    with pytest.raises(ValueError, match="has a single suite; expected a new folder"):
        bundles.places(Bundle("both", "All.", ("a", "b")), tmp_path / "alone")


@pytest.mark.slow
def test_a_bundle_is_run_and_reported(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(
            "from ascender.lab import Suite, grid\n"
            f"SUITE = Suite('{name}', 'Claim of {name}.', grid({{'distinct': {{**{SIZE}, "
            "'options': {'crowd': 13, 'most': 5}}}, ['vanilla', 'ascender'], 2))\n"
        )
    (tmp_path / "all.py").write_text(
        "from pathlib import Path\nfrom ascender.lab import Bundle\n"
        "here = Path(__file__).parent\n"
        "SUITE = Bundle('all', 'Everything.', tuple(str(here / n) for n in ('one.py', 'two.py')))\n"
    )
    out = tmp_path / "out"
    run = CliRunner().invoke(
        app, ["lab", "run", str(tmp_path / "all.py"), "--out", str(out), "--seeds", "1",
              "--workers", "1"],
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    records = list((out / "trials").glob("*/record.json"))
    assert len(records) == 2, "the second suite runs nothing again"
    assert "Claim of one" in run.output
    assert "Claim of two" in run.output
    rows = CliRunner().invoke(
        app, ["lab", "show", str(tmp_path / "all.py"), "--out", str(out), "--seeds", "1", "--json"]
    )
    assert {name: len(cells) for name, cells in json.loads(rows.stdout).items()} == {
        "one": 2, "two": 2,
    }  # fmt: skip
    shown = CliRunner().invoke(app, ["lab", "report", str(out)])
    assert shown.exit_code == 0, shown.output
    page = (out / "report" / "index.html").read_text()
    for name in ("one", "two"):
        assert f'href="./{name}/index.html"' in page
        assert (out / "report" / name / "index.html").exists()
        assert (out / "report" / name / "trials.jsonl.gz").exists()


def test_nothing_to_report_is_said(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        cases.store(tmp_path / name, [], name=name)
    with pytest.raises(ValueError, match="no finished trial in"):
        bundle_report(tmp_path, tmp_path / "report")


def test_costs_are_counted_on_what_runs(tmp_path):
    order = Costs(("vanilla", "ascender+window=8"), (512, 1024), hidden=16, heads=2)
    rows = measured.measure(order, plan=ONCE, memory=False)
    assert [(r.variant, r.n) for r in rows] == [(v, n) for n in (512, 1024) for v in order.variants]
    vanilla = [r for r in rows if r.variant == "vanilla"]
    x = torch.zeros(1, 2, 1024, 8)
    attention = count(lambda: F.scaled_dot_product_attention(x, x, x))
    assert vanilla[1].flops == attention + 4 * 2 * 1024 * 16 * 16
    window = [r.flops for r in rows if r.variant != "vanilla"]
    assert window[1] < 2.5 * window[0], "linear in the length"
    assert vanilla[1].flops > 3 * vanilla[0].flops
    assert all(r.forward_ms > 0 and r.training_ms > 0 for r in rows)
    measured.keep(tmp_path, order, rows)
    assert measured.read(tmp_path)[0] == rows
    assert not measured.wanted(tmp_path, order)
    assert measured.wanted(tmp_path, replace(order, lengths=(64,)))
    assert not measured.wanted(tmp_path, None)
    with pytest.raises(ValueError, match="at least one variant and one length"):
        Costs((), (64,))
    with pytest.raises(ValueError, match="unknown variant 'vanila'"):
        Costs(("vanila",))


@pytest.mark.slow
def test_memory_is_of_a_process_of_its_own():
    order = Costs(("vanilla",), (512,), hidden=16, heads=2)
    MB = measured._memory("vanilla", 512, order, lambda line: None)
    assert 0.1 < MB < 200


def test_a_margin_and_costs_are_in_the_report(tmp_path):
    made = [
        cases.record("distinct", v, s, gain=g)
        for s in range(5)
        for v, g in (
            ("vanilla", 0.0),
            ("ascender", -0.002),
            ("only-coh", -0.2),
            ("only-sep", -0.06),
        )
    ]
    rule = {"higher": True, "alpha": 0.05, "smallest": 0.0, "margin": 0.06}
    folder = cases.store(tmp_path / "lab", made, rule=rule)
    order = Costs(("vanilla", "ascender"), (64,))
    rows = [measured.Cost("vanilla", 64, 100, 2.0, 4.0, 10.0),
            measured.Cost("ascender", 64, 150, 3.0, 8.0, None)]  # fmt: skip
    measured.keep(folder, order, rows)
    study = SuiteResults.of(read(folder), 50)
    margins = table("inferiority", study)
    verdicts = {row[1].text: row[5].text for row in margins.rows}
    assert verdicts == {"ascender": "not inferior", "only-coh": "inferior", "only-sep": "unproven"}
    ratios = {row[1].text: row[6].data[""] for row in margins.rows}
    assert ratios["ascender"] == pytest.approx(3.4 / 2.1)
    ascender = next(row for row in costs(study).rows if row[0].text == "ascender")
    assert [cell.text for cell in ascender[2:]] == [
        "150 (1.50×)", "3 (1.50×)", "8k (0.50×)", "–",
    ]  # fmt: skip
    for name, text in raw(study.source).items():
        write(tmp_path / "rows" / name, text)
    again = SuiteResults.of(read(tmp_path / "rows"), 50)
    assert as_csv(table("inferiority", again)) == as_csv(margins)
    assert as_csv(costs(again)) == as_csv(costs(study))
    assert "| not inferior |" in markdown(margins, "en")
    assert "| 비열등 |" in markdown(margins, "ko")
    no_margin = cases.store(tmp_path / "none", made)
    assert table("inferiority", SuiteResults.of(read(no_margin), 50)).rows == ()


def test_slurm_is_told_what_sbatch_is(tmp_path):
    from ascender.cli.lab import _setting
    from ascender.lab.runner import _engine

    assert _setting("partition=cpu") == ("partition", "cpu")
    assert _setting("timeout_min=30") == ("timeout_min", 30)
    options = {"account": "me", "timeout_min": 30}
    assert _engine("slurm", 3, None, options).options == {"slurm_account": "me", "timeout_min": 30}
    for wrong, expected in (("partition", "expected NAME=VALUE"), ("=x", "expected NAME=VALUE")):
        with pytest.raises(ValueError, match=expected):
            _setting(wrong)
    with pytest.raises(ValueError, match="expected --engine slurm"):
        _engine("local", None, None, options)


def test_a_budget_is_of_all_suites_together(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(planning.time, "monotonic", lambda: now[0])
    budget = planning.Budget.of("1m")
    assert (budget.text, budget.left) == ("1m", 60.0)
    now[0] += 45
    assert budget.left == 15.0, "what the first suite took is gone for the second"
    now[0] += 45
    assert budget.left == 0.0


def test_slurm_keeps_its_options_for_the_next_suite(tmp_path, monkeypatch):
    told = []

    class Executor:
        def __init__(self, *args, **kwargs):
            pass

        def update_parameters(self, **given):
            told.append(given)

        def batch(self):
            return contextlib.nullcontext()

    monkeypatch.setattr(submitit, "AutoExecutor", Executor)
    engine = Slurm(3, timeout_min=30, slurm_account="me")
    for _ in range(2):
        engine.go(Store(tmp_path), [], None, lambda: None)
    assert told == [{"cpus_per_task": 1, "timeout_min": 30, "slurm_array_parallelism": 3,
                     "slurm_account": "me"}] * 2  # fmt: skip


def test_the_raw_rows_of_a_store_say_what_was_ordered(tmp_path):
    order = Costs(("vanilla",), (64,))
    path = measured.keep(tmp_path, order, [measured.Cost("vanilla", 64, 1, 1.0, 1.0, 1.0)])
    sheet = json.loads(path.read_text())
    assert sheet["order"]["lengths"] == [64]
    assert sheet["machine"]["threads"] >= 1


def test_a_variant_can_have_a_baseline_of_its_own(tmp_path):
    gains = {"vanilla": 0.0, "ascender": 0.1, "vanilla+alibi": 0.2, "ascender+alibi": 0.3}
    made = [cases.record("distinct", v, s, gain=g) for s in range(4) for v, g in gains.items()]
    folder = cases.store(tmp_path / "lab", made, against={"ascender+alibi": "vanilla+alibi"})
    study = SuiteResults.of(read(folder), 50)
    judged = {variant: c.baseline for (_, variant), c in study.judged.items()}
    assert judged == {"ascender": "vanilla", "ascender+alibi": "vanilla+alibi"}
    found = {cell.variant: cell for cell in study.conditions}
    assert study.verdict(found["vanilla+alibi"]) == "baseline"
    c = study.judged["distinct", "ascender+alibi"]
    assert c.by_seed.mean == pytest.approx(0.1, abs=0.05)
    text = markdown(table("accuracy", study), "en")
    assert "| against |" in text
    assert "vanilla+alibi" in text
    shown = suite_page(study, [], [], [], [], "en")
    assert "Each against its own baseline" in shown
    assert "Against vanilla" not in shown
    runs = grid({"distinct": SIZE}, variants=["vanilla", "ascender"], seeds=1)
    with pytest.raises(ValueError, match="compares 'vanila'; expected one of its variants"):
        Suite("a", "One.", runs, against={"ascender": "vanila"})


def test_a_trial_of_another_suite_is_measured_later(tmp_path, monkeypatch):
    """A bundle's suites share trials: one that was trained for a suite without insight is not
    trained again, only looked at."""
    monkeypatch.setattr(Distinct, "examples", 20)
    runs = grid({"distinct": {**SIZE, "options": {"crowd": 13, "most": 5}}}, ["ascender"], 1)
    plain, asks = (Suite(name, "Claim.", runs, insight=name == "b") for name in ("a", "b"))
    store = Store(tmp_path / "a")
    store.open(plain)
    assert trial(str(tmp_path / "a"), as_json(runs[0]))["state"] == "done"
    before = store.record(runs[0].key)
    assert "insight" not in before
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "trials").symlink_to(Path("..") / "a" / "trials")
    later = Store(tmp_path / "b")
    later.open(asks)
    assert not later.done(runs[0].key)
    assert later.open_trials(asks) == list(runs)
    assert trial(str(tmp_path / "b"), as_json(runs[0]))["state"] == "done"
    after = later.record(runs[0].key)
    assert after["insight"]["share"]
    assert {name: value for name, value in after.items() if name != "insight"} == before
    assert Store(tmp_path / "b").done(runs[0].key)


@pytest.mark.slow
def test_showing_a_bundle_writes_nothing(tmp_path):
    shown = CliRunner().invoke(app, ["lab", "show", "paper", "--out", str(tmp_path / "new")])
    assert shown.exit_code == 0, shown.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["run", "show"])
def test_out_that_is_a_file(tmp_path, command):
    (tmp_path / "f").write_text("")
    told = CliRunner().invoke(app, ["lab", command, "paper", "--out", str(tmp_path / "f")])
    assert told.exit_code == 1
    assert "expected a folder" in " ".join(told.output.replace("│", " ").split())
