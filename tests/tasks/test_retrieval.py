"""Passages that were retrieved, and copies of them."""

import pytest
import torch

from ascender.hf import AscenderConfig, AscenderForConditionalGeneration
from ascender.tasks import task
from ascender.tasks.retrieval import WIDTH, counted


@pytest.fixture(scope="module")
def drawn():
    made = task("retrieval")
    return made, made.train(0, 0, 300)


def test_sources_answer_every_question_and_passages_do_not(drawn):
    made, batch = drawn
    answers = batch.labels[:, 1]
    assert (counted(batch, by_source=True) == answers).all()
    right = counted(batch, by_source=False) == answers
    share = [float(right[batch.level == level].double().mean()) for level in range(3)]
    assert dict(zip(made.levels, share, strict=True)) == {
        "no copies": 1, "copies agree": 1, "copies mislead": 0,
    }  # fmt: skip


def test_a_copy_says_the_same_in_other_words(drawn):
    made, batch = drawn
    rows = batch.inputs["input_ids"].view(len(batch), -1, WIDTH)
    for row, level, asked in zip(
        rows, batch.level, batch.inputs["decoder_input_ids"][:, 1], strict=True
    ):
        hits = row[row[:, 2] == asked]
        assert len(hits[:, 1:].unique(dim=0)) == 5  # sources
        assert (len(hits) > 5) == (made.levels[level] != "no copies")


def test_what_a_corpus_needs():
    with pytest.raises(ValueError, match=r"passages = 6; expected .* 9"):
        task("retrieval", passages=6)
    with pytest.raises(ValueError, match="values = 3"):
        task("retrieval", values=3)


def test_a_decoder_is_graded_by_its_answer(drawn):
    made, batch = drawn
    config = AscenderConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        is_encoder_decoder=True, **made.fields(),
    )  # fmt: skip
    model = AscenderForConditionalGeneration(config).eval()
    with torch.no_grad():
        graded = made.grade(model, batch[:23])
        logits = model(**batch[:23].inputs).logits
    right = logits[:, 1].argmax(-1) == batch.labels[:23, 1]
    assert graded.score.tolist() == right.double().tolist()
    perfect = torch.nn.functional.one_hot(batch.labels.clamp_min(0), made.vocab_size).float()
    assert made.score(perfect, batch).mean() == 1
