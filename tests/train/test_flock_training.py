"""Flock scope in training: variants, the visible phase, and keys that stay as they were."""

import json
from dataclasses import asdict

import pytest
import torch

from ascender.core.schedule import Adaptive, Schedule, restore, set_visible_phase
from ascender.hf import AscenderConfig
from ascender.nn.baselines import attention
from ascender.train import Run, loop, train, variant
from ascender.train.run import key_of

SMALL = {"hidden": 24, "layers": 2, "heads": 3, "batch": 6, "options": {"crowd": 11, "most": 5}}


def layers(name):
    run = Run.of("distinct", variant=name, **SMALL)
    return [m for m in run.make_model(run.make_task()).modules() if hasattr(m, "visible_phase")]


def test_variants():
    plain, sized, off, aff, term = (
        layers(name)[0]
        for name in ("flock", "flock+far=4+window=2", "flock+affinity_term=False", "affinity",
                     "ascender+affinity_term=True")
    )  # fmt: skip
    assert (plain.scope, plain.far, plain.affinity, plain.affinity_term) == (
        "flock", 32, "query-key", True,
    )  # fmt: skip
    assert (sized.far, sized.flock_window, sized.window) == (4, 2, None)
    assert not off.affinity_term
    assert (aff.scope, aff.affinity, aff.affinity_term) == ("visible", "query-key", True)
    assert (term.scope, term.affinity, term.affinity_term) == ("visible", "tied", True)
    assert variant("affinity").mute == ("align", "sep", "coh")


def test_layers_share_by_the_name_of_a_variant():
    assert [layer.far_from_below for layer in layers("flock+far=4+share=2")] == [False, True]
    assert [layer.far_from_below for layer in layers("flock+far=4")] == [False, False]
    assert variant("ascender+share=3+k=4").share == 3
    assert variant("shared-neighbours+share=1").share == 1
    for share in ("0", "two", "1.5", ""):
        with pytest.raises(ValueError, match=f"share = {share} in variant .*; expected an int"):
            variant(f"flock+share={share}")
    with pytest.raises(ValueError, match=r"no neighbours; expected one of ascender, shuffled"):
        variant("vanilla+share=2")
    with pytest.raises(ValueError, match=r"share_neighbours = 2 with plain_layers"):
        Run.of("distinct", variant="rules-lower+share=2", **SMALL)


@pytest.mark.parametrize("name", ["vanilla", "longformer", "performer"])
def test_a_scope_where_there_is_none(name):
    said = f"scope = 'flock': {name} attention .* expected one of ascender, shuffled"
    with pytest.raises(ValueError, match=said):
        variant(f"{name}+scope=flock")
    with pytest.raises(ValueError, match=said):
        attention(name, 12, 3, scope="flock")
    with pytest.raises(Exception, match=said):
        AscenderConfig.preset("tiny", attention=name, attention_options={"scope": "flock"})


def test_the_phase_of_a_schedule():
    layer, seen = attention("ascender", 12, 3, scope="flock", far=2), []
    for step in range(10):
        Schedule().apply(layer, step, 10)
        seen.append(layer.visible_phase)
    assert seen == [True] * 3 + [False] * 7
    Schedule(visible_share=1.0).apply(layer, 10, 10)
    assert not layer.visible_phase
    Adaptive().apply(layer, 2, 10)
    assert layer.visible_phase
    assert not Schedule.constant().visible_phase(0, 10)
    visible = attention("ascender", 12, 3)
    set_visible_phase(visible, True)
    assert not visible.visible_phase


@pytest.mark.parametrize("share", [-0.1, 1.1, True, float("nan")])
def test_wrong_shares(share):
    with pytest.raises(ValueError, match=r"visible_share = .*; expected"):
        Schedule(visible_share=share)
    with pytest.raises(ValueError, match=r"visible_share = .*; expected"):
        Run.of("distinct", visible_share=share)


def test_states():
    for plan in (Schedule(visible_share=0.5), Adaptive(Schedule(visible_share=0.5))):
        assert restore(json.loads(json.dumps(plan.state_dict()))) == plan
    old = Schedule.constant().state_dict()
    del old["visible_share"]
    Schedule.constant().load_state_dict(old)
    with pytest.raises(ValueError, match="the state is of"):
        Schedule().load_state_dict(Schedule(visible_share=0.5).state_dict())


def test_keys_of_stored_runs_stay():
    run = Run.of("distinct", **SMALL)
    before = {name: value for name, value in asdict(run).items() if name != "visible_share"}
    assert run.key == key_of(before)
    assert Run(**before).key == run.key
    assert Run.of("distinct", **SMALL, visible_share=0.5).key != run.key


@pytest.mark.parametrize("name", ["flock+far=2+window=1", "flock+far=2+window=1+share=2"])
def test_training_attends_to_all_first_and_validates_flocks(name, tmp_path, monkeypatch):
    monkeypatch.setattr("ascender.tasks.distinct.Distinct.examples", 7)
    seen, judged = [], []
    one, evaluate = loop.Trainer._loss, loop.evaluate

    def phase(model):
        (found,) = {m.flock_only for m in model.modules() if hasattr(m, "flock_only")}
        return found

    def step(self, *args):
        seen.append(phase(self.plain))
        return one(self, *args)

    def judge(model, *args):
        judged.append(phase(model))
        return evaluate(model, *args)

    monkeypatch.setattr(loop.Trainer, "_loss", step)
    monkeypatch.setattr(loop, "evaluate", judge)
    run = Run.of("distinct", variant=name, **SMALL, steps=6, every=1,
                 visible_share=0.5)  # fmt: skip
    record = train(run, tmp_path / "run")
    assert seen == [False] * 3 + [True] * 3
    assert all(judged)
    assert torch.isfinite(torch.tensor(record["test"]["loss"]))
