"""The command: help, tables, JSON, errors that name the value."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

import ascender
from ascender import demo
from ascender.cli import app

COMMANDS = [
    [],
    ["demo"],
    ["doctor"],
    ["insight"],
    ["view"],
    ["limits"],
    ["paper"],
    ["bench"],
    ["bench", "attention"],
    ["bench", "layer"],
    ["bench", "model"],
    ["bench", "choose"],
    ["bench", "import"],
    ["bench", "report"],
    ["bench", "variants"],
]


@pytest.fixture(autouse=True)
def _threads():
    """The benchmarks set their own number."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: ascender {' '.join(command)}".strip() in result.stdout


def test_version():
    assert run("--version").stdout == f"ascender {ascender.__version__}\n"


def test_demo_prints_the_row_and_writes_both_files(tmp_path):
    out = tmp_path / "new" / "folder"
    result = run("demo", "--out", out)
    assert result.exit_code == 0
    for token in demo.TOKENS:
        assert token in result.stdout
    for word in ("base", "alignment", "separation", "cohesion", "total", "weights"):
        assert word in result.stdout
    assert sorted(p.name for p in out.iterdir()) == ["scores.png", "scores.svg"]  # no leftovers
    assert (out / "scores.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "scores.svg").read_text()
    assert f"wrote {out / 'scores.png'}" in result.stdout


@pytest.fixture
def _undrawn(monkeypatch):
    monkeypatch.setattr(demo, "draw", lambda example, lang: lang)
    monkeypatch.setattr(demo, "save", lambda figure, folder: [folder / f"{figure}.png"])


@pytest.mark.usefixtures("_undrawn")
def test_demo_json_is_json_alone(tmp_path):
    result = run("demo", "--out", tmp_path, "--lang", "both", "--json")
    found = json.loads(result.stdout)
    assert found["query"] == "gulls"
    for record in found["row"]:
        total = sum(record[name] for name in demo.TERMS)
        assert record["total"] == pytest.approx(total)
    assert sum(record["weight"] for record in found["row"]) == pytest.approx(1)


@pytest.mark.usefixtures("_undrawn")
def test_demo_in_korean_without_a_font(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "korean_font", lambda: None)
    result = run("demo", "--out", tmp_path, "--lang", "ko")
    assert "정렬" in result.stdout
    assert "alignment" not in result.stdout
    assert "no Korean font" in result.stderr
    assert "en.png" in result.stdout  # the figure alone falls back


def test_a_line_a_task():
    from ascender.tasks import TASKS

    lines = run("list", "tasks").stdout.splitlines()
    assert max(map(len, lines)) <= 110
    assert len(lines) == len(TASKS) + 5  # title, heading and rules
    for name in TASKS:
        (line,) = [line for line in lines if line.startswith(f"│ {name} ")]
        assert TASKS[name][1] in line
        assert "…" not in line


@pytest.mark.parametrize("what", ["attentions", "positions", "normalizers"])
def test_lists_have_a_sentence_of_each(what):
    found = json.loads(run("list", what, "--json").stdout)
    for row in found.values():
        assert row["what"]
        assert len(row["what"]) < 250
        assert "  " not in row["what"]


def test_a_sentence_ends_where_it_ends():
    from ascender.cli.lists import _first

    class Question:
        """Which one? Of two.

        one  the first
        """

    class Heading:
        """All of them

        one  the first. two  the second
        """

    assert (_first(Question), _first(Heading)) == ("Which one?", "All of them")


def test_each_rule_lowers_its_own_token():
    """What the caption claims."""
    by_key = {record["key"]: record for record in demo.decomposed(demo.five_tokens())}
    for rule, token in (("align", "turned"), ("sep", "seagulls"), ("coh", "yesterday")):
        assert min(by_key, key=lambda key: by_key[key][rule]) == token
        assert by_key[token][rule] < 0
        assert by_key[token]["weight"] < by_key[token]["plain"]


def test_both_languages_have_every_caption():
    assert demo.caption("both", "align") == "alignment · 정렬"


def test_pictures_are_the_same_every_time(tmp_path):
    first, again = (demo.save(demo.draw(demo.five_tokens()), tmp_path / n) for n in ("a", "b"))
    assert [p.read_bytes() for p in first] == [p.read_bytes() for p in again]


def test_bench_attention_tables():
    result = run("bench", "attention", "--lengths", "24,40", "--repeats", 1, "--no-memory")
    assert result.exit_code == 0
    for text in ("Time, forward: × stock", "N = 40", "decode, one query", "FLOPs, forward"):
        assert text in result.stdout
    assert "timing training, N = 40" in result.stderr


def test_bench_json():
    args = ("--lengths", 24, "--repeats", 1, "--causal", "--no-memory", "--json")
    result = run("bench", "attention", *args)
    found = json.loads(result.stdout)
    assert found["causal"] is True
    assert found["machine"]["threads"] == 1
    assert {"candidate", "n", "work", "ms", "ratio", "gflop", "skipped"} <= found["rows"][0].keys()


def test_bench_layer():
    result = run("bench", "layer", "--lengths", 5, "--repeats", 1, "--no-memory")
    assert result.exit_code == 0
    assert "shared geometry, QK-norm" in result.stdout


def test_bench_model(monkeypatch):
    from ascender.bench import model, studies

    one = {"model_vanilla": model.MODELS["model_vanilla"]}
    study = dataclasses.replace(studies.STUDIES["model"], candidates=one)
    monkeypatch.setitem(studies.STUDIES, "model", study)
    monkeypatch.setattr(model, "NEW", 2)
    args = ("bench", "model", "--lengths", 5, "--repeats", 1, "--work", "decode", "--no-memory")
    assert "Generation, tokens a second" in " ".join(run(*args).stdout.split())
    (row,) = json.loads(run(*args, "--json").stdout)["rows"]
    assert (row["work"], row["n"], row["speed"]) == ("decode", 5, 1)


def test_bench_choose():
    args = ("bench", "choose", "--lengths", 24, "--repeats", 1, "--no-memory", "--clock", "wall")
    shown = run(*args).stdout
    for text in ("window, forward + backward", "Crossover", "auto takes", "wall clock"):
        assert text in shown
    rows = json.loads(run(*args, "--json").stdout)["rows"]
    assert {row["kind"] for row in rows} == {"full", "causal", "window"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["demo", "--lang", "fr"], ["fr", "en, ko, both"]),
        (["bench", "attention", "--lengths", "64,many"], ["many", "whole numbers"]),
        (["bench", "attention", "--lengths", "0"], ["'0'", "whole numbers"]),
        (["bench", "attention", "--quick", "--lengths", "64"], ["'64'", "--quick"]),
        (["bench", "layer", "--repeats", "0"], ["'0'", "from 1"]),
        (["bench", "layer", "--threads", "two"], ["'two'", "from 1"]),
        (["bench", "layer", "--clock", "sun"], ["'sun'", "cpu or wall"]),
        (["bench", "model", "--work", "reading"], ["'reading'", "training, decode, generate"]),
        (["bench", "model", "--quick", "--lengths", "64"], ["'64'", "--quick"]),
        (["bench", "attention", "--only", "stock,floc"], ["'floc'", "--only", "'flock'"]),
        (["bench", "nothing"], ["nothing"]),
    ],
)
def test_a_bad_value_is_named(args, words):
    result = run(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
    message = " ".join(result.stderr.replace("│", " ").split())
    for word in words:
        assert word in message


@pytest.mark.parametrize(("absent", "extra"), [("typer", "cli"), ("matplotlib", "figures")])
def test_a_missing_extra_says_what_to_install(absent, extra, tmp_path):
    block = f"import sys; sys.modules['{absent}'] = None; sys.argv = ['ascender', 'demo', '--out', "
    code = f"{block}{str(tmp_path)!r}]; from ascender.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert f'pip install "ascender-attention[{extra}]"' in done.stderr
    assert "Traceback" not in done.stderr
