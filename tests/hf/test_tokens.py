"""The tokenizers: every text comes back, nothing is added, pairs are what is frequent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from ascender.hf.tokens import BYTES, bytes_tokenizer, train_tokenizer

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ROWS = ["the gulls turned and the gulls rested", "the swallows turned"] * 3
KINDS = {"bytes": bytes_tokenizer(), "pairs": train_tokenizer(ROWS, 281)}


@pytest.mark.parametrize("kind", KINDS)
@given(text=TEXT, more=TEXT)
def test_every_text_comes_back(kind, text, more):
    tokenizer = KINDS[kind]
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    if kind == "bytes":
        assert tokenizer(text).input_ids == list(text.encode())
        assert tokenizer(text + more).input_ids == list(text.encode() + more.encode())


def test_pairs_shorten_what_is_frequent():
    tokenizer = KINDS["pairs"]
    assert len(tokenizer) == 281
    assert tokenizer.convert_ids_to_tokens(list(range(65, 68))) == list("ABC")
    assert len(tokenizer("the gulls turned").input_ids) < len("the gulls turned") / 2
    assert len(tokenizer("QXZJ").input_ids) == 4  # never seen together


def test_saved_and_loaded(tmp_path):
    KINDS["pairs"].save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again("the gulls").input_ids == KINDS["pairs"]("the gulls").input_ids
    assert (again.eos_token_id, again.pad_token_id, again.padding_side) == (256, 257, "left")
    assert again(["a", "bcd"], padding=True).input_ids == [[257, 257, 97], [98, 99, 100]]


def test_too_few_tokens():
    with pytest.raises(ValueError, match=f"vocab_size = 200; expected at least {BYTES}"):
        train_tokenizer(ROWS, 200)
