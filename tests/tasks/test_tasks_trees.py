"""Words in their syntax trees: files, encodings, lists of neighbours, parsers of one's own."""

import json
import sys
import types

import pytest
import torch

from ascender.cli.errors import message
from ascender.core.neighbours import tree
from ascender.insight import view
from ascender.tasks import task
from ascender.tasks.base import IGNORED
from ascender.tasks.conllu import RELATIONS, TAGS, read
from ascender.tasks.trees import Words, cut
from ascender.train import Run, train

CAT = """# text = The cat sleeps.
1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_
2\tcat\tcat\tNOUN\tNN\t_\t3\tnsubj\t_\t_
3\tsleeps\tsleep\tVERB\tVBZ\t_\t0\troot\t_\t_
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t_\t_

"""
DONT = """1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tsee\tsee\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tit\tit\tPRON\tPRP\t_\t_\t_\t_\t_
4\t42\t42\tNUM\tCD\t_\t5\tnummod\t_\t_
5\tcats\tcat\tNOUN\tNNS\t_\t3\tobj\t_\t_
6\ttoday\ttoday\tNOUN\tNN\t_\t3\tobl:tmod\t_\t_

"""
SIZES = {"hidden": 16, "layers": 1, "heads": 2, "batch": 4, "steps": 2, "every": 2}


@pytest.fixture
def folder(tmp_path):
    for split, n in (("train", 12), ("dev", 3), ("test", 3)):
        place = tmp_path / "ud-english-ewt" / f"en_ewt-ud-{split}.conllu"
        place.parent.mkdir(exist_ok=True)
        place.write_text(CAT * n + DONT * (n // 3), encoding="utf-8")
    return tmp_path


def test_a_sentence_is_its_words_without_words_written_together_and_empty_nodes(folder):
    last = read(folder / "ud-english-ewt/en_ewt-ud-train.conllu")[-1]
    assert last.words == ("do", "n't", "see", "42", "cats", "today")
    assert last.heads == (2, 2, -1, 4, 2, 2)
    assert [TAGS[t] for t in last.tags] == ["AUX", "PART", "VERB", "NUM", "NOUN", "NOUN"]
    assert [RELATIONS[r] for r in last.relations][-2:] == ["obj", "obl"]  # obl:tmod


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("NOUN\tNN\t_\t3", "NOON\tNN\t_\t3", "line 3: UPOS = 'NOON' (did you mean 'NOUN'?)"),
        ("nsubj", "nsbj", "line 3: DEPREL = 'nsbj' (did you mean 'nsubj'?)"),
        ("\t3\tpunct", "\t9\tpunct", "line 5: HEAD = 9; expected 0 … 4"),
        ("\t3\tpunct", "\tx\tpunct", "line 5: HEAD = 'x'"),
        ("3\tsleeps", "4\tsleeps", "line 4: ID = '4'; expected 3"),
        ("\t0\troot", "\t2\troot", "line 2: roots = 'none'; expected one line with HEAD 0"),
        ("\t3\tpunct", "\t0\tpunct", "line 2: roots = '4, 5'; expected one line"),
        ("\t3\tnsubj", "\t1\tnsubj", "line 2: HEAD = 2; expected a tree"),
        ("det\t_\t_", "det\t_", "line 2: columns = 9; expected 10"),
        ("1\tThe", "1\t", "line 2: FORM = ''; expected a word"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(folder, old, new, words):
    path = folder / "ud-english-ewt/en_ewt-ud-dev.conllu"
    assert old in CAT
    path.write_text(CAT.replace(old, new, 1) + DONT, encoding="utf-8")
    with pytest.raises(ValueError, match="line ") as error:
        task("ud-tags", data_dir=str(folder))
    assert f"{path}, {words}" in (message(error.value) or "")
    assert "\n" not in str(error.value)


def test_files_that_are_not_there_are_named(folder):
    (folder / "ud-english-ewt/en_ewt-ud-test.conllu").rename(folder / "aside")
    with pytest.raises(FileNotFoundError, match=r"no file .*/\*-ud-test.conllu; expected one"):
        task("ud-tags", data_dir=str(folder))
    (folder / "aside").rename(folder / "ud-english-ewt/en_ewt-ud-test.conllu")
    inside = task("ud-tags", data_dir=str(folder / "ud-english-ewt"))  # the folder itself
    assert inside.rows("test") == 4
    (folder / "ud-english-ewt/en_ewt-ud-dev.conllu").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"dev.conllu cannot be read .*; expected UTF-8"):
        task("ud-tags", data_dir=str(folder))


def test_neighbours_are_heads_and_dependents_and_nothing_behind_a_sentence(folder):
    made = task("ud-relations", data_dir=str(folder))
    batch = made.collate("test", torch.tensor([0, 3]).numpy())
    near = batch.inputs["neighbours"]
    assert near.shape == (2, 6, 4)
    for row, heads in zip(near, ([1, 2, -1, 2], [2, 2, -1, 4, 2, 2]), strict=True):
        expected = [{j for j in cells if j >= 0} for cells in tree(torch.tensor(heads)).tolist()]
        got = [{j for j in cells if j >= 0} for cells in row.tolist()]
        assert got == expected + [set()] * (6 - len(heads))
    assert (batch.labels == IGNORED).tolist() == [[False] * 4 + [True] * 2, [False] * 6]
    assert batch.level[1].tolist() == [2, 1, 0, 1, 2, 3]  # arcs of 2, 1, –, 1, 2, 3 words


def test_words_cut_off_take_their_edges_along(folder):
    one = cut(read(folder / "ud-english-ewt/en_ewt-ud-test.conllu")[-1], 4)
    assert one.words == ("do", "n't", "see", "42")
    assert one.heads == (2, 2, -1, -1)
    made = task("ud-tags", length=4, data_dir=str(folder))
    batch = made.collate("test", torch.tensor([3]).numpy())
    assert batch.inputs["neighbours"][0, 3].tolist() == [-1, -1]


def test_words_have_numbers_and_rare_ones_share_them():
    def sentence(*words):
        return read_words(words)

    words = Words([sentence("Cat", "cat", "dog")])
    assert words("cat")[0] == words("CAT")[0] == words.size - 1
    assert 0 < words("dog")[0] < words.size - 1  # once in training: shares a bucket
    assert words("dog") == words("dog")
    running, jumping = set(words("running")[1]), set(words("jumping")[1])
    assert len(running & jumping) == 3  # -g, -ng, -ing
    assert words("Cat")[1] != words("cat")[1]  # the capital
    assert max(words("Cat-42")[1]) < Words.features


def read_words(words):
    from ascender.tasks.conllu import Sentence

    zeros = (0,) * len(words)
    return Sentence(tuple(words), (-1, *zeros[1:]), zeros, zeros)


def test_the_chance_level_is_the_commonest_label_of_the_test(folder):
    made = task("ud-tags", data_dir=str(folder))
    labels = torch.cat([b.labels[b.labels != IGNORED] for b in made.eval_batches("test", 2)])
    assert made.chance == pytest.approx(float(labels.bincount().max() / len(labels)))
    assert len(labels) == 3 * 4 + 6


@pytest.mark.parametrize("variant", ["vanilla", "ascender", "graph", "flock+far=2"])
def test_a_step_of_training_with_trees(folder, variant, tmp_path):
    run = Run.of("ud-relations", variant=variant, **SIZES)
    record = train(run, tmp_path / "run", data_dir=str(folder))
    assert record["test"]["n"] == 3 * 4 + 6  # words, not sentences
    assert set(record["test"]["levels"]) == {"root", "1 word", "2 words", "3–5 words"}


def test_trees_reach_rules_graph_bias_and_flocks_but_not_plain_attention(folder):
    """Whether another tree changes the logits: of every variant that goes by the lists."""
    made = task("ud-tags", data_dir=str(folder))
    batch = made.collate("test", torch.tensor([3]).numpy())
    for variant, uses in (("vanilla", False), ("ascender", True), ("graph", True), ("flock", True)):
        run = Run.of("ud-tags", variant=variant, **SIZES, schedule="constant")
        model = run.make_model(made).eval()
        run.make_schedule().apply(model, 2, 2)
        with torch.no_grad():
            for name, p in model.named_parameters():
                if name.endswith("table"):
                    p.copy_(torch.arange(p.numel()).view_as(p))
            inputs = dict(made.inputs(batch))
            first = model(**inputs).logits
            inputs["neighbours"] = tree(torch.tensor([-1, 0, 1, 2, 3, 4]))[None]
            other = model(**inputs).logits
        assert (not torch.equal(first, other)) == uses, variant


def chain(words):
    return [i - 1 for i in range(len(words))]


def test_a_parser_of_ones_own_makes_the_lists(folder):
    made = task("ud-tags", trees=chain, data_dir=str(folder))
    batch = made.collate("test", torch.tensor([0]).numpy())
    assert batch.inputs["neighbours"][0].tolist() == [[1, -1], [0, 2], [1, 3], [2, -1]]
    without = task("ud-tags", trees="none", data_dir=str(folder))
    assert "neighbours" not in without.train(0, 0, 2).inputs
    with pytest.raises(ValueError, match="trees = 'silver'; expected gold, none, or a parser"):
        task("ud-tags", trees="silver", data_dir=str(folder))
    for wrong in ([0], [0, 1, 2, 9], None, [0.5] * 4):
        bad = task("ud-tags", trees=lambda words, wrong=wrong: wrong, data_dir=str(folder))
        with pytest.raises(ValueError, match=r"expected 4 places of heads in −1 … 3"):
            bad.collate("test", torch.tensor([0]).numpy())


def test_a_stored_run_does_not_import_the_parser_that_it_names(folder, tmp_path, monkeypatch):
    (tmp_path / "left_chain.py").write_text(
        "def heads(words):\n    return [i - 1 for i in range(len(words))]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    options = {"trees": "left_chain:heads"}
    run = Run.of("ud-tags", options=options, **SIZES)  # a program names it: imported
    train(run, tmp_path / "run", data_dir=str(folder))
    assert json.loads((tmp_path / "run/run.json").read_text())["run"]["options"] == options
    monkeypatch.delitem(sys.modules, "left_chain")
    from ascender.insight.loading import load, task_for

    loaded = load(tmp_path / "run/model")
    with pytest.raises(ValueError, match=r"trees = 'left_chain:heads' is code that is not im"):
        task_for(loaded, None, str(folder))
    assert "left_chain" not in sys.modules
    trusted = load(tmp_path / "run/model", trust_code=True)
    assert task_for(trusted, None, str(folder)).rows("test") == 4
    monkeypatch.setitem(sys.modules, "no_parser", types.ModuleType("no_parser"))
    with pytest.raises(ValueError, match=r"'no_parser:heads' is not there; expected a function"):
        task("ud-tags", trees="no_parser:heads", data_dir=str(folder))


def test_a_page_of_a_sentence(folder, tmp_path):
    run = Run.of("ud-tags", **SIZES)
    train(run, tmp_path / "run", data_dir=str(folder))
    view(tmp_path / "run/model", out=tmp_path / "p.html", data_dir=folder, example=3)
    assert "today" in (tmp_path / "p.html").read_text(encoding="utf-8")
