"""Folders that cannot be written, full disks, and when a traceback is shown."""

import os
import resource
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ascender.cli import app, errors
from ascender.common.files import Damaged, made_of, read_json
from ascender.lab.verdict import DecisionRule
from support.damaged_cases import TRAIN, assert_error, run, truncated, without

FULL = ["train", "--task", "distinct", "--variant", "vanilla", "--batch", "2"]


@pytest.mark.parametrize(
    "args",
    [
        ("demo", "--out", "bench.json"),
        ("demo", "--out", "bench.json/new"),
        ("view", "runs/a0", "--text", "a", "--out", "bench.json/page.html"),
        ("insight", "runs/a0", "--out", "bench.json/new"),
        ("limits", "runs/a0", "--out", "bench.json"),
        ("eval", "runs/a0", "--tasks", "sst2", "--out", "bench.json/new"),
        ("lab", "report", "lab", "--out", "bench.json"),
        ("lab", "show", "quick", "--out", "bench.json"),
        (*TRAIN, "--out", "bench.json"),
        ("bench", "report", "bench.json", "--into", "no.md"),
    ],
    ids=lambda args: " ".join(args[:2]),
)  # fmt: skip
def test_a_place_that_cannot_be_written(folder, args):
    assert_error(args, "no.md" if "no.md" in args else "bench.json")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that root cannot write")
def test_a_folder_that_refuses(folder):
    assert_error(["demo", "--out", "/proc/new/folder"], "/proc/new")


@pytest.fixture
def _full(folder):
    """Files end at 20 kB: what writes more has no room."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("_full")
def test_a_full_disk(folder):
    """Checkpoints are larger than that; safetensors has an error of its own for it."""
    line = assert_error(
        [*FULL, "--steps", "1", "--out", "runs/full"],
        "runs/full",
        "cannot write the checkpoint of step 1",
        "room on the disk",
    )
    assert "expected" in line


@pytest.mark.usefixtures("_full")
def test_a_disk_that_is_full_at_the_end(folder, monkeypatch):
    monkeypatch.setattr("ascender.train.checkpoint.save", lambda *given: None)
    assert_error([*FULL, "--steps", "1", "--out", "runs/full"], "runs/full/model")


def test_a_damaged_checkpoint_is_passed_over(folder):
    args = [*FULL, "--steps", "2", "--save-every", "1"]
    assert run(*args, "--out", "runs/c").exit_code == 0
    (folder / "runs/c/record.json").unlink()
    last = folder / "runs/c/checkpoints/step-00000002"
    for name, damage in (("state.json", without("curve")), ("model.safetensors", truncated)):
        damage(last / name)
        done = run(*args, "--out", "runs/c", "--resume")
        assert done.exit_code == 0, done.stderr
        assert f"step-00000002/{name}" in done.stderr
        assert "resuming from step 1" in done.stderr
        (folder / "runs/c/record.json").unlink()


def test_a_bug_shows_its_traceback(monkeypatch, folder):
    def broken(*given, **more):
        raise KeyError("oops")

    monkeypatch.setattr("ascender.demo.five_tokens", broken)
    assert isinstance(run("demo").exception, KeyError)


@pytest.mark.parametrize("how", ["--traceback", "ASCENDER_DEBUG"])
def test_a_traceback_for_who_asks(how, folder, monkeypatch):
    if how.isupper():
        monkeypatch.setenv(how, "1")
    args = ["--traceback"] if how.startswith("-") else []
    done = CliRunner().invoke(app, [*args, "view", "no/such/place", "--text", "a"])
    assert isinstance(done.exception, FileNotFoundError)


def test_what_counts_as_expected():
    assert errors.message(ValueError("a\n  b")) == "a b"
    assert errors.message(TypeError("k = 'a'; expected an int")) == "k = 'a'; expected an int"
    assert errors.message(TypeError("unsupported operand")) is None
    assert errors.message(KeyError("a")) is None
    assert errors.message(OSError(28, "No space left on device", "a.json")) == (
        "a.json: No space left on device"
    )
    assert "not enough memory" in errors.message(RuntimeError("can't allocate memory: 9 bytes"))


def test_a_field_of_the_wrong_type_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"n": "three", "of": [1, 2]}')
    with pytest.raises(Damaged, match=r"a.json: 'n' is \"three\", not a whole number; expected it"):
        read_json(path, "it", n=int)
    with pytest.raises(Damaged, match=r"a.json: 'm' is missing; expected it"):
        read_json(path, "it", m=int)
    with pytest.raises(Damaged, match=r"a.json.*luck"):
        made_of(DecisionRule, {"luck": 1}, path, "it")
    assert os.listdir(tmp_path) == ["a.json"]
