"""`ascender eval`: lm-eval's tasks on our models, from local files. Nothing is downloaded."""

import json
import os
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("lm_eval")

from ascender.cli import app
from ascender.hf import (
    AscenderConfig,
    AscenderForCausalLM,
    AscenderForConditionalGeneration,
    AscenderForMaskedLM,
    squad_metrics,
)
from ascender.hf.evaluate import ALIASES, KNOWN, evaluate, find, resolve
from ascender.hf.local_data import data_from, place
from ascender.hf.tokens import bytes_tokenizer

ROWS = [
    {"asked": "sky", "said": "blue", "label": 1},
    {"asked": "grass", "said": "green", "label": 0},
    {"asked": "snow", "said": "white", "label": 2},
    {"asked": "coal", "said": "black", "label": 3},
    {"asked": "sun", "said": "gold", "label": 4},
]
CHOICES = ["green", "blue", "white", "black", "gold"]
WRITE = """
task: colours_write
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
output_type: generate_until
test_split: test
doc_to_text: "{{{{asked}}}}:"
doc_to_target: "{{{{said}}}}"
generation_kwargs: {{until: ["."], max_gen_toks: 8, do_sample: false}}
filter_list: [{{name: bare, filter: [{{function: remove_whitespace}}, {{function: take_first}}]}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
CHOOSE = """
task: colours_choose
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{asked}}}}:"
doc_to_target: label
doc_to_choice: {choices}
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture(scope="module", autouse=True)
def _offline():
    """An accidental download is an error, not a wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        for module in ("huggingface_hub.constants", "datasets.config"):
            patch.setattr(f"{module}.HF_HUB_OFFLINE", True)
        yield


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """A folder of two tasks of our own."""
    folder = tmp_path_factory.mktemp("tasks")
    lines(folder / "rows.jsonl", ROWS)
    for name, text in (("write", WRITE), ("choose", CHOOSE)):
        filled = text.format(rows=json.dumps(str(folder / "rows.jsonl")), choices=CHOICES)
        (folder / f"{name}.yaml").write_text(filled, encoding="utf-8")
    return folder


def model(seed=0, **fields):
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return AscenderForCausalLM(AscenderConfig(vocab_size=258, **sizes, **fields)).eval()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    model().save_pretrained(folder)  # without a tokenizer
    return folder


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The five rows by heart."""
    pupil, tokenizer = model().train(), bytes_tokenizer()
    texts = [f"{row['asked']}: {row['said']}." for row in ROWS]
    batch = tokenizer(texts, padding=True, padding_side="right", return_tensors="pt")
    labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)
    optimizer = torch.optim.AdamW(pupil.parameters(), lr=0.01)
    for _ in range(120):
        loss = pupil(**{k: batch[k] for k in ("input_ids", "attention_mask")}, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    folder = tmp_path_factory.mktemp("learned")
    pupil.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def scored(rows):
    return {row.task: row for row in rows}


def run(*args):
    return CliRunner().invoke(app, ["eval", *map(str, args)], env={"COLUMNS": "200"})


@pytest.mark.slow
def test_what_was_learned_by_heart_scores_one_and_what_was_not_does_not(colours, learned, fresh):
    tasks, said = ["colours_write", "colours_choose"], []
    known = scored(evaluate(learned, tasks, include_path=colours, say=said.append))
    assert said == []
    assert known["colours_write"].value == known["colours_choose"].value == 1
    assert known["colours_choose"].chance == pytest.approx(1 / len(CHOICES))
    assert known["colours_choose"].n == len(ROWS)
    assert known["colours_write"].chance is None
    new = scored(evaluate(fresh, tasks, include_path=colours, say=said.append, limit=3))
    assert "no tokenizer: reading and writing bytes" in said[0]
    assert new["colours_write"].value == 0
    assert new["colours_choose"].value < 1
    assert new["colours_choose"].n == 3


def by_hand(pupil, row):
    """argmax over choices of Σ log p(byte | all before it), one forward a choice."""
    sums = []
    for choice in CHOICES:
        asked, said = (list(text.encode()) for text in (f"{row['asked']}:", f" {choice}"))
        with torch.no_grad():
            logits = pupil(torch.tensor([asked + said])).logits[0].double()
        logp = logits.log_softmax(-1)
        at = range(len(asked) - 1, len(asked) + len(said) - 1)
        sums.append(sum(logp[i, b].item() for i, b in zip(at, said, strict=True)))
    return max(range(len(CHOICES)), key=sums.__getitem__)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_choice_is_the_likeliest_continuation(colours, seed):
    pupil = model(seed)
    right = sum(by_hand(pupil, row) == row["label"] for row in ROWS)
    found = evaluate(
        pupil, ["colours_choose"], tokenizer=bytes_tokenizer(), include_path=colours, batch_size=4
    )
    assert scored(found)["colours_choose"].value == pytest.approx(right / len(ROWS))


def test_the_command_prints_and_writes_the_same(colours, learned, tmp_path):
    out = tmp_path / "new" / "results.json"
    args = (learned, "--tasks", "colours_choose", "--include-path", colours, "--out", out)
    found = run(*args, "--json")
    assert found.exit_code == 0, found.stderr
    record = json.loads(found.stdout)
    assert record == json.loads(out.read_text(encoding="utf-8"))
    assert record["rows"][0]["value"] == 1
    assert {"lm_eval", "transformers", "torch"} <= record["versions"].keys()
    shown = run(*args)
    assert "colours_choose" in shown.stdout
    assert "0.2" in shown.stdout  # chance


DATA = {  # a row or two as the public data sets have them, written for this test
    "gsm8k/main/train": [{"question": "1 + 1?", "answer": "1 + 1 = 2\n#### 2"}] * 6,
    "gsm8k/main/test": [{"question": "2 + 3?", "answer": "2 + 3 = 5\n#### 5"}] * 2,
    "glue/sst2/train": [{"sentence": "fine", "label": 1, "idx": 0}],
    "glue/sst2/validation": [{"sentence": "dull", "label": 0, "idx": 0}],
    "glue/mrpc/train": [{"sentence1": "a", "sentence2": "b", "label": 0, "idx": 0}],
    "glue/mrpc/test": [{"sentence1": "a", "sentence2": "a", "label": 1, "idx": 0}],
    "super_glue/boolq/train": [{"question": "q", "passage": "p", "idx": 0, "label": 1}],
    "super_glue/boolq/validation": [{"question": "q", "passage": "p", "idx": 0, "label": 0}],
    "hendrycks_math/algebra/train": [
        {"problem": "x + 1 = 2", "level": "1", "type": "Algebra", "solution": "\\boxed{1}"}
    ],
    "hendrycks_math/algebra/test": [
        {"problem": "x = 2 · 3", "level": "1", "type": "Algebra", "solution": "\\boxed{6}"}
    ],
    "LongBench/2wikimqa/test": [{"context": "c", "question": "q", "answers": ["a"]}],
    "lambada_openai/default/test": [{"text": "the gulls turned and rested"}],
    "wikitext_document_level/wikitext-2-raw-v1/train": [{"page": "= A =\n text"}],
    "wikitext_document_level/wikitext-2-raw-v1/validation": [{"page": "= A =\n text"}],
    "wikitext_document_level/wikitext-2-raw-v1/test": [{"page": "more text said plainly"}],
}
FAMILIES = {
    "gsm8k": "exact_match", "sst2": "acc", "mrpc": "f1", "boolq": "acc",
    "hendrycks_math_algebra": "exact_match", "minerva_math_algebra": "math_verify",
    "longbench_2wikimqa": "qa_f1_score", "lambada_openai": "perplexity",
    "wikitext": "bits_per_byte",
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, rows in DATA.items():
        lines(folder / f"{name}.jsonl", rows)
    return folder


@pytest.mark.slow
def test_every_family_from_a_folder(fresh, data):
    said = []
    found = evaluate(
        fresh, list(FAMILIES), data_dir=data, limit=1, fewshot=0, max_length=300, say=said.append
    )
    values = {(row.task, row.metric): row.value for row in found}
    for task, metric in FAMILIES.items():
        assert values[task, metric] >= 0
    bits = values["wikitext", "bits_per_byte"]
    assert bits == pytest.approx(torch.log2(torch.tensor(258.0)).item(), rel=0.05)  # knows nothing
    assert any("mrpc" in text and "test.jsonl stands in" in text for text in said)


def test_a_missing_file_is_named(fresh, data, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"rte: no file .*glue/rte/train.jsonl; expected"):
        evaluate(fresh, ["rte"], data_dir=data)
    rows = [{**row, "label": -1} for row in DATA["glue/mrpc/test"]]
    lines(tmp_path / "glue/mrpc/test.jsonl", rows)  # as the Hub has them: labels kept back
    lines(tmp_path / "glue/mrpc/train.jsonl", DATA["glue/mrpc/train"])
    with pytest.raises(FileNotFoundError, match=r"mrpc: no file .*glue/mrpc/validation.jsonl"):
        evaluate(fresh, ["mrpc"], data_dir=tmp_path)


def test_without_a_network_the_error_says_what_to_bring(fresh):
    found = run(fresh, "--tasks", "sst2", "--json")
    assert found.exit_code == 1
    assert found.stdout == ""
    assert "cannot load nyu-mll/glue (sst2) from the Hub" in found.stderr
    assert "--data-dir DIR with glue/sst2/validation.jsonl" in found.stderr


def test_tasks_that_fetch_for_themselves_are_one_line_too(fresh, monkeypatch):
    """SCROLLS, without a network: httpx's ConnectError, which is no OSError."""

    class ConnectError(Exception):
        pass

    def load(manager, names):
        raise ConnectError("no way out\nof here")

    manager = type(find(["sst2"])[0])
    monkeypatch.setattr(manager, "load", load)
    found = run(fresh, "--tasks", "scrolls_qasper")
    assert found.exit_code == 1
    expected = "error: scrolls_qasper: lm-eval cannot load these (ConnectError: no way out of here)"
    assert found.stderr.strip().splitlines()[-1].startswith(expected)
    assert isinstance(found.exception, SystemExit)


def test_data_from_leaves_no_trace():
    from lm_eval.api.task import ConfigurableTask

    before = ConfigurableTask.download
    with data_from(None, print):
        assert ConfigurableTask.download is not before
    assert ConfigurableTask.download is before


@pytest.mark.parametrize(
    ("path", "name", "folder"),
    [
        ("nyu-mll/glue", "sst2", "glue/sst2"),
        ("openai/gsm8k", "main", "gsm8k/main"),
        ("mine", None, "mine"),
    ],
)
def test_places(path, name, folder):
    assert place(path, name) == Path(folder)


def test_every_name_we_know_is_one_of_lm_evals():
    manager, names = find([*KNOWN, *ALIASES])
    assert {"gsm8k", "glue", "super-glue-lm-eval-v1", "longbench", "wikitext"} <= set(names)
    assert set(names) <= set(manager.all_tasks)
    assert len(names) == len(set(names))  # super_glue and superglue are one


def test_an_unknown_name_gets_the_nearest():
    known = ["sst2", "gsm8k", "gsm8k_cot", "wikitext"]
    with pytest.raises(ValueError, match="unknown task 'gsm9k'; expected one of gsm8k"):
        resolve(["sst2", "gsm9k"], known)
    with pytest.raises(ValueError, match="no tasks; expected some of gsm8k"):
        resolve([], known)


def test_what_cannot_write_is_refused(tmp_path):
    config = AscenderConfig(vocab_size=258, hidden_size=32, num_attention_heads=2)
    AscenderForMaskedLM(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds AscenderForMaskedLM; expected a language model"):
        evaluate(tmp_path, ["sst2"])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--tasks", "gsm8k", "--max-length", "200"], ["max_length = 200", "256 tokens"]),
        (["--tasks", "sst2", "--limit", "0"], ["'0'", "from 1"]),
        (["--tasks", "sst2", "--include-path", "no/such"], ["no folder no/such"]),
        (["--tasks", "gsm8k", "--adapter", "no/such"], ["adapter"]),
        (["--tasks", "sst2", "--device", "gpu"], ["device = 'gpu'; expected cpu, cuda"]),
    ],
)
def test_a_bad_value_is_named(args, words, fresh, data):
    found = run(fresh, *args, "--data-dir", data)
    assert found.exit_code in (1, 2)
    assert found.stdout == ""
    for word in words:
        assert word in " ".join(found.stderr.replace("│", " ").split())


def test_no_model_there(tmp_path):
    assert "no config.json in" in run(tmp_path, "--tasks", "sst2").stderr
    assert "no model 'no/such'" in run("no/such", "--tasks", "sst2").stderr


def test_too_few_tokens_for_bytes(tmp_path):
    config = AscenderConfig(vocab_size=101, hidden_size=32, num_attention_heads=2)
    AscenderForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="no tokenizer and vocab_size = 101"):
        evaluate(tmp_path, ["sst2"])


def test_an_encoder_and_decoder_is_scored_too(colours, tmp_path):
    config = AscenderConfig(
        vocab_size=258, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        pad_token_id=257, decoder_start_token_id=257, eos_token_id=256,
    )  # fmt: skip
    AscenderForConditionalGeneration(config).save_pretrained(tmp_path)
    found = scored(evaluate(tmp_path, ["colours_write", "colours_choose"], include_path=colours))
    assert 0 <= found["colours_choose"].value <= 1
    assert found["colours_write"].n == len(ROWS)


def test_a_model_of_transformers_own(colours, tmp_path):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=258, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=2,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    bytes_tokenizer().save_pretrained(tmp_path)
    assert scored(evaluate(tmp_path, ["colours_choose"], include_path=colours))


def test_answers_compared_as_squad_does():
    assert squad_metrics.compute_exact("The cat.", "a  cat") == 1
    assert squad_metrics.compute_f1("a red apple", "green apple pie") == pytest.approx(2 / 5)
    assert squad_metrics.compute_f1("the", "") == 1


REAL = Path(os.environ.get("ASCENDER_DATA", ""))


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("ASCENDER_DATA") or not (REAL / "gsm8k/main/test.jsonl").is_file(),
    reason="expected ASCENDER_DATA, a folder with gsm8k/main and glue/sst2",
)
def test_real_rows(fresh):
    found = evaluate(fresh, ["gsm8k", "sst2"], data_dir=REAL, limit=4, fewshot=0)
    assert {row.task: row.n for row in found} == {"gsm8k": 4, "sst2": 4}
