"""The author's file: read with errors that name the key, and each sentence beside its verdict."""

import re
from pathlib import Path

import pytest

from ascender.lab.bundle import Claim
from ascender.lab.paper.author import AuthorText, Sentence, read_author, template
from ascender.lab.paper.author_check import author_check, marked, unknown_numbers, unsupported
from ascender.lab.paper.document import Bullets, Document, Paragraph, TableBlock, text
from ascender.lab.paper.facts import Facts, shown
from ascender.lab.paper.latex import latex
from ascender.lab.paper.markdown import markdown
from ascender.lab.paper.material import Material
from ascender.lab.reports.claims import Finding
from ascender.report.table import Cell, Column, Table

CLAIMS = (
    Claim("It wins.", "이긴다.", "accuracy", "wins"),
    Claim("It is cheap.", "싸다.", "absent", "cheaper"),
)
FOUND = (
    (CLAIMS[0], Finding("supported", "2 won, +0.0065", "2 우세, +0.0065")),
    (CLAIMS[1], Finding("not_supported", "none", "없음")),
)
GOOD = """
title: {en: A study, ko: 연구}
authors: [A. Author, 김 저자]
abstract:
  - We compare.
  - {en: "It wins by 0.0065.", ko: "0.0065 이긴다.", claim: 1}
  - {en: "It saves 21% on $x_1$ {sic}.", claim: It is cheap}
conclusion:
  - {ko: "둘 다.", claim: [1, 2]}
captions:
  figure2: [Look here.]
  quality: [{en: Better., claim: 2}]
"""


def read(tmp_path, text, claims=CLAIMS):
    path = tmp_path / "draft.yaml"
    path.write_text(text)
    return read_author(path, claims)


def of(found=FOUND):
    facts = Facts(frozenset())
    facts.learn([{"gain": 0.0065}, 2, "2 won", "none"])
    facts.learn([claim.text for claim, _ in found])
    return Material(Path(), "paper", {}, CLAIMS, None, facts)


def test_every_key_is_read(tmp_path):
    own = read(tmp_path, GOOD)
    assert own.title == ("A study", "연구")
    assert own.authors == ("A. Author", "김 저자")
    assert [one.claims for one in own.abstract] == [(), (1,), (2,)]
    assert own.conclusion[0] == Sentence("conclusion[1]", ("둘 다.", "둘 다."), (1, 2))
    assert [one.where for one in own.sentences()] == [
        "abstract[1]", "abstract[2]", "abstract[3]", "captions.figure2[1]", "captions.quality[1]",
        "conclusion[1]",
    ]  # fmt: skip


def test_the_template_is_a_file_that_says_nothing(tmp_path):
    text = template(CLAIMS)
    assert "#    2  It is cheap." in text
    assert read(tmp_path, text) == read(tmp_path, template())
    assert read(tmp_path, text).title is None
    assert read(tmp_path, "") == AuthorText()
    assert read(tmp_path, text).sentences() == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("abstarct: []", r"unknown key 'abstarct' \(did you mean 'abstract'\?\); expected one of"),
        ("- a list", r"the file = \['a list'\]; expected keys title, authors"),
        ("title: 7", r"title = 7; expected keys en, ko"),
        ("title: {en: 7}", r"title.en = 7; expected text"),
        ("authors: A. Author", "authors = 'A. Author'; expected a list of names"),
        ("abstract: Said.", "abstract = 'Said.'; expected a list of sentences"),
        ("abstract: [7]", r"abstract\[1\] = 7; expected a sentence, or \{en: …, ko: …, claim: …\}"),
        ("abstract: ['']", r"abstract\[1\] = ''; expected a sentence"),
        ("abstract: [{claim: 1}]", r"abstract\[1\] = .*; expected text, or"),
        ("abstract: [{en: a, claims: 1}]", r"abstract\[1\] has an unknown key 'claims'"),
        ("abstract: [{en: a, claim: 3}]", r"\[1\].claim = 3; expected a number from 1 to 2"),
        ("abstract: [{en: a, claim: true}]", r"abstract\[1\].claim = True; expected a number"),
        ("abstract: [{en: a, claim: It sings}]", r"claim = 'It sings'; expected .* the sentence"),
        ("captions: {figure9: []}", r"captions has an unknown key 'figure9'"),
        ("captions: {figure1: text}", r"captions.figure1 = 'text'; expected a list"),
        ("title: [", r"cannot read .*draft.yaml.*; expected YAML as `ascender paper --template`"),
    ],
)  # fmt: skip
def test_errors_name_the_key_and_what_was_expected(tmp_path, text, error):
    with pytest.raises(ValueError, match=error):
        read(tmp_path, text)


def test_without_claims_no_sentence_may_name_one(tmp_path):
    with pytest.raises(ValueError, match="expected none, since these trials have no claims"):
        read(tmp_path, "abstract: [{en: a, claim: 1}]", ())


def test_each_sentence_is_beside_its_verdict(tmp_path):
    own = read(tmp_path, GOOD)
    text = marked(own.abstract, FOUND, of().facts)
    assert text.plain("en") == (
        "We compare. It wins by 0.0065. supported (claim 1) "
        "It saves 21% on x_1 {sic}. not supported (claim 2); not in the result: 21%"
    )
    verdicts = [span.text for span in text.ko if span.style == "verdict"]
    assert verdicts[0] == "지지됨(주장 1)"


def test_unsupported_sentences_are_listed_and_supported_ones_are_not(tmp_path):
    own = read(tmp_path, GOOD)
    wrong = [one.where for one in unsupported(of(), own, FOUND)]
    assert wrong == ["abstract[3]", "captions.quality[1]", "conclusion[1]"]
    blocks = author_check(of(), own, FOUND)
    (listed,) = [block for block in blocks if isinstance(block, Bullets)]
    said = [item.plain("en") for item in listed.items]
    assert [re.match(r"[\w.]+\[\d\]", one)[0] for one in said] == wrong
    assert said[0].endswith("(claim 2 is not supported, not in the result: 21%)")
    (table,) = [block.table for block in blocks if isinstance(block, TableBlock)]
    assert [row["verdict"].value for row in table.records()] == [
        "supported", "not_supported", "not_supported", "supported", "not_supported",
    ]  # fmt: skip


def test_numbers_are_looked_for_in_the_result_or_in_what_the_paper_prints():
    pair = ("by 0.0065 or 0.3, of 3 rules", "0.0065, 0.3")
    facts = of().facts
    facts.shown = {"": (0.00648, 0.99), "draft_quality": (0.99, 0.3)}
    assert unknown_numbers(Sentence("abstract[1]", pair), FOUND, facts) == ["0.3"]
    assert unknown_numbers(Sentence("captions.figure2[1]", pair), FOUND, facts) == ["0.3"]
    assert unknown_numbers(Sentence("captions.quality[1]", pair), FOUND, facts) == ["0.0065"]
    assert unknown_numbers(Sentence("captions.efficiency[1]", pair), FOUND, facts) == [
        "0.0065", "0.3",
    ]  # fmt: skip
    assert unknown_numbers(Sentence("a", pair, (1,)), FOUND, facts) == ["0.3", "3"]
    assert unknown_numbers(Sentence("a", pair, (2,)), FOUND, facts) == ["0.0065", "0.3", "3"]


def test_what_the_paper_prints_is_its_numbers_of_rows_and_not_the_words_of_claims():
    mean = Cell("0.84 ± 0.01", ("k",), {"mean": 0.8413, "sd": 0.012})
    head = (Column("a", ("a", "a"), True), Column("b", ("b", "b")))
    rows = ((Cell("saves 21%"), mean), (Cell("why", ("k",)), Cell("7 of 9", ("k",))))
    table = Table("t", head, rows, ("T", "T"), ())
    blocks = [
        TableBlock(table), Paragraph(text("{n} and 95%", n=Cell("5", (), {"n": 5}))),
        Paragraph(text("Mine: 77."), author=True),
    ]  # fmt: skip
    assert shown(blocks) == {"": (0.012, 0.8413, 5, 7, 9), "t": (0.012, 0.8413, 7, 9)}


def test_references_in_a_sentence_are_numbers_in_the_table_of_sentences_too():
    one = Sentence("conclusion[1]", ("See [#tab:author], {a|b} & [@dao2022].",) * 2, (1,))
    own = AuthorText(conclusion=(one,))
    found = Document(text("T"), (), (), tuple(author_check(of(), own, FOUND)))
    assert r"See~\ref{tab:author}, \{a|b\} \& \citep{dao2022}. &" in latex(found, "en")
    assert r"See 1, {a\|b} &amp; [@dao2022]. |" in markdown(found, "en")


def test_without_sentences_there_is_no_section():
    assert author_check(of(), AuthorText(), FOUND) == []
