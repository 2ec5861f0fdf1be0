"""The schedule of a run: ramps of the rules and auxiliary losses, from `Run` and by option."""

import json
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.core.schedule import Adaptive, Ramp, Schedule
from ascender.train import Run, train
from ascender.train.run import ADDED, key_of
from support.train_cases import rows, run

pytestmark = pytest.mark.usefixtures("few_examples")
SEP = {"start": 2, "length": 4, "to": 0.5}


@pytest.fixture(autouse=True)
def as_users_see_it(monkeypatch):
    """Without the checks of shapes that only tests have: they would refuse wrong types first."""
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)


def test_runs_without_them_keep_their_keys():
    """What was added later counts only where it differs from the default."""
    assert set(ADDED) == {"visible_share", "ramps", "rise"}
    old = {name: value for name, value in asdict(run()).items() if name not in ADDED}
    assert key_of(old) == run().key == run(ramps={}, rise=0.1).key
    assert len({run().key, run(ramps={"sep": SEP}).key, run(rise=0.2).key}) == 3


def test_ramps_change_what_they_name():
    made = run(ramps={"sep": SEP, "losses": {"start": 0.5}}).make_schedule()
    assert made.sep == Ramp(2, 4, "linear", 0.5)
    assert (made.align, made.coh) == (Schedule().align, Schedule().coh)
    assert run(ramps={"losses": {"start": 0.5}}).make_loss_ramp() == Ramp(0.5, shape="constant")
    muted = run(variant="no-sep", ramps={"sep": SEP}).make_schedule()
    assert muted.lam(99, 100)["sep"] == 0.0
    late = run(schedule="constant", ramps={"coh": {"start": 0.25}}).make_schedule()
    assert [late.lam(t, 8)["coh"] for t in (0, 1, 2, 7)] == [0, 0, 1, 1]


def test_training_follows_the_ramps(tmp_path):
    """λ of every step, and the step from which the auxiliary losses are part of the loss."""
    train(run(ramps={"sep": SEP}), tmp_path / "ramp")
    lam = [row["lam"]["sep"] for row in rows(tmp_path / "ramp")]
    assert lam == [0, 0, 0, 0.125, 0.25, 0.375, 0.5, 0.5]
    plain, added = (
        run(losses={"coh": weight}, ramps={"losses": {"start": 5}}) for weight in (0.0, 1.0)
    )
    train(plain, tmp_path / "without")
    train(added, tmp_path / "with")
    a, b = ([row["loss"] for row in rows(tmp_path / name)] for name in ("without", "with"))
    assert a[:5] == b[:5]
    assert abs(a[5] - b[5]) > 1e-3


def test_a_variant_may_have_a_schedule_of_its_own():
    made = run(variant="no-coh+schedule=adaptive", rise=0.5).make_schedule()
    assert isinstance(made, Adaptive)
    assert (made.rise, made.schedule.coh.to) == (0.5, 0.0)
    constant = run(variant="ascender+schedule=constant").make_schedule()
    assert constant.lam(0, 100) == {"align": 1.0, "sep": 1.0, "coh": 1.0}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ramps": {"seq": {}}}, "unknown ramp 'seq'.*'sep'.*losses"),
        ({"ramps": {"sep": {"begin": 0.1}}}, r"ramps\['sep'\] has no option 'begin'.*start"),
        ({"ramps": {"sep": {"start": 1.5}}}, r"ramps\['sep'\]: start = 1.5; expected a fraction"),
        ({"ramps": {"sep": {"start": "late"}}}, r"ramps\['sep'\]: start is 'late'; expected"),
        ({"ramps": {"sep": {"to": "high"}}}, r"ramps\['sep'\]: to = 'high'; expected a number"),
        ({"ramps": {"losses": {"shape": "step"}}}, r"ramps\['losses'\]: unknown shape 'step'"),
        ({"ramps": {"sep": 0.3}}, r"ramps\['sep'\] = 0.3; expected numbers by name"),
        ({"ramps": [0.3]}, r"ramps = \[0.3\]; expected ramps by name"),
        ({"losses": {"coh": "some"}}, r"losses\['coh'\] = 'some'; expected a number ≥ 0"),
        ({"losses": {"coh": -1}}, r"losses\['coh'\] = -1; expected a number ≥ 0"),
        ({"losses": 0.1}, r"losses = 0.1; expected weights by name"),
        ({"rise": 0}, r"rise = 0; expected a number in \(0, 1\]"),
        ({"rise": "fast"}, r"rise = 'fast'; expected a number"),
        ({"variant": "ascender+schedule=adaptve"}, "unknown schedule 'adaptve'.*adaptive"),
        ({"variant": "ascender+schedule=constant", "schedule": "adaptive"}, "expected one of the"),
    ],
)
def test_a_wrong_schedule_is_named(given, words):
    with pytest.raises((ValueError, TypeError), match=f"(?s){words}"):
        run(**given)


def test_the_options_of_the_command(tmp_path):
    words = ["train", "--task", "distinct", "--out", str(tmp_path / "a"), "--steps", "2"]
    words += ["--hidden", "8", "--layers", "1", "--heads", "2", "--batch", "2", "--every", "2"]
    ramps = {"sep": {"start": 1, "shape": "constant"}, "losses": {"start": 0.25}}
    done = CliRunner().invoke(app, [*words, "--ramps", json.dumps(ramps), "--rise", "0.2"])
    assert done.exit_code == 0, done.output
    saved = json.loads((tmp_path / "a" / "run.json").read_text())["run"]
    assert (saved["ramps"], saved["rise"]) == (ramps, 0.2)
    assert Run(**saved).make_schedule().sep == Ramp(1, 0.02, "constant")
    wrong = CliRunner().invoke(app, [*words, "--ramps", '{"sep": {"start": 7.5}}'])
    assert wrong.exit_code != 0
    assert "start = 7.5" in str(wrong.exception) + wrong.output
