"""Text tasks: rows from files, tokens, classes of texts, the standard library."""

from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from ascender.hf import AscenderConfig, AscenderForSequenceClassification
from ascender.hf.tokens import bytes_tokenizer
from ascender.tasks import TASKS, pylib, task
from ascender.tasks.base import Batch
from ascender.tasks.glue import GLUE, SUPERGLUE
from ascender.tasks.metrics import more
from ascender.tasks.pylib import Pylib, sources, split_of
from ascender.tasks.rows import carved
from ascender.tasks.text import Coder, joined, kept
from support.text_cases import TINY, put


def glue_rows(subset, n, start=0, hidden=False):
    found = GLUE[subset]
    label = (lambda i: i % len(found.class_names)) if found.class_names else (lambda i: i % 11 / 2)
    return [
        {**{c: f"{c} of row {i} " for c in found.columns}, "label": -1 if hidden else label(i)}
        for i in range(start, start + n)
    ]


def sst2(folder, n=40):
    put(folder, "glue/sst2/train.jsonl", glue_rows("sst2", n))
    put(folder, "glue/sst2/validation.jsonl", glue_rows("sst2", 7, 1000))


# Rows


def test_a_missing_file_is_named_with_its_place(tmp_path, monkeypatch):
    path = tmp_path / "glue" / "sst2" / "train.jsonl"
    with pytest.raises(FileNotFoundError, match=f"no file {path}; expected it there"):
        task("sst2", data_dir=str(tmp_path))
    datasets = pytest.importorskip("datasets")

    def unreachable(*args, **more):
        raise ConnectionError("Couldn't reach the Hub")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(FileNotFoundError, match=r"nyu-mll/glue \(sst2\).*glue/sst2/train.jsonl in"):
        task("sst2")


@pytest.mark.parametrize("broken", [b'{"sentence": "half', b"\xff\xfe", b"[1, 2]"])
def test_a_broken_line_is_named_with_its_file(tmp_path, broken):
    sst2(tmp_path)
    path = tmp_path / "glue" / "sst2" / "train.jsonl"
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:4], broken, *lines[4:]]))
    with pytest.raises(ValueError, match=f"{path}, line 5 cannot be read"):
        task("sst2", data_dir=str(tmp_path))


def test_a_missing_column_and_a_wrong_label_are_named(tmp_path):
    put(tmp_path, "glue/sst2/train.jsonl", [{"text": "x", "label": 1}])
    with pytest.raises(ValueError, match=r"row 1 has no column 'sentence', only text, label"):
        task("sst2", data_dir=str(tmp_path))
    sst2(tmp_path)
    put(tmp_path, "glue/sst2/validation.jsonl", [{"sentence": "x", "label": 2}])
    with pytest.raises(ValueError, match="label 2; expected 0 to 1"):
        task("sst2", data_dir=str(tmp_path))


def test_rows_come_from_the_hub_by_name(monkeypatch):
    datasets = pytest.importorskip("datasets")
    asked = []

    def load(path, name, split):
        asked.append((path, name, split))
        return glue_rows("sst2", 23)

    monkeypatch.setattr(datasets, "load_dataset", load)
    assert task("sst2").rows("test") == 23
    assert asked == [("nyu-mll/glue", "sst2", "train"), ("nyu-mll/glue", "sst2", "validation")]


def test_carving_keeps_equal_keys_together_in_any_order():
    keys = [f"text {i % 37}" for i in range(111)]
    part = carved(keys)
    assert {k for k, p in zip(keys, part, strict=True) if p}.isdisjoint(
        k for k, p in zip(keys, part, strict=True) if not p
    )
    assert sum(part) == 3 * 3  # a tenth of 37 keys, each there three times
    back = carved(keys[::-1])
    assert back[::-1] == part
    by_row = np.random.default_rng(0).permutation(111) < 11  # what carving rows would do
    assert {k for k, p in zip(keys, by_row, strict=True) if p} & {
        k for k, p in zip(keys, by_row, strict=True) if not p
    }
    three = carved(keys, 2)
    assert [three.count(p) for p in (1, 2)] == [9, 9]
    with pytest.raises(ValueError, match="1 different rows; expected more than 1"):
        carved(["same", "same"])


# Tokens


def test_bytes_are_those_of_the_tokenizer():
    texts = ["Åb — naïve\n", "plain", ""]
    found = Coder("bytes", lambda: [])(texts)
    assert [row.tolist() for row in found] == [bytes_tokenizer()(text).input_ids for text in texts]


def test_bpe_reads_back_what_it_wrote_and_is_always_the_same():
    texts = [f"the cat number {i} sat on the mat, naïvely — {i * i}" for i in range(50)]
    coders = [Coder("bpe:300", lambda: iter(texts)) for _ in range(2)]
    assert coders[0].size == 300
    a, b = (coder(["a cat sat — naïve 日本"])[0] for coder in coders)
    assert a.tolist() == b.tolist()
    assert coders[0].text(a.tolist()) == "a cat sat — naïve 日本"
    assert len(coders[0](texts[:1])[0]) < len(texts[0].encode())
    assert coders[0].text([104, 105, coders[0].end, 104]) == "hi"


@pytest.mark.parametrize("name", ["bpe:12", "bpe:", "bpe:many"])
def test_a_bpe_without_a_fitting_size_is_refused(name):
    with pytest.raises(ValueError, match=f"tokenizer '{name}'; expected bpe:SIZE"):
        Coder(name, lambda: ["text"])


def test_an_unknown_tokenizer_says_what_there_is(tmp_path):
    with pytest.raises(ValueError, match=r"unknown tokenizer .*; expected bytes, bpe:SIZE, or"):
        Coder(str(tmp_path / "nothing"), lambda: ["text"])


def test_a_saved_tokenizer_is_loaded_by_its_folder(tmp_path):
    bytes_tokenizer().save_pretrained(tmp_path)
    assert Coder(str(tmp_path), lambda: [])(["hé"])[0].tolist() == [104, 195, 169]


def test_the_longest_part_is_cut_first():
    draw = np.random.default_rng(0)
    for _ in range(200):
        lengths = draw.integers(0, 50, draw.integers(1, 5)).tolist()
        room = int(draw.integers(5, 100))
        stays = kept(lengths, room)
        assert sum(stays) == min(sum(lengths), room)
        cut = [s for s, n in zip(stays, lengths, strict=True) if s < n]
        assert not cut or max(cut) - min(cut) <= 1
        assert not cut or max(stays) <= max(cut) + 1
    a, b = np.arange(9), np.arange(100, 104)
    assert joined([a, b], 7, 10).tolist() == [0, 1, 2, 3, 4, 7, 100, 101, 102, 103]
    assert joined([a, b], 7, 14).tolist() == [*range(9), 7, *range(100, 104)]


# Classes of texts


@pytest.mark.parametrize("subset", GLUE)
def test_glue(subset, tmp_path):
    official = GLUE[subset].official
    put(tmp_path, f"glue/{subset}/train.jsonl", glue_rows(subset, 60))
    put(tmp_path, f"glue/{subset}/{official}.jsonl", glue_rows(subset, 7, 1000))
    put(tmp_path, f"glue/{subset}/test.jsonl", glue_rows(subset, 5, 2000, hidden=True))
    made = task(subset, data_dir=str(tmp_path), length=48)
    assert [made.rows(split) for split in ("train", "validation", "test")] == [54, 6, 7]
    both = [{e.texts for e in made.examples[split]} for split in ("train", "validation")]
    assert both[0].isdisjoint(both[1])
    batch = next(made.eval_batches("test", 7))
    first = batch.inputs["input_ids"][0][batch.inputs["attention_mask"][0].bool()].tolist()
    texts = [f"{c} of row 1000" for c in GLUE[subset].columns]
    assert bytes_tokenizer().decode(first) == "<|end|>".join(texts)
    assert batch.labels.is_floating_point() == (subset == "stsb")
    put(tmp_path, f"glue/{subset}/test.jsonl", glue_rows(subset, 5, 2000))
    assert task(subset, data_dir=str(tmp_path), length=48).rows("test") == 5


def test_levels_go_by_the_length_before_it_is_cut(tmp_path):
    sst2(tmp_path)
    rows = [{"sentence": "x" * n, "label": 1} for n in (8, 9, 16, 17, 32, 33)]
    put(tmp_path, "glue/sst2/validation.jsonl", rows)
    batch = next(task("sst2", data_dir=str(tmp_path), length=32).eval_batches("test", 6))
    assert batch.level.tolist() == [0, 1, 1, 2, 2, 3]
    assert batch.inputs["attention_mask"].sum(1).tolist() == [8, 9, 16, 17, 32, 32]
    with pytest.raises(ValueError, match="length = 3; expected a number from 16 to 8192"):
        task("sst2", data_dir=str(tmp_path), length=3)


def test_a_number_is_told_within_one_half(tmp_path):
    put(tmp_path, "glue/stsb/train.jsonl", glue_rows("stsb", 30))
    put(tmp_path, "glue/stsb/validation.jsonl", glue_rows("stsb", 23, 1000))
    made = task("stsb", data_dir=str(tmp_path), length=48)
    assert (made.metric, made.num_labels) == ("within 0.5", 1)
    batch = Batch({}, torch.tensor([1.0, 2.0, 5.0]), torch.zeros(3, dtype=torch.long))
    logits = torch.tensor([[1.4], [2.6], [4.5]])
    assert made.score(logits, batch).tolist() == [1, 0, 1]
    values = np.array([e.label for e in made.examples["test"]])
    best = max((abs(values - c) <= 0.5).mean() for c in np.arange(-1, 6, 0.05).round(2))
    assert made.chance == pytest.approx(best)
    model = AscenderForSequenceClassification(AscenderConfig(**TINY, **made.fields())).eval()
    with torch.no_grad():
        graded = made.grade(model, next(made.eval_batches("test", 23)))
    found = np.array(graded.predicted)
    assert graded.loss == pytest.approx(((found - values) ** 2).mean(), rel=1e-4)
    report = made.summary(graded.predicted, graded.target)
    assert report["pearson"] == pytest.approx(np.corrcoef(found, values)[0, 1], abs=1e-6)
    assert made.summary([1.0] * 23, values.tolist()) == {"pearson": 0.0, "spearman": 0.0}


def test_reports_by_hand():
    meant, told = [1, 1, 1, 0, 0, 1], [1, 0, 1, 1, 0, 1]
    found = more(("f1", "matthews"), told, meant)
    tp, fp, fn, tn = 3, 1, 1, 1
    assert found["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    spread = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5
    assert found["matthews"] == pytest.approx((tp * tn - fp * fn) / spread)


def superglue_rows(subset, n, start=0):
    labels = len(SUPERGLUE[subset].class_names)
    for i in range(start, start + n):
        row = {c: f"{c} of row {i}" for c in SUPERGLUE[subset].columns}
        row["label"] = i % labels
        if subset == "record":
            row |= {"query": f"{i}: who is @placeholder?", "answers": ["Ann"],
                    "entities": ["Ann", "Bob", "Cy"]}  # fmt: skip
        if subset == "multirc":
            row["paragraph"] = f"paragraph {i // 3}"
        if subset == "wsc":
            row |= {
                "text": "Ann saw it and it fell",
                "span1_text": f"the cup {i}",
                "span2_index": 4,
            }
        yield row


@pytest.mark.parametrize("subset", SUPERGLUE)
def test_superglue(subset, tmp_path):
    name = "superglue-rte" if subset == "rte" else subset
    folder = f"super_glue/{'wsc.fixed' if subset == 'wsc' else subset}"
    put(tmp_path, f"{folder}/train.jsonl", superglue_rows(subset, 60))
    put(tmp_path, f"{folder}/validation.jsonl", superglue_rows(subset, 7, 1000))
    hidden = [{**row, "label": -1, "answers": []} for row in superglue_rows(subset, 3, 2000)]
    put(tmp_path, f"{folder}/test.jsonl", hidden)
    made = task(name, data_dir=str(tmp_path))
    times = 2 if subset == "record" else 1
    assert made.rows("train") + made.rows("validation") == 60 * times
    assert made.rows("test") == 7 * times
    assert made.num_labels == len(made.class_names)
    assert 0 < made.chance < 1
    both = [{e.key for e in made.examples[split]} for split in ("train", "validation")]
    assert both[0].isdisjoint(both[1])
    assert both[1]
    first, second = made.examples["test"][:2]
    if subset == "record":
        assert first[:2] == (("passage of row 1000", "1000: who is Ann?"), 1)
        assert second.label == 0
        assert second.texts[1] in ("1000: who is Bob?", "1000: who is Cy?")
    if subset == "wsc":
        assert first.texts == ("Ann saw it and *it* fell", "the cup 1000")
    if subset == "copa":
        assert first.texts[1] == "question of row 1000?"
    assert len(made.train(0, 0, 5)) == 5


def test_reviews_by_bytes(tmp_path):
    rows = [{"text": f"film {i} " + "good " * i, "label": i % 2} for i in range(50)]
    put(tmp_path, "imdb/train.jsonl", rows)
    put(tmp_path, "imdb/test.jsonl", rows[:9])
    made = task("lra-text", data_dir=str(tmp_path), length=100)
    assert [made.rows(s) for s in ("train", "validation", "test")] == [45, 5, 9]
    assert made.train(0, 0, 32).inputs["input_ids"].shape == (32, 100)
    assert made.chance == pytest.approx(5 / 9)
    few = task("lra-text", data_dir=str(tmp_path), length=100, held=4)
    assert [few.rows(s) for s in ("train", "validation", "test")] == [45, 4, 4]
    assert few.examples["test"] == made.examples["test"][:8:2]
    most = task("lra-text", data_dir=str(tmp_path), length=100, held=6)
    assert [made.examples["test"].index(e) for e in most.examples["test"]] == [0, 1, 3, 4, 6, 7]
    with pytest.raises(ValueError, match="held = 0; expected at least 1"):
        task("lra-text", data_dir=str(tmp_path), held=0)
    with pytest.raises(ValueError, match="length = 5000; expected a number from 16 to 4096"):
        task("lra-text", data_dir=str(tmp_path), length=5000)
    put(tmp_path, "imdb/test.jsonl", [{"text": "x", "label": "pos"}])
    with pytest.raises(ValueError, match="label 'pos'; expected 0 or 1"):
        task("lra-text", data_dir=str(tmp_path))


def test_pairs_of_papers(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"data_dir with aan/new_aan_pairs\.train\.tsv"):
        task("lra-retrieval")
    path = tmp_path / "aan" / "new_aan_pairs.train.tsv"
    with pytest.raises(FileNotFoundError, match=f"no file {path}"):
        task("lra-retrieval", data_dir=str(tmp_path))
    for split in ("train", "eval"):
        lines = [f'{i % 2}.0\t{i}\t{i + 1}\tpaper "{i}\tanother {i}\n' for i in range(6)]
        put(tmp_path, "aan/x", [])
        (tmp_path / "aan" / f"new_aan_pairs.{split}.tsv").write_text("".join(lines))
    put(tmp_path, "aan/test.jsonl", [{"text1": "a", "text2": "b", "label": 1}])
    made = task("lra-retrieval", data_dir=str(tmp_path))
    assert [made.rows(s) for s in ("train", "validation", "test")] == [6, 6, 1]
    assert made.examples["train"][3][:2] == (('paper "3', "another 3"), 1)
    path.write_text("1.0\t3\n")
    with pytest.raises(ValueError, match=r"train.tsv, row 1 has 2 columns; expected 5"):
        task("lra-retrieval", data_dir=str(tmp_path))


# The standard library


def test_files_are_parted_whole():
    made = Pylib()
    for split, tokens in made.tokens.items():
        texts = [text for path, text in sources().items() if split_of(path) == split]
        ends = np.flatnonzero(tokens == made.coder.end)
        assert len(ends) == len(texts)
        last = tokens[ends[-2] + 1 : -1].astype(np.uint8).tobytes()
        assert last == texts[-1].encode()
    share = {s: len(t) for s, t in made.tokens.items()}
    assert share["train"] > 0.6 * sum(share.values())
    assert not any("test" in path.split("/")[:-1] for path in sources())


@pytest.fixture
def few_sources(monkeypatch):
    """Forty files of the library; what is kept of texts is forgotten before and after."""
    few = dict(list(sources().items())[:40])
    monkeypatch.setattr(pylib, "sources", lambda: few)
    kept = (pylib.coded, pylib.pair_counts)
    for one in kept:
        one.cache_clear()
    yield few
    for one in kept:
        one.cache_clear()


@pytest.mark.parametrize(("tokenizer", "rare"), [("bytes", 300), ("bpe:300", 40)])
def test_slices_by_a_loop(tokenizer, rare, few_sources):
    """Tokens whose pair came before in the block, and those of them that are rare in training."""
    made = Pylib(tokenizer=tokenizer, length=60, blocks=6, rare=rare)
    logits = torch.randn(6, 60, made.vocab_size, generator=torch.Generator().manual_seed(0))

    def model(input_ids, labels):
        at = [i for i, one in enumerate(whole.labels) for row in labels if torch.equal(one, row)]
        return SimpleNamespace(loss=torch.tensor(0.5), logits=logits[at])

    whole = next(made.eval_batches("test", 6))
    train = made.tokens["train"].tolist()
    often = Counter(pairwise(train))
    want = {name: [0.0, 0] for name in pylib.SLICES}
    for row, ids in zip(logits.double().log_softmax(-1), whole.labels.tolist(), strict=True):
        for t in range(1, 60):
            cost = -float(row[t - 1, ids[t]]) / np.log(2), len(made.words[ids[t]])
            seen = (ids[t - 1], ids[t]) in list(pairwise(ids[:t]))
            names = ["repeated pair"] if seen else ["other tokens"]
            if seen and often[ids[t - 1], ids[t]] < rare:
                names.append("repeated rare pair")
            for name in names:
                want[name] = [a + b for a, b in zip(want[name], cost, strict=True)]
    assert all(size > 0 for _, size in want.values()), "each slice has tokens"
    graded = [made.grade(model, piece) for piece in whole.split(4)]
    found = made.summary([x for g in graded for x in g.predicted], [])
    assert found == {name: pytest.approx(bits / size) for name, (bits, size) in want.items()}
    assert torch.allclose(torch.cat([g.score for g in graded]), made.score(logits, whole))
    assert [len(g.score) for g in graded] == [4, 2]
    assert made.summary([{name: (0.0, 0) for name in pylib.SLICES}], []) == {}
    with pytest.raises(ValueError, match="rare = -1; expected a number of times"):
        Pylib(rare=-1)


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe:300"])
def test_bits_per_byte_by_a_loop(tokenizer, few_sources):
    made = Pylib(tokenizer=tokenizer, length=23, blocks=5)
    batch = next(made.eval_batches("test", 5))
    assert len(batch) == 5
    logits = torch.randn(5, 23, made.vocab_size, generator=torch.Generator().manual_seed(0))
    found = made.score(logits, batch)
    for row, ids, bits in zip(logits.double(), batch.labels.tolist(), found.tolist(), strict=True):
        cost = -sum(float(row[i].log_softmax(0)[ids[i + 1]]) for i in range(22)) / np.log(2)
        told = [i for i in ids[1:] if i != made.coder.end]
        size = sum(len(made.words[i]) for i in told)
        assert b"".join(made.words[i] for i in told).decode(errors="replace") == (
            made.tokenizer.decode(told, clean_up_tokenization_spaces=False)
        )
        assert bits == pytest.approx(cost / size)
    assert 3 < made.chance < 8
    with pytest.raises(ValueError, match="tokenizer 'gpt2'; expected bytes or bpe:SIZE"):
        Pylib(tokenizer="gpt2")


def test_the_floor_of_the_library_is_below_any_other_unigram():
    made = Pylib()
    test = made.tokens["test"]
    counts = np.bincount(test[test < 256], minlength=256)
    entropy = -sum(n / counts.sum() * np.log2(n / counts.sum()) for n in counts if n)
    assert entropy <= made.chance < entropy + 0.1  # counts of training, not of the test
    assert made.chance < np.log2(256)


def test_every_text_task_is_in_the_list():
    others = {"lra-text", "lra-retrieval", "gsm8k", "math", "longbench", "scrolls", "translation"}
    assert others | {*GLUE, *SUPERGLUE, "superglue-rte", "pylib"} <= set(TASKS)
