"""A document as LaTeX and as Markdown: escaped, numbered, no table too wide or below 7 points."""

import re
from pathlib import Path

import pytest

from ascender.lab.paper.document import (
    AppendixStart,
    Bullets,
    Document,
    FigureBlock,
    Formula,
    Heading,
    Paragraph,
    TableBlock,
    words,
)
from ascender.lab.paper.document import text as said
from ascender.lab.paper.latex import latex
from ascender.lab.paper.markdown import markdown, numbered
from ascender.lab.paper.tex_layout import GAP, SIZES, TURNED, UPRIGHT, em, layouts, lines
from ascender.lab.paper.tex_tables import table_lines
from ascender.report.table import Cell, Column, Table

HOSTILE = r"50% of a_b & $c {d} #1 \e ~f ^g <h> |i| [j] *k* `l` -- \"m\" @n τ ≥ 한글"
NUMBER = Cell("0.8413 [0.8201, 0.8625]", ("k",), {"mean": 0.84126, "low": 0.8201, "high": 0.8625})


def table(columns=4, rows=3, text="0.8413 ± 0.0120", name="t", words=()):
    head = tuple(Column(f"c{i}", (f"heading {i}",) * 2, i in words, i == 0) for i in range(columns))
    cells = tuple(tuple(Cell(text, ("k",), {"": 1.0}) for _ in head) for _ in range(rows))
    return Table(name, head, cells, ("A table", "표 하나"), (("A note.", "설명."),))


def document(*blocks):
    return Document(
        words(("A title", "제목")), ("A. Author",), (Paragraph(words("Said.")),), blocks
    )


def every_kind():
    return document(
        Heading(1, said("First"), "sec:a"), Heading(2, said("Sub"), "sec:b"),
        Paragraph(said("See [#sec:b], [#tab:t], [#fig:f], [#eq:e], [#app:a] and [@dao2022].")),
        Formula("x^2", "eq:e"), Bullets((said("one"), said("two")), numbered=True),
        TableBlock(table()),
        FigureBlock(Path("figures/figure2a"), said("What it shows."), "fig:f", "2a",
                    said("**Mine.**")),
        AppendixStart(), Heading(1, said("More"), "app:a"), Heading(2, said("Still"), "app:b"),
    )  # fmt: skip


# --- text


def test_hostile_text_is_escaped_in_latex():
    body = latex(document(Paragraph(words(HOSTILE))), "en").split(r"\end{abstract}")[1]
    assert r"50\% of a\_b \& \$c \{d\} \#1 \textbackslash{}e" in body
    assert r"-{}- \textbackslash{}\textquotedbl{}m\textbackslash{}\textquotedbl{} @n" in body
    assert r"$\tau$ $\geq$ 한글" in body
    assert not re.search(r"(?<!\\)[%#&]", body.replace(r"\\", ""))


def test_hostile_text_is_escaped_in_markdown():
    body = markdown(document(Paragraph(words(HOSTILE))), "en")
    assert r"50% of a\_b &amp; \$c {d} #1 \\e \~f \^g &lt;h&gt; \|i\| \[j\] \*k\* \`l\`" in body
    assert r"\@n" in body


@pytest.mark.parametrize("start", ["# no heading", "1. no list", "- no bullet", "+ no bullet"])
def test_a_paragraph_stays_a_paragraph_in_markdown(start):
    assert f"\n\\{start}" in markdown(document(Paragraph(words(start))), "en")


def test_a_name_may_be_broken_and_a_number_may_not():
    text = said("{a} {b}", a=Cell("ascender+window=32"), b=Cell("1,024", ("k",), {"": 1024}))
    line = latex(document(Paragraph(text)), "en")
    assert r"ascender+\allowbreak{}window=\allowbreak{}32 1,024" in line


def test_a_verdict_is_a_macro_that_may_be_redefined():
    from ascender.lab.paper.document import verdict_text

    text = latex(document(Paragraph(verdict_text(("not supported", "지지되지 않음")))), "ko")
    assert r"\verdict{지지되지 않음}" in text
    assert r"\newcommand{\verdict}" in text


def test_english_needs_no_korean_font_and_korean_names_the_packages_that_bring_one():
    assert "koreanfont" not in latex(every_kind(), "en")
    korean = latex(every_kind(), "ko")
    assert r"\IfFontExistsTF{NanumMyeongjo}" in korean
    assert "fonts-noto-cjk or fonts-nanum" in korean
    assert "koreanfont" in latex(document(Paragraph(words("by 김"))), "en")


# --- structure


def test_latex_has_every_block_in_order():
    text = latex(every_kind(), "en")
    parts = [
        r"\begin{abstract}", r"\section{First}\label{sec:a}", r"\subsection{Sub}\label{sec:b}",
        r"\ref{sec:b}", r"\citep{dao2022}", r"\begin{equation}\label{eq:e}", r"\begin{enumerate}",
        r"\label{tab:t}", r"\renewcommand{\thefigure}{2a}", r"{figures/figure2a.pdf}",
        r"\textbf{Mine.}}\label{fig:f}", r"\bibliography{references}", r"\appendix",
        r"\section{More}", r"\end{document}",
    ]  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_markdown_numbers_what_latex_would():
    numbers = numbered(every_kind())
    assert {k: numbers[k] for k in ("sec:b", "tab:t", "fig:f", "eq:e", "app:a", "app:b")} == {
        "sec:b": "1.1", "tab:t": "1", "fig:f": "2a", "eq:e": "1", "app:a": "A", "app:b": "A.1",
    }  # fmt: skip
    text = markdown(every_kind(), "en")
    assert "See 1.1, 1, 2a, 1, A and [@dao2022]." in text
    assert "### 1.1 Sub" in text
    assert "### A.1 Still" in text
    assert "**Table 1. A table.** A note." in text
    assert "![Figure 2a](figures/figure2a.png)" in text


def test_korean_has_its_own_pictures_and_names():
    text = markdown(every_kind(), "ko")
    assert "**표 1. 표 하나.** 설명." in text
    assert "figures/figure2a.ko.png" in text
    assert r"\renewcommand{\tablename}{표}" in latex(every_kind(), "ko")
    assert "figures/figure2a.ko.pdf" in latex(every_kind(), "ko")


# --- tables


@pytest.mark.parametrize("columns", [1, 3, 6, 9, 14, 25])
@pytest.mark.parametrize(
    "text", ["5", "0.8413 ± 0.0120", "+0.0203 [−0.0077, +0.0529]", "한글 이름"]
)
def test_every_table_fits_a_page_at_seven_points_or_more(columns, text):
    one = table(columns, text=text, words=(0,))
    for part in layouts(one, "en"):
        room = TURNED if part.turned else UPRIGHT
        assert sum(part.widths) + GAP * (len(part.widths) - 1) <= room + 0.5
        assert part.size in SIZES
        assert min(SIZES) >= 7


def test_the_room_that_is_left_goes_to_the_column_that_makes_rows_high():
    head = tuple(Column(n, (n, n), True) for n in ("short", "long"))
    words_of = (("a few words here", "and so on " * 30), ("other words", "and on and on " * 20))
    one = Table("t", head, tuple(tuple(map(Cell, row)) for row in words_of), ("T", "T"), ())
    (part,) = layouts(one, "en")
    assert part.widths[1] > 3 * part.widths[0]
    assert sum(part.widths) + GAP <= UPRIGHT + 0.5
    assert lines(one, part, "en") <= 2 * 4


def test_parts_of_a_table_have_every_column_and_the_names_of_the_rows():
    one = table(25, text="+0.0203 [−0.0077, +0.0529]")
    parts = layouts(one, "en")
    assert len(parts) > 1
    assert {c for part in parts for c in part.columns} == set(range(25))
    assert all(part.columns[0] == 0 for part in parts)
    text = "\n".join(table_lines(TableBlock(one), "en"))
    assert text.count(r"\label{tab:t}") == 1
    assert rf"\ref{{tab:t}}, part 2 of {len(parts)}" in text


def test_a_wide_table_is_turned_before_it_is_split():
    (part,) = layouts(table(8, text="+0.0203 [−0.0077, +0.0529]"), "en")
    assert part.turned
    text = latex(document(TableBlock(table(8, text="+0.0203 [−0.0077, +0.0529]"))), "en")
    assert r"\begin{landscape}" in text


def test_turned_tables_that_follow_each_other_share_pages():
    wide = [table(8, text="+0.0203 [−0.0077, +0.0529]", name=n) for n in ("a", "b")]
    text = latex(document(*map(TableBlock, wide)), "en")
    assert text.count(r"\begin{landscape}") == text.count(r"\end{landscape}") == 1


def test_long_tables_break_over_pages_and_short_ones_do_not():
    short, long = (latex(document(TableBlock(table(rows=n))), "en") for n in (10, 60))
    assert r"\begin{tabular}" in short
    assert r"\begin{longtable}" not in short
    assert r"\begin{longtable}" in long
    assert r"\endhead" in long


def test_lines_are_counted_as_they_are_wrapped():
    words = "a sentence that does not fit into a column of any width at all " * 5
    one = table(2, rows=2, text=words, words=range(2))
    (part,) = layouts(one, "en")
    assert lines(one, part, "en") > 4
    assert em("mm") > em("ii")


def test_no_type_in_a_table_is_smaller_than_its_size():
    for one in (table(), table(14), table(25, text="+0.0203 [−0.0077, +0.0529]")):
        text = "\n".join(table_lines(TableBlock(one), "en"))
        assert r"\resizebox" not in text
        assert r"\tiny" not in text
