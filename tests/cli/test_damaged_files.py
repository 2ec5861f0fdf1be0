"""Damaged files: one line that names the file, whatever the command; never a traceback."""

import shutil

import pytest
import torch
from safetensors.torch import load_file

from support.damaged_cases import (
    ANY,
    BYTES_OF,
    OUT,
    RECORDS,
    RUN,
    TRAIN,
    assert_error,
    changed,
    run,
    without,
)

OF_A_MODEL = {
    "view": ("view", "{}", "--text", "boids", "--out", "page.html"),
    "insight": ("insight", "{}", "--task", "pylib", "--examples", "1"),
    "limits": ("limits", "{}", "--lengths", "8", "--batch", "1"),
    "eval": ("eval", "{}", "--tasks", "sst2"),
}  # fmt: skip


def words(command, model):
    return [word.format(model) for word in OF_A_MODEL[command]]


# They read through the same functions: one of them always, the others where time does not matter.
ONE_OF_THEM = [
    pytest.param(command, marks=() if command == "view" else pytest.mark.slow)
    for command in OF_A_MODEL
]


def test_undamaged_they_are_read(folder):
    """Else everything below could be refused for another reason."""
    assert run(*words("view", "runs/a0")).exit_code == 0
    assert run(*words("view", "llama"), "--adapter", "adapter").exit_code == 0
    assert run("lab", "report", "lab", *OUT).exit_code == 0
    assert run("bench", "report", "bench.json").exit_code == 0
    assert run(*TRAIN, "--out", "runs/a0").exit_code == 0


CONFIGS = ANY | {
    "width": changed(hidden_size="wide"),
    "heads": changed(num_attention_heads=0),
    "no type": without("model_type"),
    "other type": changed(model_type="flock"),
    "dtype": changed(dtype="float99"),
    "architectures": changed(architectures=3),
}


@pytest.mark.parametrize("command", ONE_OF_THEM)
@pytest.mark.parametrize("damage", CONFIGS)
@pytest.mark.parametrize("model", ["runs/a0/model", "llama"])
def test_config(folder, command, damage, model):
    CONFIGS[damage](folder / model / "config.json")
    assert "No such" not in assert_error(words(command, model), "config.json")


@pytest.mark.parametrize("command", OF_A_MODEL)
@pytest.mark.parametrize("damage", BYTES_OF)
def test_weights(folder, command, damage):
    BYTES_OF[damage](folder / "runs/a0/model/model.safetensors")
    assert_error(words(command, "runs/a0"), "runs/a0/model/model.safetensors")


@pytest.mark.parametrize("command", OF_A_MODEL)
def test_other_weights(folder, command):
    weights = folder / "llama" / "model.safetensors"
    shutil.copy(folder / "runs/a0/model/model.safetensors", weights)
    changed(hidden_size=24)(folder / "runs/a0/model/config.json")
    assert_error(words(command, "runs/a0"), "runs/a0/model/model.safetensors")
    pickled = folder / "llama" / "pytorch_model.bin"
    torch.save(load_file(weights), pickled)  # whole, and not read all the same
    weights.unlink()
    assert_error(words(command, "llama"), "llama/pytorch_model.bin", "no safetensors")
    pickled.unlink()
    assert_error(words(command, "llama"), "llama", "no model.safetensors")


@pytest.mark.parametrize("command", ONE_OF_THEM)
@pytest.mark.parametrize("damage", ["empty", "no JSON", "no object", "nested"])
@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_tokenizer(folder, command, damage, name):
    ANY[damage](folder / "runs/a0/model" / name)
    assert_error(words(command, "runs/a0"), "runs/a0/model/", name)


OF_RUN = ANY | {
    "no run": without("run"),
    "no seed": without("run", "seed"),
    "no task": without("run", "task"),
    "no variant": without("run", "variant"),
    "a seed in words": changed(run={**RUN, "seed": "zero"}),
    "options in a list": changed(run={**RUN, "options": [1]}),
}

NAMED = OF_RUN | {
    "no such task": changed(run={**RUN, "task": "pylip"}),
    "no such option": changed(run={**RUN, "options": {"depth": 3}}),
    "a bad option": changed(run={**RUN, "options": {"length": "long"}}),
}

LIMITS = [("limits", damage) for damage in OF_RUN]  # which reads a text, whatever the task was


@pytest.mark.parametrize(
    ("command", "damage"), [(c, d) for c in ("view", "insight") for d in NAMED] + LIMITS
)
def test_run_of_a_model(folder, command, damage):
    NAMED[damage](folder / "runs/a0/run.json")
    assert_error([command, "runs/a0"], "runs/a0/run.json")


@pytest.mark.parametrize("damage", [*ANY, "no run", "no key"])
def test_run_to_go_on_with(folder, damage):
    (ANY | {"no run": without("run"), "no key": without("key")})[damage](
        folder / "runs/a0/run.json"
    )
    assert_error([*TRAIN, "--out", "runs/a0"], "runs/a0/run.json")


@pytest.mark.parametrize("damage", RECORDS)
def test_record_of_a_finished_run(folder, damage):
    RECORDS[damage](folder / "runs/a0/record.json")
    assert_error([*TRAIN, "--out", "runs/a0"], "runs/a0/record.json")


SHEETS = ANY | {f"no {key}": without(key) for key in ("version", "family", "sizes", "layers")} | {
    "no rules": without("rules"),
    "layers in words": changed(layers=["first"]),
    "a layer too many": changed(layers=[0, 7]),
    "sizes in a list": changed(sizes=[1]),
    "rules of another kind": changed(rules={"k": "many"}),
    "no such rule": changed(rules={"kay": 2}),
}  # fmt: skip


@pytest.mark.parametrize("command", ONE_OF_THEM)
@pytest.mark.parametrize("damage", SHEETS)
def test_sheet_of_an_adapter(folder, command, damage):
    SHEETS[damage](folder / "adapter/swarm.json")
    assert_error([*words(command, "llama"), "--adapter", "adapter"], "adapter/swarm.json")


@pytest.mark.parametrize("command", OF_A_MODEL)
@pytest.mark.parametrize("damage", BYTES_OF)
def test_weights_of_an_adapter(folder, command, damage):
    BYTES_OF[damage](folder / "adapter/swarm.safetensors")
    assert_error([*words(command, "llama"), "--adapter", "adapter"], "adapter/swarm.safetensors")
