"""λ and α over training."""

import doctest
import json
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ascender import AscenderAttention
from ascender.core import schedule
from ascender.core.schedule import Adaptive, LossWeights, Ramp, Schedule, restore, set_lam

TOTAL = 1000


def test_the_examples_run():
    done = doctest.testmod(schedule)
    assert done.attempted >= 8
    assert not done.failed


@pytest.mark.parametrize(
    ("ramp", "values"),
    [
        (Ramp(), {0: 1, 7: 1}),
        (Ramp(start=3), {0: 0, 2: 0, 3: 1, 999: 1}),
        (Ramp(0.07), {69: 0, 70: 1}),  # 0.07 · 1000 is a little more than 70
        (Ramp(0.1, 0.2), {99: 0, 100: 0, 101: 1 / 200, 200: 0.5, 300: 1, 999: 1}),
        (Ramp(100, 0.2, to=0.5), {100: 0, 200: 0.25, 300: 0.5}),
        (Ramp(0.1, 200, "constant", to=0.3), {99: 0, 100: 0.3, 999: 0.3}),
        (Ramp(0, 100, "cosine"), {0: 0, 25: (1 - math.sqrt(0.5)) / 2, 50: 0.5, 100: 1}),
        (Ramp(1.0), {999: 0, 1000: 1}),
        (Ramp(1), {0: 0, 1: 1}),  # an int is steps
    ],
)
def test_a_ramp_by_pencil(ramp, values):
    assert {step: ramp.at(step, TOTAL) for step in values} == pytest.approx(values)


ramps = st.builds(
    Ramp,
    start=st.floats(0, 1) | st.integers(0, 1200),
    length=st.floats(0, 1) | st.integers(0, 1200),
    shape=st.sampled_from(["constant", "linear", "cosine"]),
    to=st.floats(0, 1),
)


@given(ramps)
def test_a_ramp_rises_from_exactly_0_to_its_end(ramp):
    values = [ramp.at(step, TOTAL) for step in range(0, 3 * TOTAL, 7)]
    assert all(a <= b for a, b in pairwise(values))
    assert 0 <= values[0] <= values[-1] == ramp.to
    start = ramp.start if isinstance(ramp.start, int) else ramp.start * TOTAL
    if start >= 2:
        assert ramp.at(math.ceil(start) - 2, TOTAL) == 0.0


def test_the_default_is_separation_after_warm_up():
    plan = Schedule.default()
    assert plan.lam(0, TOTAL) == {"align": 0.0, "sep": 0.0, "coh": 0.0}
    assert plan.lam(10, TOTAL) == {"align": 0.5, "sep": 0.0, "coh": 0.5}
    assert plan.lam(150, TOTAL) == {"align": 1.0, "sep": 0.0, "coh": 1.0}
    assert plan.lam(160, TOTAL) == pytest.approx({"align": 1.0, "sep": 0.5, "coh": 1.0})
    assert plan.lam(999, TOTAL) == {"align": 1.0, "sep": 1.0, "coh": 1.0}
    assert Schedule.constant(sep=0.0).lam(0, 1) == {"align": 1.0, "sep": 0.0, "coh": 1.0}


def model():
    torch.manual_seed(0)
    return nn.Sequential(*(AscenderAttention(6, 2, k=2) for _ in range(3)), nn.Linear(6, 6))


def test_apply_reaches_every_layer_and_off_is_inactive():
    net, x = model(), torch.randn(2, 7, 6)
    free = net(x)
    lam = Schedule.default().apply(net, 160, TOTAL)
    for layer in net[:3]:
        assert lam == {r: getattr(layer, f"lam_{r}") for r in ("align", "sep", "coh")}
        assert layer.rules().active("sep")
    assert Schedule.default().apply(net, 149, TOTAL)["sep"] == 0
    assert not any(layer.rules().active("sep") for layer in net[:3])
    assert all(layer.rules().active("coh") for layer in net[:3])
    assert not torch.allclose(net(x), free, atol=1e-6), "λ is felt"
    Schedule.constant().apply(net, 0, 1)
    assert torch.equal(net(x), free)


def test_a_model_without_rules_is_left_alone():
    plain = nn.Sequential(nn.Linear(3, 5))
    assert Schedule.default().apply(plain, 5, TOTAL)["coh"] == 0.25
    assert set(vars(plain)) == set(vars(nn.Sequential(nn.Linear(3, 5))))


# Task-adaptive.


def losses(n):
    """A validation loss that falls, stalls, rises, and falls again."""
    return [3 - 0.02 * t + (0.6 if 20 <= t < 35 else 0) for t in range(n)]


def run(plan, start, end, every=10):
    """λ_sep of each step, a validation after every tenth."""
    seen = []
    for step in range(start, end):
        seen.append(plan.lam(step, TOTAL)["sep"])
        if step % every == every - 1:
            plan.report(losses(TOTAL // every)[step // every], step, TOTAL)
    return seen


def test_separation_rises_only_while_the_loss_falls():
    seen = run(Adaptive(Schedule(sep=Ramp(0.15, shape="constant")), rise=0.05), 0, TOTAL)
    assert seen[:160] == [0.0] * 160, "before 15% falls are only remembered"
    assert seen[160] == 0.05
    assert seen[199] < seen[200] == pytest.approx(0.25)
    assert seen[200:360] == [seen[200]] * 160, "it waits until the loss is lower than ever"
    assert seen[360] > seen[359]
    assert max(seen) == seen[-1] == 1.0
    assert all(a <= b for a, b in pairwise(seen))


def test_it_never_gets_ahead_of_its_schedule():
    plan = Adaptive(Schedule(sep=Ramp(0.5, 0.4, to=0.6)), rise=1.0)
    seen = run(plan, 0, TOTAL)
    bound = [plan.schedule.sep.at(step, TOTAL) for step in range(TOTAL)]
    assert all(a <= b for a, b in zip(seen, bound, strict=True))
    assert seen[-1] == 0.6


def test_a_loss_that_is_no_number_says_nothing():
    plan = Adaptive(rise=0.5)
    for loss in (math.nan, math.inf, 2.0, math.nan, -math.inf, 1.0):
        plan.report(loss, 500, TOTAL)
    assert (plan.best, plan.rises) == (1.0, {"align": 1, "sep": 1, "coh": 1})
    plan.report(1.0, 500, TOTAL)
    assert plan.rises["sep"] == 1, "equal is no fall"


def test_every_rule_waits_for_the_task():
    """All three λ rise with the falls of the loss, each from when its own ramp lets it begin."""
    ramps = Schedule(Ramp(0.0), Ramp(0.15, shape="constant"), Ramp(0.3, to=0.2))
    plan, seen = Adaptive(ramps, rise=0.25), []
    for step, loss in ((50, 4.0), (100, 3.0), (200, 2.0), (250, 2.5), (350, 1.0), (400, 0.5)):
        plan.report(loss, step, TOTAL)
        seen.append(tuple(plan.lam(step, TOTAL).values()))
    assert seen == [
        (0, 0, 0), (0.25, 0, 0), (0.5, 0.25, 0), (0.5, 0.25, 0), (0.75, 0.5, 0.2), (1, 0.75, 0.2),
    ]  # fmt: skip
    only = Adaptive(ramps, rules=("sep",))
    assert only.lam(50, TOTAL) == {"align": 1.0, "sep": 0.0, "coh": 0.0}


def test_a_state_of_before_is_of_separation_only():
    old = {**Adaptive(rise=0.25).state_dict(), "best": 1.0, "rises": 2}
    del old["rules"]
    assert restore(old).lam(900, TOTAL) == {"align": 1.0, "sep": 0.5, "coh": 1.0}


# Saved and resumed.


@pytest.mark.parametrize("cut", [1, 149, 165, 333, 505, 999])
def test_resumed_is_undisturbed(cut):
    def fresh():
        return Adaptive(Schedule(sep=Ramp(0.15, 0.1, "cosine")), rise=0.07)

    whole, first = run(fresh(), 0, TOTAL), fresh()
    before = run(first, 0, cut)
    text = json.dumps(first.state_dict(), allow_nan=False)
    after = Adaptive()  # of another kind, until it is loaded
    after.load_state_dict(json.loads(text))
    assert before + run(after, cut, TOTAL) == whole
    assert before + run(restore(json.loads(text)), cut, TOTAL) == whole
    if cut > 160:
        assert before + run(fresh(), cut, TOTAL) != whole, "a fresh one has forgotten"


@given(st.builds(Schedule, ramps, ramps, ramps))
def test_a_schedule_survives_json(plan):
    state = json.loads(json.dumps(plan.state_dict()))
    assert restore(state) == plan
    plan.load_state_dict(state)
    assert [type(r.start) for r in (plan.align, plan.sep)] == [
        type(r.start) for r in (restore(state).align, restore(state).sep)
    ]


def test_with_the_training_state(tmp_path):
    plan = Adaptive()
    plan.report(2.0, 200, TOTAL)
    plan.report(1.5, 300, TOTAL)
    torch.save({"step": 301, "schedule": plan.state_dict()}, tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert restore(state["schedule"]) == plan


# α.


def test_losses_are_off_by_default_and_on_after_warm_up():
    assert not LossWeights()
    assert not LossWeights().at(TOTAL, TOTAL)
    weights = LossWeights(align=0.1, sep=0.2, coh=0.3)
    assert weights
    assert not weights.at(149, TOTAL)
    now = weights.at(150, TOTAL)
    assert (now.align, now.sep, now.coh) == (0.1, 0.2, 0.3)
    slow = LossWeights(sep=0.2, when=Ramp(0.5, 0.5)).at(750, TOTAL)
    assert (slow.align, slow.sep, slow.coh) == (0.0, 0.1, 0.0)
    assert slow.at(0, TOTAL) == slow, "what holds at a step is a value of its own"


# Errors teach.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Ramp(shape="step"), "unknown shape 'step'; expected one of constant, linear"),
        (lambda: Ramp(-0.1), r"start = -0.1; expected a fraction in \[0, 1\] or an int"),
        (lambda: Ramp(1.5), r"start = 1.5; expected a fraction"),
        (lambda: Ramp(0.1, -3), r"length = -3; expected"),
        (lambda: Ramp(math.nan), r"start = nan; expected"),
        (lambda: Ramp(to=1.2), r"to = 1.2; expected a number in \[0, 1\]"),
        (lambda: Ramp().at(-1, 5), "step = -1; expected an int ≥ 0"),
        (lambda: Ramp().at(0, 0), "total = 0; expected an int ≥ 1"),
        (lambda: Adaptive(rise=0.0), r"rise = 0.0; expected a number in \(0, 1\]"),
        (lambda: Adaptive(rules=("seq",)), "unknown rule 'seq'"),
        (
            lambda: schedule.changed(Ramp(), "sep", {"start": 2.0}),
            "sep: start = 2.0; expected a fr",
        ),
        (lambda: schedule.changed(Ramp(), "sep", 3), "sep = 3; expected numbers by name"),
        (lambda: restore({"kind": "cosine"}), "unknown kind 'cosine'; expected one of schedule"),
        (lambda: Adaptive().load_state_dict(Schedule().state_dict()), "expected that of an Adap"),
        (lambda: Schedule().load_state_dict(Adaptive().state_dict()), "the state is of Adaptive"),
        (lambda: set_lam(model(), {"sep": 2.0}), r"lam_sep = 2.0; expected a number in \[0, 1\]"),
        (
            lambda: set_lam(model(), {"seq": 1.0}),
            r"unknown rule 'seq' \(did you mean 'sep'\?\); expected one of align",
        ),
        (lambda: LossWeights(sep=-1.0), "sep = -1.0; expected a number ≥ 0"),
        (lambda: LossWeights(coh=math.nan), "coh = nan; expected"),
    ],
)
def test_bad_values(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_start_that_is_no_number():
    with pytest.raises(TypeError, match="start is True; expected a fraction"):
        Ramp(start=True)
