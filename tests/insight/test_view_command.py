"""ascender view: the command, its errors, and inputs that do not fit into memory."""

import json
import os

import pytest
import torch
import transformers
from typer.testing import CliRunner

from ascender.cli import app
from ascender.insight import view
from ascender.insight.page import collect as looking
from ascender.insight.page import memory
from ascender.insight.page.inputs import of_text
from ascender.measure import memory as measured
from support.view_cases import TEXT, data_of, model, tokenizer


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200", "TERM": "dumb"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("page") / "boids"
    model().save_pretrained(where)
    tokenizer().save_pretrained(where)
    return where


def test_the_command(folder, tmp_path):
    page = tmp_path / "page.html"
    done = run("view", folder, "--text", TEXT, "--out", page, "--json")
    assert done.exit_code == 0, done.output
    assert page.stat().st_size == json.loads(done.stdout)["bytes"]
    assert data_of(page.read_text())["models"][0]["name"] == "boids"
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    assert run("view", folder, "--text-file", text, "--out", tmp_path / "b.html").exit_code == 0
    assert (tmp_path / "b.html").read_text() == page.read_text()


def test_two_models_side_by_side(folder, tmp_path):
    page = tmp_path / "two.html"
    done = run("view", "--compare", folder, folder, "--text", "a flock", "--out", page)
    assert done.exit_code == 0, done.output
    read = data_of(page.read_text())
    assert [m["name"] for m in read["models"]] == ["boids (A)", "boids (B)"]
    assert len(read["blobs"]) == len(data_of(view(model(), tokenizer(), "a flock").html)["blobs"])


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["--text", " "], "text = ' '; expected at least one word"),
        ([], "nothing for boids to read; expected --text, --text-file or --task"),
        (["--text", "a", "--task", "digits"], "both --text and --task"),
        (["--text", "a", "--text-file", "b"], "both --text and --text-file"),
        (["--text-file", "nowhere.txt"], "nowhere.txt"),
        (["--text", "a", "--lang", "de"], "unknown lang 'de'; expected one of en, ko"),
        (["--text", "a", "--compare"], "1 models; expected two models with --compare"),
        (["--text", "a", "--adapter", "nowhere"], "no swarm.json in nowhere"),
        (["--task", "distinct"], "boids has vocab_size = 259 and distinct 1; expected a task"),
    ],
)
def test_errors_name_the_value(folder, tmp_path, args, error):
    done = run("view", folder, *args, "--out", tmp_path / "page.html")
    assert done.exit_code == 1
    assert error in done.output
    assert not (tmp_path / "page.html").exists()


def test_a_folder_without_a_model(tmp_path):
    done = run("view", tmp_path, "--text", "a", "--out", tmp_path / "page.html")
    assert done.exit_code == 1
    assert "no config.json in" in done.output


def test_a_file_that_is_no_text(folder, tmp_path):
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    done = run("view", folder, "--text-file", tmp_path / "picture")
    assert "is no UTF-8 text" in done.output


def test_a_model_that_reads_no_text():
    with pytest.raises(ValueError, match=r"has no tokenizer.*--task NAME --example I"):
        of_text(model(), None, "a")
    with pytest.raises(ValueError, match="max_tokens = 1; expected at least 2"):
        view(model(), tokenizer(), "a", max_tokens=1)


# Memory


def free(monkeypatch, gigabytes):
    monkeypatch.setattr(memory, "free_memory", lambda device: int(gigabytes * 1e9))


def passes(monkeypatch):
    """Fails where the work begins."""

    def begun(*args):
        raise AssertionError("the pass has begun")

    monkeypatch.setattr(looking, "passing", begun)


def test_more_tokens_than_memory_holds_are_refused_before_the_work(monkeypatch):
    free(monkeypatch, 23)
    passes(monkeypatch)
    error = (
        r"m: 16000 tokens; every term of 2 heads takes about 46\.1 GB, and 23\.0 GB are free; "
        r"expected at most 11300 tokens here: .*--first 11300, first=11300"
    )
    with pytest.raises(ValueError, match=error):
        view(model(), tokenizer(), "x" * 16000, name="m")
    with pytest.raises(AssertionError, match="begun"):  # what it says does fit
        view(model(), tokenizer(), "x" * 16000, first=11300)


def test_more_heads_and_tokens_drawn_than_memory_holds(monkeypatch):
    free(monkeypatch, 0.002)
    passes(monkeypatch)
    with pytest.raises(ValueError, match=r"200 tokens are drawn of 3 layers.*max_tokens"):
        view(model(), tokenizer(), "x" * 200)
    free(monkeypatch, 0.02)
    with pytest.raises(AssertionError, match="begun"):
        view(model(), tokenizer(), "x" * 200)


def test_what_is_free_is_known_where_the_kernel_says_it(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "MACHINE", tmp_path / "meminfo")
    monkeypatch.setattr(measured, "CONTAINER", tmp_path)
    here = torch.device("cpu")
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert memory.free_memory(here) == physical, "where the kernel says nothing"
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:  7 kB\n")
    assert memory.free_memory(here) == 7 * 1024
    (tmp_path / "memory.max").write_text("5000\n")
    (tmp_path / "memory.current").write_text("2000\n")
    assert memory.free_memory(here) == 3000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory(here) == 7 * 1024


def test_the_command_says_what_would_fit(folder, tmp_path, monkeypatch):
    free(monkeypatch, 0.007)
    text = ["--text", "a longer text of boids " * 9, "--out", tmp_path / "page.html"]
    done = run("view", folder, *text)
    assert done.exit_code == 1
    assert "207 tokens; every term of 2 heads takes about" in done.output
    assert not (tmp_path / "page.html").exists()
    free(monkeypatch, 1)
    assert run("view", folder, *text, "--first", 5).exit_code == 0
    page = data_of((tmp_path / "page.html").read_text())["models"][0]
    assert page["tokens"] == list("a lon")
    assert page["remarks"] == [["first", {"kept": 5, "of": 207}]]
    done = run("view", folder, "--task", "distinct", "--first", 5)
    assert "--first 5 without a text; expected --text or --text-file" in done.output


def test_a_text_longer_than_the_places_is_cut_and_says_so():
    config = transformers.BertConfig(
        vocab_size=259, hidden_size=22, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=31, max_position_embeddings=7,
    )  # fmt: skip
    bert = transformers.BertModel(config).eval()
    page = data_of(view(bert, tokenizer(), "a longer text").html)["models"][0]
    assert page["of"] == 7
    assert page["remarks"][0] == ["cut", {"kept": 7, "of": 13}]
