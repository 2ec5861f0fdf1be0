"""Groups of tokens: clustering against true groups, and classes of real text."""

import numpy as np
import pytest
import torch

from ascender.hf.tokens import bytes_tokenizer, train_tokenizer
from ascender.insight import capture
from ascender.insight import grouping as gr
from ascender.insight import python_token_classes as python_words
from ascender.tasks import task
from support.insight_cases import inputs, model


def test_nmi_and_ari_by_hand():
    nmi, ari = gr.scores(np.array([0, 0, 1, 2]), np.array([5, 5, 7, 7]))
    # I = ln 2, H = ln 2 and 1.5 ln 2; one pair of the two together in both
    assert nmi == pytest.approx(1 / 1.25)
    assert ari == pytest.approx((1 - 1 / 3) / (1.5 - 1 / 3))


def test_spectral_is_scikit_learns():
    from sklearn.cluster import SpectralClustering

    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(3), [7, 11, 5])
    W = rng.random((23, 23)) * 0.2 + 0.8 * (true[:, None] == true[None])
    told = gr.spectral(W, 3)
    made = SpectralClustering(3, affinity="precomputed", random_state=0)
    theirs = made.fit_predict((W + W.T) / 2)
    assert gr.scores(told, theirs) == (1.0, 1.0)
    assert gr.scores(told, true) == (1.0, 1.0)
    pieces = (true[:, None] == true[None]).astype(float)  # a graph that falls apart
    assert gr.scores(gr.spectral(pieces, 3), true) == (1.0, 1.0)
    assert gr.scores(gr.spectral(rng.random((23, 23)), 3), true)[1] < 0.5


def test_perfect_and_random_groups():
    rng = np.random.default_rng(0)
    true = np.repeat(np.arange(4), 17)
    x = rng.normal(size=(4, 6))[true] + 0.01 * rng.normal(size=(68, 6))
    told = gr.kmeans(x, 4)
    assert gr.scores(told, true) == (1.0, 1.0)
    by_chance = np.mean([gr.scores(told, rng.permutation(true)) for _ in range(50)], 0)
    assert by_chance[1] == pytest.approx(0, abs=0.03)
    assert 0 < by_chance[0] < 0.2


def test_what_is_clustered_is_the_layers():
    """A model that reads vectors in two blobs: every source of it, and groups left out."""
    m, x = model(layers=1), inputs((11, 11))
    groups = torch.tensor([[0, 1] * 5 + [-100], [0] * 11])
    found = gr.groups_found(m, [(x, groups)])
    assert [(f.of, f.layer) for f in found] == [
        ("z", 0), ("neighbours", 0), ("attention", 0), ("states", 0), ("states", 1),
    ]  # fmt: skip
    assert all(len(f.nmi) == 1 for f in found)  # the second has one group only
    output, layers = capture(m, **x, output_hidden_states=True)
    at = np.arange(10)
    meant = groups[0, :10].numpy()
    A = layers[0].parts.weights[0].mean(0).numpy()[np.ix_(at, at)]
    assert (found[2].nmi[0], found[2].ari[0]) == gr.scores(gr.spectral(A, 2), meant)
    state = output.hidden_states[0][0, :10].numpy()
    assert (found[3].nmi[0], found[3].ari[0]) == gr.scores(gr.kmeans(state, 2), meant)
    z = layers[0].geometry.z[0].transpose(0, 1).flatten(1).numpy()[:10]
    assert (found[0].nmi[0], found[0].ari[0]) == gr.scores(gr.kmeans(z, 2), meant)


def test_a_graph_of_everyone_is_skipped():
    x, groups = inputs((11, 11)), torch.tensor([[0, 1] * 5 + [0]] * 2)
    few, all_of_them = (gr.groups_found(model(layers=1, k=k), [(x, groups)]) for k in (4, 12))
    assert "neighbours" in {f.of for f in few}
    assert {f.of for f in all_of_them} == {"z", "attention", "states"}


def test_mean_and_interval():
    mean, low, high = gr.mean_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert (mean, round(low, 3), round(high, 3)) == (3.0, 1.037, 4.963)
    assert gr.mean_interval(np.array([0.5])) == (0.5, None, None)


def test_digits_of_an_example_go_by_their_names():
    made = task("fewshot-digits", ways=3, unlabelled=2)
    batch = next(made.eval_batches("test", 40))
    digits, ids = made.clusters(batch), batch.inputs["input_ids"]
    for b in range(40):
        of = {int(n): int(d) for n, d in zip(ids[b], digits[b], strict=True) if 0 < n < 4}
        assert of[int(batch.labels[b, -1]) + 1] == int(digits[b, -1])
        counts = sorted(np.bincount(digits[b].numpy(), minlength=10)[list(of.values())])
        assert counts == [3, 3, 4]
    assert task("digits").clusters(next(task("digits").eval_batches("test", 2))) is None


# --- classes of real text

SOURCE = 'def f(x):  # so\n    return "é" + x * 12\n'


def said(classes):
    return "".join(python_words.CLASSES[c][0] for c in classes)


def test_classes_of_characters():
    assert said(python_words.classes(SOURCE)) == "kkkwnonoowwccccw" + "wwwwkkkkkkwssswownwownnw"


@pytest.mark.parametrize("learned", [False, True])
def test_tokens_have_the_class_of_their_characters(learned):
    text = SOURCE * 60
    tokenizer = train_tokenizer([text], 300) if learned else bytes_tokenizer()
    ids, kinds = python_words._row(tokenizer, text, 97)
    half = text.rfind("\n", 0, len(text) // 2) + 1
    assert len(ids) == len(kinds) == 97
    of, at = python_words.classes(text), half
    for token, kind in zip(ids, kinds, strict=True):
        piece = tokenizer.decode([token])
        if "�" in piece:  # half of é
            assert python_words.CLASSES[kind] == "string"
            continue
        at = text.index(piece, at)
        ink = next((i for i, c in enumerate(piece) if not c.isspace()), 0)
        assert kind == of[at + ink], piece
        at += len(piece)


def test_examples_are_of_files_of_the_test():
    found = list(python_words.examples(bytes_tokenizer(), 5, 31, 2))
    assert [len(groups) for _, groups in found] == [2, 2, 1]
    assert all(x["input_ids"].shape == g.shape == (len(g), 31) for x, g in found)
    assert all(int(g.min()) >= 0 and int(g.max()) < 7 for _, g in found)
    with pytest.raises(ValueError, match="object has no offsets; expected a fast tokenizer"):
        next(python_words.examples(object(), 1, 31, 1))
