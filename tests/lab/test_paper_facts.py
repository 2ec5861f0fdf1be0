"""A number in the paper that is not in the rows is an error."""

import pytest

from ascender.lab.paper.document import Bullets, Heading, Paragraph, TableBlock, cited, labels_of
from ascender.lab.paper.document import text as said
from ascender.lab.paper.facts import Facts, Unknown, check, numerals, rows_of_numbers
from ascender.report.table import Cell, Table

KEY = "0123456789abcdef"


def facts():
    facts = Facts(frozenset({KEY}))
    facts.learn({"task": "sst2", "variant": "ascender+window=32", "rate": 0.001, "steps": 1500})
    facts.constant("95%", "stats.LEVEL")
    return facts


def checked(template, lang="en", **fields):
    check([Paragraph(said(template, **fields))], facts(), lang)


def test_numbers_of_the_rows_may_be_printed():
    mean = Cell("0.8413 ± 0.0120", (KEY,), {"mean": 0.84126, "sd": 0.012})
    checked("{x} on {task}, 95% interval", x=mean, task=Cell("sst2"))
    checked("{n} steps with {variant}", n=Cell("1,500"), variant=Cell("ascender+window=32"))
    checked("{n} seeds", n=Cell("5", (KEY,)))
    checked("by −{x}", x=Cell("21%", (KEY,), {"saving": -0.2099}))


@pytest.mark.parametrize(
    ("template", "x", "why"),
    [
        ("accuracy 0.84", None, "no constant"),
        ("a 99% interval", None, "no constant"),
        ("{x}", Cell("0.8513", (KEY,), {"mean": 0.84126}), "none of its values"),
        ("{x}", Cell("0.8413", ("fedcba",), {"mean": 0.84126}), "not in the rows"),
        ("{x}", Cell("0.8413", (), {"mean": 0.84126}), "has no trials"),
        ("{x}", Cell("77 heads", ()), "no row"),
    ],
)
def test_others_may_not(template, x, why):
    with pytest.raises(Unknown, match=why):
        checked(template, x=x or Cell("–"))


def test_korean_is_checked_too():
    with pytest.raises(Unknown, match="no constant"):
        checked(("accuracy", "정확도 0.84"), "ko")
    checked(("accuracy 0.84", "정확도"), "ko")


def test_a_derived_number_is_known():
    known = facts()
    cell = Cell("2.00×", (), known.derive({"ratio": 2.0}))
    check([Paragraph(said("{x}", x=cell))], known, "en")


def test_tables_and_lists_are_checked_and_author_words_are_not():
    table = Table.of_text("t", ("task", "score"), [("sst2", "0.84")])
    with pytest.raises(Unknown, match="column score"):
        check([TableBlock(table)], facts(), "en")
    check([TableBlock(table, authored=("score",))], facts(), "en")
    with pytest.raises(Unknown, match="no constant"):
        check([Bullets((said("up to 7"),))], facts(), "en")
    check([Paragraph(said("up to 7"), author=True)], facts(), "en")


def test_a_sentence_split_by_its_code_hides_no_number():
    assert [n.text for n in numerals("z2 in 1,024 tokens, 3e-4, 1.2M and −0.5.")] == [
        "1,024", "3e-4", "1.2M", "−0.5",
    ]  # fmt: skip
    with pytest.raises(Unknown):
        check([Heading(1, said("**9** lives"))], facts(), "en")


def test_printed_numbers_are_listed_with_their_trials():
    mean = Cell("0.8413", (KEY,), {"mean": 0.84126})
    rows = rows_of_numbers([Paragraph(said("{x} on {t}", x=mean, t=Cell("sst2")))])
    assert [(row["printed"], row["trials"]) for row in rows] == [("0.8413", KEY)]


def test_citations_and_labels():
    blocks = [
        Heading(1, said("A [@b2; @a1]"), "sec:a"), TableBlock(Table.of_text("t", ("x",), [])),
        Paragraph(said("again [@b2]")),
    ]  # fmt: skip
    assert cited(blocks) == ["b2", "a1"]
    assert labels_of(blocks) == ["sec:a", "tab:t"]
