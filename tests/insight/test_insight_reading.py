"""What models may read, padding of decoders, and errors before anything is computed."""

import csv
import sys

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from ascender.cli import app
from ascender.hf import (
    AscenderConfig,
    AscenderForConditionalGeneration,
    AscenderForSequenceClassification,
)
from ascender.hf.tokens import bytes_tokenizer
from ascender.insight import contributions
from ascender.insight.limits import measure
from ascender.insight.loading import Loaded, fed, task_for
from ascender.insight.model_summary import _first
from ascender.insight.page.build import page
from ascender.insight.page.collect import collect_page_data
from ascender.insight.page.inputs import of_text
from ascender.insight.page.pack import Blobs
from ascender.tasks import task

SMALL = {
    "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "initializer_range": 0.5,
    "attention_options": {"omega": 0.7, "k": 3, "d_z": 5, "d_a": 4},
}  # fmt: skip
PAIR = ({"input_ids": [1, 2, 3, 4, 5, 6, 7], "decoder_input_ids": [1, 5, 2, 8, 3]},
        {"input_ids": [4, 4, 9, 1], "decoder_input_ids": [1, 7, 7]})  # fmt: skip


def padded(rows, fill=0):
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])
    return ids, torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in rows])


def translator():
    torch.manual_seed(3)
    config = AscenderConfig(vocab_size=258, decoder_start_token_id=1, pad_token_id=0, **SMALL)
    return AscenderForConditionalGeneration(config).eval()


def together(fill=0):
    ids, mask = padded([p["input_ids"] for p in PAIR], fill)
    later, real = padded([p["decoder_input_ids"] for p in PAIR], fill)
    return {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": later,
            "decoder_attention_mask": real}  # fmt: skip


def test_padding_of_a_decoder_does_not_count():
    model = translator()
    apart = contributions(model, [{n: torch.tensor([t]) for n, t in p.items()} for p in PAIR])
    found = contributions(model, [together()])
    np.testing.assert_allclose(found.moved, apart.moved, atol=1e-6)
    np.testing.assert_allclose(found.share, apart.share, atol=1e-6)
    unmarked = {n: t for n, t in together().items() if n != "decoder_attention_mask"}
    cross = [i for i, name in enumerate(found.names) if "cross" in name]
    counted = contributions(model, [unmarked])
    assert cross
    assert np.abs(counted.moved - apart.moved)[cross].max() > 1e-5


def test_a_task_of_pairs_says_what_is_padding(tmp_path):
    file = tmp_path / "translation" / "train.csv"
    file.parent.mkdir()
    with file.open("w", newline="") as lines:
        pairs = [(f"s{i}", "t" * (i % 5 + 1)) for i in range(40)]
        csv.writer(lines).writerows([("source", "target"), *pairs])
    made = task("translation", data_dir=str(tmp_path), length=16)
    batch = next(made.eval_batches("test", 64))
    mask = fed(made, batch)["decoder_attention_mask"]
    assert mask.shape == batch.inputs["decoder_input_ids"].shape
    assert torch.equal(mask.sum(-1), (batch.labels != -100).sum(-1))
    assert not mask.all()


def test_limits_look_at_no_row_of_padding(monkeypatch):
    torch.manual_seed(0)
    config = AscenderConfig(vocab_size=31, num_labels=3, pad_token_id=0, **SMALL)
    model = AscenderForSequenceClassification(config).eval()
    ids = torch.randint(1, 31, (2, 32))
    mask = (torch.arange(32) < torch.tensor([[32], [11]])).long()

    def numbers(fill):
        told = torch.where(mask.bool(), ids, fill)
        found = measure(model, {32: {"input_ids": told, "attention_mask": mask}}, normalizers=[])
        return [(row.entropy, row.largest, row.separable, row.spectral) for row in found.heads]

    np.testing.assert_allclose(numbers(0), numbers(7), atol=1e-6)
    every = [torch.ones(2, 3, 32, dtype=torch.bool)] * 2
    monkeypatch.setattr(sys.modules["ascender.insight.limits.measure"], "rows_of", lambda _: every)
    assert not np.allclose(numbers(0), numbers(7), atol=1e-3)


def test_a_decoder_as_long_as_its_encoder_is_not_shown():
    """As many tokens on both sides: the matrices of the decoder are not over what was read."""
    model, text = translator(), "boids"
    read = of_text(model, bytes_tokenizer(), text)
    N = read.inputs["input_ids"].shape[1]
    read.inputs["decoder_input_ids"] = torch.arange(1, N + 1)[None]
    blobs = Blobs()
    found = collect_page_data("m", model, bytes_tokenizer(), read, blobs)
    assert [layer["name"].split(".")[-4] for layer in found["layers"]].count("decoder") == 0
    assert len(found["layers"]) == 2
    assert found["outcome"]["kind"] == "states"
    assert all(len(row) == N for row in found["outcome"]["moved"])
    page([found], blobs)


@pytest.mark.parametrize("n", [1, 17, 40])
def test_as_many_examples_as_were_asked_for(n):
    assert sum(len(batch) for batch in _first(task("distinct", crowd=16), n)) == n


def test_a_model_reads_only_what_it_has_embeddings_for():
    config = AscenderConfig(vocab_size=31, num_labels=3, **SMALL)
    loaded = Loaded("m", AscenderForSequenceClassification(config))
    with pytest.raises(ValueError, match="m has vocab_size = 31 and recall 128; expected a task"):
        task_for(loaded, "recall")
    with pytest.raises(ValueError, match="no task is known of m; expected --task"):
        task_for(loaded, None)
    known = Loaded("m", loaded.model, run={"task": "listops", "options": {}})
    with pytest.raises(ValueError, match="expected --task listops, which it was trained on"):
        task_for(known, "distinct")


@pytest.fixture
def reader(tmp_path):
    """A translator and a classifier of vectors, saved."""
    translator().save_pretrained(tmp_path / "pairs")
    config = AscenderConfig(vocab_size=1, vector_size=16, num_labels=12, **SMALL)
    AscenderForSequenceClassification(config).save_pretrained(tmp_path / "crowd")
    (tmp_path / "file").write_bytes(b"\xff\xfe")
    return tmp_path


@pytest.mark.parametrize(("words", "said"), [
    ("limits pairs", "pairs is an encoder–decoder, which reads pairs of texts; expected --task"),
    ("limits pairs --text-file file --task recall", "both --text-file and --task"),
    ("limits crowd --task distinct --lengths 1,8", "length 1; expected at least 2"),
    ("limits crowd --task recall", "crowd has vocab_size = 1 and recall 128"),
    ("limits crowd --text-file file", "crowd has no tokenizer, so it reads no text"),
    ("limits crowd --task distinct --normalizers ,", "unknown normalizer ''"),
    ("limits crowd --out file", "file is a file; expected a folder"),
    ("limits crowd --out file/deep/er", "file is no folder; expected a place for a folder"),
    ("insight crowd --out file", "file is a file; expected a folder"),
    ("insight crowd --task distinct", "crowd was not trained on distinct; expected --task pylib"),
    ("insight crowd --task pylib", "crowd has no tokenizer, so it reads no text"),
    ("view crowd --task recall", "crowd has vocab_size = 1 and recall 128"),
    ("view pairs --text-file file", "file is no UTF-8 text"),
    ("view pairs --text-file gone", "(No such file or directory); expected a text file"),
    ("view pairs --text-file file --task recall", "both --text-file and --task or --example"),
    ("view pairs --text a --out crowd", "crowd is a folder; expected a file"),
    ("view pairs --text a --out file/page.html", "file is no folder; expected a place for a file"),
])  # fmt: skip
def test_errors_are_one_line_and_nothing_is_written(words, said, reader, monkeypatch):
    monkeypatch.chdir(reader)
    before = sorted(reader.rglob("*"))
    run = CliRunner().invoke(app, words.split())
    assert run.exit_code == 1
    assert isinstance(run.exception, SystemExit)
    assert run.output.splitlines()[-1].startswith("error: ")
    assert said in run.output.splitlines()[-1]
    assert sorted(reader.rglob("*")) == before


def test_an_encoder_is_shown_of_a_text(reader, monkeypatch):
    monkeypatch.chdir(reader)
    run = CliRunner().invoke(app, ["view", "pairs", "--text", "boids", "--out", "new/page.html"])
    assert run.exit_code == 0, run.output
    assert (reader / "new" / "page.html").stat().st_size > 1000
