r"""A document as main.tex: article, xelatex, a Korean font of Debian's. Verdicts beside an author's
sentences are \verdict{…}: redefine it to nothing for a version without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ascender.lab.paper.document import (
    AppendixStart,
    Block,
    Bullets,
    Document,
    FigureBlock,
    Formula,
    Heading,
    PageBreak,
    Paragraph,
    Quote,
    TableBlock,
)
from ascender.lab.paper.strings import PAPER
from ascender.lab.paper.tex_layout import UPRIGHT, em
from ascender.lab.paper.tex_tables import TURN, TURNED_BACK, table_lines
from ascender.lab.paper.tex_text import inline, plain

FONTS = ("Noto Serif CJK KR", "NanumMyeongjo", "Noto Sans CJK KR", "NanumGothic", "UnBatang")
SECTIONS = {1: "section", 2: "subsection", 3: "subsubsection"}
HIGH, LINE = 0.98, 0.0165  # of the height of a page: a figure with its caption; a line of it
SMALL = 9.6  # points a unit of em() takes in a caption

PREAMBLE = r"""% written by `ascender paper`; compile with: xelatex, bibtex, xelatex, xelatex
\documentclass[10pt,a4paper]{article}
\usepackage[margin=2.2cm]{geometry}
\usepackage{amsmath,amssymb}
\usepackage{fontspec}
\usepackage{array,booktabs,longtable,pdflscape}
\usepackage{graphicx}
\usepackage[font=small,labelfont=bf]{caption}
\usepackage[numbers,sort&compress]{natbib}
% links, where their font is installed (Debian: texlive-fonts-recommended)
\suppressfontnotfounderror=1 \font\linkfont=pzdr \suppressfontnotfounderror=0
\ifx\linkfont\nullfont\else\usepackage[hidelinks]{hyperref}\fi
\newcolumntype{L}[1]{>{\raggedright\arraybackslash\hspace{0pt}}p{#1}}
\newcolumntype{R}[1]{>{\raggedleft\arraybackslash\hspace{0pt}}p{#1}}
\newcommand{\code}[1]{{\ttfamily\small #1}}
\newcommand{\verdict}[1]{{\footnotesize\bfseries[#1]}}
\emergencystretch=3em
\widowpenalty=10000
\clubpenalty=10000
\raggedbottom
\LTcapwidth=\textwidth
"""

KOREAN = r"""\newfontfamily\koreanfamily{\koreanfont}
\newXeTeXintercharclass\hangulclass
\newcommand{\hangulrange}[2]{\count255=#1 \loop \XeTeXcharclass\count255=\hangulclass
  \ifnum\count255<#2 \advance\count255 by 1 \repeat}
\hangulrange{"1100}{"11FF}\hangulrange{"3000}{"303F}\hangulrange{"3130}{"318F}
\hangulrange{"4E00}{"9FFF}\hangulrange{"AC00}{"D7A3}
\XeTeXinterchartokenstate=1
\XeTeXinterchartoks 0 \hangulclass={\begingroup\koreanfamily}
\XeTeXinterchartoks 4095 \hangulclass={\begingroup\koreanfamily}
\XeTeXinterchartoks \hangulclass 0={\endgroup}
\XeTeXinterchartoks \hangulclass 4095={\endgroup}
"""

LINES = r"""\XeTeXlinebreaklocale "ko"
\XeTeXlinebreakskip=0pt plus 0.1em
\linespread{1.12}
"""
HANGUL = re.compile("[\u1100-\u11ff\u3000-\u303f\u3130-\u318f\u4e00-\u9fff\uac00-\ud7a3]")


def latex(document: Document, lang: str) -> str:
    """The whole file."""
    body = _one_turn([line for block in document.blocks for line in _block(block, lang)])
    abstract = [line for block in document.abstract for line in _block(block, lang)]
    return "\n".join([
        PREAMBLE + _fonts(document, lang, [*abstract, *body]),
        *_names(lang),
        rf"\title{{{inline(document.title, lang)}}}",
        rf"\author{{{_authors(document)}}}",
        r"\date{}", "", r"\begin{document}", r"\maketitle", "",
        r"\begin{abstract}", *abstract, r"\end{abstract}", "",
        *body,
        r"\end{document}", "",
    ])  # fmt: skip


def _one_turn(lines: list[str]) -> list[str]:
    """Turned tables that follow each other share their pages."""
    joined = re.sub(rf"{re.escape(TURNED_BACK)}\s*{re.escape(TURN)}", "", "\n".join(lines))
    return joined.split("\n")


def _authors(document: Document) -> str:
    return r" \and ".join(plain(name, breaks=False) for name in document.authors)


def _fonts(document: Document, lang: str, lines: list[str]) -> str:
    """The first Korean font that the machine has on which the file is compiled, where it is
    needed."""
    used = _authors(document) + inline(document.title, lang) + "".join(lines)
    if lang != "ko" and not HANGUL.search(used):
        return ""
    chain = rf"\PackageError{{ascender}}{{No Korean font; install {FONTS[0]} or {FONTS[1]} " \
            r"(Debian: fonts-noto-cjk or fonts-nanum)}{}"  # fmt: skip
    for name in reversed(FONTS):
        chain = rf"\IfFontExistsTF{{{name}}}{{\newcommand{{\koreanfont}}{{{name}}}}}{{{chain}}}"
    return f"{chain}\n{KOREAN}{LINES if lang == 'ko' else ''}"


def _names(lang: str) -> list[str]:
    """What LaTeX calls things."""
    if lang != "ko":
        return []
    names = PAPER.section("latex")
    return [rf"\renewcommand{{\{name}}}{{{ko}}}" for name, (_, ko) in names.items()]


def _block(block: Block, lang: str) -> Iterator[str]:
    yield from WRITERS[type(block)](block, lang)
    yield ""


def _heading(block: Heading, lang: str) -> Iterator[str]:
    label = rf"\label{{{block.label}}}" if block.label else ""
    yield rf"\{SECTIONS[block.level]}{{{inline(block.text, lang)}}}{label}"


def _paragraph(block: Paragraph, lang: str) -> Iterator[str]:
    yield inline(block.text, lang)


def _formula(block: Formula, lang: str) -> Iterator[str]:
    label = rf"\label{{{block.label}}}" if block.label else ""
    yield from (rf"\begin{{equation}}{label}", block.latex, r"\end{equation}")


def _bullets(block: Bullets, lang: str) -> Iterator[str]:
    kind = "enumerate" if block.numbered else "itemize"
    yield rf"\begin{{{kind}}}\setlength{{\itemsep}}{{2pt}}\setlength{{\parskip}}{{0pt}}"
    yield from (rf"\item {inline(item, lang)}" for item in block.items)
    yield rf"\end{{{kind}}}"


def _quote(block: Quote, lang: str) -> Iterator[str]:
    yield from (r"\begin{quote}", inline(block.text, lang), r"\end{quote}")


def _figure(block: FigureBlock, lang: str) -> Iterator[str]:
    """In its place and unbroken: as wide as the text, or as high as the caption leaves room."""
    said = [t for t in (block.caption, block.author) if t is not None]
    caption = " ".join(inline(t, lang) for t in said)
    below = sum(em(t.plain(lang)) for t in said) * SMALL / UPRIGHT + 2
    size = rf"width=\linewidth,height={HIGH - LINE * below:.3f}\textheight,keepaspectratio"
    yield from (
        r"\medskip\noindent\begin{minipage}{\linewidth}", r"\centering",
        rf"\renewcommand{{\thefigure}}{{{block.number}}}",
        rf"\includegraphics[{size}]{{{block.picture(lang, '.pdf')}}}",
        rf"\captionof{{figure}}{{{caption}}}\label{{{block.label}}}",
        r"\end{minipage}\par\medskip",
    )  # fmt: skip


def _appendix(block: AppendixStart, lang: str) -> Iterator[str]:
    yield from (r"\bibliographystyle{plainnat}", r"\bibliography{references}", r"\appendix")


WRITERS: Mapping[type, Callable[[Any, str], Iterator[str]]] = {
    Heading: _heading, Paragraph: _paragraph, Formula: _formula, Bullets: _bullets,
    Quote: _quote, FigureBlock: _figure, AppendixStart: _appendix,
    TableBlock: lambda block, lang: iter(table_lines(block, lang)),
    PageBreak: lambda block, lang: iter([r"\clearpage"]),
}  # fmt: skip
