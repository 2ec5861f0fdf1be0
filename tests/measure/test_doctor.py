"""`ascender doctor`: what it reports of this machine, and its advice where something is missing."""

import json
from importlib import metadata

import pytest
import torch
from typer.testing import CliRunner

from ascender.cli import app
from ascender.kernels import build
from ascender.measure import doctor


def run(*args):
    result = CliRunner().invoke(app, ["doctor", *args], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def _another_machine():
    """The kernels are looked for again, before and after."""
    build.kernels.cache_clear()
    yield
    build.kernels.cache_clear()


def lacks(monkeypatch, *packages):
    """A machine without these packages."""
    real = metadata.version

    def version(name):
        if name in packages:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)


def test_the_report_as_json():
    report = json.loads(run("--json"))
    assert report.keys() == {"kernels", "machine", "extras", "advice"}
    assert report["kernels"].keys() == {"native", "why", "without", "compiler", "cache"}
    assert report["machine"].keys() == {
        "python", "torch", "threads", "processor", "ram_gb", "cores", "devices", "triton",
        "browser", "tex",
    }  # fmt: skip
    assert report["kernels"]["native"] is (build.kernels().library is not None)
    assert report["kernels"]["why"] == build.kernels().reason
    assert report["machine"]["torch"] == torch.__version__
    assert report["machine"]["devices"][0] == "cpu"


@pytest.mark.usefixtures("_another_machine")
def test_a_compiler_that_is_missing(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    report = json.loads(run("--json"))
    assert report["kernels"]["native"] is False
    assert report["kernels"]["compiler"] is None
    expected = "native kernels: no C compiler (cc, gcc, clang or $CC); install one, e.g. gcc"
    assert expected in report["advice"]
    build.kernels.cache_clear()
    shown = run()
    assert "torch operators (compact, folded): the same numbers, slower" in shown
    assert expected in shown


@pytest.mark.usefixtures("_another_machine")
def test_kernels_that_are_switched_off(monkeypatch):
    monkeypatch.setenv("ASCENDER_NATIVE", "0")
    report = doctor.doctor()
    assert report["kernels"]["why"] == "ASCENDER_NATIVE=0 turns them off"
    assert "native kernels: ASCENDER_NATIVE=0 turns them off" in report["advice"]


@pytest.mark.usefixtures("_another_machine")
def test_a_cache_folder_that_others_may_write(monkeypatch, tmp_path):
    if build.compiler() is None:
        pytest.skip("no C compiler here")
    tmp_path.chmod(0o777)
    monkeypatch.setenv("ASCENDER_CACHE", str(tmp_path))
    report = doctor.doctor()
    assert report["kernels"]["cache"] == str(tmp_path)
    assert "expected mode 700" in report["advice"][0]


def test_a_package_that_is_missing(monkeypatch):
    extras = {"figures": ["matplotlib"], "lab": ["matplotlib", "scipy"], "hf": ["transformers"]}
    monkeypatch.setattr(doctor, "_extras", lambda: extras)
    lacks(monkeypatch, "matplotlib")
    report = doctor.doctor()
    assert report["extras"] == {
        "figures": ["matplotlib"], "lab": ["matplotlib"], "hf": "installed",
    }  # fmt: skip
    assert 'matplotlib: pip install "ascender-attention[figures]"' in report["advice"]
    assert 'matplotlib: pip install "ascender-attention[lab]"' in report["advice"]
    assert not any("[hf]" in line for line in report["advice"])
    shown = run()
    assert "missing: matplotlib" in shown
    assert 'pip install "ascender-attention[figures]"' in shown


def test_extras_are_those_of_the_package(monkeypatch):
    lines = [
        "torch>=2.8",
        "scipy>=1; extra == 'lab'",
        "ascender-attention[figures]; extra == 'lab'",
        "matplotlib; extra == 'figures'",
        "pytest; extra == 'dev'",
    ]
    monkeypatch.setattr(metadata, "requires", lambda name: lines)
    assert doctor._extras() == {"lab": ["matplotlib", "scipy"], "figures": ["matplotlib"]}


def test_where_nothing_is_missing_there_is_no_advice(monkeypatch):
    if build.kernels().library is None:
        pytest.skip(build.kernels().reason)
    monkeypatch.setattr(doctor, "_extras", lambda: {"core": ["torch"]})
    assert doctor.doctor()["advice"] == []
    assert "native C kernels" in run()
