"""Where a model is: a folder is looked for before the network, and the Hub is asked once."""

import socket
import time

import pytest
from typer.testing import CliRunner

from ascender.cli import app
from ascender.hf.evaluate import evaluate
from ascender.hf.source import find_model, looks_like_path
from ascender.insight import load

PATHS = ("./a0", "../a0", "/no/such/a0", "runs/a7", "runs/", "~/a0", "a/b/c", "runs/a0/other")


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A folder with runs/a0, and what the network was asked for: nobody answers."""
    (tmp_path / "runs" / "a0").mkdir(parents=True)
    (tmp_path / "runs" / "a0" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    asked = []

    def refuse(host, *rest, **more):
        asked.append(host)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return asked


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_not_asked_of_the_network(calls, path):
    for read in (find_model, load, lambda source: evaluate(source, ["sst2"])):
        with pytest.raises(FileNotFoundError, match=r"expected .* save_pretrained"):
            read(path)
    assert calls == []


def test_the_nearest_folder_is_named(calls):
    with pytest.raises(FileNotFoundError, match=r"no folder runs/ao \(did you mean 'runs/a0'\?\)"):
        find_model("runs/ao")


@pytest.mark.parametrize("name", ["no-such-org/model", "gpt3"])
def test_a_name_is_asked_for_once(calls, name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    begun = time.perf_counter()
    with pytest.raises(OSError, match=f"no model '{name}'.*a name that the Hub has"):
        find_model(name)
    assert time.perf_counter() - begun < 3  # transformers alone asks six times, for half a minute
    assert 1 <= len(calls) <= 2


@pytest.mark.parametrize(
    "command", ["view {} --text a", "insight {}", "limits {}", "eval {} --tasks sst2"]
)
def test_commands_say_so_in_a_line(calls, command):
    done = CliRunner().invoke(app, command.format("runs/a7").split())
    assert done.exit_code == 1
    assert "error: no folder runs/a7" in done.stderr
    assert calls == []


def test_what_is_no_path():
    assert not any(map(looks_like_path, ("gpt2", "org/name", "meta-llama/Llama-3.2-1B")))
