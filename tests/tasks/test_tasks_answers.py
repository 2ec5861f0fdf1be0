"""Tasks that are answered by writing: what is learned, what is graded, how it is compared."""

import csv
import types
from collections import Counter

import numpy as np
import pytest
import torch

from ascender.hf import AscenderConfig, AscenderForCausalLM, AscenderForConditionalGeneration
from ascender.tasks import task
from ascender.tasks.base import IGNORED
from ascender.tasks.maths import boxed, final_number, plain
from ascender.tasks.metrics import chrf, rouge_l
from support.text_cases import TINY, put


@pytest.mark.parametrize(("text", "number"), [
    ("#### 42", "42"), (" 18", "18"), ("#### 1,000", "1000"), ("#### $1,070.00", "1070"),
    ("#### -5", "-5"), ("#### -$5", "-5"), ("3 and 4\n#### 7.", "7"), ("#### 0.50", "0.5"),
    ("#### .5", "0.5"), ("#### 007", "7"), ("#### 0", "0"), ("#### -0", "0"), ("none", ""),
    ("", ""),    ("#### 1 #### 2", "2"), ("#### 12 apples", "12"),
])  # fmt: skip
def test_the_final_number(text, number):
    assert final_number(text) == number


@pytest.mark.parametrize(("a", "b"), [
    (r"\dfrac12", r"\frac{1}{2}"), ("1/2", r"\frac{1}{2}"), ("0.5", r"\frac{1}{2}"),
    (".25", "0.25"), (r"90^\circ", "90"), (r"90^{\circ}", "90"), (r"\$5", "5"), (r"50\%", "50"),
    ("x = 3", "3"), (r"\left( 3, 4 \right)", "(3,4)"), (r"12\text{ cm}", "12"),
    (r"\sqrt2", r"\sqrt{2}"), (r"10,\!000", "10000"), ("10,000", "10000"), ("7.", "7"),
    (r"\text{Evelyn}", "Evelyn"), (r"\tfrac{3}{4}", r"\frac34"),
])  # fmt: skip
def test_answers_that_mean_the_same(a, b):
    assert plain(a) == plain(b)


def test_answers_that_differ_stay_different():
    different = ["3", "-3", "30", "1/3", "(3,4)", "(34)", "x+3", "3x", r"\sqrt{3}", "0.3", "3.5"]
    assert len({plain(a) for a in different}) == len(different)


@pytest.mark.parametrize(("text", "inside"), [
    (r"so \boxed{7}.", "7"), (r"\boxed{\frac{1}{2}} ok", r"\frac{1}{2}"), ("7", None),
    (r"\boxed{1} then \boxed{2}", "2"), (r"is \boxed 5$", "5"), (r"\fbox{9}", "9"),
    (r"\boxed{open", None),
])  # fmt: skip
def test_what_is_in_the_box(text, inside):
    assert boxed(text) == inside


def gsm8k(folder, n=40):
    def rows(start, n):
        for i in range(start, start + n):
            steps = "\n".join(f"{i}+{j}=<<{i}+{j}={i + j}>>{i + j}" for j in range(1 + i % 7))
            yield {
                "question": f"What is {i}? " + "x" * (i % 5),
                "answer": f"{steps}\n#### {i % 10}",
            }

    put(folder, "gsm8k/main/train.jsonl", rows(0, n))
    put(folder, "gsm8k/main/test.jsonl", rows(1000, 7))


class Parrot:
    """A model whose replies are given, filled up as generate() does."""

    def __init__(self, coder, replies):
        self.coder, self.replies = coder, replies
        self.config = types.SimpleNamespace(is_encoder_decoder=False)

    def __call__(self, **inputs):
        return types.SimpleNamespace(loss=torch.tensor(0.5))

    def generate(self, input_ids, attention_mask, max_new_tokens, eos_token_id, **more):
        assert bool(attention_mask[:, -1].all())  # prompts end where writing begins
        self.prompts = [
            self.coder.tokenizer.decode(row[mask.bool()].tolist())
            for row, mask in zip(input_ids, attention_mask, strict=True)
        ]
        rows = [[*row.tolist(), eos_token_id] for row in self.coder(self.replies)]
        width = max(map(len, rows))
        new = torch.tensor([row + [self.coder.pad] * (width - len(row)) for row in rows])
        return torch.cat([input_ids, new], 1)


@pytest.mark.parametrize("chain", [False, True])
def test_gsm8k_is_graded_by_what_the_model_writes(tmp_path, chain):
    gsm8k(tmp_path)
    made = task("gsm8k", chain=chain, graded=2, data_dir=str(tmp_path))
    assert [made.rows(s) for s in ("train", "validation", "test")] == [36, 2, 7]
    batch = next(made.eval_batches("test", 7))
    said = [f"so\n#### {i}.00" if chain else f" {i}" for i in (0, 1, 2, 3, 4, 5, 9)]
    model = Parrot(made.coder, said)
    graded = made.grade(model, batch)
    assert graded.score.tolist() == [1, 1, 1, 1, 1, 1, 0]
    assert model.prompts == [a.prompt for a in made.asked["test"]]
    assert [final_number(m) for m in graded.target] == list("0123456")
    assert all("<<" not in m for m in graded.target)
    bare = made.grade(Parrot(made.coder, [" 0"] * 7), batch)
    assert float(bare.score.sum()) == (0 if chain else 1)  # a chain without #### is wrong
    answers = [final_number(a.answer) for a in made.asked["train"]]
    guess = max(dict.fromkeys(answers), key=answers.count)
    right = [final_number(a.answer) == guess for a in made.asked["test"]]
    assert made.chance == pytest.approx(np.mean(right))


def test_labels_are_the_answer_alone(tmp_path):
    gsm8k(tmp_path)
    made = task("gsm8k", chain=True, length=40, reply=12, data_dir=str(tmp_path))
    batch = made.train(0, 0, 9)
    for ids, labels, mask in zip(
        batch.inputs["input_ids"], batch.labels, batch.inputs["attention_mask"], strict=True
    ):
        counted = labels != IGNORED
        assert torch.equal(ids[counted], labels[counted])
        assert int(counted.sum()) <= 12
        assert int(mask.sum()) <= 40
        text = made.coder.text(labels[counted].tolist())
        assert "#### " in text  # what is cut is the beginning
        assert made.coder.tokenizer.decode(ids[~counted & mask.bool()].tolist()).endswith("Answer:")
    with pytest.raises(ValueError, match="reply = 50; expected a number from 2 to below length 40"):
        task("gsm8k", length=40, reply=50, data_dir=str(tmp_path))


def test_a_real_model_writes_its_replies(tmp_path):
    gsm8k(tmp_path)
    made = task("gsm8k", data_dir=str(tmp_path), reply=5)
    torch.manual_seed(0)
    model = AscenderForCausalLM(AscenderConfig(**TINY, **made.fields())).eval()
    batch = next(made.eval_batches("test", 3))
    with torch.no_grad():
        graded = made.grade(model, batch)
        loss = model(**batch.inputs, labels=batch.labels).loss
        alone = made.grade(model, batch[:1])  # without filling it is answered the same
    assert len(graded.predicted) == 3
    assert graded.loss == pytest.approx(float(loss))
    assert alone.predicted == graded.predicted[:1]


@pytest.mark.parametrize("chain", [False, True])
def test_math(tmp_path, chain):
    def rows(start, n, subject):
        for i in range(start, start + n):
            yield {"problem": f"{subject} {i}", "level": f"Level {1 + i % 5}" if i else "Level ?",
                   "solution": rf"It is $\boxed{{\frac{{1}}{{{2 + i % 3}}}}}$."}  # fmt: skip

    for subject in ("algebra", "geometry"):
        put(tmp_path, f"hendrycks_math/{subject}/train.jsonl", rows(0, 30, subject))
        put(tmp_path, f"hendrycks_math/{subject}/test.jsonl", rows(0, 3, subject))
    made = task("math", subject="geometry", chain=chain, data_dir=str(tmp_path))
    assert made.asked["test"][0].prompt == "Problem: geometry 0\nAnswer:"
    batch = next(made.eval_batches("test", 3))
    assert [made.levels[i] for i in batch.level] == ["unknown", "2", "3"]
    said = [r"\dfrac12", "1/3", "1/5"]
    if chain:
        said = [rf"thus \boxed{{{s}}}" for s in said]
    assert made.grade(Parrot(made.coder, said), batch).score.tolist() == [1, 1, 0]
    assert made.chance == pytest.approx(1 / 3)
    with pytest.raises(FileNotFoundError, match="counting_and_probability"):
        task("math", data_dir=str(tmp_path))
    with pytest.raises(ValueError, match="unknown subject 'algbra'"):
        task("math", subject="algbra", data_dir=str(tmp_path))


def test_longbench_is_parted_by_document(tmp_path):
    rows = [
        {"context": f"document {i // 2} " * 20, "input": f"who {i}?", "answers": [f"Ann {i}", "B"]}
        for i in range(60)
    ]
    put(tmp_path, "LongBench/hotpotqa/test.jsonl", rows)
    made = task("longbench", data_dir=str(tmp_path), length=200, reply=20)
    assert [made.rows(s) for s in ("train", "validation", "test")] == [48, 6, 6]
    documents = [{a.prompt.split("\n")[0] for a in made.asked[s]} for s in made.asked]
    assert not documents[0] & documents[1]
    assert not documents[0] & documents[2]
    assert not documents[1] & documents[2]
    batch = next(made.eval_batches("test", 6))
    model = Parrot(made.coder, ["the Ann", "Bob", *[a.answer for a in made.asked["test"][2:]]])
    graded = made.grade(model, batch)
    assert graded.score.tolist() == pytest.approx([2 / 3, 0, 1, 1, 1, 1])
    assert all(p.startswith("document") and p.endswith("Answer:") for p in model.prompts)
    assert set(batch.level.tolist()) == {1}  # up to twice the room
    assert made.metric == "F1"


def test_scrolls_keeps_the_first_of_several_answers(tmp_path):
    rows = [{"input": f"q{i}?\n\ntext {i}", "output": f"answer {i}"} for i in range(20)]
    put(tmp_path, "scrolls/gov_report/train.jsonl", rows)
    again = [{**rows[3], "output": "another"}, {"input": "x", "output": "y"}]
    put(tmp_path, "scrolls/gov_report/validation.jsonl", [rows[3], *again])
    put(tmp_path, "scrolls/gov_report/test.jsonl", [{"input": "x", "output": None}])
    made = task("scrolls", subset="gov_report", data_dir=str(tmp_path))
    assert made.metric == "ROUGE-L"
    assert [a.answer for a in made.asked["test"]] == [" answer 3", " y"]
    assert made.rows("validation") == 2


def test_rouge_l_by_all_subsequences():
    from itertools import combinations

    def common(a, b):
        subs = [{c for n in range(len(t) + 1) for c in combinations(t, n)} for t in (a, b)]
        return max(len(c) for c in subs[0] & subs[1])

    draw = np.random.default_rng(0)
    for _ in range(20):
        a, b = (draw.choice(["red", "fox", "ran", "far"], draw.integers(1, 8)).tolist()
                for _ in "ab")  # fmt: skip
        want = 2 * common(a, b) / (len(a) + len(b))
        assert rouge_l(" ".join(a), " ".join(b)) == pytest.approx(want)


def table(folder, name, pairs):
    path = folder / "translation" / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("source", "target"), *pairs])
    return path


def test_translation(tmp_path):
    pytest.importorskip("sacrebleu")
    with pytest.raises(FileNotFoundError, match=r"data_dir with translation/train\.csv in it"):
        task("translation")
    with pytest.raises(FileNotFoundError, match=f"no file {tmp_path / 'translation'}"):
        task("translation", data_dir=str(tmp_path))
    pairs = [(f"Satz {i % 30}, ja", f'sentence {i}, "yes"') for i in range(60)]
    table(tmp_path, "train", pairs)
    made = task("translation", data_dir=str(tmp_path), length=32)
    assert [made.rows(s) for s in ("train", "validation", "test")] == [48, 6, 6]
    parts = [{p.source for p in made.pairs[s]} for s in ("train", "validation", "test")]
    assert sum(map(len, parts)) == len(set.union(*parts))
    table(tmp_path, "test", pairs[:3])
    made = task("translation", data_dir=str(tmp_path), length=32)
    assert [made.rows(s) for s in ("train", "validation", "test")] == [54, 6, 3]
    torch.manual_seed(0)
    model = AscenderForConditionalGeneration(AscenderConfig(**TINY, **made.fields())).eval()
    batch = next(made.eval_batches("test", 3))
    wanted = model.prepare_decoder_input_ids_from_labels(batch.labels)
    assert torch.equal(batch.inputs["decoder_input_ids"], wanted)
    with torch.no_grad():
        graded = made.grade(model, batch)
    assert graded.target == [target for _, target in pairs[:3]]
    assert len(graded.predicted) == 3
    meant = graded.target
    assert made.summary(meant, meant)["bleu"] == pytest.approx(100)
    assert made.summary(["no"] * 3, meant)["bleu"] < 5
    assert 0 < made.chance < 1
    path = table(tmp_path, "test", [("a", "b"), ("only", "")])
    with pytest.raises(ValueError, match=f"{path}, line 3 cannot be read"):
        task("translation", data_dir=str(tmp_path))


def chrf_by_hand(target, predicted, n=6, beta=2.0):
    """F_β of the mean precision and recall over the orders of character n-grams that both have;
    whitespace does not count."""
    a, b = ("".join(text.split()) for text in (target, predicted))
    precision, recall = [], []
    for k in range(1, n + 1):
        x, y = (Counter(t[i : i + k] for i in range(len(t) - k + 1)) for t in (a, b))
        if not x or not y:
            break
        same = sum((x & y).values())
        precision.append(same / sum(y.values()))
        recall.append(same / sum(x.values()))
    P, R = np.mean(precision), np.mean(recall)
    return (1 + beta**2) * P * R / (beta**2 * P + R) if P + R else 0.0


def test_chrf_by_hand():
    pytest.importorskip("sacrebleu")
    pairs = [("the cat sat on the mat", "a cat sat on mats"), ("short", "shore"),
             ("ab", "abcdefgh"), ("Größe", "Grösse"), ("x", "y"), ("as is", "as is")]  # fmt: skip
    for target, predicted in pairs:
        assert chrf(target, predicted) == pytest.approx(chrf_by_hand(target, predicted), abs=1e-9)
